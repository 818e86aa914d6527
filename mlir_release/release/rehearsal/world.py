"""The world of a rehearsal: an upstream whose commits represent LLVM releases, a release repository, CPythons."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.model.suites import SDK_SUITE
from mlir_release.builder.sdk.port import recipe_of
from mlir_release.builder.sdk.sources.releases import LlvmRelease, read_catalogue
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import alternatives
from mlir_release.ground.documents.trailers import format_message
from mlir_release.ground.errors import UsageError
from mlir_release.ground.git.repository import NO_OBJECT, Git, Signature
from mlir_release.ground.git.trees import commit_files
from mlir_release.ground.llvm.llvm_facts import TRAILER_VERSION, LlvmFacts, fact_files
from mlir_release.ground.llvm.llvm_version import upstream_tag
from mlir_release.ground.llvm.pin import PIN_FILE, format_pin
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT, Project, find_project
from mlir_release.ground.llvm.upstream import REPRESENTS_RELEASES
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import Platform, PlatformTag
from mlir_release.ground.python.requirements import Override, wheel_requirements
from mlir_release.ground.storage.files import read_document
from mlir_release.ground.storage.shipped import SHIPPED
from mlir_release.release.forge.checkout import matrix_of_checkout
from mlir_release.release.model.release_settings import TARGETS_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mlir_release.builder.sdk.sources.upstream import UpstreamSource
    from mlir_release.ground.python.pythons import Python
    from mlir_release.release.forge.local.forge import LocalForge

    #: The projects whose wheels are released, each with profiles of its own.
    Released = Mapping[str, Sequence[str]]

TRAILER_COMMIT = "LLVM-Commit"

#: The suites of a rehearsal, of those that a project has.
SUITES_TRIED = ("smoke", "bindings")

#: CPythons that a rehearsal uses by default.
DEFAULT_PYTHONS = 2


def choose(
    available: Iterable[tuple[LlvmRelease, UpstreamSource]],
    wanted: Sequence[str] = (),
    *,
    project: str = DEFAULT_PROJECT,
) -> tuple[LlvmRelease, list[Python]]:
    """The first release that CPythons here can run, and these CPythons.

    :param project: whose sources the facts are read from
    :param wanted: versions or paths of CPythons to use instead of those that fit
    :raises UsageError: ``python-missing``, with the reason for each CPython
    """
    from mlir_release.ground.python.pythons import find_pythons

    refusals: list[str] = []
    for release, source in available:
        found = find_pythons(wanted) if wanted else _fitting_pythons(source.facts, find_project(project), refusals)
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


def _fitting_pythons(facts: LlvmFacts, project: Project, refusals: list[str]) -> list[Python]:
    """The running CPython and the newest other one that upstream's requirements, and its tests', have wheels for.

    If they have for none, those that the requirements with the shipped overrides have wheels for.
    """
    from mlir_release.ground.python.pythons import describe, find_pythons
    from mlir_release.ground.python.resolver import WantedPlace, resolve
    from mlir_release.release.pinning.installable import with_tests

    current, oldest = describe(Path(sys.executable)), CPython.parse(facts.minimum_python)
    candidates = [python for python in find_pythons() if python.cpython.release >= oldest.release]
    candidates.sort(key=lambda python: python.cpython != current.cpython)
    required = facts.runtime_requirements if project.has_requirements else ()
    relaxed = wheel_requirements(required, shipped_overrides()) if project.has_requirements else ()
    for requirements in dict.fromkeys((required, relaxed)):
        fitting: list[Python] = []
        for python in candidates:
            answer = resolve(
                with_tests(requirements, project.test_requirements), WantedPlace(python.cpython, PlatformTag.of_host())
            )
            if answer.installable is False:
                refusals.append(f"{python.cpython}: {answer.why}")
                continue
            fitting.append(python)
            if len(fitting) == DEFAULT_PYTHONS:
                break
        if fitting:
            return fitting
    return []


def choose_profiles(projects: Sequence[str], profiles: Sequence[str]) -> Released:
    """The profiles of each project: those of its own among the ones that are asked for, or else its first.

    :raises UsageError: ``option-invalid``: there is no such project, or none of them has a profile
    """
    found = {name: find_project(name) for name in dict.fromkeys(projects)}
    known = {profile for project in found.values() for profile in project.profiles}
    for profile in profiles:
        if profile not in known:
            raise UsageError(
                "option-invalid",
                f"no profile of {' and '.join(found)} is called {profile!r}",
                remedy=alternatives(profile, sorted(known)),
            )
    return {
        name: tuple(dict.fromkeys(profile for profile in profiles if profile in project.profiles))
        or tuple(project.profiles)[:1]
        for name, project in found.items()
    }


def make_upstream(folder: Path, newest: LlvmRelease, trees: Mapping[str, Path]) -> LlvmRelease:
    """A repository with a commit for ``newest`` after those of older releases; returns the one before that.

    The older ones are the catalogue's. The commits are the same on every machine and in every run. Each represents a
    release by its version, and has llvm-project's own commit, where that is known, in a trailer. The newest, which
    will be released, has the release's own files as far as facts are read from them.

    :param trees: the sources of ``newest``, as far as an SDK of each of these projects carries them
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
            # As far as SDKs carry them: the commit is the same if a tree has more.
            files |= {
                path: read_document(tree / path)
                for project, tree in trees.items()
                for path in fact_files()
                if any(path == name or path.startswith(f"{name}/") for name in recipe_of(project).kept_sources)
                if (tree / path).is_file()
            }
        parent = commit_files(git, parent, files, message, signature)
        ref = f"refs/tags/{upstream_tag(release.version)}"
        git.update_ref(ref, parent, expected=git.resolve(ref) or NO_OBJECT)
    assert parent is not None
    git.update_ref("refs/heads/main", parent, expected=git.resolve("refs/heads/main") or NO_OBJECT)
    return chain[-2] if len(chain) > 1 else chain[-1]


def make_forge(workspace: Path, older: LlvmRelease, pythons: Sequence[Python], released: Released) -> LocalForge:
    """The local forge, initially pinned at ``older``, with these CPythons and profiles in its matrix."""
    from mlir_release.release.forge.local.forge import LocalForge

    upstream = workspace / "upstream.git"
    pin = Git(upstream).resolve(f"refs/tags/{upstream_tag(older.version)}")
    assert pin is not None
    targets = make_targets(str(upstream), pythons, released)
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
    upstream: str, pythons: Sequence[Python], released: Released, *, runner: str = "this machine"
) -> bytes:
    """A ``targets.toml`` for this machine: its platform, these CPythons, the shipped overrides, everything required.

    :param released: the profiles of each project
    """
    import tomli_w

    platform = Platform.of_host()
    rows: dict[str, tuple[Project, str]] = {}
    for name, profiles in released.items():
        project = find_project(name)
        rows |= {project.profile(profile).distribution: (project, profile) for profile in profiles}

    def table(project: Project, profile: str) -> dict[str, str]:
        own = {} if project.name == DEFAULT_PROJECT else {"project": project.name}
        return {"distribution": project.profile(profile).distribution, "profile": profile, **own}

    def suites(project: Project, profile: str) -> list[str]:
        if project.profile(profile).makes == "sdk":
            return [SDK_SUITE]
        return [suite for suite in SUITES_TRIED if suite in project.suites]

    overrides = shipped_overrides() if any(project.has_requirements for project, _ in rows.values()) else ()
    data = {
        "schema": 1,
        "release": {"upstream": upstream},
        "llvm": {name: table(*row) for name, row in rows.items()},
        "runtime": {
            str(platform): {
                "os": platform.os, "arch": platform.arch, "runner": runner,
                "pythons": [python.cpython.tag for python in pythons],
                "floor": PlatformTag.of_host().floor,
            }
        },
        "target": [
            {"llvm": name, "runtime": str(platform), "required": True, "suites": suites(*row)}
            for name, row in rows.items()
        ],
        "requires": {row.name: {"specifier": row.specifier, "reason": row.reason} for row in overrides},
    }  # fmt: skip
    return tomli_w.dumps(data).encode()
