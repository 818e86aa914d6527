"""The LLVM that another project pins, from real repositories of the forms that those projects have."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.errors import MachineError
from mlir_release.ground.git.repository import Git
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.ground.llvm.recogniser import RecognisedProject
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.model.release_settings import ReleaseConfig
from mlir_release.release.pinning.green import select
from mlir_release.release.pinning.pin_of import pin_of
from mlir_release.release.pinning.reachable import base_of
from tests.project_factory import STABLEHLO, TORCH_MLIR, XLA, Repository, gitmodules
from tests.refusals import refused
from tests.release_stage import TARGETS
from tests.revision_factory import LLVM_TREE, UPSTREAM
from tests.wheel_factory import REVISION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mlir_release.release.pinning.pin_of import ProjectPin
    from tests.github_server import GitHubServer

NO_COMMIT = "0123456789" * 4


class World:
    """Upstream with three commits and a release branch, its fork with two patches, and projects."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        requirements = LLVM_TREE["mlir/python/requirements.txt"].partition(b"# RUN")[0]  # no index is asked
        self.upstream = Repository(folder / "llvm-project", {**LLVM_TREE, "mlir/python/requirements.txt": requirements})
        self.first = self.upstream.head
        self.second = self.upstream.commit("[mlir] Second")
        self.third = self.upstream.commit("[mlir] Third")
        shutil.copytree(folder / "llvm-project", folder / "fork" / "llvm-project")
        self.fork = Repository.__new__(Repository)
        self.fork.git, self.fork.days, self.fork.head = Git(folder / "fork" / "llvm-project"), 10, self.third
        self.patches = [
            self.fork.commit("Carry a patch", {"a": b"1"}, on=self.second, branch="ours"),
            self.fork.commit("Carry \x1b[31m::error::another", {"b": b"2"}, branch="ours"),
        ]
        self.patched = self.patches[-1]

    def project(self, name: str, files: Mapping[str, bytes | str]) -> Repository:
        made = Repository(self.folder / name)
        made.commit("Begin", files)
        return made

    def torch_mlir(self, pin: str, url: str = "https://github.com/llvm/llvm-project.git") -> Repository:
        return self.project("torch-mlir", {TORCH_MLIR: pin, ".gitmodules": gitmodules({TORCH_MLIR: url})})

    def ask(self, policy: str, *, exact: bool = False) -> ProjectPin:
        cache = self.folder / "cache"
        upstream = Upstream(self.upstream.url, cache=cache)
        return pin_of(f"pin-of:{policy}", upstream, exact=exact, cache=cache)


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture
def world(repositories: World, tmp_path: Path) -> World:
    """Projects and the cache are the test's own."""
    repositories.folder = tmp_path
    return repositories


def bazel(*commits: str) -> bytes:
    rows = "".join(f'    LLVM_COMMIT = "{commit}"\n' for commit in commits)
    return f'def repo(name):\n{rows}    LLVM_SHA256 = "{"ab" * 32}"\n'.encode()


# -- the forms of a pin -----------------------------------------------------------------------------------------------


def test_a_submodule_is_recognised_by_its_address(world: World) -> None:
    project = world.torch_mlir(world.second)
    found = world.ask(project.url)
    assert (found.pin, found.revision, found.carried) == (world.second, world.second, ())
    assert (found.commit, found.path) == (project.head, TORCH_MLIR)


@pytest.mark.parametrize("path", [STABLEHLO, XLA, PIN_FILE, "cmake/llvm-hash.txt", "llvm_commit"])
def test_a_file_is_recognised_by_its_name(world: World, path: str) -> None:
    content = bazel(world.second) if path == XLA else f"{world.second}\n".encode()
    project = world.project("stablehlo", {path: content, "README.md": b"a" * 40})
    found = world.ask(project.url)
    assert (found.revision, found.path) == (world.second, path)


def test_a_file_that_names_other_projects_commits_too_is_read_by_its_form(world: World) -> None:
    deps = bazel(world.second) + f'  TORCH_MLIR_COMMIT = "{world.first}"\n'.encode()
    assert world.ask(f"{world.project('tcp', {'deps.bzl': deps}).url}#deps.bzl").revision == world.second
    info = f'{{"llvm_hash": "{world.second}", "sha256sum": {{"x": "{"ab" * 32}"}}}}'.encode()
    assert world.ask(world.project("triton", {"cmake/llvm-info.json": info}).url).revision == world.second
    twice = world.project("twice", {"deps.bzl": bazel(world.first, world.second)})
    refused(lambda: world.ask(f"{twice.url}#deps.bzl"), "pin-invalid")


def test_an_abbreviated_pin_is_looked_for_upstream(world: World) -> None:
    wheels = f'dependencies = ["mlir-python-bindings==20261102+{world.second[:9]}"]'.encode()
    found = world.ask(world.project("lighthouse", {"pyproject.toml": wheels}).url)
    assert (found.pin, found.revision) == (world.second[:9], world.second)
    gone = world.project("gone", {"pyproject.toml": wheels.replace(world.second[:9].encode(), b"0123456789ab")})
    refused(lambda: world.ask(gone.url), "revision-unknown", "names no commit of the last half year")


def test_a_person_can_name_the_submodule_or_the_file(world: World) -> None:
    project = world.project("other", {"deps/a": world.first, "deps/b.txt": world.second.encode()})
    assert world.ask(f"{project.url}#deps/a").revision == world.first
    assert world.ask(f"{project.url}#deps/b.txt").revision == world.second


def test_known_projects_need_no_recognition(world: World) -> None:
    """Their names stand for GitHub; where they moved their pin, it is recognised."""
    assert RecognisedProject("openxla/stablehlo", cache=world.folder).url == "https://github.com/openxla/stablehlo.git"
    project = world.project("stablehlo", {STABLEHLO: world.first.encode(), "llvm_version.txt": world.second.encode()})
    refused(lambda: world.ask(project.url), "pin-invalid", "in several places")
    moved = world.project("moved", {"llvm_version.txt": world.third.encode()})

    class Known(RecognisedProject):
        def known(self) -> dict[str, str]:
            return {project.url: STABLEHLO, moved.url: STABLEHLO}

    for url, pin in ((project.url, world.first), (moved.url, world.third)):
        known = Known(url, cache=world.folder / "cache")
        known.have([known.commit("")])
        assert known.pin(known.commit("")) == pin


# -- its refs ---------------------------------------------------------------------------------------------------------


def test_a_ref_can_be_a_branch_a_tag_a_commit_an_abbreviation_or_a_time(world: World) -> None:
    project = world.torch_mlir(world.first)  # on 1 November
    first = project.head
    project.git.run("update-ref", "refs/tags/v1", first)
    second = project.commit("Bump LLVM", {TORCH_MLIR: world.second})
    project.commit("Try", {TORCH_MLIR: world.third}, branch="work")
    for ref, expected in (
        ("", world.second),
        ("main", world.second),
        ("work", world.third),
        ("v1", world.first),
        (first, world.first),
        (second[:8], world.second),
        ("before:2026-11-02T11:59Z", world.first),
        ("before:2026-11-02T13:00:00+00:00", world.second),
        ("before:2026-11-02", world.first),
    ):
        assert world.ask(project.url + f"@{ref}" * bool(ref)).revision == expected, ref


@pytest.mark.parametrize(
    ("ref", "id"),
    [
        ("nothing", "revision-unknown"),
        ("abcdef1", "revision-unknown"),
        (NO_COMMIT, "revision-unknown"),
        ("before:2026-10-01", "revision-unknown"),
        ("before:yesterday", "option-invalid"),
    ],
)
def test_a_ref_that_is_not_there(world: World, ref: str, id: str) -> None:
    project = world.torch_mlir(world.first)
    refused(lambda: world.ask(f"{project.url}@{ref}"), id)


# -- pins that are not upstream's --------------------------------------------------------------------------------------


def test_a_fork_is_resolved_to_what_it_is_based_on(world: World) -> None:
    (world.folder / "fork").symlink_to(world.fork.git.directory.parent)
    project = world.torch_mlir(world.patched, "../fork/llvm-project")
    found = world.ask(project.url)
    assert (found.pin, found.revision) == (world.patched, world.second)
    assert [each.sha for each in found.carried] == world.patches
    assert [each["subject"] for each in found.to_json()["carried"]] == [  # type: ignore[attr-defined]
        "Carry a patch",
        "Carry ::error::another",
    ]
    error = refused(lambda: world.ask(project.url, exact=True), "revision-not-upstream")
    assert all(sha[:12] in error.why for sha in world.patches)
    assert world.second in error.remedy
    project.commit("Integrate", {TORCH_MLIR: world.third})
    assert world.ask(project.url, exact=True).revision == world.third


def test_a_fork_that_merges_upstream_is_based_on_the_newest_merged_commit(world: World) -> None:
    git = world.fork.git
    tree = git.text("rev-parse", f"{world.patched}^{{tree}}")
    merge = git.text("commit-tree", tree, "-p", world.patched, "-p", world.third, "-m", "Merge", env=identity())
    git.run("update-ref", "refs/heads/ours", merge)
    found = world.ask(world.torch_mlir(merge, world.fork.url).url)
    assert found.revision == world.third
    assert {each.sha for each in found.carried} == {*world.patches, merge}


def identity() -> dict[str, str]:
    return {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def test_only_commits_are_fetched_of_the_fork(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing more is read where git's first branch has upstream's name, so that there is a HEAD."""
    for name, value in (("COUNT", "1"), ("KEY_0", "init.defaultBranch"), ("VALUE_0", "main")):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    world.ask(world.torch_mlir(world.patched, world.fork.url).url)
    (history,) = (world.folder / "cache" / "revisions").glob("*.history")
    kinds = Git(history).text("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
    assert set(kinds) == {"commit"}


def test_a_pin_that_nobody_has(world: World) -> None:
    project = world.torch_mlir(NO_COMMIT, world.fork.url)
    error = refused(lambda: world.ask(project.url), "commit-unreachable", NO_COMMIT)
    assert isinstance(error, MachineError)
    assert world.fork.url in error.where


def test_a_pin_without_a_common_history(world: World) -> None:
    other = Repository(world.folder / "other" / "llvm-project", {"a": b"1"})
    error = refused(lambda: world.ask(world.torch_mlir(other.head, other.url).url), "revision-not-upstream")
    assert "shares no history" in error.why


def test_a_fork_with_a_history_of_its_own(world: World) -> None:
    upstream = Upstream(world.upstream.url, cache=world.folder / "cache")
    error = refused(lambda: base_of(upstream, world.patched, fork=world.fork.url, most=1), "revision-not-upstream")
    assert "more than 1 commits" in error.why


@pytest.mark.parametrize(
    "url", ["ext::touch {}/made", "--upload-pack=touch {}/made", "http://example.org/x", "ftp://x/y"]
)
def test_an_address_of_an_odd_kind_is_not_contacted(world: World, url: str) -> None:
    """It is the project's word, and it matters only where upstream does not have the pin."""
    project = world.torch_mlir(world.patched, url.format(world.folder) + "/llvm-project")
    error = refused(lambda: world.ask(f"{project.url}#{TORCH_MLIR}"), "commit-unreachable")
    assert error.where == world.upstream.url
    assert not (world.folder / "made").exists()


def test_github_is_asked_where_a_pin_was_forked(github: GitHubServer, tmp_path: Path) -> None:
    """Forks share objects with upstream there; neither a history nor the fork itself is fetched."""
    git = github.repositories[UPSTREAM].git
    upstream = Repository.__new__(Repository)
    upstream.git, upstream.days, upstream.head = git, 0, git.text("rev-parse", "refs/heads/main")
    old = upstream.head
    released = upstream.commit("[mlir] Release", on=old, branch="release/22.x")
    upstream.commit("[mlir] Newer", on=old)
    main = upstream.head
    patches = [upstream.commit(f"Patch {number}", on=released if number == 0 else "", branch="") for number in range(2)]
    remote = Upstream(f"{github.url}/{UPSTREAM}.git", cache=tmp_path / "cache")
    for sha, expected, carried, requests in (
        (main, main, [], 0),
        (old, old, [], 1),
        (patches[-1], released, patches, 3),  # two branches are compared; the commits are listed
    ):
        github.requests.clear()
        found = base_of(remote, sha)
        assert (found.sha, [each.sha for each in found.carried]) == (expected, carried)
        assert len([record for record in github.requests if record.operation]) == requests
    assert [each.subject for each in found.carried] == ["Patch 0", "Patch 1"]
    assert not list((tmp_path / "cache" / "revisions").glob("*.history"))


# -- projects that can't be used ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "said", "why"),
    [
        ({"README.md": b"a" * 40}, "shows no pin", "nothing that looks like a pin"),
        ({STABLEHLO: b"a" * 40 + b"\n" + b"b" * 40}, "shows no pin", "does not hold a full commit"),
        ({STABLEHLO: b"abc\x1b[31m\n"}, "shows no pin", "does not hold a full commit"),
        ({STABLEHLO: b"\xff" * 50_000}, "shows no pin", "does not hold a full commit"),
        ({".gitmodules": b'[submodule "x\n', "x": "a" * 40}, "shows no pin", "nothing that looks like a pin"),
        (
            {
                ".gitmodules": gitmodules({"a": "https://x/llvm-project", "b": "../llvm-project.git"}),
                **dict.fromkeys("ab", "a" * 40),
            },
            "in several places",
            "a says aaa",
        ),
        ({".gitmodules": gitmodules({"a": "https://x/llvm-project"}), "b": "a" * 40}, "shows no pin", "lists a"),
    ],
)
def test_a_project_without_a_pin(world: World, files: dict[str, bytes | str], said: str, why: str) -> None:
    project = world.project("other", files)
    error = refused(lambda: world.ask(project.url), "pin-invalid", said)
    assert why in error.why
    assert project.url in error.where
    assert "#PATH" in error.remedy


def test_a_project_that_is_not_there(world: World) -> None:
    error = refused(lambda: world.ask(f"{world.folder}/nothing"), "network-failed", "the project repository")
    assert "pin-of:" in error.remedy
    empty = Repository(world.folder / "empty")
    refused(lambda: world.ask(empty.url), "revision-unknown", "has no commit")


@pytest.mark.parametrize(
    "policy",
    ["", "torch-mlir", "-x/y", "--upload-pack=x", "a/b@", "a/b@-x", "a/b#", "a/b#/etc/passwd", "a/b/c", "x::y"],
)
def test_a_policy_that_can_not_be_read(world: World, policy: str) -> None:
    refused(lambda: world.ask(policy), "option-invalid")


# -- commands ---------------------------------------------------------------------------------------------------------


def run(*words: str) -> dict[str, object]:
    done = CliRunner().invoke(app, [*words, "--json"], standalone_mode=False, catch_exceptions=False)
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_a_snapshot_of_what_a_project_pins(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    targets = TARGETS.replace("https://github.com/llvm/llvm-project.git", world.upstream.url)
    assert targets != TARGETS
    files = {PIN_FILE: f"{REVISION}\n".encode(), "targets.toml": targets.encode()}
    forge = LocalForge.create(tmp_path / "forge", files, identity="Ada <ada@example.org>")
    policy = f"pin-of:{world.torch_mlir(world.patched, world.fork.url).url}"
    command = ("snapshot", "--forge", f"local:{forge.root}", "-n", "--policy")
    refused(lambda: run(*command, policy, "--exact"), "revision-not-upstream")
    refused(lambda: run(*command, "head", "--exact"), "option-invalid")
    planned = run(*command, policy)
    assert planned["revision"] == world.second
    found = planned["pin_of"]
    assert isinstance(found, dict)
    assert [each["commit"] for each in found["carried"]] == world.patches
    assert any("won't have" in str(note) for note in planned["notes"])  # type: ignore[attr-defined]
    assert not forge.tags()
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name, content in files.items():
        (checkout / name).write_bytes(content)
    assert run("pin", "set", policy, "-C", str(checkout))["revision"] == world.second
    assert (checkout / PIN_FILE).read_text().strip() == world.second
    config = ReleaseConfig(upstream=world.upstream.url)
    explained: list[object] = []
    assert select(config, policy, explain=explained.append).sha == world.second
    assert len(explained) == 1
