"""A git repository whose configuration names programs, and the program that tells that it was run."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: What must never reach a program that a repository names.
SECRETS = {
    "GITHUB_TOKEN": "ghs_the-token",
    "MLIR_RELEASE_EXPORT_TOKEN": "export-secret",
    "DATABASE_URL": "postgres://u:database-secret@host/db",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "http.https://github.com/.extraHeader",
    "GIT_CONFIG_VALUE_0": "Authorization: Basic header-secret",
    "GIT_CONFIG_KEY_1": "safe.directory",
    "GIT_CONFIG_VALUE_1": "/nowhere",
}
VALUES = ("ghs_the-token", "export-secret", "database-secret", "header-secret")

HOOKS = (
    *("commit-msg", "fsmonitor-watchman", "post-checkout", "post-commit", "post-index-change", "post-merge"),
    *("pre-auto-gc", "pre-commit", "pre-push", "prepare-commit-msg", "reference-transaction"),
)


def git(directory: Path, *args: str, input: bytes | None = None, check: bool = True) -> str:
    """Git as anybody runs it."""
    identity = ("-c", "user.name=m", "-c", "user.email=m@example.org")
    done = subprocess.run(["git", *identity, *args], cwd=directory, input=input, capture_output=True, check=False)
    assert not check or done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(errors="replace").strip()


@dataclass
class Program:
    """The attacker's."""

    path: Path
    trace: Path

    @property
    def ran(self) -> bool:
        return self.trace.exists()

    def forget(self) -> None:
        self.trace.unlink(missing_ok=True)

    def is_started_by(self, directory: Path, *command: str) -> None:
        """Check that git as anybody runs it does start it, and forget that: else the trap would be none."""
        git(directory, *command, check=False)
        assert self.ran, "the trap is none"
        self.forget()


def make_program(folder: Path) -> Program:
    folder.mkdir(exist_ok=True)
    path, trace = folder / "program", folder / "program-ran"
    path.write_text(f'#!/bin/sh\necho "$0 $*" >>{trace}\nenv >>{trace}\n')
    path.chmod(0o755)
    return Program(path, trace)


def record_git(folder: Path) -> tuple[str, Path]:
    """A ``PATH`` with a git that writes down its environment first, and the file that it writes to."""
    real, trace = shutil.which("git"), folder / "git-environments"
    fake = folder / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\n{{ echo "== $*"; env; }} >>{trace}\nexec {real} "$@"\n')
    fake.chmod(0o755)
    return f"{fake.parent}{os.pathsep}{os.environ['PATH']}", trace


def link_hooks(folder: Path, program: Program) -> None:
    """Make a folder of hooks, all of which are the program."""
    folder.mkdir(exist_ok=True)
    for event in HOOKS:
        (folder / event).unlink(missing_ok=True)
        (folder / event).symlink_to(program.path)


def signed(repository: Path, name: str) -> str:
    """A commit like another one, but with a signature, which a program of git's is to check."""
    head, _, body = git(repository, "cat-file", "commit", name).partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    content = f"{head}\n{signature}\n\n{body}\n".encode()
    return git(repository, "hash-object", "-t", "commit", "-w", "--stdin", input=content)


def lose(repository: Path, name: str) -> None:
    """Remove an object, as of a partial clone that has not fetched it."""
    oid = git(repository, "rev-parse", name)
    for pack in repository.glob("objects/pack/*.pack"):
        content = pack.read_bytes()
        for file in pack.parent.glob(f"{pack.stem}.*"):
            file.unlink()
        git(repository, "unpack-objects", "-q", input=content)
    (repository / "objects" / oid[:2] / oid[2:]).unlink()


def promise(repository: Path, *settings: str) -> None:
    """Make it a partial clone, whose remote is to be asked for what was lost."""
    partial = ("core.repositoryformatversion=1", "extensions.partialClone=origin", "remote.origin.promisor=true")
    configure(repository, *partial, *settings)


def configure(repository: Path, *settings: str) -> None:
    for setting in settings:
        git(repository, "config", *setting.split("=", 1))
