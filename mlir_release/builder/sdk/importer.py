"""Make an SDK from an installed LLVM: one path for Debian, Ubuntu, apt.llvm.org, Homebrew and unpacked releases."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.sdk import programs
from mlir_release.builder.sdk.components import USUAL, SdkSpec
from mlir_release.builder.sdk.info import Sdk, SdkInfo
from mlir_release.builder.sdk.parts import DESCRIPTION, total, write_parts
from mlir_release.builder.sdk.port import LinkedLibrary
from mlir_release.builder.sdk.prefix import Prefix, inspect_prefix, missing_pieces
from mlir_release.builder.sdk.sources.upstream import UpstreamSource, copy_sources, read_source
from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.errors import ReleaseError, UsageError
from mlir_release.ground.llvm.pin import SHA_PATTERN
from mlir_release.ground.programs.process import capture
from mlir_release.ground.storage.cache import locked
from mlir_release.ground.storage.disk import check_room, room
from mlir_release.ground.storage.files import copy_regular, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Purpose and remedy in the error about a full disk.
_PURPOSE = "for the SDK"
_MAKE_ROOM = "free some space, or give another output folder; the unfinished SDK has been removed"

#: Debian's packages of third-party libraries.
_PACKAGES = {"zlib": "zlib1g-dev", "zstd": "libzstd-dev"}

#: The piece of a prefix that links wheels quickly and folds identical code, on Linux.
_LINKER = "bin/ld.lld"


def import_sdk(
    prefix: Path,
    *,
    source: Path,
    output: Path,
    revision: str,
    source_epoch: int,
    provider: str | None = None,
    other_patch: bool = False,
    spec: SdkSpec = USUAL,
) -> Sdk:
    """Make a relocatable SDK of a project at ``output`` from the LLVM that is installed at ``prefix``.

    Files are hard-linked where the file system allows, so an SDK costs little disk space beside its prefix. The SDK
    appears at ``output`` when it is complete; one that is there already and is the same is kept.

    :param source: llvm-project's tree (or the part that an SDK carries) at the same version
    :param revision: the llvm-project commit, 40 hex digits
    :param source_epoch: that commit's time, seconds since 1970
    :param provider: overrides what :func:`~mlir_release.builder.sdk.prefix.inspect_prefix` finds
    :param other_patch: accept sources of another patch release of the same X.Y. LLVM keeps its interfaces within X.Y,
        so such an SDK works, but what is built with it is of no one revision: it serves tests, never a release.
    :param spec: its project, and the policy that this LLVM was compiled with
    :raises UsageError: wrong arguments; ``sdk-mismatch`` if source and prefix are of different versions
    :raises MachineError: missing pieces (each named with its package), no disk space
    """
    if not SHA_PATTERN.fullmatch(revision):
        raise UsageError(
            "option-invalid",
            f"{revision!r} is not a full llvm-project commit",
            remedy="give 40 hexadecimal digits; `mlir-release pin show` prints the pinned one",
        )
    upstream = read_source(source, project=spec.project)
    pieces = upstream.recipe.pieces
    installed = inspect_prefix(prefix, pieces.values())
    _check_versions(installed, upstream, other_patch=other_patch)
    _check_pieces(installed, pieces)
    output = Path(output).absolute()
    check_output(output)
    with (
        locked(output.with_name(f".{output.name}.import.lock")),  # not the name that a caller may hold
        room(output.parent, purpose=_PURPOSE, remedy=_MAKE_ROOM),
    ):
        staging = output.with_name(f".{output.name}.tmp")
        shutil.rmtree(staging, ignore_errors=True)  # of a run that was killed
        staging.mkdir()
        try:
            # On the prefix's own file system hard links do, which take little; elsewhere everything is copied.
            same = installed.libraries.stat().st_dev == staging.stat().st_dev
            needed = 400_000_000 if same else 1_600_000_000
            check_room(staging.parent, needed, purpose=_PURPOSE, remedy=_MAKE_ROOM)
            with console.step(f"Importing LLVM {installed.version} from {installed.root}"):
                recipe, system = upstream.recipe, installed.platform.system
                for name in recipe.headers:
                    link_tree(installed.root / "include" / name, staging / "include" / name)
                programs.add_programs(recipe.programs, installed.tools, staging, system)
                programs.add_shared_libraries(installed.library_path, staging, system, recipe.loaded)
                if installed.platform.os == "linux":
                    programs.check_relocated(staging)
                copy_sources(upstream.root, staging / "source", recipe.kept_sources)
                (staging / "licenses").mkdir()
                copy_regular(upstream.root / "LICENSE.TXT", staging / "licenses" / "LLVM.txt")
                linked = recipe.fill(installed, upstream.root, staging)
                parts = write_parts(staging, recipe)
                whole = total(parts)
            bindings = recipe.bindings(upstream.facts)
            info = SdkInfo(
                project=spec.project,
                revision=revision,
                source_epoch=source_epoch,
                provider=provider or installed.provider,
                regalloc_model=spec.regalloc.about.model if spec.regalloc else None,
                llvm_version=installed.version,
                source_version=upstream.version if is_other_patch(installed.version, upstream.version) else "",
                platform=installed.platform,
                configuration=installed.configuration,
                code_generators=installed.code_generators,
                native_code_generator=installed.settings["LLVM_NATIVE_ARCH"],
                binding_library=bindings.library,
                binding_requirements=bindings.building,
                runtime_requirements=bindings.running,
                minimum_python=bindings.minimum_python,
                linked=tuple(linked),
                file_count=whole.file_count,
                size=whole.size,
                digest=whole.digest,
                parts=parts,
            )
            (staging / DESCRIPTION).write_text(info.to_json(), encoding="utf-8")
            if (output / DESCRIPTION).is_file():
                with suppress(ReleaseError):
                    there = Sdk.load(output)
                    if there.info == info:  # it stays, since builds may use it
                        there.verify()
                        return there
            old = output.with_name(f".{output.name}.old")
            shutil.rmtree(old, ignore_errors=True)  # of a run that was killed
            if output.exists():
                output.rename(old)
            staging.rename(output)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return Sdk(root=output, info=info)


def describe(sdk: Sdk) -> list[tuple[str, str]]:
    """The rows of ``sdk show``: pairs of a label and a value."""
    info = sdk.info
    return [
        ("folder", str(sdk.root)),
        ("project", info.project),
        ("revision", info.revision),
        ("LLVM", info.llvm_version + (f", with sources of {info.source_version}" if info.source_version else "")),
        ("provider", info.provider),
        ("platform", str(info.platform)),
        ("configuration", info.configuration),
        ("code generators", ", ".join(info.code_generators)),
        ("bindings", f"{info.binding_library or 'pure Python'}, CPython ≥ {info.minimum_python}"),
        ("to build them", ", ".join(info.binding_requirements) or "–"),
        ("to run them", ", ".join(info.runtime_requirements) or "–"),
        ("linked in", ", ".join(f"{library.name} {library.version}".strip() for library in info.linked) or "–"),
        *(
            (
                f"{name} part",
                f"{part.file_count} files, {format_bytes(part.size)}{'' if sdk.has(name) else ' (not here)'}",
            )
            for name, part in info.parts.items()
        ),
        *([("register allocator", str(info.regalloc_model))] if info.regalloc_model else []),
        ("digest", info.digest),
    ]


def link_tree(origin: Path, target: Path) -> None:
    """Hard-link a tree of files; links to folders inside it are followed (Debian's ``include/llvm`` is one)."""
    for folder, _, names in os.walk(origin.resolve(), followlinks=True):
        for name in names:
            path = Path(folder, name)
            programs.link_or_copy(path, target / path.relative_to(origin.resolve()))


def add_third_party(prefix: Prefix, output: Path, *, zlib: bool, zstd: bool) -> list[LinkedLibrary]:
    """Carry zlib and zstd (static libraries, licences) where LLVM uses them. Returns what SBOMs name."""
    linked, missing = [], []
    for used, kind, file, license in (
        (zlib, "zlib", "libz.a", "Zlib"),
        (zstd, "zstd", "libzstd.a", "BSD-3-Clause"),
    ):
        if not used:
            continue
        package = prefix.package(_PACKAGES[kind])
        libraries = [folder / file for folder in prefix.library_path]
        if compiler := shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang"):
            libraries.append(Path(capture([compiler, f"-print-file-name={file}"]).stdout.strip()))
        formula = file.removeprefix("lib").removesuffix(".a")
        libraries += [Path(root, formula, "lib", file) for root in ("/opt/homebrew/opt", "/usr/local/opt")]
        path = next((path for path in libraries if path.is_absolute() and path.is_file()), None)
        if path is None:
            missing.append(f"the static library {file}, in {package}")
            continue
        programs.link_or_copy(path, output / "lib" / file)
        # Debian keeps licences by package; elsewhere they lie at the top of the package's own prefix.
        names = (package.removeprefix("the package "), _PACKAGES[kind], kind, f"{kind}-devel")
        doc = path.parent.parent.parent / "share" / "doc"  # of packages that were unpacked
        roots = (doc, Path("/usr/share/doc"), Path("/usr/share/licenses"))
        texts = [root / name / text for root in roots for name in names for text in ("copyright", "LICENSE")]
        texts.append(path.resolve().parent.parent / "LICENSE")
        text = next((text for text in texts if text.is_file()), None)
        if text is None:
            missing.append(f"the licence of {kind}, in {package}")
            continue
        copy_regular(text, output / "licenses" / f"{kind}.txt")
        version = ""
        for folder in (path.parent / "pkgconfig", path.parent.parent / "share" / "pkgconfig"):
            config = folder / f"{'libzstd' if kind == 'zstd' else kind}.pc"
            if config.is_file() and (match := re.search(r"^Version:\s*(\S+)", read_text(config), re.MULTILINE)):
                version = version or match[1]
        linked.append(LinkedLibrary(name=kind, version=version, license=license))
    if missing:
        raise missing_pieces(prefix.root, missing)
    return linked


def _check_versions(prefix: Prefix, upstream: UpstreamSource, *, other_patch: bool) -> None:
    # Distributions drop the "git" of versions between releases (23.0.0git); no release is numbered X.0.0 since LLVM 18.
    if prefix.version.removesuffix("git") == upstream.version.removesuffix("git"):
        return
    similar = is_other_patch(prefix.version, upstream.version)
    if similar and other_patch:
        console.warn(
            f"the installed LLVM is {prefix.version}, the sources are {upstream.version}: this SDK is of no one "
            "revision, and no release can be built with it"
        )
        return
    accept = "; for tests only, --other-patch accepts another patch release" if similar else ""
    raise UsageError(
        "sdk-mismatch",
        f"the installed LLVM is {prefix.version}, but the sources are {upstream.version}",
        where=f"{prefix.root} and {upstream.root}",
        why="bindings compiled against libraries of another version crash, at best",
        remedy=f"pin the revision of the installed version, or install the LLVM of the pinned one{accept}",
    )


def is_other_patch(one: str, other: str) -> bool:
    """Whether two versions are different patch releases of one X.Y. LLVM X.0 is a development version."""
    (*branch, _), (*same, _) = one.split("."), other.split(".")
    return one != other and branch == same and branch[1] != "0"


def _check_pieces(prefix: Prefix, pieces: Mapping[str, str]) -> None:
    """Look for all of them (:attr:`~mlir_release.builder.sdk.port.Recipe.pieces`). :raises MachineError:
    ``tool-missing``
    """
    missing = []
    for path, package in pieces.items():
        folder, _, name = path.partition("/")
        if path == _LINKER and (prefix.platform.os != "linux" or prefix.provider == "homebrew"):
            continue  # Homebrew has it in another formula's prefix
        if folder == "bin":
            what = f"the program {name.partition('|')[0]}"
            found = any(prefix.tool(one).is_file() for one in name.split("|"))
        elif folder == "include":
            what, found = f"the headers {path}", (prefix.root / path).is_dir()
        else:
            library = "." not in name
            file = prefix.platform.system.static_library(name) if library else name
            what = f"the static library {file}" if library else path
            found = (prefix.libraries / file).is_file()
        if not found:
            missing.append(f"{what}, in {prefix.package(package)}")
    if missing:
        raise missing_pieces(prefix.root, missing)


def check_output(output: Path) -> None:
    """Refuse a folder that holds something else than an SDK. :raises UsageError: ``output-in-the-way``"""
    if output.is_dir() and any(output.iterdir()) and not (output / DESCRIPTION).is_file():
        raise UsageError(
            "output-in-the-way",
            "the folder for the SDK holds something else",
            where=str(output),
            remedy="name a folder that is empty, is not there yet, or holds an SDK",
        )
