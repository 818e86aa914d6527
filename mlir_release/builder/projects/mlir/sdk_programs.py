"""The members of the wheels with an SDK's programs: ``mlir-sdk-tools`` has all, ``mlir-test-tools`` those of tests.

The programs are for the environment's ``bin``, and their libraries for ``lib/`` with the distribution's name beside it,
where their run path leads. A wheel has no symbolic links: a program's second name is a script that runs the program
under that name, because the name matters (``ld.lld``, ``llvm-ranlib``).

``mlir-test-tools`` is small, because its programs use little of LLVM. A distribution links them to more shared
libraries than they use (Debian's to z3, 23 MB): those are taken off. Both wheels have ``FileCheck``, and neither
requires the other, so that no installer looks elsewhere for a name that only a release's own page has.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mlir_release.builder.model.sdk_wheel_info import SDK_TOOLS, SDK_WHEEL_INFO, TEST_TOOLS, package_of
from mlir_release.builder.projects.mlir import SDK_WHEEL, llvm_config
from mlir_release.builder.projects.mlir.components import RUNNER_LIBRARIES
from mlir_release.builder.sdk.programs import (
    drop_unused_libraries,
    finds_libraries,
    is_elf,
    link_or_copy,
    needed_libraries,
    set_run_path,
)
from mlir_release.builder.wheels.archive import Member

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from mlir_release.builder.model.sdk_wheel_info import SdkWheelInfo
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.wheels.archive import Identity

#: The programs of ``mlir-test-tools``: what lit's tests run beside the program that they test.
TEST_PROGRAMS = frozenset({"FileCheck", "count", "not", "split-file"})

#: Programs of ``mlir/examples`` and of LLVM's own tests. Each is most of MLIR once more.
_NOT_PUBLISHED = frozenset(
    {"mlir-minimal-opt", "mlir-minimal-opt-canonicalize", "mlir-transform-opt", "lli-child-target"}
)

#: A script for a second name. pip and uv put the environment's interpreter into its first line.
_SECOND_NAME = """\
#!python
import os
import sys

os.execv(os.path.join(os.path.dirname(os.path.abspath(__file__)), {program!r}), [{name!r}, *sys.argv[1:]])
"""


def tools_members(sdk: Sdk, info: SdkWheelInfo, identity: Identity, scratch: Path) -> Iterator[Member]:
    """The files of ``mlir-sdk-tools``, without its metadata. Programs are copied to ``scratch`` and given run paths."""
    left_out = _NOT_PUBLISHED | {llvm_config.NAME, llvm_config.STARTER}  # the latter are mlir-sdk's
    programs = [path for path in sorted(sdk.tools.iterdir()) if path.name.removesuffix(".exe") not in left_out]
    runners = [path for path in sdk.libraries.iterdir() if RUNNER_LIBRARIES.fullmatch(path.name)]
    yield from _installed_members(sdk, identity, scratch, programs, runners)
    yield from _package_members(SDK_TOOLS, info)
    cmake = (SDK_WHEEL / "tools.cmake").read_text(encoding="utf-8")
    facts = {"MLIR_SDK_TOOLS_DIGEST": info.digest, "MLIR_SDK_TOOLS_TITLE": info.title}
    names = " ".join(path.name for path in programs)
    head = "".join(f"set({name} {json.dumps(value)})\n" for name, value in facts.items())
    content = f"{head}set(MLIR_SDK_TOOLS {names})\n{cmake}"
    yield Member(name=f"{package_of(SDK_TOOLS)}/tools.cmake", content=content)


def members_of_test_tools(sdk: Sdk, info: SdkWheelInfo, identity: Identity, scratch: Path) -> Iterator[Member]:
    """The files of ``mlir-test-tools``, as :func:`tools_members`."""
    programs = [path for path in sorted(sdk.tools.iterdir()) if path.name.removesuffix(".exe") in TEST_PROGRAMS]
    yield from _installed_members(sdk, identity, scratch, programs, [], small=True)
    yield from _package_members(TEST_TOOLS, info)


def _installed_members(
    sdk: Sdk, identity: Identity, scratch: Path, programs: list[Path], runners: list[Path], *, small: bool = False
) -> Iterator[Member]:
    """Programs for ``bin``, and libraries for the folder beside it.

    :param programs: of the SDK, with second names
    :param runners: libraries that programs load by name
    :param small: take the libraries off that programs don't use
    """
    place = f"lib/{identity.distribution}"
    real = [_installed(path, scratch / "bin") for path in programs if not path.is_symlink()]
    for path in filter(is_elf, real if small else ()):
        drop_unused_libraries(path, sdk.libraries)
    # On Windows they are beside the programs, and are programs to :func:`tools_members`.
    linked: Iterable[Path]
    if all(map(is_elf, real)):
        linked = needed_libraries([*real, *runners], sdk.libraries).values()
    else:
        linked = (path for path in sdk.libraries.glob("*.dylib") if not RUNNER_LIBRARIES.fullmatch(path.name))
    libraries = [_installed(path, scratch / place) for path in sorted({*runners, *linked})]
    wanted = {path.name for path in libraries}
    for path in (*real, *libraries):
        if is_elf(path) and not finds_libraries(path, wanted, scratch / place):
            set_run_path(path, scratch / place)
    for path in real:
        yield Member(name=f"{identity.data}/scripts/{path.name}", content=path, executable=True)
    for path in programs:
        if path.is_symlink():
            script = _SECOND_NAME.format(program=path.resolve().name, name=path.name)
            yield Member(name=f"{identity.data}/scripts/{path.name}", content=script, executable=True)
    for path in libraries:
        yield Member(name=f"{identity.data}/data/{place}/{path.name}", content=path, executable=True)


def _package_members(distribution: str, info: SdkWheelInfo) -> Iterator[Member]:
    """The Python package, which says which SDK the programs are of."""
    text = '"""The programs are in the environment\'s ``bin``."""\n'
    yield Member(name=f"{package_of(distribution)}/__init__.py", content=text)
    yield Member(name=f"{package_of(distribution)}/{SDK_WHEEL_INFO}", content=info.to_text())


def _installed(path: Path, folder: Path) -> Path:
    target = folder / path.name
    link_or_copy(path, target)
    return target
