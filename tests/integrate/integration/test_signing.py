"""Commits of an integrate are signed, and signed off, as the user's own git configuration asks for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.git.repository import Git
from mlir_release.integrate.deliver import branch
from mlir_release.integrate.deliver.branch import start, sync
from mlir_release.integrate.deliver.land import land
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integrate.integration.miniature import World

WHO = "Dora Downstream <dora@example.com>"
SIGN_OFF = f"Signed-off-by: {WHO}"


def configure(world: World, *settings: str) -> None:
    """The user's own configuration, beside what a world needs."""
    for setting in settings:
        miniature.git(world.root, "config", "--file", str(world.root / "gitconfig"), *setting.split("=", 1))


def make_ssh_key(folder: Path) -> Path:
    key = folder / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    return key


def with_ssh(world: World) -> Path:
    key = make_ssh_key(world.root)
    allowed = world.root / "allowed"
    allowed.write_text(f"dora@example.com {key.with_suffix('.pub').read_text()}")
    configure(world, "commit.gpgsign=true", "gpg.format=ssh", f"user.signingkey={key}")
    configure(world, f"gpg.ssh.allowedSignersFile={allowed}")
    return key


@contextmanager
def with_gpg(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory(dir="/tmp") as home:  # a socket's path is short
        monkeypatch.setenv("GNUPGHOME", home)
        batch = ["--batch", "--quiet", "--passphrase", "", "--quick-generate-key", WHO, "ed25519", "sign", "never"]
        subprocess.run(["gpg", *batch], check=True, capture_output=True)
        configure(world, "commit.gpgsign=true")
        try:
            yield
        finally:
            subprocess.run(["gpgconf", "--kill", "all"], check=False)


def signed(repository: Path, *commits: str) -> list[bool]:
    """Whether git finds good signatures of the world's user."""
    done = [
        subprocess.run(["git", "-C", str(repository), "verify-commit", commit], capture_output=True, check=False)
        for commit in commits
    ]
    return [run.returncode == 0 and b"dora@example.com" in run.stderr for run in done]


def whole_integrate(world: World) -> dict[str, str]:
    """What a person reviews of an integrate: a commit of each kind, by kind. Then it is landed."""
    walk = world.begin(publish=True)
    made = {"start": world.git("rev-parse", "HEAD")}
    walk.next()
    made["advance"] = world.git("rev-parse", "HEAD")
    branch.carry(walk, world.affecting[0], revert=True, why="ours", link="", drop_when="")
    made["carry"] = world.git("rev-parse", "HEAD")
    world.push_to_main(world.root / "colleague", "README", "hello\n")
    sync(walk)
    made["merge"] = world.git("rev-parse", "HEAD")
    made["squashed"] = land(walk, squash=True, pulls=None)
    return made


NEEDS_SSH = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="NOTHING SIGNED BY SSH: no ssh-keygen")
NEEDS_GPG = pytest.mark.skipif(shutil.which("gpg") is None, reason="NOTHING SIGNED BY GPG: no gpg")


@NEEDS_SSH
def test_each_commit_of_an_integrate_is_signed_by_ssh(plain: World) -> None:
    with_ssh(plain)
    made = whole_integrate(plain)
    assert signed(plain.checkout, *made.values()) == [True] * 5, made
    # Nobody reviews verdicts, and a replayed patch must be the same on every machine.
    probes = plain.git("for-each-ref", "--format=%(objectname)", "refs/mlir-release/probes").split()
    assert signed(plain.checkout, *probes) == [False] * len(probes)


@NEEDS_SSH
def test_a_revert_is_signed_when_it_is_made_and_not_when_it_is_replayed(plain: World) -> None:
    with_ssh(plain)
    configure(plain, "format.signOff=true")
    walk = plain.begin()
    walk.next()
    tip = branch.carry(walk, plain.affecting[0], revert=True, why="ours", link="", drop_when="")
    llvm = plain.checkout / "third_party/llvm"
    assert signed(llvm, tip) == [True]
    walk.next()
    moved = walk.observer.look().patches[0].sha
    assert signed(llvm, moved) == [False]
    for commit in (tip, moved):
        message = miniature.git(llvm, "log", "-1", "--format=%B", commit)
        assert message.splitlines()[-1] == SIGN_OFF
        assert parse_trailers(message)["Carried-Why"] == "ours"


@NEEDS_GPG
def test_commits_are_signed_by_gpg(pinned: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with with_gpg(pinned, monkeypatch):
        start(pinned.open())
        Walk(pinned.open()).next()
        assert signed(pinned.checkout, "HEAD", "HEAD~1") == [True, True]


@NEEDS_SSH
def test_a_key_that_an_agent_lists_is_used(pinned: World) -> None:
    key = with_ssh(pinned)
    miniature.git(pinned.root, "config", "--file", str(pinned.root / "gitconfig"), "--unset", "user.signingkey")
    configure(pinned, f"gpg.ssh.defaultKeyCommand=cat {key.with_suffix('.pub')}")
    # Without an agent, git can't sign with a public key alone: that it tries shows whose key it takes.
    error = refused(lambda: start(pinned.open()), "program-failed", "could not sign")
    assert "agent" in error.why.lower() or "private key" in error.why.lower(), error.why


@NEEDS_SSH
def test_settings_that_the_user_has_for_this_folder_alone_count(pinned: World) -> None:
    with_ssh(pinned)
    key = pinned.root / "gitconfig-of-work"
    config = pinned.root / "gitconfig"
    signing = config.read_text().partition("[commit]")[2]
    config.write_text(config.read_text().partition("[commit]")[0])
    key.write_text(f"[commit]{signing}")
    configure(pinned, f"includeIf.gitdir:{pinned.root / 'downstream'}/.path={key}")
    start(pinned.open())
    assert signed(pinned.checkout, "HEAD") == [True]


@pytest.mark.parametrize("value", ["true", "1", "on", "YES"])
def test_commits_are_signed_off_among_their_trailers(pinned: World, value: str) -> None:
    configure(pinned, f"format.signOff={value}")
    made = whole_integrate(pinned)
    for kind, commit in made.items():
        message = pinned.git("log", "-1", "--format=%B", commit)
        assert message.splitlines().count(SIGN_OFF) == 1, message
        assert parse_trailers(message), kind
    assert "Integrate-Pin" in parse_trailers(pinned.git("log", "-1", "--format=%B", made["squashed"]))
    assert land(Walk(pinned.open()), squash=True, pulls=None) == made["squashed"]
    verdicts = pinned.git("log", "--format=%B", "--glob=refs/mlir-release/probes")
    assert "Signed-off-by" not in verdicts


def test_a_name_that_is_not_utf8_is_signed_off_as_git_writes_it(pinned: World) -> None:
    with (pinned.root / "gitconfig").open("ab") as file:
        file.write(b"[user]\n\tname = Andr\xe9\n[format]\n\tsignOff = true\n")
    start(pinned.open())
    content = Git(pinned.checkout).run("cat-file", "commit", "HEAD").stdout
    assert content.endswith("\nSigned-off-by: André <dora@example.com>\n".encode())


@pytest.mark.parametrize("value", ["false", "0", "no", ""])
def test_without_being_asked_nothing_is_signed_off(pinned: World, value: str) -> None:
    configure(pinned, f"format.signOff={value}", f"commit.gpgsign={value}")
    start(pinned.open())
    assert "Signed-off-by" not in pinned.git("log", "-1", "--format=%B")
    assert "gpgsig" not in pinned.git("cat-file", "commit", "HEAD")


def test_a_key_that_cannot_sign_is_one_message_and_loses_nothing(pinned: World) -> None:
    start(pinned.open())
    configure(pinned, "commit.gpgsign=true", "gpg.format=ssh", f"user.signingkey={pinned.root / 'nothing'}")
    before = pinned.git("for-each-ref")
    error = refused(lambda: Walk(pinned.open()).next(), "program-failed", "could not sign")
    assert "commit.gpgsign false" in error.remedy
    assert error.why
    assert pinned.git("for-each-ref") == before
    assert pinned.git("status", "--porcelain") == ""


def test_the_configuration_is_read_once(pinned: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(pinned, "format.signOff=true")
    (tmp_path / "git").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nexec {shutil.which("git")} "$@"\n')
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    project = pinned.open()
    start(project)
    walk = Walk(project)
    walk.next()
    walk.next()
    assert (tmp_path / "asked").read_text().count("gpgsign") == 1
    assert os.environ["GIT_CONFIG_GLOBAL"] == str(pinned.root / "gitconfig")
