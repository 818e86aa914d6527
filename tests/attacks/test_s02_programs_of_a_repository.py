"""S2: a folder that is used as a forge, or a checkout, names programs for git to run, which would see the tokens."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.sources.releases import find_release
from mlir_release.ground.git.repository import Git, GitError
from mlir_release.ground.llvm.pin import PIN_FILE, format_pin
from mlir_release.release.forge.checkout import write_pin
from mlir_release.release.forge.local.forge import LocalForge
from tests.attacks.hostile_mirror import Mirror, run
from tests.attacks.hostile_repository import (
    VALUES,
    Program,
    configure,
    git,
    link_hooks,
    lose,
    promise,
    record_git,
    signed,
)
from tests.refusals import refused
from tests.release.integration.signed_stage import TAG
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import PYTHON

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def commands(mirror: Mirror, folder: Path) -> list[tuple[str, ...]]:
    forge = ("--forge", mirror.address)
    LocalForge.create(folder / "copy", {"llvm-project.version": b"b" * 40 + b"\n"})
    return [
        ("verify", TAG, *forge),
        ("index", *forge, "--output", str(folder / "site")),
        ("doctor", *forge),
        ("snapshot", "--dry-run", *forge),
        ("install", "latest", "--python", sys.executable, "--dry-run", *forge),
        ("mirror", mirror.address, f"local:{folder / 'copy'}"),
        ("release", "list", *forge),
        ("release", "status", *forge),
    ]


# -- what a configuration can name ------------------------------------------------------------------------------------


def owe_by_ext(repository: Path, program: Program) -> tuple[str, ...]:
    """The attack that was found: reading what is missing asks a remote, which is a program."""
    lose(repository, "main:targets.toml")
    promise(repository, f"remote.origin.url=ext::{program.path} %S", "protocol.ext.allow=always")
    return ("cat-file", "blob", "main:targets.toml")


def sign(repository: Path, program: Program) -> tuple[str, ...]:
    git(repository, "update-ref", "refs/heads/main", signed(repository, "main"))
    configure(repository, "log.showSignature=true", f"gpg.program={program.path}")
    return ("log", "-1", "main")


def hook(repository: Path, program: Program) -> tuple[str, ...]:
    link_hooks(repository / "hooks", program)
    return ("update-ref", "refs/heads/trap", "main")


def include(repository: Path, program: Program) -> tuple[str, ...]:
    """The same by a file that the configuration includes, with pagers, editors and monitors besides."""
    sign(repository, program)
    settings = [row for row in git(repository, "config", "--local", "--list").splitlines() if "gpg" in row]
    extra = (f"core.{name}={program.path}" for name in ("pager", "editor", "fsmonitor", "alternateRefsCommand"))
    (repository / "more").touch()
    for row in (*settings, *extra):
        git(repository, "config", "--file", "more", *row.split("=", 1))
    configure(repository, "include.path=more", "gpg.program=true")
    git(repository, "config", "--unset", "gpg.program")
    return ("log", "-1", "main")


ATTACKS = [owe_by_ext, sign, hook, include]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_forges_folder_runs_no_program(
    honest: Mirror, program: Program, tmp_path: Path, attack: Callable[[Path, Program], tuple[str, ...]]
) -> None:
    repository = honest.root / "repository.git"
    program.is_started_by(repository, *attack(repository, program))
    for command in commands(honest, tmp_path):
        assert (answer := run(*command)).code != 2 or answer.id, answer.output
        assert not program.ran, (command, program.trace.read_text())
    yank = ("release", "yank", TAG, "--reason", "x", "--forge", honest.address)
    run(*yank)
    assert not program.ran, "a command that writes"


def test_a_forge_that_owes_objects_is_damaged_and_nothing_is_installed(
    honest: Mirror, program: Program, tmp_path: Path
) -> None:
    owe_by_ext(honest.root / "repository.git", program)
    answer = run("doctor", "--forge", honest.address)
    assert answer.code != 0
    for command in (("snapshot", "--dry-run"), ("index", "--output", str(tmp_path / "site"))):
        answer = run(*command, "--forge", honest.address)
        assert (answer.code, answer.id) == (5, "local-forge-failed"), command
    assert not program.ran


def test_a_forge_is_read_the_same_through_a_link(honest: Mirror, program: Program, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(honest.root)
    sign(honest.root / "repository.git", program)
    for address in (honest.root, tmp_path / "link"):
        assert run("verify", TAG, "--forge", f"local:{address}", "--signed-by", honest.signer).code == 0
    (tmp_path / "other").mkdir()
    (honest.root / "repository.git").rename(tmp_path / "other" / "repository.git")
    (honest.root / "repository.git").symlink_to(tmp_path / "other" / "repository.git")
    assert run("verify", TAG, "--forge", f"local:{tmp_path / 'link'}", "--signed-by", honest.signer).code == 0
    assert not program.ran


# -- what git sees ----------------------------------------------------------------------------------------------------


def test_git_sees_no_secret_where_it_contacts_nobody(
    honest: Mirror, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, trace = record_git(tmp_path)
    everything = commands(honest, tmp_path)
    monkeypatch.setenv("PATH", path)
    for command in everything:
        run(*command)
    started = trace.read_text().split("== ")[1:]
    alone = [text for text in started if not re.search(r" (fetch|ls-remote) (?!--get-url)", text.partition("\n")[0])]
    assert len(alone) > 10
    assert not [text for text in alone if any(value in text for value in VALUES)]
    assert all("/nowhere" in text for text in alone), "settings without secrets stay"


# -- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ext", "http", "git", "other"])
def test_an_upstream_is_reached_by_https_ssh_or_as_a_folder_only(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    (tmp_path / "gitconfig").write_text('[protocol]\n\tallow = always\n[protocol "ext"]\n\tallow = always\n')
    addresses = {"ext": f"ext::{program.path} %S", "other": "other::x"}
    upstream = addresses.get(kind, f"{kind}://192.0.2.1/llvm-project")
    targets = make_targets(make_row(), pythons=[PYTHON], upstream=upstream)
    forge = LocalForge.create(
        tmp_path / "forge", {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": targets.encode()}
    )
    answer = run("snapshot", "--dry-run", "--policy", "head", "--forge", f"local:{forge.root}")
    assert answer.id in ("network-failed", "config-invalid")
    assert answer.error is not None
    assert f"transport '{kind}' not allowed" in answer.error.why or answer.id == "config-invalid"
    assert not program.ran


def test_a_git_command_that_names_no_remote_reaches_none(program: Program, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "there.git")
    git(tmp_path, "init", "--quiet", "here")
    here = Git(tmp_path / "here")
    for address in (str(tmp_path / "there.git"), f"ext::{program.path}", "https://127.0.0.1:1/x"):
        with pytest.raises(GitError) as caught:
            here.run("fetch", address)
        assert "not allowed" in caught.value.stderr
    there = str(tmp_path / "there.git")
    here.run("fetch", there, "+refs/*:refs/there/*", remote=there)
    assert not program.ran


# -- folders that nobody named ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [("install", "latest"), ("verify", TAG), ("release", "list"), ("release", "status"), ("doctor",), ("index",)],
)
def test_a_forge_below_the_current_folder_is_not_taken_unless_it_is_named(
    honest: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    (tmp_path / "checkout" / "build" / "rehearsal").mkdir(parents=True)
    honest.root.rename(tmp_path / "checkout" / "build" / "rehearsal" / "forge")
    monkeypatch.chdir(tmp_path / "checkout")
    answer = run(*command)
    assert (answer.code, answer.id) == (2, "input-missing")
    assert answer.error is not None
    assert "--forge" in answer.error.remedy


# -- checkouts --------------------------------------------------------------------------------------------------------


def checkout(folder: Path, program: Program) -> Path:
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / PIN_FILE).write_bytes(format_pin("b" * 40))
    (folder / ".gitattributes").write_text("* filter=trap diff=trap\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "Begin")
    branch = git(folder, "symbolic-ref", "--short", "HEAD")
    git(folder, "branch", "-f", "main")
    sign(folder, program)
    git(folder, "update-ref", f"refs/heads/{branch}", "refs/heads/main")
    hook(folder / ".git", program)
    configure(folder, f"core.fsmonitor={program.path}", f"filter.trap.clean={program.path}")
    configure(folder, f"filter.trap.smudge={program.path}", f"diff.external={program.path}")
    return folder


def test_a_pin_is_set_without_the_programs_of_a_checkout(program: Program, tmp_path: Path) -> None:
    folder = checkout(tmp_path / "checkout", program)
    program.is_started_by(folder, "status")
    write_pin(folder, "c" * 40)
    refused(lambda: write_pin(folder, "d" * 40), "checkout-dirty")
    assert not program.ran


def test_a_source_trees_commit_is_read_without_its_programs(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor with the user's own, for a signature that the tree asks to be shown."""
    folder = checkout(tmp_path / "source", program)
    (tmp_path / "gitconfig").write_text(f"[gpg]\n\tprogram = {program.path}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    program.is_started_by(folder, "log", "-1")
    assert find_release("99.1.0", source=folder).commit == git(folder, "rev-parse", "HEAD")
    assert not program.ran
