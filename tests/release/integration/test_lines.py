"""Numbered releases are made by the matrix of their release line, and snapshots by ``targets.toml``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.operate.doctor.checks import check_forge
from mlir_release.release.forge.checkout import files_of_checkout
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.pinning.state import find_state, matrix_of
from mlir_release.use.mirror import mirror
from tests.attacks.selected_stage import local_upstream
from tests.refusals import refused
from tests.release_stage import NOW, WHO, Stage
from tests.targets_factory import make_line, make_row, make_targets
from tests.wheel_factory import OTHER_PYTHON, PYTHON

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from mlir_release.release.model.manifest import Manifest

#: The version of the upstream's tree.
VERSION, LINE = "23.1.1", "matrices/23.1.toml"
NUMBERED = "llvm-23.1.1.01"
OWN = make_line(make_row(), pythons=[OTHER_PYTHON])
OF_MAIN, OF_LINE = f"mlir-linux-x86_64-{PYTHON}", f"mlir-linux-x86_64-{OTHER_PYTHON}"


class Lines(Stage):
    """A forge and its upstream, whose head is LLVM 23.1.1."""

    revision: str

    def run(self, *command: str) -> str:
        """What a command prints."""
        return self._done(*command).output

    def json(self, *command: str) -> Any:
        """What a command says to programs."""
        return json.loads(self._done(*command, "--json").stdout)

    def _done(self, *command: str) -> Result:
        address = ["--forge", f"local:{self.forge.root}"] if "-C" not in command else []
        return CliRunner().invoke(app, [*command, *address], standalone_mode=False, catch_exceptions=False)

    def targets(self, tag: str) -> list[str]:
        """The wheels that the release of a tag is to have."""
        return [row["name"] for row in self.json("matrix", "--tag", tag)["rows"]]

    def complete(self) -> Manifest:
        """Publish the numbered release with its wheel."""
        folder = self.fill(tag=NUMBERED, version=VERSION, revision=self.revision, pythons=[OTHER_PYTHON])
        return self.publish(folder, tag=NUMBERED).manifest

    def commit(self, files: dict[str, bytes]) -> None:
        """Change files on main."""
        self.forge.commit("main", expected=self.forge.head("main"), files=files, message="Change\n")


@pytest.fixture
def stage(tmp_path: Path) -> Lines:
    upstream, revision = local_upstream(tmp_path / "llvm-project")
    upstream.run("update-ref", f"refs/tags/llvmorg-{VERSION}", revision)
    targets = make_targets(make_row(), pythons=[PYTHON], upstream=(tmp_path / "llvm-project").as_uri())
    files = {PIN_FILE: b"a" * 40 + b"\n", TARGETS_FILE: targets.encode(), LINE: OWN.encode()}
    forge = LocalForge.create(tmp_path / "forge", files, clock=lambda: NOW, identity=WHO)
    made = Lines(forge=forge, dist=tmp_path / "dist", matrix=None)  # type: ignore[arg-type]
    made.revision = revision
    return made


def test_a_numbered_release_has_the_targets_of_its_line_and_a_snapshot_those_of_main(stage: Lines) -> None:
    stage.run("snapshot")
    stage.run("release", "start", "--version", VERSION)
    (snapshot,) = (tag.name for tag in stage.forge.tags() if tag.name.startswith("snapshot-"))
    assert stage.targets(snapshot) == [OF_MAIN]
    assert stage.targets(NUMBERED) == [OF_LINE]
    assert [wheel.target for wheel in stage.complete().wheels] == [OF_LINE]
    shown = {row["tag"]: row["platforms"]["linux-x86_64"] for row in stage.json("release", "status")["releases"]}
    assert (shown[NUMBERED]["verdict"], shown[NUMBERED]["total"]) == ("passed", 1)


def test_the_line_is_that_of_the_tags_own_commit(stage: Lines) -> None:
    stage.run("release", "start", "--version", VERSION)
    stage.commit({LINE: make_line(make_row(), pythons=["cp310"]).encode()})
    assert stage.targets(NUMBERED) == [OF_LINE]
    stage.run("release", "abandon", NUMBERED, "--reason", "a new matrix")
    stage.run("release", "start", "--version", VERSION, "--force")
    assert stage.targets("llvm-23.1.1.02") == ["mlir-linux-x86_64-cp310"]


def test_without_a_file_of_its_own_a_line_is_made_as_snapshots_are(stage: Lines) -> None:
    stage.commit({"matrices/22.1.toml": OWN.encode(), "matrices/23.10.toml": OWN.encode()})
    first = stage.forge.head("main")
    files = {PIN_FILE: b"a" * 40 + b"\n", TARGETS_FILE: stage.forge.read(TARGETS_FILE, commit=first or "") or b""}
    stage.forge = LocalForge.create(stage.dist / "other", files, clock=lambda: NOW, identity=WHO)
    stage.run("release", "start", "--version", VERSION)
    assert stage.targets(NUMBERED) == [OF_MAIN]


def test_a_mistake_in_the_lines_file_is_found_before_anything_is_made(stage: Lines) -> None:
    stage.commit({LINE: OWN.replace('llvm = "mlir"', 'llvm = "mlr"').encode()})
    error = refused(lambda: stage.run("release", "start", "--version", VERSION), "config-invalid")
    assert LINE in error.what
    assert not stage.forge.tags()
    stage.run("snapshot")  # which has nothing to do with it


def test_a_line_of_which_its_revision_can_have_nothing(stage: Lines) -> None:
    old = make_line(make_row(), pythons=[PYTHON], compiler={"GNU": "5.0"})
    stage.commit({LINE: old.encode()})
    error = refused(lambda: stage.run("release", "start", "--version", VERSION), "revision-unsuitable")
    assert (error.where, LINE in error.remedy) == (LINE, True)
    assert not stage.forge.tags()


def test_the_canaries_of_a_release_are_those_of_its_line(stage: Lines) -> None:
    canary = '\n[[canary]]\nname = "NAME"\nrepository = "https://example.org/x"\nref = "%s"\npython = "cp312"\n' % (
        "c" * 40
    )
    canary += 'commands = ["true"]\n'
    stage.commit({LINE: (OWN + canary.replace("NAME", "old")).encode()})
    stage.run("release", "start", "--version", VERSION)
    stage.complete()
    assert [row["name"] for row in stage.json("release", "canaries", NUMBERED, "--github")["include"]] == ["old"]
    error = refused(lambda: stage.run("release", "canaries", NUMBERED, "--only", "new"), "option-invalid")
    assert f"{LINE} has no canary" in error.what


def test_a_mirror_has_the_line_too(stage: Lines, tmp_path: Path) -> None:
    stage.run("release", "start", "--version", VERSION)
    stage.complete()
    copy = LocalForge.create(tmp_path / "mirror", {PIN_FILE: b"a" * 40 + b"\n"}, clock=lambda: NOW, identity=WHO)
    mirror(stage.again(), copy)
    assert [wheel.name for wheel in matrix_of(copy, find_state(copy, NUMBERED)).wheels] == [OF_LINE]


# -- the checkout, and doctor ------------------------------------------------------------------------------------------


def checkout(folder: Path, line: str = OWN, name: str = "23.1.toml") -> Path:
    (folder / "matrices").mkdir(parents=True)
    (folder / TARGETS_FILE).write_text(make_targets(make_row(), pythons=[PYTHON]))
    (folder / PIN_FILE).write_text("a" * 40 + "\n")
    (folder / "matrices" / name).write_text(line)
    return folder


def test_the_matrix_of_a_checkouts_line(stage: Lines, tmp_path: Path) -> None:
    folder = str(checkout(tmp_path / "checkout"))
    assert [row["name"] for row in stage.json("matrix", "--line", "23.1", "-C", folder)["rows"]] == [OF_LINE]
    for options in ((), ("--line", "22.1")):
        assert [row["name"] for row in stage.json("matrix", *options, "-C", folder)["rows"]] == [OF_MAIN]
    assert "LLVM 22.1 are made by targets.toml" in stage.run("matrix", "--line", "22.1", "-C", folder)
    refused(lambda: stage.run("matrix", "--line", "23.1.1", "-C", folder), "option-invalid")
    for option in ("--tag", "--missing"):
        command = ["matrix", "--line", "23.1", option, NUMBERED]
        assert CliRunner().invoke(app, command).exit_code == 2


def test_a_new_forge_has_the_lines_of_the_checkout(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "checkout")
    assert files_of_checkout(folder)[LINE] == OWN.encode()
    (folder / LINE).write_text("schema = 1\n")
    assert LINE in refused(lambda: files_of_checkout(folder), "config-invalid").what
    other = checkout(tmp_path / "other", name="23.toml")
    assert "nothing reads others" in refused(lambda: files_of_checkout(other), "config-invalid").why


def test_doctor_examines_each_line(stage: Lines) -> None:
    bad = make_line(make_row(), pythons=[PYTHON]).replace('llvm = "mlir"', 'llvm = "mlr"')
    proven = OWN.replace('os = "linux"', 'os = "linux"\nproven = "llvm-23.1.0.01"')
    files = {"matrices/21.1.toml": bad, "matrices/20.toml": OWN, "matrices/22.1.toml": proven, "matrices/a.md": "x"}
    stage.commit({path: text.encode() for path, text in files.items()})
    findings = check_forge(stage.again(), index_url=None).findings
    found = {each.text: each.level for each in findings if each.check == "lines"}
    assert [(re.split("[: ]", text)[0], level) for text, level in found.items()] == [
        ("matrices/20.toml", "problem"),
        ("matrices/21.1.toml", "problem"),
        ("matrices/22.1.toml", "problem"),
        ("matrices/23.1.toml", "ok"),
        ("matrices/a.md", "problem"),
    ]
    assert "llvm-23.1.0.01 as proven, and no such release is published" in " ".join(found)
