"""Tags of commits that do more than pin are refused, on either forge, each for its own reason."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.git.repository import Git, Signature
from mlir_release.ground.git.trees import GitEntry, commit_tree, make_blob, tree_with
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.model.release_tags import parse_release_tag
from mlir_release.release.pinning.pinned import check_facts
from mlir_release.release.pinning.state import find_state, tag_message
from mlir_release.release.pypi.publish import Destination, publish_to_index
from mlir_release.release.transaction.sweep import sweep
from tests.github_stage import WORKFLOW, GitHubStage
from tests.pin_factory import make_pin
from tests.refusals import refused
from tests.release_stage import WHO, Stage
from tests.wheel_factory import REVISION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from mlir_release.ground.errors import ReleaseError
    from mlir_release.release.forge.base import Forge
    from mlir_release.release.model.pin_commit import PinFacts
    from tests.github_server import GitHubServer

ADA = Signature(name="Ada", email="ada@example.org", when=datetime(2026, 11, 20, 12, tzinfo=UTC))
TAG = "snapshot-20261120.01"
FILES = {
    PIN_FILE: b"a" * 40 + b"\n",
    "targets.toml": b"schema = 1\n",
    "mlir_release/cli/app.py": b"print()\n",
    WORKFLOW: b"on: push\n",
}


def check(forge: Forge) -> PinFacts:
    """Check that the tag only pins; whether upstream has what it pins is another matter."""
    state = find_state(forge, TAG)
    return check_facts(forge.pin_facts(state.commit), state)


@dataclass
class ForgeAndGit:
    """A forge, and the repository below it, in which anything can be made that git can make."""

    forge: Forge
    git: Git
    github: GitHubServer | None = None

    @property
    def main(self) -> str:
        commit = self.git.resolve("refs/heads/main")
        assert commit is not None
        return commit

    def commit(
        self, base: str, parents: Sequence[str], changes: Mapping[str, bytes | GitEntry | None], *, pin: str = REVISION
    ) -> str:
        """The tree of ``base`` with a pin, and with other changes."""
        entries: dict[str, GitEntry | None] = {PIN_FILE: make_blob(self.git, f"{pin}\n".encode())}
        for path, change in changes.items():
            entries[path] = make_blob(self.git, change) if isinstance(change, bytes) else change
        return commit_tree(self.git, tree_with(self.git, base, entries), parents, "Pin\n", ADA)

    def move(self, branch: str, commit: str) -> None:
        self.git.run("update-ref", f"refs/heads/{branch}", commit)

    def develop(self, *paths: str) -> str:
        """A change of ``main``."""
        tree = tree_with(self.git, self.main, {path: make_blob(self.git, b"new\n") for path in paths})
        commit = commit_tree(self.git, tree, [self.main], "Develop\n", ADA)
        self.move("main", commit)
        return commit

    def tagged(self, commit: str) -> PinFacts:
        """Tag a commit as ours, and check the tag."""
        message = tag_message(parse_release_tag(TAG), revision=REVISION, request_id="r", wheel_version="1")
        self.git.run("update-ref", f"refs/tags/{TAG}", self.git.make_tag_object(TAG, commit, message, ADA))
        return check(self.forge)

    def refused(self, commit: str, id: str = "tampered") -> ReleaseError:
        """Tag a commit, and get the error that the check of the tag ends with."""
        return refused(lambda: self.tagged(commit), id)


@pytest.fixture(params=["local", "github"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ForgeAndGit]:
    if request.param == "local":
        forge = LocalForge.create(tmp_path / "forge", FILES, identity="Ada <ada@example.org>")
        yield ForgeAndGit(forge, Git(forge.repository))
        return
    with GitHubStage(tmp_path, FILES) as stage:
        yield ForgeAndGit(stage.forge, stage.repository.git, stage.server)


def test_a_first_pin_commit(place: ForgeAndGit) -> None:
    base = place.main
    pin = place.commit(base, [base], {})
    facts = place.tagged(pin)
    assert (facts.commit, facts.base, facts.changed) == (pin, base, (PIN_FILE,))


def test_a_pin_commit_on_the_one_before(place: ForgeAndGit) -> None:
    first = place.commit(place.main, [place.main], {}, pin="c" * 40)
    base = place.develop("docs/new.md")
    place.develop("docs/later.md")
    facts = place.tagged(place.commit(base, [first, base], {}))
    assert (facts.parents, facts.base) == ((first, base), base)


def test_a_pin_that_is_that_of_development_already(place: ForgeAndGit) -> None:
    tree = tree_with(place.git, place.main, {PIN_FILE: make_blob(place.git, f"{REVISION}\n".encode())})
    base = commit_tree(place.git, tree, [place.main], "Develop with it\n", ADA)
    place.move("main", base)
    assert place.tagged(place.commit(base, [base], {})).changed == ()


def test_a_tag_from_when_pins_were_committed_to_main(place: ForgeAndGit) -> None:
    base = place.main
    pin = place.commit(base, [base], {})
    place.move("main", pin)
    place.develop("later")
    assert place.tagged(pin).base == base


CHANGES: list[tuple[str, bytes | GitEntry | None]] = [
    ("mlir_release/cli/app.py", b"import os\n"),  # changed
    (WORKFLOW, b"on: pull_request_target\n"),
    ("sitecustomize.py", b"evil\n"),  # added
    ("mlir_release/cli/deep/er.py", b"evil\n"),
    ("targets.toml", None),  # deleted
    ("mlir_release/cli/app.py", None),
    ("targets.toml", GitEntry("100755", "blob", "")),
    ("vendored", GitEntry("160000", "commit", "d" * 40)),  # a submodule
    ("docs", GitEntry("120000", "blob", "")),  # a symbolic link
]


def test_a_commit_that_changes_more_than_the_pin(place: ForgeAndGit) -> None:
    blob = make_blob(place.git, FILES["targets.toml"]).oid
    for path, change in CHANGES:
        entry = GitEntry(change.mode, change.kind, change.oid or blob) if isinstance(change, GitEntry) else change
        error = place.refused(place.commit(place.main, [place.main], {path: entry}))
        assert error.why.endswith(f": {path.partition('/')[0]}")


def test_the_newest_toolkit_is_no_older_one(place: ForgeAndGit) -> None:
    """The tree must be that of the base itself, not of another commit of ``main``."""
    old = place.main
    new = place.develop("mlir_release/fix.py")
    error = place.refused(place.commit(old, [new], {}))
    assert "mlir_release" in error.why


def test_a_base_that_is_not_on_main(place: ForgeAndGit) -> None:
    evil = place.commit(place.main, [place.main], {"mlir_release/cli/app.py": b"evil\n"})
    for branch in ("", "snapshots", "main2"):
        if branch:
            place.move(branch, evil)
        for parents in ([evil], [place.main, evil]):
            place.refused(place.commit(evil, parents, {}))


def test_a_tag_called_main_protects_nothing(place: ForgeAndGit) -> None:
    evil = place.commit(place.main, [place.main], {"mlir_release/cli/app.py": b"evil\n"})
    pin = place.commit(evil, [evil], {})
    place.git.run("update-ref", "refs/tags/main", pin)
    place.git.run("update-ref", "refs/heads/refs/heads/main", pin)
    place.refused(pin)


def test_a_base_without_a_history_in_common(place: ForgeAndGit) -> None:
    tree = tree_with(place.git, place.main, {})
    root = commit_tree(place.git, tree, [], "Another beginning\n", ADA)
    place.refused(place.commit(root, [root], {}))


def test_parents_in_the_wrong_order(place: ForgeAndGit) -> None:
    first = place.commit(place.main, [place.main], {}, pin="c" * 40)
    place.refused(place.commit(place.main, [place.main, first], {}))


def test_no_parents_or_too_many(place: ForgeAndGit) -> None:
    base = place.main
    first = place.commit(base, [base], {}, pin="c" * 40)
    second = place.commit(base, [first, base], {}, pin="d" * 40)
    for parents in ([], [second, first, base]):
        place.refused(place.commit(base, parents, {}))
    tree = place.git.text("rev-parse", f"{first}^{{tree}}")
    content = f"tree {tree}\nparent {base}\nparent {base}\nauthor A <a> 0 +0000\ncommitter A <a> 0 +0000\n\nPin\n"
    done = place.git.run("hash-object", "-t", "commit", "-w", "--stdin", input=content.encode())
    place.refused(done.stdout.decode().strip())


def test_a_pin_that_is_no_plain_file(place: ForgeAndGit) -> None:
    blob = make_blob(place.git, f"{REVISION}\n".encode()).oid
    tree = place.git.text("rev-parse", f"{place.main}:mlir_release")
    kinds = [
        ("120000", "blob", blob),
        ("100755", "blob", blob),
        ("160000", "commit", REVISION),
        ("040000", "tree", tree),
    ]
    for mode, kind, oid in kinds:
        error = place.refused(place.commit(place.main, [place.main], {PIN_FILE: GitEntry(mode, kind, oid)}))
        assert mode in error.why


def test_a_pin_that_is_none(place: ForgeAndGit) -> None:
    for pin in (None, b"", b"bbbb\n", b"main\n", f"{REVISION}\n{REVISION}\n".encode()):
        place.refused(place.commit(place.main, [place.main], {PIN_FILE: pin}))


def test_a_pin_that_is_not_the_tags(place: ForgeAndGit) -> None:
    place.refused(place.commit(place.main, [place.main], {}, pin="c" * 40), "tag-foreign")


def test_a_commit_of_main_is_no_pin_commit(place: ForgeAndGit) -> None:
    place.refused(place.develop("README.md"))


def test_a_tag_of_something_else_than_a_commit(place: ForgeAndGit) -> None:
    tree = place.git.text("rev-parse", f"{place.main}^{{tree}}")
    message = tag_message(parse_release_tag(TAG), revision=REVISION, request_id="r", wheel_version="1")
    content = f"object {tree}\ntype tree\ntag {TAG}\ntagger A <a> 0 +0000\n\n{message}"
    made = place.git.run("mktag", input=content.encode()).stdout.decode().strip()
    place.git.run("update-ref", f"refs/tags/{TAG}", made)
    refused(lambda: check(place.forge), "tampered", "names no commit")


@pytest.mark.parametrize("place", ["github"], indirect=True)
def test_github_is_asked_little(place: ForgeAndGit) -> None:
    assert place.github is not None
    pin = place.commit(place.main, [place.main], {})
    place.tagged(pin)
    state = find_state(place.forge, TAG)
    for count in (5, 6):  # the first check asked for the default branch, too
        before = len(place.github.requests)
        check_facts(place.forge.pin_facts(state.commit), state)
        found = place.github.requests[before:]
        asked = [record.operation.removeprefix("GET /repos/{owner}/{repo}") for record in found]
        assert len(asked) == count, asked
        place.develop("later")
    assert asked.count("/compare/{basehead}") == 1
    assert asked.count("/git/trees/{tree_sha}") == 2


# -- whoever looks after such a tag: it is not built, not published and not uploaded ----------------------------------

TAMPERED, VERSION = "snapshot-20261120.03", "20261120.3"
NUMBERED = "llvm-22.1.8.01"
EVIL = {WORKFLOW: b"on: push\n"}


def add_tag(stage: Stage, name: str, version: str) -> None:
    """A tag as ours, with a draft, on a pin commit that changes a workflow."""
    commit = make_pin(stage.forge, REVISION, EVIL)
    message = tag_message(parse_release_tag(name), revision=REVISION, request_id="r", wheel_version=version)
    stage.forge.create_tag(name, commit, message)
    stage.forge.create_draft(name, title=name, body="", prerelease=True)


def publishes_nothing(stage: Stage, action: Callable[[], object]) -> None:
    """Check that an action refuses the tag of :func:`add_tag`, and that nothing is published."""
    assert ".github" in refused(action, "tampered").why
    assert not [release.tag for release in stage.forge.releases() if not release.draft]


def test_it_is_not_built_and_not_published(stage: Stage) -> None:
    add_tag(stage, TAMPERED, VERSION)
    publishes_nothing(stage, lambda: stage.draft(TAMPERED).missing_rows("wheels"))
    stage.upload(stage.fill(tag=TAMPERED, version=VERSION), tag=TAMPERED)
    publishes_nothing(stage, lambda: stage.publish(tag=TAMPERED))
    publishes_nothing(stage, lambda: stage.publish(tag=TAMPERED, dry_run=True))


def test_the_newest_pin_is_printed(stage: Stage) -> None:
    shown = CliRunner().invoke(app, ["pin", "show", "--latest", "--forge", f"local:{stage.forge.root}"])
    assert (shown.exit_code, shown.stdout) == (0, f"{REVISION}\n")


@pytest.mark.parametrize("complete", [True, False])
def test_the_sweep_reports_it(stage: Stage, complete: bool) -> None:
    add_tag(stage, TAMPERED, VERSION)
    if complete:
        stage.upload(stage.fill(tag=TAMPERED, version=VERSION), tag=TAMPERED)
        stage.forge.dispatch("release.yml", ref=TAMPERED, inputs={})
        taken = stage.forge.take_run("release.yml")
        assert taken is not None
        stage.forge.finish_run(taken, "failure")
    forge = LocalForge(stage.forge.root, clock=lambda: stage.forge.now().replace(hour=16), identity=WHO)
    outcome = sweep(forge, branch="main")
    assert [error.id for error in outcome.failures] == ["tampered"]
    assert [row.action for row in outcome.rows if row.error] == ["publish" if complete else "dispatch"]
    assert not forge.published(TAMPERED)
    assert complete or not forge.runs("release.yml", ref=TAMPERED)


def test_a_numbered_one_does_not_go_to_pypi(stage: Stage) -> None:
    add_tag(stage, NUMBERED, "22.1.8")
    stage.forge.publish(stage.forge.drafts(NUMBERED)[0])  # by hand
    to = Destination(repository_url="http://127.0.0.1:9/legacy/")
    refused(lambda: publish_to_index(stage.forge, NUMBERED, to), "tampered")
