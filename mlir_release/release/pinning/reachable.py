"""Check that a commit named by its id is upstream's own, or find upstream's commit below one that is a fork's.

Forks on GitHub share objects with their parent, so any fork's commit can be fetched from upstream by its id. So a
branch or a tag of upstream must lead to it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from mlir_release.ground.console import console
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import MachineError, VerificationError
from mlir_release.ground.git.remotes import try_fetch
from mlir_release.ground.llvm.pin import SHA_PATTERN
from mlir_release.release.forge.open import github_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mlir_release.ground.llvm.upstream import Upstream
    from mlir_release.release.forge.github.client import GitHubClient

#: Commits that a fork may have beyond upstream's: more are no carried patches, but a history of its own.
MOST_CARRIED = 500

_HEADS = "refs/heads/"
_RELEASES = _HEADS + "release/"
_DIGITS = re.compile(r"\d+")


def need_upstream(upstream: Upstream, sha: str, *, tag: str = "", environ: Mapping[str, str] = os.environ) -> None:
    """Refuse a commit that no branch and no tag of the upstream leads to.

    A tip of either needs one round trip of git. On GitHub, the branch that is followed and the release branches are
    asked for, newest first, one request each; elsewhere the history is fetched, without trees and files.

    :param tag: that pins the commit; empty: a person named it
    :raises VerificationError: ``revision-not-upstream``
    :raises MachineError: if the upstream can't be reached
    """
    tips = upstream.tips()
    if sha in tips.values():
        return
    client = github_of(upstream.url, environ)
    if client is None:
        found = upstream.contains(sha)
    else:
        found = any(client.is_reachable(sha, tips[name]) for name in _branches(tips, upstream.branch))
    if not found:
        raise VerificationError(
            "revision-not-upstream",
            f"no branch of the upstream leads to {sha}" + (f", which {tag} pins" if tag else ""),
            where=upstream.url,
            why="a commit of a fork, or of a deleted branch, can be fetched by its id as if it were upstream's"
            + ("" if client is None else f"; looked at {upstream.branch} and the branches release/*"),
            remedy=f"don't build or publish it; find out who made it; mlir-release release abandon {tag}"
            if tag
            else "check the sha; if it is upstream's, name a branch or a tag that it is the tip of",
        )


class Carried(NamedTuple):
    """A commit that a fork has on top of upstream's."""

    sha: str
    subject: str


class Base(NamedTuple):
    """The upstream commit that another one is based on, or is itself."""

    sha: str
    carried: tuple[Carried, ...] = ()  #: the commits that upstream does not have, oldest first


def base_of(
    upstream: Upstream, sha: str, *, fork: str = "", most: int = MOST_CARRIED, environ: Mapping[str, str] = os.environ
) -> Base:
    """The upstream commit that a commit is, or is based on.

    The same is asked as in :func:`need_upstream`. Where GitHub does not know the commit, and elsewhere, it is fetched.

    :param sha: abbreviated ones are looked for in the last half year
    :param fork: an address that has the commit, too; empty: not known
    :param most: commits that it may have beyond upstream's
    :raises VerificationError: ``revision-not-upstream``: it shares no history, or has far too many commits of its own
    :raises UsageError: ``revision-unknown``: no such commit begins so
    :raises MachineError: ``commit-unreachable``, or the upstream can't be reached
    """
    sha = sha if SHA_PATTERN.fullmatch(sha) else upstream.whole(sha)
    tips = upstream.tips()
    if sha in tips.values():
        return Base(sha)
    client = github_of(upstream.url, environ)
    found = None
    if client is not None:
        found = _base_on_github(client, sha, (tips[name] for name in _branches(tips, upstream.branch)), most)
    if found is None:
        found = _base_in_history(upstream, sha, fork, most)
    if len(found.carried) > most:
        raise _foreign(upstream, sha, f"it has more than {most} commits that upstream does not have")
    return found


def _base_on_github(client: GitHubClient, sha: str, heads: Iterable[str], most: int) -> Base | None:
    """As :func:`base_of`; None if GitHub does not know the commit. The branch that has most of its commits counts."""
    found, nearest, count = None, "", 0
    for head in heads:
        compared = client.compare(sha, head)
        if compared is None:
            return None
        if not compared["ahead_by"]:
            return Base(sha)
        if found is None or compared["ahead_by"] < count:
            found, nearest, count = compared["merge_base_commit"]["sha"], head, compared["ahead_by"]
    if found is None:
        return None
    carried: list[Carried] = []
    for rows in client.pages(f"/compare/{nearest}...{sha}", "commits"):
        carried += (Carried(row["sha"], row["commit"]["message"].partition("\n")[0]) for row in rows)
        if len(carried) > most:
            break
    return Base(found, tuple(carried))


def _base_in_history(upstream: Upstream, sha: str, fork: str, most: int) -> Base:
    with console.step(f"fetch the history of {upstream.url}, commits alone"):
        history = upstream.history()
    said, sources = [], {"origin": upstream.url}
    if fork:  # a remote of its own: git notes by its name that it owes us folders and files
        name = f"fork-{sha256_of(fork)[:16]}"
        history.run("config", f"remote.{name}.url", fork)
        sources[name] = fork
    for source in sources:
        if history.resolve(sha) is None:
            options = ("--filter=tree:0", "--no-auto-gc", "--no-write-fetch-head")
            said.append(try_fetch(history, source, sha, *options)[1].strip())
    if history.resolve(sha) is None:
        raise MachineError(
            "commit-unreachable",
            f"the pinned commit {sha} can't be fetched",
            where=" and ".join(sources.values()),
            why="\n".join(said),
            remedy="name another ref of the project: neither upstream nor the fork that the project names has this one",
        )
    beyond = (sha, "--not", "--all")
    # Without --no-mailmap, git log would look for a file in the head's folders, which are not here.
    asked = (f"--max-count={most + 1}", "--topo-order", "--no-mailmap", "--format=%H%x00%s")
    listed = history.text("log", *asked, *beyond)
    carried = [Carried(*line.split("\0", 1)) for line in reversed(listed.splitlines())]
    if not carried:
        return Base(sha)
    edges = [line[1:] for line in history.text("rev-list", "--boundary", *beyond).splitlines() if line[0] == "-"]
    if not edges:
        raise _foreign(upstream, sha, "it shares no history with upstream")
    return Base(history.text("rev-list", "--max-count=1", "--topo-order", *edges), tuple(carried))


def _foreign(upstream: Upstream, sha: str, why: str) -> VerificationError:
    return VerificationError(
        "revision-not-upstream",
        f"{sha} is based on no commit of upstream's",
        where=upstream.url,
        why=why,
        remedy="name another project, ref or path: what is pinned there is no llvm-project with a few patches",
    )


def _branches(tips: Mapping[str, str], branch: str) -> Iterator[str]:
    """The refs to ask, in order: the branch that is followed, then those of releases, the newest first."""
    if _HEADS + branch in tips:
        yield _HEADS + branch
    releases = [name for name in tips if name.startswith(_RELEASES)]
    yield from sorted(releases, key=lambda name: [int(digits) for digits in _DIGITS.findall(name)], reverse=True)
