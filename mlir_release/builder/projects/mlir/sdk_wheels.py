"""``sdk wheel``: an SDK as wheels that pip and uv install: ``mlir-sdk``, ``mlir-sdk-tools`` and ``mlir-test-tools``.

One of each serves every CPython of a platform. Their platform tag is what the programs qualify for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import mlir_release
from mlir_release.builder.model.sdk_wheel_info import SDK, SDK_TOOLS, TEST_TOOLS, SdkWheelInfo, package_of
from mlir_release.builder.model.wheel_info import WHEEL_INFO
from mlir_release.builder.projects.mlir import PROJECT, llvm_config
from mlir_release.builder.projects.mlir.sdk_members import Reduced, sdk_members
from mlir_release.builder.projects.mlir.sdk_programs import members_of_test_tools, tools_members
from mlir_release.builder.sdk.elf import read_elf
from mlir_release.builder.sdk.parts import BUILD, TOOLS
from mlir_release.builder.sdk.programs import is_elf
from mlir_release.builder.wheels.archive import Identity, Member, write_wheel
from mlir_release.builder.wheels.build import check_report
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.builder.wheels.stage import wheel_info as release_info
from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.documents.digests import open_regular
from mlir_release.ground.errors import UsageError
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.builder.model.wheel_info import WheelInfo
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.wheels.request import WheelRequest

#: The versions of symbols that tell how new a C and C++ runtime must be, by their prefix.
_RUNTIME_VERSIONS = ("GLIBC_", "GLIBCXX_", "CXXABI_")


def pack(requests: Sequence[WheelRequest], *, output: Path) -> list[Path]:
    """See :class:`~mlir_release.builder.wheels.port.SdkWheelWriter`."""
    infos = {one.distribution: release_info(replace(one, overrides=())) for one in requests}  # they require nothing
    return _write_wheels(requests[0].sdk, str(requests[0].version), infos, output)


def pack_all(sdk: Sdk, version: str, *, output: Path) -> dict[str, Path]:
    """See :class:`~mlir_release.builder.wheels.port.SdkWheelWriter`."""
    names = {"sdk": SDK, "tools": SDK_TOOLS, "test_tools": TEST_TOOLS}
    made = _write_wheels(sdk, _version(version), dict.fromkeys(names.values()), output)
    return dict(zip(names, made, strict=True))


def write_sdk_wheel(sdk: Sdk, version: str, *, output: Path) -> Path:
    """Write ``mlir-sdk`` alone, which belongs to no release; parameters and errors as of :func:`pack_all`."""
    return _write_wheels(sdk, _version(version), {SDK: None}, output)[0]


def _write_wheels(sdk: Sdk, version: str, wanted: Mapping[str, WheelInfo | None], output: Path) -> list[Path]:
    """Write the ``wanted`` distributions, each with the release that it belongs to, if to any."""
    sdk.require(BUILD, TOOLS, purpose="making wheels of it")
    output.mkdir(parents=True, exist_ok=True)
    reduced, epoch = Reduced.of(sdk), sdk.info.source_epoch
    info = wheel_info(reduced, version)
    platform = sdk.info.platform
    claimed = f"macosx_11_0_{platform.tag_arch}" if platform.os == "macos" else ""
    # The tag that promises least, until the binaries are asked.
    probe = Identity(
        distribution=SDK_TOOLS,
        version=version,
        platform=claimed or f"{platform.system.families[-1]}_{platform.tag_arch}",
    )
    with scratch_folder("sdk-wheels") as scratch:
        with console.step(f"Finding the platform tag of the wheels of LLVM {info.llvm_version}"):
            programs = list(tools_members(sdk, info, probe, scratch / "tools"))
            # All wheels get the tag that the programs qualify for: the others' binaries are some of these.
            members = [*programs, *_metadata(probe, sdk)]
            report = inspect(write_wheel(probe, members, output=scratch, epoch=epoch, compressed=False))
            check_report(report)
        written = []
        for name, release in wanted.items():
            identity = Identity(distribution=name, version=version, platform=report.true_platform_tag)
            if name == SDK:
                members = [*sdk_members(reduced, info, scratch / "sdk"), *_metadata(identity, sdk)]
            elif name == TEST_TOOLS:
                members = [*members_of_test_tools(sdk, info, identity, scratch / "tests"), *_metadata(identity, sdk)]
            else:
                members = [*programs, *_metadata(identity, sdk)]
            if release is not None:
                members.append(Member(name=f"{package_of(name)}/{WHEEL_INFO}", content=release.to_text()))
            with console.step(f"Writing {identity.filename}"):
                wheel = write_wheel(identity, members, output=output, epoch=epoch)
            console.say(f"    {format_bytes(wheel.stat().st_size)}")
            written.append(wheel)
        return written


def _version(text: str) -> str:
    """A version in its one canonical spelling, which files are named by."""
    from packaging.version import InvalidVersion, Version

    why = "it has a local part, which installers order in another way"
    try:
        version = Version(text)
        if version.local is None:
            return str(version)
    except InvalidVersion:
        why = "PEP 440 says how versions are written: 20261120.2, 22.1.8, 23.1.0rc1"
    raise UsageError(
        "option-invalid",
        f"{text!r} is no version that a wheel can have",
        why=why,
        remedy="give the version of the release's other wheels with --version",
    )


def wheel_info(reduced: Reduced, version: str) -> SdkWheelInfo:
    """The content of ``_mlir_sdk.json``."""
    # The newest versions of symbols that the programs need: archives are compiled as programs are, but can't tell.
    newest: dict[str, tuple[int, ...]] = {}
    for path in sorted(reduced.sdk.tools.iterdir()):
        if path.is_symlink() or not is_elf(path):
            continue
        with open_regular(path) as file:
            names = [name for needed in read_elf(file).versions.values() for name in needed]
        for prefix in _RUNTIME_VERSIONS:
            for numbers in (name.removeprefix(prefix) for name in names if name.startswith(prefix)):
                if numbers.replace(".", "").isdigit():
                    newest[prefix] = max(newest.get(prefix, ()), tuple(map(int, numbers.split("."))))
    c_runtime = ", ".join(f"{prefix}{'.'.join(map(str, version))}" for prefix, version in newest.items())
    info = reduced.sdk.info
    return SdkWheelInfo(
        version=version,
        revision=info.revision,
        llvm_version=info.llvm_version,
        platform=str(info.platform),
        digest=info.digest,
        configuration=info.configuration,
        code_generators=reduced.code_generators,
        c_runtime=c_runtime,
        binding_requirements=info.binding_requirements,
        minimum_python=info.minimum_python,
        toolkit_version=mlir_release.__version__,
    )


def _metadata(identity: Identity, sdk: Sdk) -> list[Member]:
    info = sdk.info
    (summary,) = (one.summary for one in PROJECT.profiles.values() if one.distribution == identity.distribution)
    licenses = sorted((sdk.root / "licenses").iterdir())
    expression = " AND ".join(dict.fromkeys(["Apache-2.0 WITH LLVM-exception", *(one.license for one in info.linked)]))
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {identity.distribution}",
        f"Version: {identity.version}",
        f"Summary: {summary}",
        f"License-Expression: {expression}",
        *(f"License-File: {path.name}" for path in licenses),
        f"Project-URL: Revision, https://github.com/llvm/llvm-project/tree/{info.revision}",
        "Requires-Python: >=3.8",
    ]
    # scikit-build-core adds the first to CMAKE_PREFIX_PATH.
    entry_points = "[cmake.prefix]\nmlir-sdk = mlir_sdk\n"
    entry_points += f"\n[console_scripts]\n{llvm_config.NAME} = mlir_sdk.__main__:llvm_config\n"
    found = [Member(name=f"{identity.dist_info}/METADATA", content="\n".join(lines) + "\n")]
    found += [Member(name=f"{identity.dist_info}/licenses/{path.name}", content=path) for path in licenses]
    if identity.distribution == SDK:
        found.append(Member(name=f"{identity.dist_info}/entry_points.txt", content=entry_points))
    return found
