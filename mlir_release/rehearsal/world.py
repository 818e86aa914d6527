"""The world of a rehearsal: an upstream whose commits represent LLVM releases, a release repository, CPythons."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.errors import UsageError
from mlir_release.forge.checkout import matrix_of_checkout
from mlir_release.git.repository import NO_OBJECT, Git, Signature
from mlir_release.git.trees import commit_files
from mlir_release.host.shipped import SHIPPED
from mlir_release.model.cpython import CPython
from mlir_release.model.llvm_facts import TRAILER_VERSION, fact_files
from mlir_release.model.pin import PIN_FILE, format_pin
from mlir_release.model.platforms import Platform, PlatformTag
from mlir_release.model.projects import DEFAULT_PROJECT, find_project
from mlir_release.model.release_tags import upstream_tag
from mlir_release.model.requirements import wheel_requirements
from mlir_release.model.suites import SDK_SUITE
from mlir_release.model.targets import DISTRIBUTIONS, SDK_PROFILES, TARGETS_FILE
from mlir_release.model.trailers import format_message
from mlir_release.pinning.upstream import REPRESENTS_RELEASES
from mlir_release.sdk.port import recipe_of
from mlir_release.sdk.releases import LlvmRelease, read_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mlir_release.forge.local.forge import LocalForge
    from mlir_release.host.pythons import Python
    from mlir_release.model.llvm_facts import LlvmFacts
    from mlir_release.model.requirements import Override
    from mlir_release.model.targets import Profile
    from mlir_release.sdk.upstream import UpstreamSource

TRAILER_COMMIT = "LLVM-Commit"

#: CPythons that a rehearsal uses by default.
DEFAULT_PYTHONS = 2


def choose(
    available: Iterable[tuple[LlvmRelease, UpstreamSource]], wanted: Sequence[str] = ()
) -> tuple[LlvmRelease, list[Python]]:
    """The first release that CPythons here can run, and these CPythons.

    :param wanted: versions or paths of CPythons to use instead of those that fit
    :raises UsageError: ``python-missing``, with the reason for each CPython
    """
    from mlir_release.host.pythons import find_pythons

    refusals: list[str] = []
    for release, source in available:
        found = find_pythons(wanted) if wanted else _fitting_pythons(source.facts, refusals)
        if found:
            return release, found
        console.say(f"    not {release}: its requirements have wheels for no CPython here")
    raise UsageError(
        "python-missing",
        "the requirements of the LLVMs at hand have wheels for no CPython on this machine",
        why="; ".join(dict.fromkeys(refusals)),
        remedy="install an older CPython with its headers, relax the requirement in [requires] of targets.toml, or "
        "choose with --python (what has no wheel is then built from source)",
    )


def _fitting_pythons(facts: LlvmFacts, refusals: list[str]) -> list[Python]:
    """The running CPython and the newest other one that upstream's requirements, and its tests', have wheels for.

    If they have for none, those that the requirements with the shipped overrides have wheels for.
    """
    from mlir_release.host.pythons import describe, find_pythons
    from mlir_release.host.resolver import Wanted, resolve
    from mlir_release.pinning.installable import with_tests

    current, oldest = describe(Path(sys.executable)), CPython.parse(facts.minimum_python)
    candidates = [python for python in find_pythons() if python.cpython.release >= oldest.release]
    candidates.sort(key=lambda python: python.cpython != current.cpython)
    tests = find_project(DEFAULT_PROJECT).test_requirements
    relaxed = wheel_requirements(facts.runtime_requirements, shipped_overrides())
    for requirements in (facts.runtime_requirements, relaxed):
        fitting: list[Python] = []
        for python in candidates:
            answer = resolve(with_tests(requirements, tests), Wanted(python.cpython, PlatformTag.of_host()))
            if answer.installable is False:
                refusals.append(f"{python.cpython}: {answer.why}")
                continue
            fitting.append(python)
            if len(fitting) == DEFAULT_PYTHONS:
                break
        if fitting:
            return fitting
    return []


def make_upstream(
    folder: Path, newest: LlvmRelease, tree: Path, projects: Sequence[str] = (DEFAULT_PROJECT,)
) -> LlvmRelease:
    """A repository with a commit for ``newest`` after those of older releases; returns the one before that.

    The older ones are the catalogue's. The commits are the same on every machine and in every run. Each represents a
    release by its version, and has llvm-project's own commit, where that is known, in a trailer. The newest, which
    will be released, has the release's own files as far as facts are read from them.

    :param tree: the sources of ``newest``, as far as an SDK of the projects carries them
    """
    chain = [*(release for release in read_catalogue() if release.order < newest.order), newest]
    git = Git(folder)
    if not (folder / "HEAD").exists():
        folder.mkdir(parents=True, exist_ok=True)
        git.run("init", "--quiet", "--bare", "--initial-branch=main")
    (folder / REPRESENTS_RELEASES).touch()
    parent: str | None = None
    for release in chain:
        when = datetime.fromtimestamp(release.epoch, UTC)
        signature = Signature(name="LLVM releases", email="releases@llvm.invalid", when=when)
        message = format_message(
            f"LLVM {release.version}",
            "Represents the release's commit in llvm-project.",
            {TRAILER_VERSION: release.version} | ({TRAILER_COMMIT: release.commit} if release.commit else {}),
        )
        files = {"RELEASE": f"version = {release.version}\ncommit = {release.commit or 'unknown'}\n".encode()}
        if release is newest:
            files |= _fact_files(tree, projects)
        parent = commit_files(git, parent, files, message, signature)
        ref = f"refs/tags/{upstream_tag(release.version)}"
        git.update_ref(ref, parent, expected=git.resolve(ref) or NO_OBJECT)
    assert parent is not None
    git.update_ref("refs/heads/main", parent, expected=git.resolve("refs/heads/main") or NO_OBJECT)
    return chain[-2] if len(chain) > 1 else chain[-1]


def _fact_files(tree: Path, projects: Sequence[str]) -> dict[str, bytes]:
    """The files that facts are read from, as far as an SDK carries them: the commit is the same if the tree has all."""
    names = [name for project in projects for name in recipe_of(project).kept_sources]
    kept = [path for path in fact_files() if any(path == name or path.startswith(f"{name}/") for name in names)]
    return {path: (tree / path).read_bytes() for path in kept if (tree / path).is_file()}


def make_forge(
    workspace: Path, older: LlvmRelease, pythons: Sequence[Python], profiles: Sequence[Profile]
) -> LocalForge:
    """The local forge, initially pinned at ``older``, with these CPythons and profiles in its matrix."""
    from mlir_release.forge.local.forge import LocalForge

    upstream = workspace / "upstream.git"
    pin = Git(upstream).resolve(f"refs/tags/{upstream_tag(older.version)}")
    assert pin is not None
    targets = make_targets(str(upstream), pythons, profiles)
    forge = LocalForge.create(workspace / "forge", {PIN_FILE: format_pin(pin), TARGETS_FILE: targets})
    head = forge.head("main")
    assert head is not None
    if forge.read(TARGETS_FILE, commit=head) != targets:
        forge.commit("main", expected=head, files={TARGETS_FILE: targets}, message="Change the build matrix\n")
    return forge


def shipped_overrides() -> tuple[Override, ...]:
    """The overrides of the ``targets.toml`` that the toolkit ships."""
    return matrix_of_checkout(SHIPPED).overrides


def make_targets(
    upstream: str, pythons: Sequence[Python], profiles: Sequence[Profile], *, runner: str = "this machine"
) -> bytes:
    """A ``targets.toml`` for this machine: its platform, these CPythons, the shipped overrides, everything required."""
    import tomli_w

    platform = Platform.of_host()
    names = {DISTRIBUTIONS[profile]: profile for profile in profiles}
    data = {
        "schema": 1,
        "release": {"upstream": upstream},
        "llvm": {name: {"distribution": name, "profile": profile} for name, profile in names.items()},
        "runtime": {
            str(platform): {
                "os": platform.os, "arch": platform.arch, "runner": runner,
                "pythons": [python.cpython.tag for python in pythons],
                "floor": PlatformTag.of_host().floor,
            }
        },
        "target": [
            {
                "llvm": name, "runtime": str(platform), "required": True,
                "suites": [SDK_SUITE] if profile in SDK_PROFILES else ["smoke", "bindings"],
            }
            for name, profile in names.items()
        ],
        "requires": {row.name: {"specifier": row.specifier, "reason": row.reason} for row in shipped_overrides()},
    }  # fmt: skip
    return tomli_w.dumps(data).encode()
