"""An SDK of a project for this machine, of one release: imported from an installed LLVM, else built from source.

SDKs are kept in the cache, and found there by their LLVM, their settings and the code that decides their content.
"""

from __future__ import annotations

import ast
import shutil
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace as replace_fields

from mlir_release.builder.sdk.build import build_sdk, prepare
from mlir_release.builder.sdk.build_environment import is_too_new
from mlir_release.builder.sdk.components import USUAL, SdkSpec
from mlir_release.builder.sdk.importer import import_sdk
from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.sdk.parts import DESCRIPTION
from mlir_release.builder.sdk.port import recipe_of
from mlir_release.builder.sdk.prefix import inspect_prefix
from mlir_release.builder.sdk.programs import link_or_copy
from mlir_release.builder.sdk.regalloc_model import CMAKE_PROJECT, ModelFolder
from mlir_release.builder.sdk.sources.debian import DebianPackages
from mlir_release.builder.sdk.sources.releases import LlvmRelease, find_release, read_catalogue, release_at
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.builder.sdk.sources.upstream import read_source
from mlir_release.ground.console import console
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import MachineError, UsageError
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.ground.storage.cache import locked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mlir_release.builder.model.orders import SdkOrder
    from mlir_release.builder.sdk.sources.upstream import UpstreamSource
    from mlir_release.ground.llvm.upstream import Revision

#: llvm-project itself, the first place that sources are fetched from.
LLVM_PROJECT = "https://github.com/llvm/llvm-project.git"

#: The modules of this room that have no influence on an SDK's content: they decide when and where it is made, and the
#: messages meanwhile. Every other module counts, so a new one cannot be forgotten.
WITHOUT_INFLUENCE = frozenset({"progress.py", "provision.py", "releases.py"})


def available_releases(
    *,
    cache: Path,
    prefix: Path | None = None,
    source: Path | None = None,
    version: str | None = None,
    project: str = DEFAULT_PROJECT,
) -> Iterator[tuple[LlvmRelease, UpstreamSource]]:
    """The releases that this machine can have an SDK of without building LLVM, newest first, with their sources.

    Without packages, a prefix or sources, it is the newest release of the catalogue, whose LLVM must be built.

    :param prefix: an installed LLVM; then it is that one's release alone
    :param source: a source tree; then it is that one's release
    :param version: only this one
    :raises MachineError: ``sources-unavailable``
    """
    packaged = _packaged(cache, project) if prefix is None else []
    wanted = _named(prefix, source, version, project) or packaged or [read_catalogue()[-1].version]
    refusals = []
    for one in wanted:
        release = find_release(one, source=source, upstream=LLVM_PROJECT)
        whole = prefix is None and one not in packaged
        try:
            tree = fetch_source(
                release, cache=cache, directory=source, upstream=LLVM_PROJECT, project=project, whole=whole
            )
        except MachineError as error:
            if len(wanted) == 1:
                raise
            refusals.append(f"LLVM {one}: {error.why}")
            console.say(f"    not LLVM {one}, which has packages here, but no sources: {error.why}")
        else:
            yield (release if release.epoch else replace(release, epoch=tree.epoch)), tree
    if len(refusals) == len(wanted):
        raise MachineError(
            "sources-unavailable",
            "this distribution has packages of LLVM, but the sources of none of them can be had",
            why="; ".join(refusals),
        )


def _packaged(cache: Path, project: str) -> list[str]:
    """The versions that the distribution has packages of, newest first."""
    packages = DebianPackages(cache, project)
    return list(packages.versions().values()) if packages.available() else []


def _named(prefix: Path | None, source: Path | None, version: str | None, project: str) -> list[str]:
    """The version that was asked for, or that is in the folders which were given; at most one."""
    found = {
        "--llvm": version,
        "--prefix": prefix and inspect_prefix(prefix).version,
        "--source": source and read_source(source, project=project).version,
    }
    named = {option: text.removesuffix("git") for option, text in found.items() if text}
    if len(set(named.values())) > 1:
        raise UsageError(
            "option-invalid",
            "the options name different versions of LLVM",
            why=", ".join(f"{option}: {text}" for option, text in named.items()),
            remedy="give the sources of the LLVM that is installed, and name no other version",
        )
    return list(named.values())[:1]


def source_of(
    release: LlvmRelease, *, cache: Path, directory: Path | None = None, project: str = DEFAULT_PROJECT
) -> Path:
    """The sources of ``release``, at least what an SDK carries of them. Errors as :func:`fetch_source`."""
    return fetch_source(release, cache=cache, directory=directory, upstream=LLVM_PROJECT, project=project).root


def provide_sdk(
    release: LlvmRelease,
    revision: LlvmRelease | Revision,
    spec: SdkSpec = USUAL,
    *,
    cache: Path,
    prefix: Path | None = None,
    source: Path | None = None,
    from_source: bool = False,
    jobs: int | None = None,
) -> Sdk:
    """The SDK of ``release``, from the cache if an equal one was made before.

    :param revision: what it is recorded with: the release's own commit, or one that represents it
    :param from_source: build LLVM even if the distribution has packages of it
    """
    commit = revision.commit if isinstance(revision, LlvmRelease) else revision.sha
    project = spec.project
    installed = None if from_source else prefix
    if installed is None and not from_source:
        packages = DebianPackages(cache, project)
        versions = packages.versions() if packages.available() else {}
        major = next((major for major, version in versions.items() if version == release.version), None)
        if major is None:
            console.say(f"    this distribution has no packages of LLVM {release.version}: building it from source")
        else:
            installed = packages.unpack(major)
    if installed is None:
        # One for all commits that represent the release.
        facts = [release.version, str(source), spec.floor, code_digest(project)]
        with _reserved(cache, f"llvm-{release.version}-built", facts, project) as root:
            if (root / DESCRIPTION).is_file():
                built = Sdk.load(root)
            else:
                tree = fetch_source(
                    release, cache=cache, directory=source, upstream=LLVM_PROJECT, project=project, whole=True
                )
                epoch = release.epoch or tree.epoch
                built = build_sdk(prepare(tree.root, spec, output=root, source_epoch=epoch, jobs=jobs), revision=commit)
        return adopt_sdk(built, revision=commit, source_epoch=revision.epoch, cache=cache)
    facts = [release.version, commit, str(revision.epoch), str(prefix), str(source), code_digest(project)]
    with _reserved(cache, f"llvm-{release.version}", facts, project) as root:
        if (root / DESCRIPTION).is_file():
            return Sdk.load(root)
        tree = fetch_source(release, cache=cache, directory=source, upstream=LLVM_PROJECT, project=project)
        return import_sdk(
            installed,
            source=tree.root,
            output=root,
            revision=commit,
            source_epoch=revision.epoch,
            spec=SdkSpec(project=project),  # packages have no policy of ours
        )


@contextmanager
def _reserved(cache: Path, name: str, facts: list[str], project: str) -> Iterator[Path]:
    """The folder of a cached SDK, locked: by another lock than the importer's, this one also covers the fetching."""
    key = sha256_of(" ".join(facts))[:12]
    root = cache / "sdks" / f"{recipe_of(project).cached(name)}-{key}"
    with locked(cache / "sdks" / f".{root.name}.provide.lock"):
        if not (root / DESCRIPTION).is_file():
            shutil.rmtree(root, ignore_errors=True)
        yield root


def find_cached(digest: str, revision: str, cache: Path) -> Sdk | None:
    """The SDK in the cache with this content that is recorded with this commit; None if the cache lacks it."""
    for description in sorted((cache / "sdks").glob(f"[!.]*/{DESCRIPTION}")):
        with suppress(UsageError):  # an older toolkit made it
            sdk = Sdk.load(description.parent)
            if (sdk.info.digest, sdk.info.revision) == (digest, revision):
                return sdk
    return None


def adopt_sdk(made: Sdk, *, revision: str, source_epoch: int, cache: Path) -> Sdk:
    """An SDK with the content of one made before, recorded with another commit of the same content.

    Its files are links to those of ``made`` where the file system allows.

    :param revision: such as a commit that represents a release
    :param source_epoch: that commit's time
    """
    info = replace_fields(made.info, revision=revision, source_epoch=source_epoch)
    if info == made.info:
        return made
    facts = [info.digest, revision, str(source_epoch)]
    with _reserved(cache, f"llvm-{info.llvm_version}-adopted", facts, info.project) as root:
        if not (root / DESCRIPTION).is_file():
            staging = root.with_name(f".{root.name}.tmp")
            shutil.rmtree(staging, ignore_errors=True)  # of a run that was killed
            shutil.copytree(
                made.root, staging, symlinks=True, copy_function=lambda one, other: link_or_copy(Path(one), Path(other))
            )
            (staging / DESCRIPTION).unlink()  # a link to that of ``made``
            (staging / DESCRIPTION).write_text(info.to_json(), encoding="utf-8")
            staging.rename(root)
        return Sdk.load(root)


def provide_pinned(
    order: SdkOrder,
    *,
    cache: Path,
    repository: Path = Path(),
    budget: float | None = None,
    jobs: int | None = None,
) -> Sdk:
    """The SDK that a release orders: of an LLVM that is packaged here, else built from source.

    Upstream's public git is asked for the revision, by its id: so what it gives is that commit. Whether upstream leads
    to it was asked by whoever ordered it (:func:`~mlir_release.release.pinning.pinned.check_pinned`). Distribution
    packages are used only if the distribution's glibc is no newer than the order's floor.

    :param repository: the folder that paths of ``targets.toml`` are relative to
    :param budget: seconds for a build from source
    :raises BudgetSpent: after that time
    """
    regalloc = ModelFolder.load(repository / order.regalloc_model) if order.regalloc_model else None
    if regalloc is not None:
        regalloc.check_better()
    spec = SdkSpec(
        project=order.project,
        floor=order.floor,
        configuration="release+asserts" if order.assertions else "release",
        code_generators=("all",) if order.code_generators == "all" else None,
        regalloc=regalloc,
    )
    revision = Upstream(order.upstream).resolve(order.revision)
    version = revision.represents
    release = find_release(version, upstream=LLVM_PROJECT) if version else release_at(revision.sha)
    as_packaged = regalloc is None and not order.assertions and not is_too_new(order.floor)
    for packaged in _packaged(cache, order.project) if as_packaged else ():
        same = release if release.version else find_release(packaged, upstream=LLVM_PROJECT)
        if packaged == release.version or (not release.version and same.commit == release.commit):
            return provide_sdk(same, revision, SdkSpec(project=order.project), cache=cache, jobs=jobs)
    words = [revision.sha, order.floor or "here", code_digest(order.project)[:12]]
    words += [*([regalloc.about.key] if regalloc else []), *(["asserts"] if order.assertions else [])]
    words += ["all"] if spec.code_generators else []
    output = cache / "sdks" / recipe_of(order.project).cached("-".join(words))
    if (output / DESCRIPTION).is_file():
        return Sdk.load(output)
    upstream = LLVM_PROJECT if version else order.upstream  # a rehearsal's upstream has no sources
    tree = fetch_source(release, cache=cache, upstream=upstream, project=order.project, whole=True)
    build = prepare(tree.root, spec, output=output, source_epoch=revision.epoch, jobs=jobs)
    return build_sdk(build, revision=revision.sha, budget=budget)


def code_digest(project: str = DEFAULT_PROJECT, room: Path = Path(__file__).parent, code: Sequence[Path] = ()) -> str:
    """The digest of the code that makes SDKs of a project: newer code doesn't take a cached SDK for one of its own.

    Comments, docstrings and the layout of the code do not count. ``code``: the project's; default: its recipe's.
    """
    modules = [path for path in sorted(room.rglob("*.py")) if path.name not in WITHOUT_INFLUENCE]
    for path in (CMAKE_PROJECT, *(code or recipe_of(project).code)):
        modules += [path] if path.is_file() else sorted(file for file in path.rglob("*.*") if file.is_file())
    texts = ((path.suffix == ".py", path.read_text(encoding="utf-8")) for path in modules)
    return sha256_of("\0".join(normalised(text) if python else text for python, text in texts))


def normalised(code: str) -> str:
    """A text that two pieces of code share if they do the same: the syntax tree without docstrings."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            del node.body[0]
    return ast.dump(tree)
