"""Fetching from and pushing to remotes that others push to as well."""

from __future__ import annotations

import shutil
from types import MappingProxyType
from typing import TYPE_CHECKING

from mlir_release.ground.errors import ConflictError, MachineError
from mlir_release.ground.git.repository import Git

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path


#: Git's words for a ref that a remote does not have.
NO_SUCH_REF = "couldn't find remote ref"


class UnreachableError(MachineError):
    """A remote can't be read: it may be reachable later."""


def upstream_unreachable(url: str, *, why: str, configured_in: str, title: str = "the upstream") -> UnreachableError:
    """The error for a repository of others that can't be read. ``configured_in``: the file or option that names it."""
    return UnreachableError(
        "network-failed",
        f"{title} repository can't be read",
        where=url,
        why=why,
        remedy=f"check the URL in {configured_in} and the network, then run this again",
    )


def try_fetch(
    git: Git, remote: str, refspec: str, *options: str, env: Mapping[str, str] | None = None
) -> tuple[bool, str]:
    """Fetch one ref. Returns whether it worked, and git's output."""
    done = git.run(
        "fetch", "--quiet", "--no-tags", *options, "--", remote, refspec, env=env, check=False, remote=remote
    )
    return done.returncode == 0, done.stderr.decode(errors="replace")


def fetch(git: Git, remote: str, refspec: str, *options: str) -> bool:
    """Fetch one ref; False if the remote does not have it. :raises UnreachableError: if the remote can't be read"""
    fetched, said = try_fetch(git, remote, refspec, *options)
    if fetched or NO_SUCH_REF in said:
        return fetched
    raise UnreachableError(
        "network-failed",
        f"the remote {remote!r} can't be read",
        where=str(git.directory),
        why=said.strip(),
        remedy="check its address (git remote -v) and the network, then run this again",
    )


def have_objects(git: Git, commit: str, ids: Collection[str]) -> None:
    """Fetch those files of a commit that a partial clone lacks, in one request: git would fetch each by itself.

    :raises GitError: if they can't be had
    """
    if not ids or not git.left_out:
        return
    listed = Git(git.directory).text("rev-list", "--objects", "--missing=print", "--max-count=1", commit).split("\n")
    fetch_objects(git, next(iter(git.left_out)), {line[1:] for line in listed if line.startswith("?")} & {*ids})


def fetch_objects(git: Git, remote: str, ids: Collection[str]) -> None:
    """Fetch trees with their folders, or files, in one request. :raises GitError: if they can't be had"""
    if ids:
        # As git does: after "we have this commit", a server would leave out the files of it that we ask for.
        silent = ("-c", "fetch.negotiationAlgorithm=noop")
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none")
        Git(git.directory).run(*silent, "fetch", *options, remote, *ids, remote=remote)


def make_bare(folder: Path, url: str) -> None:
    """Make an empty bare repository whose remote ``origin`` is at ``url``, for the history or objects of others.

    Git would ignore an incomplete one and search the folders above: it is renamed when complete.
    """
    made = Git(folder.with_name(f"{folder.name}.new"))
    shutil.rmtree(made.directory, ignore_errors=True)  # of a process that was killed
    made.directory.mkdir(parents=True)
    made.run("init", "--quiet", "--bare")
    # The remote's name lets git find objects that a fetch left out.
    made.run("config", "remote.origin.url", url)
    made.directory.rename(folder)


def push(
    git: Git,
    remote: str,
    *refspecs: str,
    env: Mapping[str, str] | None = None,
    leases: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """Push; False if the remote's branch has moved. :raises ConflictError: if it can't be reached, or refuses

    :param leases: refs of the remote that may be moved backwards or deleted, each if it is at this commit (empty: if it
        does not exist)
    """
    options = ["--porcelain", "--no-verify", "--atomic"]
    options += [f"--force-with-lease={ref}:{commit}" for ref, commit in leases.items()]
    done = git.run("push", *options, remote, *refspecs, env=env, check=False, remote=remote)
    if done.returncode == 0:
        return True
    output = (done.stdout + done.stderr).decode(errors="replace")
    if any(reason in output for reason in ("non-fast-forward", "fetch first", "stale info", "cannot lock ref")):
        return False
    raise ConflictError(
        "push-failed",
        f"nothing could be pushed to {remote}",
        where=" ".join(refspecs),
        why=output.strip(),
        remedy="check the address, the network and your rights there, then run the same command again: nothing "
        "that was recorded points at the missing commits",
    )
