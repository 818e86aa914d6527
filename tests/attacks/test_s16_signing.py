"""S16: a repository's own configuration chooses neither the program nor the key by which commits are signed."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.git.repository import Git, Signature
from mlir_release.ground.git.signing import as_asked, own_settings
from mlir_release.ground.git.trees import commit_tree
from tests.attacks.hostile_repository import Program, configure, git, link_hooks
from tests.integrate.integration.miniature import NOON

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = Signature(name="Ann", email="ann@example.com", when=NOON)

#: What a repository may say. ``{program}`` is the attacker's, ``{key}`` a key of the attacker's.
SETTINGS = [
    "gpg.program={program}",
    "gpg.openpgp.program={program}",
    "gpg.x509.program={program}",
    "gpg.ssh.program={program}",
    "gpg.ssh.defaultKeyCommand={program}",
    "gpg.format=x509",
    "user.signingkey={key}",
    "core.hooksPath={hooks}",
    "core.sshCommand={program}",
    "core.askPass={program}",
]


pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="NOT ATTACKED: no ssh-keygen")


def make_key(folder: Path, name: str) -> Path:
    key = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)], check=True)
    return key


def hostile(folder: Path, program: Program, how: str) -> Path:
    """A repository with all of them: in its configuration, in a file that this includes, or for one work tree."""
    repository = folder / "repository"
    repository.mkdir()
    git(repository, "init", "--quiet")
    (repository / "file").write_text("x\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "Begin")
    hooks = folder / "hooks"
    link_hooks(hooks, program)
    values = {"program": program.path, "key": make_key(folder, "attackers"), "hooks": hooks}
    settings = [setting.format(**values) for setting in SETTINGS]
    if how == "included":
        for setting in settings:
            git(repository, "config", "--file", str(repository / ".git" / "more"), *setting.split("=", 1))
        configure(repository, "include.path=more")
    elif how == "work tree":
        configure(repository, "extensions.worktreeConfig=true")
        for setting in settings:
            git(repository, "config", "--worktree", *setting.split("=", 1))
    else:
        configure(repository, *settings)
    return repository


@pytest.mark.parametrize("how", ["own", "included", "work tree"])
@pytest.mark.parametrize("kind", ["ssh", "openpgp", "x509"])
def test_its_program_and_its_key_are_not_used(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, kind: str
) -> None:
    repository = hostile(tmp_path, program, how)
    mine = make_key(tmp_path, "mine")
    tools = tmp_path / "tools"
    tools.mkdir()
    signer = tools / "gpg"
    signer.write_text(
        f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\ncat >/dev/null\necho "signature"\necho "[GNUPG:] SIG_CREATED " >&2\n'
    )
    signer.chmod(0o755)
    (tools / "gpgsm").symlink_to(signer)
    monkeypatch.setenv("PATH", f"{tools}:/usr/local/bin:/usr/bin:/bin")
    user = tmp_path / "gitconfig"
    user.write_text(f"[commit]\n\tgpgsign = true\n[gpg]\n\tformat = {kind}\n[user]\n\tsigningkey = {mine}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(user))
    program.is_started_by(repository, "commit", "--allow-empty", "-S", "-m", "x")
    signature = as_asked(PLAIN, own_settings(Git(repository)))
    commit = commit_tree(Git(repository), git(repository, "rev-parse", "HEAD^{tree}"), [], "Signed\n", signature)
    assert not program.ran, program.trace.read_text()
    content = git(repository, "cat-file", "commit", commit)
    assert "gpgsig" in content
    if kind == "ssh":
        allowed = tmp_path / "allowed"
        allowed.write_text(f"ann@example.com {mine.with_suffix('.pub').read_text()}")
        settings = ("-c", f"gpg.ssh.allowedSignersFile={allowed}", "-c", "gpg.ssh.program=ssh-keygen")
        done = subprocess.run(
            ["git", *settings, "-c", "gpg.format=ssh", "verify-commit", commit], cwd=repository, check=False
        )
        assert done.returncode == 0
    else:
        assert str(mine) in (tmp_path / "asked").read_text()


@pytest.mark.parametrize("how", ["own", "included", "work tree"])
def test_it_cannot_ask_for_signatures(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    repository = hostile(tmp_path, program, how)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "nothing"))
    configure(repository, "commit.gpgsign=true", "format.signOff=true")
    assert as_asked(PLAIN, own_settings(Git(repository))) == PLAIN


def test_without_a_key_of_the_users_the_repositorys_is_not_taken(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = hostile(tmp_path, program, "own")
    (tmp_path / "gitconfig").write_text("[commit]\n\tgpgsign = true\n[gpg]\n\tformat = ssh\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    signature = as_asked(PLAIN, own_settings(Git(repository)))
    with pytest.raises(Exception, match="could not sign") as caught:
        commit_tree(Git(repository), git(repository, "rev-parse", "HEAD^{tree}"), [], "Signed\n", signature)
    assert "signingkey" in str(caught.value).lower()
    assert not program.ran
