"""S18: someone who may push branches and tags, but not to ``main``, and wants another matrix than the line's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.release.model.release_tags import parse_release_tag
from mlir_release.release.pinning.state import tag_message
from tests.attacks.selected_stage import FACTS, NOW, Selected, selected_stage
from tests.github_server import GitHubServer
from tests.pin_factory import make_pin
from tests.targets_factory import make_line, make_row
from tests.wheel_factory import OTHER_PYTHON, PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.ground.errors import ReleaseError
    from mlir_release.ground.llvm.llvm_facts import LlvmFacts

VERSION = FACTS.version.removesuffix("git")
TAG, LINE = f"llvm-{VERSION}.01", "matrices/23.1.toml"
#: The tag's line asks for both CPythons; another one is content with nothing.
STRICT = make_line(make_row(), pythons=[OTHER_PYTHON, PYTHON]).encode()
LAX = make_line(make_row(required=False), pythons=[PYTHON]).encode()

COMMANDS = pytest.mark.parametrize(
    "command",
    [
        ("matrix", "--missing", "TAG", "--github"),
        ("sdk", "provide", "TAG", "--output", "out"),
        ("attest", "TAG", ".", "--output", "out"),
        ("publish", "TAG"),
    ],
    ids=["plan", "provide", "attest", "publish"],
)


@pytest.fixture
def selected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_waiting: None) -> Iterator[Selected]:
    with GitHubServer(tmp_path / "github", clock=lambda: NOW) as server:
        made = selected_stage(tmp_path, server, monkeypatch)
        files = {LINE: STRICT, "matrices/22.1.toml": LAX}
        made.forge.commit("main", expected=made.forge.head("main"), files=files, message="Begin release lines\n")
        yield made


def tag(selected: Selected, commit: str = "", *, name: str = TAG, facts: LlvmFacts | None = FACTS) -> None:
    """Tag a commit, by default a pin commit, and open a draft: by hand."""
    message = tag_message(
        parse_release_tag(name),
        revision=selected.head,
        request_id="by-hand",
        wheel_version=name.removeprefix("llvm-").rpartition(".")[0],
        facts=facts,
    )
    selected.forge.create_tag(name, commit or make_pin(selected.forge, selected.head), message)
    selected.forge.create_draft(name, title=name, body="", prerelease=False)


def error_of(selected: Selected, command: tuple[str, ...], name: str = TAG) -> ReleaseError:
    found = selected.error_of(*(name if word == "TAG" else word for word in command))
    assert selected.nothing_was_done()
    return found


def test_the_lines_own_matrix_is_what_an_honest_tag_gets(selected: Selected) -> None:
    tag(selected)
    shown = selected.run("matrix", "--missing", TAG)
    assert f"mlir-linux-x86_64-{OTHER_PYTHON}" in shown
    assert f"mlir-linux-x86_64-{PYTHON}" in shown


@COMMANDS
def test_a_pin_commit_that_changes_the_line(selected: Selected, command: tuple[str, ...]) -> None:
    tag(selected, make_pin(selected.forge, selected.head, {LINE: LAX}))
    error = error_of(selected, command)
    assert (error.id, "matrices" in error.why) == ("tampered", True)


@COMMANDS
def test_a_pin_commit_that_begins_a_line(selected: Selected, command: tuple[str, ...]) -> None:
    name = "llvm-23.1.1.02"
    tag(selected, make_pin(selected.forge, selected.head, {"matrices/23.2.toml": LAX}), name=name)
    assert error_of(selected, command, name).id == "tampered"


@COMMANDS
def test_a_base_with_a_line_of_ones_own_on_another_branch(selected: Selected, command: tuple[str, ...]) -> None:
    forge = selected.forge
    base = forge.commit("mine", expected=None, base=forge.head("main"), files={LINE: LAX}, message="Mine\n")
    head = forge.commit(
        "snapshots",
        expected=None,
        base=base,
        files={"llvm-project.version": f"{selected.head}\n".encode()},
        message="Pin\n",
    )
    tag(selected, head)
    error = error_of(selected, command)
    assert (error.id, "not reachable from main" in error.why) == ("tampered", True)


@COMMANDS
@pytest.mark.parametrize("facts", [FACTS, None], ids=["facts", "no facts"])
def test_a_tag_that_is_named_after_another_line(
    selected: Selected, command: tuple[str, ...], facts: LlvmFacts | None
) -> None:
    """Its line would ask for less; and its wheels would have the version of an LLVM that they are not."""
    name = "llvm-22.1.8.01"
    tag(selected, name=name, facts=facts)
    error = error_of(selected, command, name)
    assert error.id == "tag-foreign"
    assert "its name says LLVM 22.1.8, its revision is LLVM 23.1.1" in error.why
