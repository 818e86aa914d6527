"""Fetching from and pushing to remotes that others push to as well."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from mlir_release.ground.errors import ConflictError, MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.ground.git.repository import Git


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
