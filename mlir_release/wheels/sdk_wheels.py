"""``sdk wheel``: an SDK as two wheels that pip and uv install, ``mlir-sdk`` and ``mlir-sdk-tools``.

One of each serves every CPython of a platform. Their platform tag is what the programs qualify for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import mlir_release
from mlir_release.console import console, format_bytes
from mlir_release.errors import UsageError
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.sdk_wheel_info import SDK, SDK_TOOLS, SdkWheelInfo
from mlir_release.model.wheel_info import SDK_WHEEL_INFOS
from mlir_release.sdk.elf import read_elf
from mlir_release.sdk.parts import BUILD, TOOLS
from mlir_release.sdk.programs import is_elf
from mlir_release.sdk.reduced import Reduced
from mlir_release.wheels.archive import Identity, Member, write_wheel
from mlir_release.wheels.build import check_report
from mlir_release.wheels.inspect import inspect
from mlir_release.wheels.sdk_members import sdk_members, tools_members
from mlir_release.wheels.stage import wheel_info as release_info

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from mlir_release.model.platforms import Platform
    from mlir_release.model.wheel_info import WheelInfo
    from mlir_release.sdk.info import Sdk
    from mlir_release.wheels.request import WheelRequest

#: The versions of symbols that tell how new a C and C++ runtime must be, by their prefix.
_RUNTIME_VERSIONS = ("GLIBC_", "GLIBCXX_", "CXXABI_")

_SUMMARIES = {
    SDK: "LLVM and MLIR of one revision to build against: headers, static libraries, CMake packages, code generators",
    SDK_TOOLS: "MLIR's and LLVM's programs of one revision: mlir-opt, mlir-translate, mlir-lsp-server, FileCheck, …",
}


@dataclass(frozen=True, kw_only=True)
class SdkWheels:
    """The two wheels of an SDK."""

    sdk: Path
    tools: Path

    @property
    def paths(self) -> tuple[Path, Path]:
        """Both."""
        return self.sdk, self.tools


def write_sdk_wheels(sdk: Sdk, version: str, *, output: Path) -> SdkWheels:
    """Write the wheels of ``sdk`` into the folder ``output``; the same SDK gives the same bytes.

    :param version: of both, as that of the bindings' wheels of the same release
    :raises UsageError: ``option-invalid``, ``input-missing``
    :raises VerificationError: ``wheel-unsuitable``: the programs need what the SDK does not carry
    """
    wheels = _write_wheels(sdk, _version(version), {SDK: None, SDK_TOOLS: None}, output)
    return SdkWheels(sdk=wheels[0], tools=wheels[1])


def write_sdk_wheel(sdk: Sdk, version: str, *, output: Path) -> Path:
    """Write ``mlir-sdk`` alone; parameters and errors as of :func:`write_sdk_wheels`."""
    return _write_wheels(sdk, _version(version), {SDK: None}, output)[0]


def write_release_wheels(requests: Sequence[WheelRequest], *, output: Path) -> list[Path]:
    """Write the wheels of one SDK that targets ask for into the folder ``output``, and which release they are of.

    :param requests: of one SDK and version; several are quicker together, as they share the search for their tag
    :raises UsageError: ``input-missing``
    :raises VerificationError: ``wheel-unsuitable``
    """
    infos = {one.distribution: release_info(replace(one, overrides=())) for one in requests}  # they require nothing
    return _write_wheels(requests[0].sdk, str(requests[0].version), infos, output)


def _write_wheels(sdk: Sdk, version: str, wanted: Mapping[str, WheelInfo | None], output: Path) -> list[Path]:
    """Write the ``wanted`` distributions, each with the release that it belongs to, if to any."""
    sdk.require(BUILD, TOOLS, purpose="making wheels of it")
    output.mkdir(parents=True, exist_ok=True)
    reduced = Reduced.of(sdk)
    info = wheel_info(reduced, version)
    with scratch_folder("sdk-wheels") as scratch:
        probe = Identity(distribution=SDK_TOOLS, version=version, platform=_claimed(sdk.info.platform))
        with console.step(f"Finding the platform tag of the wheels of LLVM {info.llvm_version}"):
            programs = list(tools_members(sdk, info, probe, scratch / "tools"))
            platform = _qualified(probe, programs, sdk, scratch)
        contents: Mapping[str, Callable[[], list[Member]]] = {
            SDK: lambda: list(sdk_members(reduced, info)),
            SDK_TOOLS: lambda: programs,
        }
        return [
            _write(
                Identity(distribution=name, version=version, platform=platform),
                [*contents[name](), *_release_member(release)],
                sdk,
                output,
            )
            for name, release in wanted.items()
        ]


def _release_member(release: WheelInfo | None) -> list[Member]:
    return [Member(name=SDK_WHEEL_INFOS[release.profile], content=release.to_text())] if release is not None else []


def _version(text: str) -> str:
    """A version in its one canonical spelling, which files are named by."""
    from packaging.version import InvalidVersion, Version

    try:
        version = Version(text)
    except InvalidVersion:
        version = None
    if version is None or version.local is not None:
        raise UsageError(
            "option-invalid",
            f"{text!r} is no version that a wheel can have",
            why="it has a local part, which installers order in another way"
            if version
            else "PEP 440 says how versions are written: 20261120.2, 22.1.8, 23.1.0rc1",
            remedy="give the version of the release's other wheels with --version",
        )
    return str(version)


def wheel_info(reduced: Reduced, version: str) -> SdkWheelInfo:
    """The content of ``_mlir_sdk.json``."""
    info = reduced.sdk.info
    return SdkWheelInfo(
        version=version,
        revision=info.revision,
        llvm_version=info.llvm_version,
        platform=str(info.platform),
        digest=info.digest,
        configuration=info.configuration,
        code_generators=reduced.code_generators,
        c_runtime=_c_runtime(reduced.sdk),
        binding_requirements=info.binding_requirements,
        minimum_python=info.minimum_python,
        toolkit_version=mlir_release.__version__,
    )


def _c_runtime(sdk: Sdk) -> str:
    """The newest versions of symbols that the programs need: archives are compiled as programs are, but can't tell."""
    newest: dict[str, tuple[int, ...]] = {}
    for path in sorted(sdk.tools.iterdir()):
        if path.is_symlink() or not is_elf(path):
            continue
        with path.open("rb") as file:
            names = [name for needed in read_elf(file).versions.values() for name in needed]
        for prefix in _RUNTIME_VERSIONS:
            for numbers in (name.removeprefix(prefix) for name in names if name.startswith(prefix)):
                if numbers.replace(".", "").isdigit():
                    newest[prefix] = max(newest.get(prefix, ()), tuple(map(int, numbers.split("."))))
    return ", ".join(f"{prefix}{'.'.join(map(str, version))}" for prefix, version in newest.items())


def _claimed(platform: Platform) -> str:
    """The tag that promises least, before the binaries are asked."""
    return (
        f"macosx_11_0_{platform.tag_arch}"
        if platform.os == "macos"
        else f"{platform.system.families[-1]}_{platform.tag_arch}"
    )


def _qualified(probe: Identity, members: Sequence[Member], sdk: Sdk, scratch: Path) -> str:
    """The platform tag that the programs qualify for: asked of a wheel that is not compressed.

    The other wheel has no binaries but some of these.
    """
    metadata = _metadata(probe, sdk)
    wheel = write_wheel(probe, [*members, *metadata], output=scratch, epoch=sdk.info.source_epoch, compressed=False)
    report = inspect(wheel)
    check_report(report)
    return report.true_platform_tag


def _write(identity: Identity, members: Sequence[Member], sdk: Sdk, output: Path) -> Path:
    with console.step(f"Writing {identity.filename}"):
        wheel = write_wheel(identity, [*members, *_metadata(identity, sdk)], output=output, epoch=sdk.info.source_epoch)
    console.say(f"    {format_bytes(wheel.stat().st_size)}")
    return wheel


def _metadata(identity: Identity, sdk: Sdk) -> list[Member]:
    info = sdk.info
    licenses = sorted((sdk.root / "licenses").iterdir())
    expression = " AND ".join(dict.fromkeys(["Apache-2.0 WITH LLVM-exception", *(one.license for one in info.linked)]))
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {identity.distribution}",
        f"Version: {identity.version}",
        f"Summary: {_SUMMARIES[identity.distribution]}",
        f"License-Expression: {expression}",
        *(f"License-File: {path.name}" for path in licenses),
        f"Project-URL: Revision, https://github.com/llvm/llvm-project/tree/{info.revision}",
        "Requires-Python: >=3.8",
    ]
    entry_points = "[cmake.prefix]\nmlir-sdk = mlir_sdk\n"
    found = [Member(name=f"{identity.dist_info}/METADATA", content="\n".join(lines) + "\n")]
    found += [Member(name=f"{identity.dist_info}/licenses/{path.name}", content=path) for path in licenses]
    if identity.distribution == SDK:  # scikit-build-core adds it to CMAKE_PREFIX_PATH
        found.append(Member(name=f"{identity.dist_info}/entry_points.txt", content=entry_points))
    return found
