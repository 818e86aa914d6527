"""Check that a commit named by its id is upstream's own, or find upstream's commit below one that is a fork's.

Forks on GitHub share objects with their parent, so any fork's commit can be fetched from upstream by its id. So a
branch or a tag of upstream must lead to it. Where upstream is a project's fork, its branch must lead to the commit, and
all that it has beyond llvm-project's is a short line of commits, which is listed.
"""

from __future__ import annotations

import os
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from mlir_release.builder.sdk.port import recipe_of
from mlir_release.ground.console import console
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import MachineError, VerificationError
from mlir_release.ground.foreign import visible
from mlir_release.ground.git.patch import read_patch
from mlir_release.ground.git.remotes import try_fetch
from mlir_release.ground.git.repository import GitError
from mlir_release.ground.llvm.llvm_facts import fact_files
from mlir_release.ground.llvm.pin import SHA_PATTERN
from mlir_release.ground.llvm.projects import all_projects
from mlir_release.release.forge.open import github_of
from mlir_release.release.model.stack import CarriedCommit, CarriedStack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mlir_release.ground.llvm.upstream import Upstream
    from mlir_release.release.forge.github.client import GitHubClient

#: Commits that a fork may have beyond upstream's: more are no carried patches, but a history of its own.
MOST_CARRIED = 500

_HEADS = "refs/heads/"
_RELEASES = _HEADS + "release/"
_DIGITS = re.compile(r"\d+")

#: Files that a carried commit is listed with; of more, the last says how many.
_SHOWN = 10

_PARENT = re.compile(rb"^parent ([0-9a-f]{40})$", re.MULTILINE)
_TREE = re.compile(rb"\Atree ([0-9a-f]{40})\n")


def need_upstream(
    upstream: Upstream, sha: str, *, tag: str = "", environ: Mapping[str, str] = os.environ
) -> CarriedStack | None:
    """Refuse a commit that no branch and no tag of the upstream leads to.

    A tip of either needs one round trip of git. On GitHub, the branch that is followed and the release branches are
    asked for, newest first, one request each; elsewhere the history is fetched, without trees and files.

    Of a fork, the commit may be llvm-project's own, or the end of a stack (:func:`_stack_of`).

    :param tag: that pins the commit; empty: a person named it
    :returns: what it carries; None: nothing
    :raises VerificationError: ``revision-not-upstream``
    :raises MachineError: if the upstream can't be reached
    """
    if upstream.base is not None:
        return _stack_of(upstream, upstream.base, sha, tag, environ)
    tips = upstream.tips()
    if sha in tips.values():
        return None
    client = github_of(upstream.url, environ)
    if client is None:
        found = upstream.contains(sha)
    else:
        found = any(client.is_reachable(sha, tips[name]) for name in _branches(tips, upstream.branch))
    if not found:
        why = "a commit of a fork, or of a deleted branch, can be fetched by its id as if it were upstream's"
        why += "" if client is None else f"; looked at {upstream.branch} and the branches release/*"
        remedy = "check the sha; if it is upstream's, name a branch or a tag that it is the tip of"
        raise _refused(upstream, f"no branch of the upstream leads to {sha}", tag, why, remedy)
    return None


def _refused(upstream: Upstream, what: str, tag: str, why: str, remedy: str) -> VerificationError:
    """The error about a commit that may not be pinned. ``remedy``: of the person who named it, if no tag pins it"""
    what += f", which {tag} pins" if tag else ""
    remedy = f"don't build or publish it; find out who made it; mlir-release release abandon {tag}" if tag else remedy
    return VerificationError("revision-not-upstream", what, where=upstream.url, why=why, remedy=remedy)


def _stack_of(
    upstream: Upstream, base: Upstream, sha: str, tag: str, environ: Mapping[str, str]
) -> CarriedStack | None:
    """What a fork's commit carries: the one place that computes it, and by which every claim about it is checked.

    The commits are read by their ids, which git checks: so nobody can leave one out, or change what one says.

    :param base: llvm-project
    :returns: None: nothing, as it is llvm-project's own
    """
    found = base_of(base, sha, fork=upstream.url, environ=environ)
    if not found.carried:
        return None
    remedy = f"export the stack to {upstream.branch} with mlir-release integrate, and name that commit"
    head, client = upstream.tips().get(_HEADS + upstream.branch, ""), github_of(upstream.url, environ)
    if not head or not (
        client.is_reachable(sha, head) if client is not None else upstream.contains(sha, _HEADS + upstream.branch)
    ):
        why = f"it is not llvm-project's, and {upstream.branch}, the one branch that counts, does not have it"
        raise _refused(upstream, f"the branch {upstream.branch} does not lead to {sha}", tag, why, remedy)
    what = f"{sha} is no stack of carried patches"
    if len(found.carried) > upstream.most:
        why = f"it has {len(found.carried)} commits that llvm-project lacks, and most-carried is {upstream.most}"
        raise _refused(upstream, what, tag, why, "drop some of them, or raise most-carried in [release]")
    upstream.fetch(found.sha, *(each.sha for each in found.carried))
    trees, parents, messages = {}, {}, {}
    for row in upstream.git.objects([found.sha, *(each.sha for each in found.carried)]):
        assert row is not None  # it was fetched just now
        header, _, message = row[1].partition(b"\n\n")
        trees[row[0]] = _TREE.findall(header)[0].decode()
        parents[row[0]] = [parent.decode() for parent in _PARENT.findall(header)]
        messages[row[0]] = message.decode(errors="replace")
    line = [sha]
    while line[0] in parents and line[0] != found.sha:
        if len(parents[line[0]]) != 1:
            raise _refused(upstream, what, tag, f"{line[0]} is a merge: it may bring anything", remedy)
        line.insert(0, parents[line[0]][0])
    if line[0] != found.sha or len(line) != len(parents):
        why = f"its commits do not form one line on {found.sha}, which llvm-project has"
        raise _refused(upstream, what, tag, why, remedy)
    try:
        upstream.objects(dict.fromkeys(trees.values()))
        commits = tuple(
            _carried(after, messages[after], _changed(upstream, trees[before], trees[after]))
            for before, after in pairwise(line)
        )
    except GitError as error:
        raise upstream.unreachable(error) from error
    return CarriedStack(upstream=base.url, base=found.sha, commits=commits)


def _changed(upstream: Upstream, before: str, after: str) -> Sequence[str]:
    """Files that differ of those that judge the wheels, or that facts are read from.

    :param before: a tree, as ``after`` is
    """
    places = {path for project in all_projects() for path in recipe_of(project.name).for_tests}
    asked = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after, "--")
    listed = upstream.git.run(*asked, *fact_files(), *sorted(places)).stdout
    names = [_line(name.decode(errors="replace"), 200) for name in listed.split(b"\0")[:-1]]
    return names if len(names) <= _SHOWN else [*names[: _SHOWN - 1], f"{len(names) - _SHOWN + 1} other files"]


def _carried(sha: str, message: str, judges: Sequence[str]) -> CarriedCommit:
    found = read_patch(sha, message)
    said = {"subject": found.subject, "kind": found.kind, "origin": found.of, "reason": found.why}
    return CarriedCommit(commit=sha, **{key: _line(text, 400) for key, text in said.items()}, judges=tuple(judges))


def _line(text: str, most: int) -> str:
    """Foreign text on one line of a document."""
    return " ".join(visible(text).split())[:most]


def unspliced(upstream: Upstream, sha: str) -> str:
    """The stack that a fork's branch shows: the commit below the splices by which an export keeps older stacks.

    A splice has the tree of its first parent, so nothing is lost. A commit that is none is its own answer.
    """
    while True:
        upstream.fetch(sha)
        (row,) = upstream.git.objects([sha])
        header = row[1].partition(b"\n\n")[0] if row else b""
        parents = [parent.decode() for parent in _PARENT.findall(header)]
        if len(parents) < 2:
            return sha
        upstream.fetch(parents[0])
        (below,) = upstream.git.objects([parents[0]])
        if below is None or _TREE.findall(below[1]) != _TREE.findall(header):
            return sha
        sha = parents[0]


class ForkCommit(NamedTuple):
    """A commit that a fork has on top of upstream's."""

    sha: str
    subject: str


class Base(NamedTuple):
    """The upstream commit that another one is based on, or is itself."""

    sha: str
    carried: tuple[ForkCommit, ...] = ()  #: the commits that upstream does not have, oldest first


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
    carried: list[ForkCommit] = []
    for rows in client.pages(f"/compare/{nearest}...{sha}", "commits"):
        carried += (ForkCommit(row["sha"], row["commit"]["message"].partition("\n")[0]) for row in rows)
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
    carried = [ForkCommit(*line.split("\0", 1)) for line in reversed(listed.splitlines())]
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
