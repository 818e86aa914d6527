"""The steps of release-toolkit.yml: what may not be released is refused, and each step can be repeated."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import mlir_release
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.git.repository import Git
from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.pypi.project import IndexFile, IndexProject
from tests.attacks.hostile_repository import git
from tests.github_stage import GitHubStage
from tests.refusals import refused
from tests.serving import serve
from tools.toolkit_release import PROJECT, check_tag, lacking, main, parse_digests, publish, read_notes, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from mlir_release.release.forge.base import Forge

VERSION = mlir_release.__version__
TAG = f"v{VERSION}"
NAMES = (f"mlir_release-{VERSION}-py3-none-any.whl", f"mlir_release-{VERSION}.tar.gz")


# -- the tag ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of a repository with two commits on main, and one on a branch beside it."""
    origin, folder = tmp_path / "origin", tmp_path / "clone"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(origin))
    for message in ("one", "two"):
        git(origin, "commit", "--quiet", "--allow-empty", "-m", message)
    git(origin, "switch", "--quiet", "-c", "aside")
    git(origin, "commit", "--quiet", "--allow-empty", "-m", "three")
    git(tmp_path, "clone", "--quiet", str(origin), str(folder))
    return folder


def tag(clone: Path, name: str, at: str, message: str = "") -> str:
    """Make a tag and check it out, as a workflow does."""
    git(clone, "tag", *(("-a", "-m", message) if message else ()), name, at)
    git(clone, "checkout", "--quiet", name)
    return git(clone, "rev-parse", "HEAD")


@pytest.mark.parametrize("message", ["", "annotated"])
@pytest.mark.parametrize("at", ["origin/main", "origin/main~1"])
def test_a_tag_of_a_commit_of_main_is_released(clone: Path, at: str, message: str) -> None:
    commit = tag(clone, TAG, at, message)
    assert check_tag(Git(clone), TAG, "main") == commit


@pytest.mark.parametrize(
    ("name", "at", "version", "why"),
    [
        (TAG, "origin/aside", VERSION, "main does not lead to"),
        ("v0.0.7", "origin/main", VERSION, f"so its tag is {TAG}"),
        (VERSION, "origin/main", VERSION, f"so its tag is {TAG}"),
        ("v1.0.0-rc1", "origin/main", "1.0.0-rc1", "PEP 440"),
        ("v1.0.0.dev1", "origin/main", "1.0.0.dev1", "PEP 440"),
        ("v1.0.0+local", "origin/main", "1.0.0+local", "PEP 440"),
    ],
)
def test_any_other_tag_is_not(clone: Path, name: str, at: str, version: str, why: str) -> None:
    tag(clone, name, at)
    error = refused(lambda: check_tag(Git(clone), name, "main", version=version), "release-unsuitable")
    assert why in error.why


def test_nor_is_a_tag_that_is_not_checked_out_or_a_branch_that_is_not_there(clone: Path) -> None:
    tag(clone, TAG, "origin/main")
    assert "main does not lead" not in refused(lambda: check_tag(Git(clone), TAG, "gone"), "release-unsuitable").why
    git(clone, "checkout", "--quiet", "origin/main~1")
    assert "checked out" in refused(lambda: check_tag(Git(clone), TAG, "main"), "release-unsuitable").why
    git(clone, "tag", "--delete", TAG)
    assert "no commit" in refused(lambda: check_tag(Git(clone), TAG, "main"), "release-unsuitable").why


# -- the notes -------------------------------------------------------------------------------------------------------

CHANGELOG = """# Changelog

## 1.0.1 (2026-12-24)
- One thing, [described](docs/design.md#words).

### For some
- Another.

## 1.0.0 (2026-12-01)
- Old.

## 0.9 (unreleased)
- Not yet.

## 0.8 (2026-01-01)
"""


def test_the_notes_are_the_section_of_the_version_and_their_links_lead_to_its_files() -> None:
    notes = read_notes(CHANGELOG, "1.0.1")
    link = "https://github.com/llvm/mlir-release/blob/v1.0.1/docs/design.md#words"
    assert notes == f"- One thing, [described]({link}).\n\n### For some\n- Another.\n"
    assert read_notes(CHANGELOG, "1.0.0") == "- Old.\n"


@pytest.mark.parametrize("version", ["0.9", "0.8", "1.0", "1.0.1rc1", "2.0.0"])
def test_without_a_finished_section_nothing_is_released(version: str) -> None:
    assert f"## {version} (" in refused(lambda: read_notes(CHANGELOG, version), "config-invalid").remedy


# -- the indexes -----------------------------------------------------------------------------------------------------

DIGESTS = {name: digit * 64 for name, digit in zip(NAMES, "ab", strict=True)}


def project(files: Mapping[str, str], version: str = VERSION) -> IndexProject:
    found = {n: IndexFile(filename=n, sha256=digest, size=1, version=version) for n, digest in files.items()}
    return IndexProject(name=PROJECT, url="https://test.pypi.org/simple/mlir-release/", files=found, owners=None)


def test_what_is_there_with_the_same_digest_is_not_uploaded_again() -> None:
    assert lacking(project({}), DIGESTS) == list(NAMES)
    assert lacking(project({NAMES[0]: "a" * 64}), DIGESTS) == [NAMES[1]]
    assert lacking(project(DIGESTS), DIGESTS) == []
    assert lacking(project({"mlir_release-0.1.whl": "c" * 64}, "0.1"), DIGESTS) == list(NAMES)


@pytest.mark.parametrize(
    "there",
    [
        {NAMES[0]: "c" * 64},
        {NAMES[0]: ""},
        {**DIGESTS, f"mlir_release-{VERSION}-cp312-cp312-win_amd64.whl": "c" * 64},  # pip would prefer it
    ],
)
def test_other_files_of_the_version_are_an_error(there: dict[str, str]) -> None:
    error = refused(lambda: lacking(project(there), DIGESTS), "pypi-unsuitable")
    assert next(name for name in there if there[name] != DIGESTS.get(name)) in error.why
    unreadable = replace(project({}), files=project({"mlir-release-x.whl": "c" * 64}, "").files)
    refused(lambda: lacking(unreadable, DIGESTS), "pypi-unsuitable")


def test_an_index_may_lag_behind_but_not_for_ever(tmp_path: Path) -> None:
    waited: list[float] = []
    folder = tmp_path / "simple" / PROJECT
    folder.mkdir(parents=True)

    def later(seconds: float) -> None:
        waited.append(seconds)
        files = [{"filename": n, "url": n, "hashes": {"sha256": DIGESTS[n]}} for n in NAMES[: len(waited)]]
        page = {"meta": {"api-version": "1.0"}, "name": PROJECT, "files": files}
        (folder / "index.json").write_text(json.dumps(page))

    with serve(tmp_path, json=True) as served:
        index = f"{served.url}/simple/"
        wait_for(index, DIGESTS, later)
        assert len(waited) == 2
        (folder / "index.json").unlink()
        refused(lambda: wait_for(index, DIGESTS, waited.append), "pypi-unsuitable")


@pytest.mark.parametrize(
    "text",
    ["", f"{'a' * 64}  {NAMES[0]}", f"{'a' * 64}  {NAMES[0]}\n{'b' * 64}  ../{NAMES[1]}", f"{'a' * 63}  {NAMES[0]}\nx",
     "".join(f"{'a' * 64}  {name}\n" for name in (*NAMES, "more.whl"))],
)  # fmt: skip
def test_digests_of_anything_but_the_two_files_are_refused(text: str) -> None:
    refused(lambda: parse_digests(text), "input-invalid")


def test_digests_are_read_as_sha256sum_prints_them() -> None:
    assert parse_digests("".join(f"{digest}  {name}\n" for name, digest in DIGESTS.items())) == DIGESTS


# -- the release -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["local", "github"])
def forge(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Forge]:
    files = {"README.md": b"toolkit\n"}
    if request.param == "local":
        yield LocalForge.create(tmp_path / "forge", files)
        return
    with GitHubStage(tmp_path, files) as stage:
        yield GitHubForge.open("llvm/mlir-wheels", environ=stage.environment)


@pytest.fixture
def commit(forge: Forge) -> str:
    """The tagged commit."""
    head = forge.head("main")
    assert head is not None
    return forge.create_tag(TAG, head, "The toolkit\n").commit


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_text(f"bytes of {name}")
    return folder


def digests(folder: Path) -> dict[str, str]:
    return {path.name: sha256_of(path) for path in folder.iterdir()}


def test_the_release_has_notes_and_files_and_repeating_it_changes_nothing(
    forge: Forge, commit: str, dist: Path
) -> None:
    files = digests(dist)
    release = publish(forge, TAG, commit, "- A thing.\n", dist, files)
    assert (release.draft, release.prerelease, release.body.strip()) == (False, "rc" in VERSION, "- A thing.")
    assert {asset.name: asset.sha256 for asset in release.assets} == files
    assert publish(forge, TAG, commit, "- A thing.\n", dist, files) == release
    assert len(forge.releases()) == 1


def test_one_that_was_killed_goes_on(forge: Forge, commit: str, dist: Path) -> None:
    draft = forge.create_draft(TAG, title="begun", body="- A thing.\n", prerelease=True)
    forge.upload(draft, NAMES[0], dist / NAMES[0])
    release = publish(forge, TAG, commit, "- A thing.\n", dist, digests(dist))
    assert {asset.name for asset in release.assets} == set(NAMES)
    assert len(forge.releases()) == 1


def test_a_draft_with_other_files_is_not_published(forge: Forge, commit: str, dist: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("somebody's")
    draft = forge.create_draft(TAG, title="begun", body="", prerelease=True)
    forge.upload(draft, NAMES[0], other)
    assert NAMES[0] in refused(lambda: publish(forge, TAG, commit, "", dist, digests(dist)), "release-tampered").why
    assert forge.published(TAG) is None


def test_files_that_another_job_replaced_and_a_tag_that_was_moved_are_not_published(
    forge: Forge, commit: str, dist: Path
) -> None:
    files = digests(dist)
    refused(lambda: publish(forge, TAG, "0" * 40, "", dist, files), "file-damaged", "")
    (dist / "more.whl").write_text("somebody's")
    refused(lambda: publish(forge, TAG, commit, "", dist, files), "file-damaged", "")
    (dist / "more.whl").unlink()
    (dist / NAMES[0]).write_text("somebody's")
    refused(lambda: publish(forge, TAG, commit, "", dist, files), "file-damaged", "")
    assert not forge.releases()


def test_a_failing_step_ends_the_job(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "v0.0.7", "main"]) == 2
    assert "error[release-unsuitable]" in capsys.readouterr().err
    monkeypatch.setenv("DIGESTS", "")
    assert main(["compare", "pypi"]) == 2
