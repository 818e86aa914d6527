"""Signing commits, and signing them off, as the user's own git configuration asks for it.

A repository may have been written by others, and its configuration can name programs and keys. So only those settings
count that git finds in the user's or the machine's files. Git signs in an empty repository, which has no configuration
and borrows the other's objects.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.errors import MachineError
from mlir_release.ground.git.reach import SIGNING
from mlir_release.ground.git.repository import Git, Signature
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Sequence


_SETTINGS = r"^(format\.signoff|commit\.gpgsign|user\.signingkey|gpg\..*)$"

#: Where settings of the user's own are. The others: local, worktree and command.
_OWN = ("system", "global")


def own_settings(git: Git) -> dict[str, str]:
    """The user's settings for signing, by name in lower case: ``commit.gpgsign``, ``format.signoff``, ``gpg.format``.

    Git evaluates conditions of the user's files (``includeIf``) for this repository.
    """
    output = git.run("config", "--show-scope", "-z", "--get-regexp", _SETTINGS, check=False).stdout
    fields = iter(os.fsdecode(output).split("\0"))
    found = {}
    for scope, record in zip(fields, fields, strict=False):
        key, given, value = record.partition("\n")
        if scope in _OWN and "=" not in key:  # else git -c would divide it elsewhere
            found[key] = value if given else "true"
    return found


def as_asked(signature: Signature, settings: dict[str, str]) -> Signature:
    """``signature`` with what the user's settings (:func:`own_settings`) ask for."""
    signing = None
    if _is_true(settings.get("commit.gpgsign", "")):
        signing = tuple(f"{key}={value}" for key, value in settings.items() if key.startswith(("gpg.", "user.")))
    return replace(signature, sign_off=_is_true(settings.get("format.signoff", "")), signing=signing)


def _is_true(value: str) -> bool:
    """Source: git, ``git_parse_maybe_bool``."""
    return value.lower() in ("true", "yes", "on") or (value.isdecimal() and int(value) != 0)


def signed_off(message: str, signature: Signature) -> str:
    """The message with a line ``Signed-off-by``, among its trailers if it has some."""
    line = f"Signed-off-by: {signature.name} <{signature.email}>"
    if line in message.splitlines():
        return message
    between = "\n" if parse_trailers(message) else "\n\n"
    return f"{message.rstrip()}{between}{line}\n"


def encoded(message: str) -> bytes:
    """The message as git gets it. A name in a configuration may be no UTF-8."""
    return message.encode(errors="surrogateescape")


def signed_commit(git: Git, tree: str, parents: Sequence[str], message: str, signature: Signature) -> str:
    """Make a commit object with a signature. :raises MachineError: if git can't sign"""
    objects = git.text("rev-parse", "--path-format=absolute", "--git-path", "objects")
    given = [word for setting in signature.signing or () for word in ("-c", setting)]
    options = [option for parent in parents for option in ("-p", parent)]
    with scratch_folder("signing") as folder:
        (folder / "HEAD").write_text("ref: refs/heads/main\n", encoding="ascii")
        for name in ("objects", "refs"):
            (folder / name).mkdir()
        env = {**signature.environment(), "GIT_DIR": str(folder), "GIT_OBJECT_DIRECTORY": objects}
        command = (*given, "commit-tree", "-S", tree, *options)
        done = Git(folder, reach=SIGNING).run(*command, input=encoded(message), env=env, check=False)
    if done.returncode != 0:
        raise MachineError(
            "program-failed",
            "git could not sign a commit",
            where=str(git.directory),
            why=done.stderr.decode(errors="replace").strip(),
            remedy="unlock or correct the key (user.signingkey, gpg.format in your own git configuration), or sign "
            "nothing: git config --global commit.gpgsign false; then run the same command again: nothing was lost",
        )
    return done.stdout.decode().strip()
