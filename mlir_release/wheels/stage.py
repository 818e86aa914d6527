"""Stage the wheel project: a folder that any PEP 517 front end can build, made for one wheel of one release.

The project is ``mlir_release/projects/mlir/wheel`` with its ``pyproject.toml`` filled in, upstream's binding sources
out of the SDK (so that the source distribution is complete), ``mlir/_release.json``, and the bill of materials (PEP
770). Its build needs an SDK, and nothing of the toolkit. The same request gives the same files: they hold no time of
the build, no path of this machine and no random number.
"""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w
from packaging.requirements import Requirement
from packaging.version import Version

import mlir_release
from mlir_release.errors import UsageError
from mlir_release.model.decode import parse_toml
from mlir_release.model.platforms import PlatformTag
from mlir_release.model.requirements import of_names, relaxed, wheel_requirements
from mlir_release.model.sdk_wheel_info import SDK
from mlir_release.model.wheel_info import WHEEL_INFO, WheelInfo
from mlir_release.projects.mlir import WHEEL
from mlir_release.sdk.parts import BUILD, TOOLS
from mlir_release.sdk.regalloc_model import ADVISOR_SOURCES
from mlir_release.sdk.upstream import copy_sources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.wheels.request import WheelRequest

#: scikit-build-core from the first version with all settings that the project uses, below the next that may break it.
BUILD_BACKEND = "scikit-build-core>=1.1,<2"

#: The staged part of upstream's tree, in an SDK's ``source/``. ``mlir/include`` holds the .td files of the dialects.
_UPSTREAM = ("mlir/include", "mlir/lib/Bindings", "mlir/lib/ExecutionEngine", "mlir/python")

#: The add-on of upstream's tests is made of these, besides.
_UPSTREAM_TESTS = ("mlir/test/python/lib", "mlir/test/python/python_test_ops.td", "mlir/test/python/CMakeLists.txt")

#: CycloneDX 1.6, https://cyclonedx.org/docs/1.6/json/
_CYCLONEDX = "1.6"

_LLVM_LICENSE = "Apache-2.0 WITH LLVM-exception"

#: Licences of the binding libraries, as SPDX expressions. nanobind's shared library includes tsl::robin_map.
_BINDING_LIBRARIES = {
    "nanobind": [("nanobind", "BSD-3-Clause"), ("robin-map", "MIT")],
    "pybind11": [("pybind11", "BSD-3-Clause")],
}


def stage(request: WheelRequest, into: Path) -> Path:
    """Write the project for ``request`` into the folder ``into``, and return it.

    An earlier stage is replaced, but for its ``build/``, so that a build in the same folder again is quick. Build the
    project with ``python -m build --wheel`` (or ``--sdist``), or cibuildwheel; the environment variable
    ``MLIR_RELEASE_SDK`` then names the SDK.
    """
    parts = (BUILD, TOOLS) if request.test_addon else (BUILD,)
    request.sdk.require(*parts, purpose=f"building {request.project_name}")
    into = Path(into)
    into.mkdir(parents=True, exist_ok=True)
    for path in into.iterdir():
        if path.name != "build":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.copytree(WHEEL, into, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    upstream = (*_UPSTREAM, *(_UPSTREAM_TESTS if request.test_addon else ()))
    copy_sources(request.sdk.root / "source", into / "upstream", upstream)
    shutil.copytree(request.sdk.root / "licenses", into / "licenses")
    if request.regalloc is not None:
        copy_sources(request.sdk.root / "source", into / "upstream", ADVISOR_SOURCES)
        request.regalloc.copy_to(into / "regalloc")
    template = parse_toml((WHEEL / "pyproject.toml").read_text(encoding="utf-8"))
    for name, text in {
        WHEEL_INFO: wheel_info(request).to_text(),
        f"sboms/{request.project_name}.cdx.json": bill_of_materials(request),
        "README.md": long_description((WHEEL / "README.md").read_text(encoding="utf-8"), request.notice),
        "pyproject.toml": tomli_w.dumps(fill_in(template, request)),
    }.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (into / name).write_text(text, encoding="utf-8")
    return into


def long_description(readme: str, notice: str) -> str:
    """The wheel's description, with the notice below its heading."""
    heading, _, rest = readme.partition("\n\n")
    return "\n\n".join([heading, *([notice] if notice else []), rest])


def wheel_info(request: WheelRequest) -> WheelInfo:
    """The content of ``mlir/_release.json``."""
    return WheelInfo(
        tag=request.tag,
        revision=request.revision,
        llvm_version=request.sdk.info.llvm_version,
        distribution=request.distribution,
        profile=request.profile,
        target=request.target,
        serves=tuple(python.tag for python in request.serves),
        toolkit_version=mlir_release.__version__,
        relaxed=relaxed(request.sdk.info.runtime_requirements, request.overrides),
        regalloc_model=request.regalloc_model,
        assertions=request.sdk.info.assertions,
        sdk=request.sdk.info.digest,
        sdk_wheel=f"{SDK}=={request.version}" if request.sdk_wheel else "",
        image=request.image,
    )


def fill_in(template: dict[str, Any], request: WheelRequest) -> dict[str, Any]:
    """The project's ``pyproject.toml`` for ``request``, as a table."""
    info = request.sdk.info
    project = dict(template["project"])
    settings = dict(template["tool"]["scikit-build"])
    requires_python = f">={max(Version(info.minimum_python), Version('3.9'))}"
    if request.serves:  # without later CPythons than it was tested on: they would take it by its tag
        requires_python = f">={request.serves[0].marker},<{request.serves[-1].next.marker}"
    project |= {
        "name": request.project_name,
        "version": str(request.version),
        "description": _description(request),
        "requires-python": requires_python,
        "dependencies": list(dependencies(request)),
    }
    if info.revision:
        project["urls"] = {
            **project.get("urls", {}),
            "Revision": f"https://github.com/llvm/llvm-project/tree/{info.revision}",
        }
    defines: dict[str, object] = {
        "MLIR_RELEASE_SDK": {"env": "MLIR_RELEASE_SDK"},
        "MLIR_RELEASE_PROFILE": "host" if request.is_source else request.profile,
    }
    if glibc := PlatformTag.parse(request.floor).glibc:
        defines["MLIR_RELEASE_GLIBC"] = "{}.{}".format(*glibc)
    if request.regalloc_model is not None and not request.test_addon:
        defines["MLIR_RELEASE_REGALLOC_MODEL"] = request.regalloc_model.policy
    if request.plain:
        defines["MLIR_RELEASE_PLAIN"] = True
    if request.serves:
        defines["MLIR_ENABLE_PYTHON_STABLE_ABI"] = True
        settings["wheel"] = {**settings["wheel"], "py-api": request.serves[0].tag}
    if request.test_addon:
        del project["entry-points"]  # it has no CMake package
        defines["MLIR_RELEASE_TEST_ADDON"] = True
        settings["install"] = {**settings["install"], "components": ["mlir_test_addon"]}
        settings["build"] = {"targets": ["mlir_test_addon"]}
    settings["cmake"] = {**settings["cmake"], "define": defines}
    settings["env"] = {"SOURCE_DATE_EPOCH": str(info.source_epoch)}
    return {
        "build-system": {**template["build-system"], "requires": build_requirements(request)},
        "project": project,
        "tool": {**template["tool"], "scikit-build": settings},
    }


def dependencies(request: WheelRequest) -> tuple[str, ...]:
    """The wheel's requirements where it is installed."""
    return () if request.test_addon else wheel_requirements(request.sdk.info.runtime_requirements, request.overrides)


def build_requirements(request: WheelRequest) -> list[str]:
    """The requirements of building the wheel: ``[build-system] requires``."""
    info = request.sdk.info
    requirements = [BUILD_BACKEND, pin_binding_library(info.binding_requirements)]
    requirements += of_names(info.binding_requirements, "typing-extensions")
    if info.binding_library == "pybind11":
        # Upstream's CMake asks for NumPy's headers there, though the bindings do not compile against them.
        requirements += of_names(info.runtime_requirements, "numpy")
    if info.platform.os == "linux" or request.is_source:
        # Checks that nothing is needed that the wheel does not carry.
        requirements.append("pyelftools>=0.31" + ("; sys_platform == 'linux'" if request.is_source else ""))
    return requirements


def pin_binding_library(requirements: tuple[str, ...]) -> str:
    """nanobind or pybind11 at the version that upstream tested.

    That is the inclusive upper bound where there is one (``<=2.10.3``), else the lowest minor version (``>=2.9`` gives
    2.9.x): later ones change messages and signatures that upstream's tests compare.
    """
    for line in requirements:
        requirement = Requirement(line)
        if requirement.name not in {"nanobind", "pybind11"}:
            continue
        bounds = {specifier.operator: specifier.version for specifier in requirement.specifier}
        if exact := bounds.get("==") or bounds.get("<="):
            return f"{requirement.name}=={exact}"
        if lowest := bounds.get(">=") or bounds.get("~="):
            release = Version(lowest).release
            return f"{requirement.name}~={'.'.join(str(part) for part in (*release, 0, 0)[:3])}"
        return line
    raise UsageError(
        "revision-unsuitable",
        "Upstream's requirements name neither nanobind nor pybind11",
        why="; ".join(requirements),
        remedy="this toolkit does not know how to build the bindings of this revision yet",
    )


def _description(request: WheelRequest) -> str:
    if request.test_addon:
        return "What upstream's tests of MLIR's Python bindings need beyond the package; not for use"
    text = {
        "core": "MLIR's Python bindings, without code generators",
        "host": (host := "MLIR's Python bindings, with the execution engine and the host's code generator"),
        "source": f"{host}, as sources",
        "full": "MLIR's Python bindings, with the execution engine and code generators for the host, NVPTX and AMDGPU",
        "all": "MLIR's Python bindings, with the execution engine and all of LLVM's code generators",
    }[request.profile]
    return f"{text}, and LLVM's assertions" if request.sdk.info.assertions else text


def bill_of_materials(request: WheelRequest) -> str:
    """The software bill of materials: everything that is linked into the wheel, as CycloneDX JSON."""
    info = request.sdk.info
    wheel = f"pkg:pypi/{request.distribution}@{request.version}"
    llvm = f"pkg:github/llvm/llvm-project@{info.revision}"
    made_from = {
        "provider": info.provider,
        "code-generators": ",".join(request.code_generators),
        "sdk-digest": info.digest,
        **({"regalloc-model": request.regalloc_model.policy} if request.regalloc_model else {}),
    }
    components = [_component("llvm-project", info.llvm_version, _LLVM_LICENSE, purl=llvm, properties=made_from)]
    components += [_component(library.name, library.version, library.license) for library in info.linked]
    for name, license in _BINDING_LIBRARIES[info.binding_library]:
        if name == info.binding_library:
            requirement = {"requirement": pin_binding_library(info.binding_requirements)}
            components.append(_component(name, "", license, purl=f"pkg:pypi/{name}", properties=requirement))
        else:
            components.append(_component(name, "", license))
    components.sort(key=lambda component: str(component["bom-ref"]))
    document = {
        "$schema": f"http://cyclonedx.org/schema/bom-{_CYCLONEDX}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": _CYCLONEDX,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, wheel + '#' + request.target + '#' + info.digest)}",
        "version": 1,
        "metadata": {
            "component": _component(request.distribution, str(request.version), _LLVM_LICENSE, purl=wheel),
            "properties": _properties({"profile": request.profile, "tag": request.tag, "target": request.target}),
        },
        "components": components,
        "dependencies": [{"ref": wheel, "dependsOn": [component["bom-ref"] for component in components]}],
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _component(
    name: str, version: str, license: str, *, purl: str = "", properties: Mapping[str, str] | None = None
) -> dict[str, Any]:
    purl = purl or f"pkg:generic/{name}" + (f"@{version}" if version else "")
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "purl": purl,
        "licenses": [{"expression": license}],
    }
    if version:
        component["version"] = version
    if properties:
        component["properties"] = _properties(properties)
    return component


def _properties(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": f"mlir-release:{name}", "value": value} for name, value in values.items()]
