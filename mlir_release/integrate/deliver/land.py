"""Landing: an integrate branch, as it is or as it was at an advance, is checked, squashed, pushed and put to review.

The remote's branch is replaced first, and only if it is where it was last seen. What is left out stays in reach, here
and at the remote, at ``refs/mlir-release/landed/<branch>``. The local branch moves last, so a killed landing can be
repeated.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.documents.trailers import format_message, parse_trailers
from mlir_release.ground.errors import ConflictError, UsageError, VerificationError
from mlir_release.ground.git.remotes import fetch, push
from mlir_release.ground.git.repository import NO_OBJECT
from mlir_release.ground.git.trees import commit_tree, is_ancestor, tree_of
from mlir_release.ground.programs.races import Races
from mlir_release.ground.strategy import Verdict
from mlir_release.integrate.credentials import export_ref, fetch_export
from mlir_release.integrate.deliver.deliver import pull_request_text
from mlir_release.integrate.fix.broken import remove_broken
from mlir_release.integrate.patches.ledger import carried
from mlir_release.integrate.pins.submodules import fetchable, links_made, update
from mlir_release.integrate.project import Integration, branch_moved_remotely, local_branch_moved
from mlir_release.integrate.state import (
    LANDED,
    REMOTE_LANDED,
    T_BREAKS,
    T_COMMITS,
    T_CULPRITS,
    T_DROPPED,
    T_PATCHES,
    T_PIN,
    T_START,
    T_UPSTREAM,
    T_VERDICT,
    culprits_in,
    is_squashed,
    of_upstream,
    past_of,
    totals,
)
from mlir_release.integrate.upstream import shown

if TYPE_CHECKING:
    from mlir_release.ground.hosting import PullRequests
    from mlir_release.integrate.walk.walk import Walk


def land(walk: Walk, *, squash: bool, pulls: PullRequests | None, at: str | None = None) -> str:
    """Check, squash if asked, push, write the pull request and mark it ready. Returns the branch's head.

    :param at: a commit of the branch: what comes after it is left out, at the remote, too
    :raises UsageError: if ``at`` is not on the branch
    :raises ConflictError: if the remote has commits that nobody here has left out, or another process moves the branch
    """
    project, branch, outer = walk.project, walk.branch, walk.project.outer
    project.refuse_dirty()
    remote = project.config.downstream.remote
    old = outer.text("rev-parse", "--verify", f"refs/heads/{branch}")
    tracked = outer.resolve(f"refs/remotes/{remote}/{branch}")  # before a fetch moves it
    pull_landed(project, branch)
    landed, seen = old, None
    if at is not None:
        landed, seen = _on_branch(project, branch, at, (old, tracked, outer.resolve(LANDED + branch))), tracked
    check_reachable(project, branch, landed)
    title, body = pull_request_text(project, branch, landed)
    walk.store.push(remote)
    races = Races(where=f"{branch} at {remote}")
    while True:
        there = outer.text("ls-remote", "--", remote, f"refs/heads/{branch}", remote=remote).split("\t")[0]
        if there and outer.resolve(there) is None:
            project.fetch_branch(branch)
        new = _squash(project, branch, landed, title, body, there) if squash else landed
        if not _may_replace(project, there, landed, (new, old, seen)):
            raise branch_moved_remotely(project, branch)
        _keep(project, branch, *(head for head in (old, there) if head and not is_ancestor(outer, head, new)))
        if there == new or push(outer, remote, f"{new}:refs/heads/{branch}", leases={f"refs/heads/{branch}": there}):
            break
        races.retry("push what lands")
    if pulls is not None:
        pulls.ensure_draft(branch=branch, base=project.config.downstream.branch, title=title, body=body)
        pulls.mark_ready(branch=branch)
    remove_broken(walk)
    # The checked-out branch and the work tree follow.
    ref, why = f"refs/heads/{branch}", "another process committed to it meanwhile"
    same = tree_of(outer, old) == tree_of(outer, new)
    if same:
        outer.update_ref(ref, new, expected=old)
    elif outer.resolve(ref) == old:
        done = outer.run("checkout", "--quiet", "-B", branch, new, check=False)
        why = done.stderr.decode(errors="replace").strip() or why
    if outer.resolve(ref) != new:
        raise local_branch_moved(branch, outer, why=why)
    if not same:
        project.follow()
        update(project)
    return new


def _on_branch(project: Integration, branch: str, at: str, heads: tuple[str | None, ...]) -> str:
    """The commit that ``at`` names, if the branch has it, or had it before it was squashed, reset or rebased."""
    outer = project.outer
    commit = outer.resolve(at)
    if commit is None:
        raise UsageError(
            "revision-unknown",
            f"{at!r} names no commit of this repository",
            where=str(outer.directory),
            remedy=f"git log --first-parent {branch} lists the advances; give one's id, or HEAD~3",
        )
    known = ("rev-list", f"^{project.main_ref()}", *(head for head in heads if head))
    own = commit in outer.text(*known).split()
    if own:  # along first parents, or so after an integrate's first commit
        begun = project.commits(branch, commit)[0][2]
        line = ("rev-list", "--first-parent", f"refs/heads/{branch}", f"^{project.main_ref()}")
        own = T_START in begun or is_squashed(begun) or commit in outer.text(*line).split()
    if not own:
        raise UsageError(
            "revision-unsuitable",
            f"can't land at {at!r}: {commit[:12]} is not a commit of {branch}",
            where=f"{branch} is at {heads[0]}",
            why=f"it is on {project.config.downstream.branch} already, or on another branch",
            remedy=f"git log --first-parent {branch} lists the advances; after a landing, they are at {LANDED}{branch}",
        )
    trailers = parse_trailers(outer.message(commit))
    if any(of_upstream(trailers, each.names).get(T_VERDICT) == Verdict.BAD for each in project.everyone):
        console.warn(f"{commit[:12]} tested bad: what fixes it comes later on {branch}")
    return commit


# -- checks ------------------------------------------------------------------------------------------------------------


def check_reachable(project: Integration, branch: str, at: str = "") -> None:
    """Fetch again everything that the branch's commits point at.

    :param at: a commit of the branch, which is looked at instead of its head
    :raises VerificationError: naming the first commit whose LLVM, or other submodule, others can't fetch
    """
    commits = project.commits(branch, at)
    for each in project.everyone:
        upstream, export = each.upstream, each.upstream.config.export
        pins = {commit: each.pin(commit) for commit, _, _ in commits}
        begun = each.pin(project.fork_point(at or f"refs/heads/{branch}"))
        if each not in project.walked(branch) and {*pins.values()} <= {begun}:
            continue
        public = [upstream.fetch()]
        if export is not None and fetch_export(upstream, export)[0]:
            public.append(export_ref(export))
        for commit, subject, _ in commits:
            if not any(is_ancestor(upstream, pins[commit], head) for head in public):
                raise _unreachable(commit, shown(subject), upstream.config.title, pins[commit], "upstream")
    can_be_fetched = cache(partial(fetchable, project))
    for outer, subject, path, commit in links_made(project, project.main_ref(), at or f"refs/heads/{branch}"):
        if not can_be_fetched(path, commit):
            raise _unreachable(outer, subject, path, commit, f"the remote of {path}")


def _unreachable(commit: str, subject: str, what: str, target: str, where: str) -> VerificationError:
    return VerificationError(
        "land-unreachable",
        f"{commit[:12]} ({subject}) points at a commit of {what} that others can't fetch",
        where=target,
        why=f"it is neither at {where} nor on the export branch",
    )


# -- what lands --------------------------------------------------------------------------------------------------------


def _squash(project: Integration, branch: str, head: str, title: str, body: str, known: str) -> str:
    """One commit for the branch up to ``head``: ``known``, if it is that already."""
    commits = project.commits(branch, head)
    if len(commits) <= 1 and all(T_START not in trailers for _, _, trailers in commits):
        return head
    messages = [project.outer.message(commit) for commit, _, _ in commits]
    trailers: dict[str, object] = {}
    for each in project.walked(branch):
        passed, breaks = totals(commits, each.names)
        pin = each.pin(head)
        base = each.upstream.base_of(pin, each.upstream.head())
        patches = len(carried(each.upstream, base, pin))
        own = {T_UPSTREAM: base, T_PIN: pin, T_COMMITS: passed, T_BREAKS: breaks, T_PATCHES: patches}
        own |= {T_DROPPED: dropped} if (dropped := past_of(project.outer, head, each.names).dropped.strip()) else {}
        culprits = [culprit for message in messages for culprit in culprits_in(message, each.names)]
        trailers |= each.named(own | ({T_CULPRITS: " ".join(culprits)} if culprits else {}))
    message = format_message(title, body, trailers)
    return project.commit(tree_of(project.outer, head), [project.fork_point(head)], message, known=known)


def _may_replace(project: Integration, there: str, landed: str, heads: tuple[str | None, ...]) -> bool:
    """Whether the remote's head (empty: there is none) has nothing that is neither in ``heads`` nor in what lands."""
    outer = project.outer
    if not there or any(is_ancestor(outer, there, head) for head in heads if head):
        return True
    squashed = outer.text("log", "-1", "--format=%T %P", there)  # at a landing that was killed then
    return squashed == f"{tree_of(outer, landed)} {project.fork_point(landed)}"


# -- what is left out --------------------------------------------------------------------------------------------------


def pull_landed(project: Integration, branch: str) -> None:
    """Bring what others landed of the branch, before they squashed it, to :data:`LANDED`, beside what is there.

    :raises UnreachableError: if the remote can't be read
    """
    theirs = f"{REMOTE_LANDED}{branch}"
    if fetch(project.outer, project.config.downstream.remote, f"+{LANDED}{branch}:{theirs}"):
        _add(project, branch, project.outer.text("rev-parse", "--verify", theirs))
    else:
        project.outer.run("update-ref", "-d", theirs)


def _keep(project: Integration, branch: str, *heads: str) -> None:
    """Keep heads that the branch is about to lose, here and at the remote; not those without any advance."""
    for head in heads:
        if not all(is_squashed(trailers) for _, _, trailers in project.commits(branch, head)):
            _add(project, branch, head)
    remote, ref = project.config.downstream.remote, LANDED + branch
    races = Races(where=f"{ref} at {remote}")
    while (kept := project.outer.resolve(ref)) is not None:
        if kept == project.outer.resolve(f"{REMOTE_LANDED}{branch}"):
            return
        try:
            if push(project.outer, remote, f"{ref}:{ref}"):
                project.outer.run("update-ref", f"{REMOTE_LANDED}{branch}", kept)
                return
        except ConflictError as error:
            console.warn(f"{ref} is only here: {error.why}")
            return
        races.retry("push what was landed")
        pull_landed(project, branch)


def _add(project: Integration, branch: str, head: str) -> None:
    """Make ``head`` reachable from :data:`LANDED`, which only ever moves forward."""
    outer, ref = project.outer, LANDED + branch
    races = Races(where=f"{outer.directory}: {ref}")
    while True:
        kept = outer.resolve(ref)
        if kept is not None and is_ancestor(outer, head, kept):
            return
        new = head
        if kept is not None and not is_ancestor(outer, kept, head):
            message = f"Keep {head[:12]} beside {kept[:12]}\n"
            new = commit_tree(outer, tree_of(outer, head), [head, kept], message, project.signature())
        if outer.update_ref(ref, new, expected=kept or NO_OBJECT):
            console.say(f"    {head[:12]} stays in reach at {ref}")
            return
        races.retry("keep what was landed")
