"""S1: a mirror says that its release is not signed, and swaps the wheel. Who names a signer or a root refuses it."""

from __future__ import annotations

import json
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.release.forge.local.forge import LocalForge
from tests.attacks.hostile_mirror import FILES, Mirror, run
from tests.release.integration.signed_stage import TAG
from tests.release_stage import make_stage
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import PYTHON

if TYPE_CHECKING:
    from tests.release_stage import Stage

WAYS = ("--signed-by", "--trusted-root", "both")
NUMBERED = "llvm-22.1.8.01"


@pytest.fixture
def hostile(honest: Mirror) -> Mirror:
    honest.swap_wheel()
    honest.unsign()
    return honest


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Of an environment in which nothing is installed."""
    venv.EnvBuilder(symlinks=True).create(tmp_path / "environment")
    return tmp_path / "environment" / "bin" / "python"


def commands(mirror: Mirror, output: Path, python: Path) -> dict[str, tuple[str, ...]]:
    """Every command that reads a release of a forge and writes what it says."""
    forge = ("--forge", mirror.address)
    target = f"mlir-linux-x86_64-{PYTHON}"
    return {
        "install": ("install", TAG, *forge, "--python", str(python), "--no-deps"),
        "install latest": ("install", "latest", *forge, "--python", str(python), "--no-deps"),
        "verify": ("verify", TAG, *forge),
        "mirror": ("mirror", mirror.address, f"local:{output / 'forge'}"),
        "conda recipe": ("conda", "recipe", TAG, *forge, "-o", str(output / "recipe")),
        "conda package": ("conda", "package", TAG, *forge, "-o", str(output / "channels")),
        "downstream": (
            *("downstream", "init", str(output / "project"), "--tag", TAG, "--kind", "extension", *forge),
            *("--index", "https://example.org/wheels"),
        ),
        "rebuild": ("wheels", "rebuild", TAG, target, *forge, "-o", str(output / "rebuilt")),
    }


NAMES = tuple(commands(Mirror(Path(), "", Path(), None), Path(), Path()))  # type: ignore[arg-type]


def written(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_a_mirror_cannot_undo_that_signatures_were_asked_for(
    hostile: Mirror, tmp_path: Path, python: Path, name: str, way: str
) -> None:
    output = tmp_path / "output"
    output.mkdir()
    destination = LocalForge.create(output / "forge", FILES)
    before, environment = written(output), written(tmp_path / "environment")
    answer = run(*commands(hostile, output, python)[name], *hostile.named[way])
    assert (answer.code, answer.id) == (6, "provenance-missing")
    assert "the release says that it is not signed, and it has to be" in str(answer.error)
    assert written(output) == before
    assert written(tmp_path / "environment") == environment
    assert (destination.tags(), destination.releases()) == ([], [])


@pytest.mark.parametrize("way", WAYS)
def test_the_pages_show_no_release_that_nobody_signed(
    hostile: Mirror, tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    # The owner of the mirror says that its releases are not signed, so only who asks is protected.
    forge = LocalForge(hostile.root)
    unsigned = {"targets.toml": make_targets(make_row(), pythons=[PYTHON]).encode()}
    forge.commit("main", expected=forge.head("main"), files=unsigned, message="No signatures\n")
    page = tmp_path / "site" / "snapshots" / TAG / "index.html"
    index = ("index", "--forge", hostile.address, "-o", tmp_path / "site")
    assert run(*index).code == 0
    assert page.is_file()
    answer = run(*index, *hostile.named[way])  # what the pages show already is read again
    assert (answer.code, page.is_file()) == (0, False)
    assert "it has to be" in capsys.readouterr().err + answer.output


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A forge of someone's own, whose commits pin as they should, with a numbered release that nobody signed."""
    targets = make_targets(make_row(), pythons=[PYTHON])
    stage = make_stage(tmp_path_factory.mktemp("numbered"), targets=targets)
    stage.add_tag(NUMBERED, "22.1.8")
    stage.publish(stage.fill(tag=NUMBERED, version="22.1.8", pythons=[PYTHON]), tag=NUMBERED)
    return stage


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["--stage", "--check", "--dry-run"])
def test_nothing_that_nobody_signed_goes_to_pypi(
    numbered: Stage,
    original: Mirror,
    tmp_path: Path,
    mode: str,
    way: str,
) -> None:
    options = ("--stage", tmp_path / "staged") if mode == "--stage" else (mode,)
    forge = ("--forge", f"local:{numbered.forge.root}", "--repository-url", "http://127.0.0.1:1/legacy/")
    answer = run("pypi", NUMBERED, *forge, *options, *original.named[way])
    assert (answer.code, answer.id) == (6, "provenance-missing")
    assert "the release says that it is not signed, and it has to be" in str(answer.error)
    assert list(tmp_path.iterdir()) == []


# -- what is asked for, and what is said -------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_no_signature_and_a_signer_cannot_both_be_asked_for(hostile: Mirror, way: str) -> None:
    answer = run("verify", TAG, "--forge", hostile.address, "--provenance", "skip", *hostile.named[way])
    assert answer.code == 2
    assert "ask for a signature" in answer.output


def test_a_signer_that_is_an_empty_variable_does_not_switch_the_check_off(hostile: Mirror) -> None:
    answer = run("verify", TAG, "--forge", hostile.address, "--signed-by", "")
    assert answer.code == 2
    assert "--signed-by names no repository" in answer.output


def test_a_bundle_that_was_removed_is_missed(honest: Mirror) -> None:
    name = "release.json.sigstore.json"
    (honest.folder / name).unlink()
    honest.record(lambda data: data["assets"].pop(name))
    answer = run("verify", TAG, "--forge", honest.address, *honest.named["both"])
    assert (answer.id, "nobody signed it" in str(answer.error)) == ("provenance-missing", True)


def test_a_release_that_nobody_signed_is_not_verified(hostile: Mirror) -> None:
    forge = LocalForge(hostile.root)
    targets = FILES["targets.toml"]
    assert not forge.services.url
    assert b"provenance" not in targets
    verify = ("verify", TAG, "--forge", hostile.address, "--json")
    answer = run(*verify)
    found = json.loads(answer.output)
    assert (answer.code, found["unsigned"]["error"]) == (6, "provenance-missing")
    assert {row["result"] for row in found["files"]} == {"not signed"}
    answer = run(*verify, "--provenance", "skip")
    assert (answer.code, json.loads(answer.output)["unsigned"]) == (0, None)


def test_a_mirror_that_names_its_signer_itself_is_named_so(honest: Mirror, capsys: pytest.CaptureFixture[str]) -> None:
    """It can offer the properly signed files of any repository, also of one of the attacker's."""
    answer = run("verify", TAG, "--forge", honest.address)
    assert answer.code == 0
    assert f"signed by {honest.signer}, as only the release itself says" in answer.output
    warned = answer.output + capsys.readouterr().err
    assert f"--signed-by {honest.signer}" in warned
    install = ("install", TAG, "--forge", honest.address, "--python", sys.executable, "--dry-run")
    assert "as only the release itself says" in run(*install).output
    sure = run(*install, *honest.named["both"])
    assert sure.code == 0
    assert f"signed by {honest.signer}" in sure.output
    assert "only the release itself" not in sure.output + capsys.readouterr().err


def test_a_release_of_another_repository_is_refused_if_the_signer_is_named(honest: Mirror) -> None:
    answer = run("verify", TAG, "--forge", honest.address, "--signed-by", "https://github.com/octo/other")
    assert (answer.code, answer.id) == (6, "signature-invalid")
