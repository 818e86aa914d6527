"""Changes of an integrate branch besides walking it: start, sync, carry and drop patches, land."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from mlir_release.errors import ConflictError, NeedsPersonError, UsageError, VerificationError
from mlir_release.foreign import in_commit
from mlir_release.git.repository import NO_OBJECT
from mlir_release.git.trees import commit_tree, is_ancestor, merge_commits, tree_of
from mlir_release.integrate.credentials import export_ref, fetch_export
from mlir_release.integrate.deliver import pull_request_text, update_pull_request
from mlir_release.integrate.diamond import check_waiting
from mlir_release.integrate.export import export_stack
from mlir_release.integrate.ledger import T_DROP, T_KIND, T_LINK, T_OF, T_UNTIL, T_WHY, carried, named
from mlir_release.integrate.patches import add_patch, without
from mlir_release.integrate.project import branch_moved_remotely, local_branch_moved
from mlir_release.integrate.state import (
    T_BREAKS,
    T_COMMITS,
    T_PATCHES,
    T_PIN,
    T_START,
    T_UPSTREAM,
    branch_commits,
    totals,
)
from mlir_release.integrate.submodules import fetchable, links_made, update
from mlir_release.integrate.upstream import shown
from mlir_release.integrate.walk import Walk
from mlir_release.model.trailers import format_message, parse_trailers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.forge.services import PullRequests
    from mlir_release.integrate.ledger import Patch
    from mlir_release.integrate.observe import Observation
    from mlir_release.integrate.project import Project


# -- start -------------------------------------------------------------------------------------------------------------


def start(project: Project, *also: Project, publish: bool = False, pulls: PullRequests | None = None) -> str:
    """Begin an integrate: main up to date, a dated branch with one empty commit that describes it. Returns its name.

    Re-running it before the first advance finds the same branch.

    :param also: the downstream with its other upstreams, if they are walked, too
    :param publish: push the branch, and open a draft pull request in ``pulls``
    """
    walked = (project, *also)
    outer, downstream = project.outer, project.config.downstream
    project.refuse_dirty()
    main = project.fetch_branch(downstream.branch)
    if main is None:
        raise UsageError(
            "branch-missing",
            f"the remote {downstream.remote!r} has no branch {downstream.branch!r}",
            where=str(outer.directory),
            remedy="correct downstream.remote or downstream.branch in integrate.toml",
        )
    heads = [each.upstream.fetch() for each in walked]
    local = outer.resolve(f"refs/heads/{downstream.branch}")
    if local is not None and not is_ancestor(outer, local, main):
        raise ConflictError(
            "branch-diverged",
            f"the local {downstream.branch} has commits that {downstream.remote} does not have",
            where=str(outer.directory),
            remedy=f"push or move them away, so that {downstream.branch} can be fast-forwarded; nothing was changed",
        )
    pattern = project.config.branch_pattern(None if also else project.upstream.config)
    name, existing = _branch_name(project, main, pattern)
    commit = existing or _start_commit(walked, main, heads)
    if local is None:
        outer.run("branch", "--quiet", "--track", downstream.branch, project.main_ref())
    outer.run("switch", "--quiet", downstream.branch)
    outer.run("merge", "--quiet", "--ff-only", main)
    update(project)
    if existing is None and not outer.update_ref(f"refs/heads/{name}", commit, expected=NO_OBJECT):
        raise ConflictError(
            "lost-race",
            f"another process has just made {name}",
            where=str(outer.directory),
            remedy="run start again",
        )
    outer.run("switch", "--quiet", name)
    project.follow()
    if publish:
        Walk(project).push_branch()
        if pulls is not None:
            update_pull_request(project, name, pulls)
    return name


def _start_commit(walked: Sequence[Project], main: str, heads: Sequence[str]) -> str:
    begun, lines = [], []
    trailers: dict[str, object] = {T_START: main}
    for project, head in zip(walked, heads, strict=True):
        upstream = project.upstream
        base = upstream.base_of(project.pin(main), head)
        ahead = len(upstream.affecting(base, head))
        named = f"{upstream.config.title}: " if len(walked) > 1 else ""
        lines.append(f"{named}{ahead} affecting commits ahead, up to {head}.")
        lines.append(f"Tracked: {', '.join(upstream.config.paths)}.")
        begun.append(f"{upstream.config.title} from {base[:12]}")
        trailers |= project.named({T_UPSTREAM: base})
    message = format_message(f"Start integrating {', '.join(begun)}", "\n".join(lines), trailers)
    outer = walked[0].outer
    return commit_tree(outer, f"{main}^{{tree}}", [main], message, walked[0].signature())


def _branch_name(project: Project, main: str, pattern: str) -> tuple[str, str | None]:
    """A free name of today; or the branch of today that was started from ``main`` and has not moved since."""
    date = project.clock().strftime("%Y%m%d")
    plain = pattern.replace("{date}", date)
    outer = project.outer
    remote = project.config.downstream.remote
    there = outer.text("ls-remote", "--heads", "--", remote, f"refs/heads/{plain}*", remote=remote)
    taken = {line.partition("\t")[2] for line in there.splitlines()}
    number = 0
    while True:
        name = plain if number == 0 else f"{plain}_{number}"
        local = outer.resolve(f"refs/heads/{name}")
        if local is None and f"refs/heads/{name}" not in taken:
            return name, None
        if local is not None and parse_trailers(outer.message(local)).get(T_START) == main:
            return name, local
        number += 1


# -- sync --------------------------------------------------------------------------------------------------------------


def sync(walk: Walk) -> bool:
    """Fast-forward the branch to others' pushes, and merge main into it. Returns whether anything changed.

    :raises ConflictError: if the branch diverged from the remote's
    :raises NeedsPersonError: if main does not merge cleanly; nothing was changed then
    """
    project, branch, outer = walk.project, walk.branch, walk.project.outer
    downstream = project.config.downstream
    project.refuse_dirty()
    before = outer.text("rev-parse", "HEAD")
    theirs = project.fetch_branch(branch)
    if theirs is not None and not is_ancestor(outer, theirs, before):
        if not is_ancestor(outer, before, theirs):
            raise ConflictError(
                "branch-diverged",
                f"{branch} here and at {downstream.remote} have different commits",
                where=f"{before} and {theirs}",
                remedy=f"git rebase (or merge) onto {downstream.remote}/{branch} by hand, then sync again",
            )
        project.move_branch(branch, theirs)
    main = project.fetch_branch(downstream.branch)
    head = outer.text("rev-parse", "HEAD")
    if main is not None and not is_ancestor(outer, main, head):
        merge = merge_commits(outer, head, main)
        if merge.conflicts:
            raise NeedsPersonError(
                "patch-conflict",
                f"{downstream.branch} does not merge into {branch} without conflicts",
                where=", ".join(merge.conflicts),
                remedy=f"git merge {downstream.remote}/{downstream.branch}, resolve, commit and push by hand",
            )
        message = f"Merge {downstream.branch} into {branch}\n"
        project.move_branch(branch, commit_tree(outer, merge.tree, [head, main], message, project.signature()))
    update(project)
    project.follow()
    walk.store.pull(downstream.remote)
    if walk.publish:
        walk.push_branch()
    return outer.text("rev-parse", "HEAD") != before


# -- carried patches ---------------------------------------------------------------------------------------------------


def carry(walk: Walk, revision: str, *, revert: bool, why: str, link: str, drop_when: str, until: str = "") -> str:
    """Pick (or revert) an upstream commit on top of the carried stack, and commit that. Returns the patch's id.

    :param until: a dependency; once its own pin has the upstream commit, the patch is not needed any more
    """
    project = walk.project
    project.refuse_dirty()
    seen = walk.observer.look()
    commit = project.upstream.commit(revision)
    if until:
        drop_when = drop_when or check_waiting(project, seen, commit, until)
    recorded = {
        T_KIND: "revert" if revert else "cherry-pick",
        T_OF: commit.sha,
        T_WHY: why,
        T_LINK: link,
        T_UNTIL: until,
        T_DROP: drop_when or ("upstream reverts it too" if revert else "upstream has it"),
    }
    tip = add_patch(
        project.upstream, seen.pin, commit.sha, revert=revert, ledger=recorded, signature=project.signature()
    )
    carried_as = shown(project.upstream.message(tip)).partition("\n")[0]
    _commit_stack(walk, seen, tip, len(seen.patches) + 1, f"Carry {in_commit(repr(carried_as))}", f"Why: {why}")
    return tip


def drop(walks: Sequence[Walk], unwanted: str) -> Patch:
    """Stop carrying the patch whose id begins with ``unwanted``, and commit that. Returns the patch.

    :param walks: those of the upstreams that it may be carried on
    """
    walks[0].project.refuse_dirty()
    looked = {walk: walk.observer.look() for walk in walks}
    patch = named([patch for seen in looked.values() for patch in seen.patches], unwanted)
    walk, seen = next((walk, seen) for walk, seen in looked.items() if patch in seen.patches)
    stack = without(walk.project.upstream, seen.patches, seen.base, patch)
    subject = f"Drop {in_commit(repr(patch.subject))}"
    _commit_stack(walk, seen, stack.tip, len(stack.kept), subject, f"It was {patch.sha}.")
    return patch


def _commit_stack(walk: Walk, seen: Observation, tip: str, count: int, subject: str, body: str) -> None:
    project = walk.project
    if tip != seen.base:
        export_stack(project, tip)
    message = format_message(subject, body, project.named({T_PIN: tip, T_PATCHES: count}))
    project.move_branch(walk.branch, project.pin_commit(seen.head, tip, message))
    if walk.publish:
        walk.push_branch()


# -- land --------------------------------------------------------------------------------------------------------------


def check_reachable(project: Project, branch: str) -> None:
    """Fetch again everything that the branch's commits point at.

    :raises VerificationError: naming the first commit whose LLVM, or other submodule, others can't fetch
    """
    commits = branch_commits(project, branch)
    for each in project.everyone:
        upstream, export = each.upstream, each.upstream.config.export
        pins = {commit: each.pin(commit) for commit, _, _ in commits}
        if each not in project.walked(branch) and {*pins.values()} <= {each.pin(project.fork_point(branch))}:
            continue
        public = [upstream.fetch()]
        if export is not None and fetch_export(upstream, export)[0]:
            public.append(export_ref(export))
        for commit, subject, _ in commits:
            if not any(is_ancestor(upstream, pins[commit], head) for head in public):
                named = f"{commit[:12]} ({shown(subject)})"
                raise _unreachable(named, upstream.config.title, pins[commit], "upstream")
    can_be_fetched = cache(partial(fetchable, project))
    for outer, subject, path, commit in links_made(project, project.main_ref(), f"refs/heads/{branch}"):
        if not can_be_fetched(path, commit):
            raise _unreachable(f"{outer[:12]} ({subject})", path, commit, f"the remote of {path}")


def _unreachable(commit: str, what: str, target: str, where: str) -> VerificationError:
    return VerificationError(
        "land-unreachable",
        f"{commit} points at a commit of {what} that others can't fetch",
        where=target,
        why=f"it is neither at {where} nor on the export branch",
        remedy="mlir-release integrate export, from the machine that has it; then land again",
    )


def land(walk: Walk, *, squash: bool, pulls: PullRequests | None) -> str:
    """Check, squash if asked, push, write the pull request and mark it ready. Returns the branch's head.

    The unsquashed head stays at ``refs/mlir-release/landed/<branch>``. Re-running it after that changes nothing.
    """
    project, branch = walk.project, walk.branch
    project.refuse_dirty()
    check_reachable(project, branch)
    title, body = pull_request_text(project, branch)
    outer = project.outer
    old = outer.text("rev-parse", "--verify", f"refs/heads/{branch}")
    new = _squash(project, branch, old, title, body) if squash else old
    if new != old:
        outer.run("update-ref", f"refs/mlir-release/landed/{branch}", old)
        if not outer.update_ref(f"refs/heads/{branch}", new, expected=old):
            raise local_branch_moved(branch, outer, why="another process committed to it meanwhile")
    _push(walk, branch, new)
    if pulls is not None:
        pulls.ensure_draft(branch=branch, base=project.config.downstream.branch, title=title, body=body)
        pulls.mark_ready(branch=branch)
    return new


def _squash(project: Project, branch: str, head: str, title: str, body: str) -> str:
    commits = branch_commits(project, branch)
    if len(commits) <= 1 and all(T_START not in trailers for _, _, trailers in commits):
        return head
    fork = project.fork_point(head)
    trailers: dict[str, object] = {}
    for each in project.walked(branch):
        passed, breaks = totals(commits, each.names)
        pin = each.pin(head)
        base = each.upstream.base_of(pin, each.upstream.head())
        patches = len(carried(each.upstream, base, pin))
        own = {T_UPSTREAM: base, T_PIN: pin, T_COMMITS: passed, T_BREAKS: breaks, T_PATCHES: patches}
        trailers |= each.named(own)
    message = format_message(title, body, trailers)
    return commit_tree(project.outer, tree_of(project.outer, head), [fork], message, project.signature())


def _push(walk: Walk, branch: str, new: str) -> None:
    outer, remote = walk.project.outer, walk.project.config.downstream.remote
    walk.store.push(remote)
    there = outer.text("ls-remote", "--", remote, f"refs/heads/{branch}", remote=remote).split("\t")[0]
    kept = outer.resolve(f"refs/mlir-release/landed/{branch}")
    if there == new:
        return
    # A commit that is not here is no ancestor.
    if there and not any(is_ancestor(outer, there, ours) for ours in (new, kept) if ours is not None):
        raise branch_moved_remotely(branch, remote)
    lease = f"--force-with-lease=refs/heads/{branch}:{there}"
    outer.run("push", "--quiet", "--no-verify", lease, remote, f"{new}:refs/heads/{branch}", remote=remote)
