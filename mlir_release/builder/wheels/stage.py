"""Stage the wheel project: a folder that any PEP 517 front end can build, made for one wheel of one release.

It is the folder ``wheel/`` of the project with its ``pyproject.toml`` filled in, upstream's sources out of the SDK (so
that the source distribution is complete), ``<module>/_release.json``, the check of what is installed, and the bill of
materials (PEP 770). Its build needs an SDK, and nothing of the toolkit. The same request gives the same files: they
hold no time of the build, no path of this machine and no random number.
"""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w
from packaging.version import Version

import mlir_release
from mlir_release.builder.model.wheel_info import WheelInfo
from mlir_release.builder.sdk.parts import BUILD, TOOLS
from mlir_release.builder.sdk.sources.upstream import copy_sources
from mlir_release.builder.wheels.port import Component, wheels_of
from mlir_release.ground.documents.decode import parse_toml
from mlir_release.ground.errors import UsageError
from mlir_release.ground.python import installed
from mlir_release.ground.python.cpython import ANY_PYTHON
from mlir_release.ground.python.requirements import relaxed
from mlir_release.ground.storage.files import copy_alike, read_document, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.builder.wheels.request import WheelRequest

#: scikit-build-core from the first version with all settings that the project uses, below the next that may break it.
BUILD_BACKEND = "scikit-build-core>=1.1,<2"

#: CycloneDX 1.6, https://cyclonedx.org/docs/1.6/json/
_CYCLONEDX = "1.6"

_UPSTREAM = "upstream"  #: its sources in the project

_LLVM_LICENSE = "Apache-2.0 WITH LLVM-exception"


def stage(request: WheelRequest, into: Path) -> Path:
    """Write the project for ``request`` into the folder ``into``, and return it.

    An earlier stage is replaced, but for its ``build/``, so that a build in the same folder again is quick. Build the
    project with ``python -m build --wheel`` (or ``--sdist``), or cibuildwheel; the environment variable
    ``MLIR_RELEASE_SDK`` then names the SDK.

    :raises UsageError: ``option-invalid``: nothing is compiled for the profile, or the project has no add-on for tests;
        ``output-in-the-way``: the folder holds something else, which would be deleted
    """
    wheels = wheels_of(request.project)
    if request.contents.makes == "sdk" or (request.test_addon and not wheels.has_addon):
        name, what = request.project.name, "no add-on for tests" if request.test_addon else "files of the SDK only"
        raise UsageError(
            "option-invalid",
            f"the profile {request.profile} of the project {name} has {what}, so there is nothing to build",
            remedy="build the wheel itself" if request.test_addon else "mlir-release sdk wheel makes such wheels",
        )
    parts = (BUILD, TOOLS) if request.test_addon else (BUILD,)
    request.sdk.require(*parts, purpose=f"building {request.staged_name}")
    into = Path(into)
    into.mkdir(parents=True, exist_ok=True)
    there = sorted((path for path in into.iterdir() if path.name != "build"), key=lambda path: path.name == _UPSTREAM)
    if there and not (into / _UPSTREAM).is_dir():  # a stage that was killed has it, too: it comes first and goes last
        raise UsageError(
            "output-in-the-way",
            "the folder for the project holds something else",
            where=str(into),
            remedy="name a folder that is empty, is not there yet, or holds such a project",
        )
    for path in there:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (into / _UPSTREAM).mkdir()
    copy_sources(request.sdk.root / "source", into / _UPSTREAM, wheels.upstream(request))
    template = request.project.folder / "wheel"
    shutil.copytree(template, into, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(request.sdk.root / "licenses", into / "licenses", copy_function=copy_alike)
    if request.regalloc is not None:
        request.regalloc.copy_to(into / "regalloc")
    table = fill_in(request)
    heading, _, rest = read_text(template / "README.md").partition("\n\n")
    for name, text in {
        request.project.wheel_info: wheel_info(request).to_text(),
        f"{request.project.module}/_installed.py": read_text(Path(installed.__file__)),
        f"sboms/{request.staged_name}.cdx.json": bill_of_materials(request, table["project"]["license"]),
        "README.md": "\n\n".join([heading, *([request.notice] if request.notice else []), rest]),
        "pyproject.toml": tomli_w.dumps(table),
    }.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (into / name).write_text(text, encoding="utf-8")
    return into


def wheel_info(request: WheelRequest) -> WheelInfo:
    """The content of ``_release.json``."""
    sdks = [profile.distribution for profile in request.project.profiles.values() if profile.makes == "sdk"]
    return WheelInfo(
        tag=request.tag,
        revision=request.revision,
        llvm_version=request.sdk.info.llvm_version,
        distribution=request.distribution,
        project=request.project.name,
        profile=request.profile,
        target=request.target,
        serves=tuple(python.tag for python in request.serves),
        toolkit_version=mlir_release.__version__,
        relaxed=relaxed(request.sdk.info.runtime_requirements, request.overrides),
        regalloc_model=request.regalloc_model,
        assertions=request.sdk.info.assertions,
        sdk=request.sdk.info.digest,
        sdk_wheel=f"{sdks[0]}=={request.version}" if request.sdk_wheel and sdks else "",
        image=request.image,
    )


def fill_in(request: WheelRequest) -> dict[str, Any]:
    """The staged ``pyproject.toml``, as a table. :raises MachineError: ``plugin-unusable``"""
    info = request.sdk.info
    table = parse_toml(read_document(request.project.folder / "wheel" / "pyproject.toml"))
    settings = table["tool"]["scikit-build"]
    requires_python = f">={max(Version(info.minimum_python), Version('3.9'))}"
    if request.serves:  # without later CPythons than it was tested on: they would take it by its tag
        requires_python = f">={request.serves[0].marker},<{request.serves[-1].next.marker}"
    description = request.contents.summary + (", and LLVM's assertions" if info.assertions else "")
    if request.test_addon:
        description = f"What upstream's tests of {request.project.title} need beyond the package; not for use"
    table["project"] |= {
        "name": request.staged_name,
        "version": str(request.version),
        "description": description,
        "requires-python": requires_python,
        "dependencies": [],
    }
    if info.revision:
        urls = table["project"].setdefault("urls", {})
        urls["Revision"] = f"https://github.com/llvm/llvm-project/tree/{info.revision}"
    table["build-system"]["requires"] = [BUILD_BACKEND]
    settings.setdefault("cmake", {})["define"] = {"MLIR_RELEASE_SDK": {"env": "MLIR_RELEASE_SDK"}}
    if request.serves or request.any_python:
        settings.setdefault("wheel", {})["py-api"] = request.serves[0].tag if request.serves else ANY_PYTHON
    wheels_of(request.project).fill_in(table, request)
    settings["env"] = {"SOURCE_DATE_EPOCH": str(info.source_epoch)}
    return table


def bill_of_materials(request: WheelRequest, license: str) -> str:
    """The software bill of materials: everything that is linked into the wheel, as CycloneDX JSON.

    :param license: the wheel's own, as an SPDX expression
    """
    info = request.sdk.info
    wheel = f"pkg:pypi/{request.distribution}@{request.version}"
    made_from = {
        "provider": info.provider,
        "code-generators": ",".join(request.code_generators),
        "sdk-digest": info.digest,
        **({"regalloc-model": request.regalloc_model.policy} if request.regalloc_model else {}),
    }
    llvm = f"pkg:github/llvm/llvm-project@{info.revision}"
    parts = [
        Component("llvm-project", _LLVM_LICENSE, info.llvm_version, llvm, made_from),
        *(Component(library.name, library.license, library.version) for library in info.linked),
        *wheels_of(request.project).components(request),
    ]
    components = sorted(map(_component, parts), key=lambda component: str(component["bom-ref"]))
    document = {
        "$schema": f"http://cyclonedx.org/schema/bom-{_CYCLONEDX}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": _CYCLONEDX,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, wheel + '#' + request.target + '#' + info.digest)}",
        "version": 1,
        "metadata": {
            "component": _component(Component(request.distribution, license, str(request.version), wheel)),
            "properties": _properties({"profile": request.profile, "tag": request.tag, "target": request.target}),
        },
        "components": components,
        "dependencies": [{"ref": wheel, "dependsOn": [component["bom-ref"] for component in components]}],
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _component(part: Component) -> dict[str, Any]:
    purl = part.purl or f"pkg:generic/{part.name}" + (f"@{part.version}" if part.version else "")
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": part.name,
        "purl": purl,
        "licenses": [{"expression": part.license}],
    }
    if part.version:
        component["version"] = part.version
    if part.properties:
        component["properties"] = _properties(part.properties)
    return component


def _properties(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": f"mlir-release:{name}", "value": value} for name, value in values.items()]
