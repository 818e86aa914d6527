"""S21: what may stand above upstream's commit where a project's fork is released, and who may leave it unsaid."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import commit_files
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.index.generate import generate
from mlir_release.release.judging.signed import AS_DECLARED
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_index import parse_index
from mlir_release.release.model.release_tags import parse_release_tag
from mlir_release.release.pinning.state import find_state, tag_message
from mlir_release.release.pypi.publish import Destination, prepared
from mlir_release.release.transaction.attest import attest_release
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.sweep import sweep
from mlir_release.use.find import Origin, find
from tests.attacks.carried_stage import EXPORT, NAME, PICK, REVERT, TEST, Carrying, bare
from tests.attacks.selected_stage import ADA, FACTS, NOW, TAG, TREE, VERSION
from tests.github_server import GitHubServer
from tests.pin_factory import make_pin
from tests.project_factory import Repository
from tests.refusals import refused
from tests.revision_factory import UPSTREAM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mlir_release.release.model.stack import CarriedStack


@pytest.fixture
def carrying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Carrying:
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    upstream, fork = bare(tmp_path / "llvm-project"), bare(tmp_path / "fork")
    commit = commit_files(upstream, None, TREE, "[mlir] Begin\n", ADA)
    upstream.run("update-ref", "refs/heads/main", commit)
    return Carrying(tmp_path, upstream, fork, (str(upstream.directory), str(fork.directory)))


@pytest.fixture
def on_github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_waiting: None) -> Iterator[Carrying]:
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    with GitHubServer(tmp_path / "github") as server:
        for name, value in server.environment("acme/releases", server.token()).items():
            monkeypatch.setenv(name, value)
        names = (UPSTREAM, "acme/llvm-project")
        upstream, fork = (Git(server.add_repository(name, TREE)) for name in names)
        first, second = (f"{server.url}/{name}.git" for name in names)
        yield Carrying(tmp_path, upstream, fork, (first, second))


@pytest.fixture(params=["carrying", "on_github"])
def either(request: pytest.FixtureRequest) -> Carrying:
    found: Carrying = request.getfixturevalue(request.param)
    return found


def listed(stack: CarriedStack | None) -> list[tuple[str, str, str, str]]:
    assert stack is not None
    return [(each.commit, each.kind, each.origin, each.reason) for each in stack.commits]


def test_a_stack_is_listed_with_origins_and_reasons(either: Carrying) -> None:
    stack = either.stack(either.tip)
    assert stack is not None
    assert (stack.base, stack.upstream) == (either.base, either.addresses[0])
    rows = [(sha, *ledger.values()) for sha, ledger in ((either.revert, REVERT), (either.tip, PICK))]
    assert listed(stack) == rows
    assert stack.commits[1].subject == "[mlir] Better @loops (#8)"


def test_upstreams_own_commit_carries_nothing(either: Carrying) -> None:
    assert either.stack(either.base) is None
    assert either.select(either.base) == either.base


OUTSIDE = "does not lead to"


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda it: it.commit(it.tip, "Not exported"), OUTSIDE),
        (lambda it: it.commit(it.base, "A patch beside the stack"), OUTSIDE),
        (lambda it: it.merge(it.tip, it.commit(it.base, "Anything")), "is a merge"),
        (lambda it: it.commit(it.merge(it.tip, it.commit(it.base, "Anything")), "On a merge"), "is a merge"),
        (lambda it: it.merge(it.tip, it.land(), of=it.tip), "is a merge"),
    ],
    ids=["on top", "beside", "a merge", "above a merge", "a merge of upstream's newest"],
)
def test_what_is_no_exported_line_of_commits_is_refused(
    either: Carrying, make: Callable[[Carrying], str], what: str
) -> None:
    sha = make(either)
    if what != OUTSIDE:
        either.export(sha)
    error = refused(lambda: either.stack(sha), "revision-not-upstream")
    assert what in f"{error.what} {error.why}"


def test_another_branch_of_the_fork_does_not_count(either: Carrying) -> None:
    sha = either.commit(either.tip, "On a branch that anyone may push")
    either.fork.run("update-ref", "refs/heads/anyone", sha)
    either.fork.run("update-ref", "refs/heads/release/22.x", sha)
    assert OUTSIDE in refused(lambda: either.select(sha), "revision-not-upstream").what
    assert refused(lambda: either.select("anyone"), "revision-not-upstream").id


def test_a_base_that_is_not_upstreams_is_refused(carrying: Carrying) -> None:
    """Its history begins elsewhere, or upstream dropped the branch that it was on."""
    other = commit_files(carrying.fork, None, TREE, "[mlir] Begin otherwise\n", ADA)
    carrying.export(carrying.commit(other, "A patch"))
    assert "shares no history" in refused(lambda: carrying.select(), "revision-not-upstream").why
    gone = carrying.commit(carrying.base, "[mlir] On a branch that upstream deleted")
    tip = carrying.commit(gone, "A patch on it", PICK)
    carrying.export(tip)
    stack = carrying.stack(tip)  # it is none of upstream's, so it is listed as carried
    assert [each.commit for each in stack.commits] == [gone, tip] if stack else False


def test_a_stack_longer_than_configured_is_refused(either: Carrying) -> None:
    either.configure(**{"most-carried": 1})
    assert "most-carried is 1" in refused(lambda: either.select(), "revision-not-upstream").why
    either.configure(**{"most-carried": 2})
    assert either.select() == either.tip


def test_files_that_judge_the_wheels_are_listed_with_the_commit_that_changes_them(either: Carrying) -> None:
    """Reverts and picks bring tests along, so a commit that changes them is not refused: readers are told."""
    requirements = "mlir/python/requirements.txt"
    tip = either.commit(either.tip, "Weaken", files={"mlir/test/lit.cfg.py": b"pass", requirements: b"evil", "x": b"1"})
    many = either.commit(tip, "Many", files={f"mlir/test/{number:02}.mlir": b"" for number in range(12)})
    either.export(many)
    stack = either.stack(many)
    assert stack is not None
    judges = [each.judges for each in stack.commits[:3]]
    assert judges == [(TEST,), (), ("mlir/python/requirements.txt", "mlir/test/lit.cfg.py")]
    assert len(stack.commits[3].judges) == 10
    assert stack.commits[3].judges[-1] == "3 other files"
    assert "changes mlir/test/python/loops.py" in stack.lines()[0]


def test_the_branch_shows_the_newest_stack_and_not_the_splice(carrying: Carrying) -> None:
    again = carrying.commit(carrying.land(), "Revert loops", REVERT)
    splice = carrying.merge(again, carrying.tip)
    carrying.export(carrying.merge(splice, carrying.revert))
    assert carrying.select("head") == carrying.select(EXPORT) == again
    assert "is a merge" in refused(lambda: carrying.select(splice), "revision-not-upstream").why
    assert carrying.select(carrying.tip) == carrying.tip  # which was exported before


# -- what is said of it -----------------------------------------------------------------------------------------------


def test_a_release_says_what_it_carries(carrying: Carrying) -> None:
    begun = carrying.snapshot()
    assert begun.revision == carrying.tip
    stack, state = carrying.stack(carrying.tip), find_state(carrying.forge, begun.tag)
    assert state.stack == stack
    manifest = publish(carrying.fill(begun.tag, begun.wheel_version, begun.revision)).manifest
    assert manifest.stack == stack
    release = carrying.forge.published(begun.tag)
    assert release is not None
    for text in (f"upstream's `{carrying.base[:12]}` with 2 carried patches", "revert of #", "is imported as mlir"):
        assert text in release.body.replace("\u200b", "")
    assert "@acme" not in release.body  # it mentions nobody
    generate(carrying.forge, carrying.folder / "site", base_url="https://pages.example/")
    index = parse_index((carrying.folder / "site/index.json").read_bytes())
    assert [row.stack for row in index.releases] == [stack]
    page = (carrying.folder / f"site/snapshots/{begun.tag}/index.html").read_text()
    for text in (carrying.base[:12], carrying.revert[:12], "revert of #7", f"<code>{TEST}</code>", "imported as mlir"):
        assert text in page


def test_a_release_is_found_by_its_own_commit_and_by_upstreams(carrying: Carrying) -> None:
    begun = carrying.snapshot()
    publish(carrying.fill(begun.tag, begun.wheel_version, begun.revision))
    gone = carrying.upstream.directory.rename(carrying.folder / "out of reach")
    for asked, distance in ((carrying.tip, "same commit"), (carrying.base, "same commit, and 2 carried on it")):
        found = find(Origin.of(carrying.forge), asked)
        assert (found.need().tag, [match.distance for match in found.matches]) == (begun.tag, [distance])
        told = [line for line in found.notes if "Revert loops (revert of #7): it breaks" in line]
        assert len(told) == 1
        assert found.matches[0].to_json()["stack"] == found.need().row.stack
    gone.rename(carrying.upstream.directory)
    plain = carrying.snapshot(carrying.base)
    publish(carrying.fill(plain.tag, plain.wheel_version, plain.revision))
    assert find(Origin.of(carrying.forge), carrying.base).need().tag == plain.tag


def test_the_pin_of_the_project_is_taken_with_its_patches(carrying: Carrying) -> None:
    project = Repository(carrying.folder / "acme", {PIN_FILE: f"{carrying.tip}\n".encode()})
    assert carrying.select(f"pin-of:{project.url}") == carrying.tip
    ahead = carrying.commit(carrying.tip, "Pinned before it was exported")
    project.commit("Pin", {PIN_FILE: f"{ahead}\n".encode()})
    error = refused(lambda: carrying.select(f"pin-of:{project.url}"), "revision-not-upstream")
    assert "mlir-release integrate" in error.remedy


def test_a_numbered_release_with_patches_goes_to_no_index_whatever_the_configuration_says(carrying: Carrying) -> None:
    begun = carrying.snapshot(version="23.1.1")
    publish(carrying.fill(begun.tag, begun.wheel_version, begun.revision))
    to = Destination(repository_url="http://127.0.0.1:9/legacy/")
    refused(lambda: prepared(carrying.forge, begun.tag, to, AS_DECLARED).__enter__(), "pypi-unsuitable")


@pytest.mark.parametrize("row", ["Stack-1", "Stack-2", "Stack-Base", ""])
def test_a_tag_that_says_something_else_is_neither_built_nor_published(carrying: Carrying, row: str) -> None:
    stack = carrying.stack(carrying.tip)
    message = tag_message(
        parse_release_tag(TAG), revision=carrying.tip, request_id="by-hand", wheel_version=VERSION, facts=FACTS,
        stack=stack,
    )  # fmt: skip
    lines = [line for line in message.splitlines() if not line.startswith(row or "Stack-")]
    carrying.forge.create_tag(TAG, make_pin(carrying.forge, carrying.tip), "\n".join(lines) + "\n")
    carrying.forge.create_draft(TAG, title=TAG, body="", prerelease=True)
    refused(lambda: Draft.load(carrying.forge, TAG).missing_rows("wheels"), "tag-foreign")
    refused(lambda: publish(Draft.load(carrying.forge, TAG)), "tag-foreign")
    later = LocalForge(carrying.forge.root, clock=lambda: NOW + timedelta(hours=4), identity="Ada <a@example.org>")
    assert [error.id for error in sweep(later, branch="main").failures] == ["tag-foreign"]


def test_a_manifest_that_leaves_one_out_is_not_signed(carrying: Carrying) -> None:
    begun = carrying.snapshot()
    manifest = publish(carrying.fill(begun.tag, begun.wheel_version, begun.revision), dry_run=True).manifest
    assert manifest.stack is not None
    place = carrying.folder / "manifest" / "release.json"
    place.parent.mkdir()

    def signed() -> object:
        return attest_release(
            carrying.forge, begun.tag, place.parent, carrying.folder / "out", kinds=["manifest"], branch="main"
        )

    place.write_text(manifest.to_text())
    refused(signed, "needs-github")  # there is nothing else to be said against it
    fewer = structs.replace(manifest.stack, commits=manifest.stack.commits[1:])
    for stack in (fewer, structs.replace(manifest.stack, base="f" * 40), None):
        place.write_text(structs.replace(manifest, stack=stack).to_text())
        refused(signed, "tampered")


# -- the names of the wheels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mlir", "mlir-core", "mlir-full", "mlir-asserts", "llvm-libclang"])
def test_wheels_with_patches_never_have_upstreams_names(carrying: Carrying, name: str) -> None:
    error = refused(lambda: Matrix.parse(carrying.targets(name=name)), "config-invalid")
    assert "as upstream's wheels are called" in error.why


def test_they_never_go_to_pypi(carrying: Carrying) -> None:
    assert "never go to PyPI" in refused(lambda: Matrix.parse(carrying.targets(pypi=[NAME])), "config-invalid").why
    assert Matrix.parse(carrying.targets()).on_pypi == ()
