"""Stage the wheel project: a folder that any PEP 517 front end can build, made for one wheel of one release.

The project is ``mlir_release/projects/mlir/wheel`` with its ``pyproject.toml`` filled in, upstream's binding sources
out of the SDK (so that the source distribution is complete), ``mlir/_release.json`` and the bill of materials. It needs
nothing of the toolkit when it is built, only an SDK; the same request gives the same files.
"""

from __future__ import annotations

import shutil
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
from mlir_release.model.wheel_info import WHEEL_INFO, WheelInfo
from mlir_release.projects.mlir import WHEEL
from mlir_release.sdk.parts import BUILD, TOOLS
from mlir_release.sdk.regalloc_model import ADVISOR_SOURCES
from mlir_release.sdk.upstream import copy_sources
from mlir_release.wheels.sbom import bill_of_materials

if TYPE_CHECKING:
    from mlir_release.wheels.request import WheelRequest

#: scikit-build-core from the first version with all settings that the project uses, below the next that may break it.
BUILD_BACKEND = "scikit-build-core>=1.1,<2"

#: What is staged of upstream's tree, in an SDK's ``source/``. ``mlir/include`` holds the .td files of the dialects.
_UPSTREAM = (
    "mlir/include",
    "mlir/lib/Bindings",
    "mlir/lib/ExecutionEngine",
    "mlir/python",
)

#: What the add-on of upstream's tests is made of, besides.
_UPSTREAM_TESTS = ("mlir/test/python/lib", "mlir/test/python/python_test_ops.td", "mlir/test/python/CMakeLists.txt")


def stage(request: WheelRequest, into: Path) -> Path:
    """Write the project for ``request`` into the folder ``into``, and return it.

    What is there already of an earlier stage is replaced, but for ``build/``, so that a build in the same folder again
    is quick. Build it with ``python -m build --wheel`` (or ``--sdist``), or cibuildwheel; the environment variable
    ``MLIR_RELEASE_SDK`` then names the SDK. No path of this machine is in the project.
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
    _write(into / WHEEL_INFO, wheel_info(request).to_text())
    _write(
        into / "sboms" / f"{request.project_name}.cdx.json",
        bill_of_materials(
            request,
            binding_version=pin_binding_library(request.sdk.info.binding_requirements),
            code_generators=request.code_generators,
        ),
    )
    template = parse_toml((WHEEL / "pyproject.toml").read_text(encoding="utf-8"))
    _write(into / "pyproject.toml", tomli_w.dumps(fill_in(template, request)))
    return into


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
        image=request.image,
    )


def fill_in(template: dict[str, Any], request: WheelRequest) -> dict[str, Any]:
    """The project's ``pyproject.toml`` for ``request``, as a table."""
    info = request.sdk.info
    project = dict(template["project"])
    settings = dict(template["tool"]["scikit-build"])
    project |= {
        "name": request.project_name,
        "version": str(request.version),
        "description": _description(request),
        "requires-python": _requires_python(request),
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


def _requires_python(request: WheelRequest) -> str:
    """Of a wheel for the stable ABI without later CPythons than it was tested on: they would take it by its tag."""
    if not request.serves:
        return f">={max(Version(request.sdk.info.minimum_python), Version('3.9'))}"
    return f">={request.serves[0].marker},<{request.serves[-1].next.marker}"


def dependencies(request: WheelRequest) -> tuple[str, ...]:
    """What the wheel requires where it is installed."""
    return () if request.test_addon else wheel_requirements(request.sdk.info.runtime_requirements, request.overrides)


def build_requirements(request: WheelRequest) -> list[str]:
    """What building the wheel needs: ``[build-system] requires``."""
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
    }[request.profile]
    return f"{text}, and LLVM's assertions" if request.sdk.info.assertions else text


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
