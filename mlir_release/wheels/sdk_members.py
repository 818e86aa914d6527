"""What the wheels of an SDK contain: ``mlir-sdk`` for builds, ``mlir-sdk-tools`` with the programs.

``mlir_sdk/`` is the SDK's own tree, without what only tests and wheels of the bindings need. The programs are for the
environment's ``bin``, and their libraries for ``lib/mlir-sdk-tools`` beside it, where their run path leads.
A wheel has no symbolic links: a program that another program is also called by is a script that runs it under that
name, because which one it is called by matters (``ld.lld``, ``llvm-ranlib``).
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.version import Version

from mlir_release.model.requirements import of_names
from mlir_release.model.sdk_wheel_info import SDK_WHEEL_INFO
from mlir_release.projects.mlir import SDK_WHEEL
from mlir_release.sdk import cmake_exports
from mlir_release.sdk.parts import BUILD, LINKERS
from mlir_release.sdk.programs import (
    RUNNER_LIBRARIES,
    finds_libraries,
    is_elf,
    link_or_copy,
    needed_libraries,
    set_run_path,
)
from mlir_release.sdk.python_sources import EXPORTS
from mlir_release.sdk.reduced import LEFT_OUT
from mlir_release.wheels.archive import Member

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mlir_release.model.sdk_wheel_info import SdkWheelInfo
    from mlir_release.sdk.info import Sdk
    from mlir_release.sdk.reduced import Reduced
    from mlir_release.wheels.archive import Identity

#: The packages.
PACKAGE, TOOLS_PACKAGE = "mlir_sdk", "mlir_sdk_tools"

#: Below the environment, where the programs' libraries are.
_LIBRARIES = "lib/mlir-sdk-tools"

#: Programs of ``mlir/examples`` and of LLVM's own tests. Each is most of MLIR once more.
_NOT_PUBLISHED = frozenset(
    {"mlir-minimal-opt", "mlir-minimal-opt-canonicalize", "mlir-transform-opt", "lli-child-target"}
)

#: A source of upstream's that every Python package of a downstream has; what is beside it, such a package has, too.
_IN_EVERY_PACKAGE = "ir.py"

#: Where the CMake packages' additions are.
_CHECKS = "lib/cmake/mlir-sdk"

#: A script for a second name. pip and uv put the environment's interpreter into its first line.
_SECOND_NAME = """\
#!python
import os
import sys

os.execv(os.path.join(os.path.dirname(os.path.abspath(__file__)), {program!r}), [{name!r}, *sys.argv[1:]])
"""


def sdk_members(reduced: Reduced, info: SdkWheelInfo) -> Iterator[Member]:
    """The files of ``mlir-sdk``, without its metadata."""
    root = reduced.sdk.root
    for path, line in reduced.sdk.listed(BUILD).items():
        if path not in reduced.files and _is_published(path):
            text = _with_checks(path, reduced.rewritten(path), reduced.sdk)
            yield Member(
                name=f"{PACKAGE}/{path}",
                content=root / path if text is None else text,
                executable=line.startswith("exec "),
            )
    for ours in sorted((SDK_WHEEL / PACKAGE).glob("*.py")):
        yield Member(name=f"{PACKAGE}/{ours.name}", content=ours)
    for ours in sorted((SDK_WHEEL / "cmake").glob("*.cmake")):
        yield Member(name=f"{PACKAGE}/{_CHECKS}/{ours.name}", content=ours)
    yield Member(name=f"{PACKAGE}/{_CHECKS}/facts.cmake", content=facts_for_cmake(reduced.sdk, info))
    if reduced.initializers:
        yield Member(name=f"{PACKAGE}/src/{LEFT_OUT}.cpp", content=reduced.initializers)
    yield Member(name=f"{PACKAGE}/{SDK_WHEEL_INFO}", content=info.to_text())
    group = _core_group(cmake_exports.read(root / "lib" / "cmake" / "mlir" / EXPORTS))
    yield Member(name=f"{PACKAGE}/src/python/{group}/{SDK_WHEEL_INFO}", content=info.to_text())


def _is_published(path: str) -> bool:
    """Linkers are among the programs; the sources are those of our own wheels."""
    file = PurePosixPath(path)
    linker = file.parts[0] == "bin" and file.name.removesuffix(".exe") in LINKERS
    return file.parts[0] not in {"source", "licenses"} and not linker


def _with_checks(path: str, text: str | None, sdk: Sdk) -> str | None:
    """The text of a file of the CMake packages with what ``mlir-sdk`` adds; other files' as it is."""
    if path in {"lib/cmake/llvm/LLVMConfig.cmake", "lib/cmake/mlir/MLIRConfig.cmake"} and text is not None:
        begin, end = (f'include("${{CMAKE_CURRENT_LIST_DIR}}/../mlir-sdk/{name}.cmake")\n' for name in ("begin", "end"))
        return f"{begin}{text}\n{end}"
    if path == f"lib/cmake/mlir/{EXPORTS}":
        groups = cmake_exports.read(sdk.root / path)
        core = groups[_core_group(groups)]
        core.properties["INTERFACE_SOURCES"] += f";{cmake_exports.PREFIX}src/python/{core.name}/{SDK_WHEEL_INFO}"
        return cmake_exports.write(groups.values(), origin="Upstream's groups of Python sources.")
    return text


def _core_group(groups: Mapping[str, cmake_exports.Target]) -> str:
    """The group of Python sources that every Python package of a downstream has."""
    return next(
        name
        for name, group in groups.items()
        if f"{cmake_exports.PREFIX}src/python/{name}/{_IN_EVERY_PACKAGE}"
        in group.properties.get("INTERFACE_SOURCES", "").split(";")
    )


def facts_for_cmake(sdk: Sdk, info: SdkWheelInfo) -> str:
    """What ``begin.cmake`` and ``end.cmake`` compare with."""
    platform = sdk.info.platform
    processors = {
        name.lower() for name in platform.system.architectures if platform.system.architecture(name) == platform.arch
    }
    required = next(iter(of_names(info.binding_requirements, "nanobind")), "")
    facts = {
        "MLIR_SDK_TITLE": info.title,
        "MLIR_SDK_DIGEST": info.digest,
        "MLIR_SDK_PLATFORM": platform.title,
        "MLIR_SDK_SYSTEM": platform.system.host,
        "MLIR_SDK_PROCESSORS": ";".join(sorted(processors)),
        "MLIR_SDK_C_RUNTIME": info.c_runtime,
        "MLIR_SDK_NANOBIND_REQUIREMENT": required,
        "MLIR_SDK_NANOBIND": ";".join(_comparisons(required)) if required else "",
    }
    return "".join(f'set({name} "{value}")\n' for name, value in facts.items())


def _comparisons(requirement: str) -> Iterator[str]:
    """A requirement's bounds as CMake compares versions: ``VERSION_GREATER_EQUAL;2.9``."""
    words = {">=": "VERSION_GREATER_EQUAL", "<=": "VERSION_LESS_EQUAL", "<": "VERSION_LESS", ">": "VERSION_GREATER"}
    for bound in sorted(Requirement(requirement).specifier, key=str):
        if bound.operator == "~=":
            release = Version(bound.version).release
            yield f"{words['>=']};{bound.version};{words['<']};{'.'.join(map(str, (*release[:-2], release[-2] + 1)))}"
        elif bound.operator == "==":
            yield f"VERSION_EQUAL;{bound.version.removesuffix('.*')}"
        elif bound.operator in words:
            yield f"{words[bound.operator]};{bound.version}"


def tools_members(sdk: Sdk, info: SdkWheelInfo, identity: Identity, scratch: Path) -> Iterator[Member]:
    """The files of ``mlir-sdk-tools``, without its metadata. Programs are copied to ``scratch`` and given run paths."""
    programs = [path for path in sorted(sdk.tools.iterdir()) if path.name.removesuffix(".exe") not in _NOT_PUBLISHED]
    real = [_installed(path, scratch / "bin") for path in programs if not path.is_symlink()]
    libraries = [_installed(path, scratch / _LIBRARIES) for path in _libraries(sdk, real)]
    wanted = {path.name for path in libraries}
    for path in (*real, *libraries):
        if is_elf(path) and not finds_libraries(path, wanted, scratch / _LIBRARIES):
            set_run_path(path, scratch / _LIBRARIES)
    for path in real:
        yield Member(name=f"{identity.data}/scripts/{path.name}", content=path, executable=True)
    for path in programs:
        if path.is_symlink():
            script = _SECOND_NAME.format(program=path.resolve().name, name=path.name)
            yield Member(name=f"{identity.data}/scripts/{path.name}", content=script, executable=True)
    for path in libraries:
        yield Member(name=f"{identity.data}/data/{_LIBRARIES}/{path.name}", content=path, executable=True)
    yield Member(name=f"{TOOLS_PACKAGE}/__init__.py", content='"""The programs are in the environment\'s ``bin``."""\n')
    yield Member(name=f"{TOOLS_PACKAGE}/{SDK_WHEEL_INFO}", content=info.to_text())
    cmake = (SDK_WHEEL / "tools.cmake").read_text(encoding="utf-8")
    facts = {"MLIR_SDK_TOOLS_DIGEST": info.digest, "MLIR_SDK_TOOLS_TITLE": info.title}
    names = " ".join(path.name for path in programs)
    head = "".join(f"set({name} {json.dumps(value)})\n" for name, value in facts.items())
    yield Member(name=f"{TOOLS_PACKAGE}/tools.cmake", content=f"{head}set(MLIR_SDK_TOOLS {names})\n{cmake}")


def _installed(path: Path, folder: Path) -> Path:
    target = folder / path.name
    link_or_copy(path, target)
    return target


def _libraries(sdk: Sdk, programs: list[Path]) -> list[Path]:
    """The SDK's own shared libraries that the programs need, directly or not, and the runner libraries.

    On Windows they are beside the programs, and are programs to :func:`tools_members`.
    """
    runners = [path for path in sdk.libraries.iterdir() if RUNNER_LIBRARIES.fullmatch(path.name)]
    if not all(map(is_elf, programs)):
        return sorted({*runners, *sdk.libraries.glob("*.dylib")})
    return sorted({*runners, *needed_libraries([*programs, *runners], sdk.libraries).values()})
