"""Changes of an integrate branch besides walking and landing it: start, sync, carry and drop patches."""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.documents.trailers import format_message, parse_trailers
from mlir_release.ground.errors import ConflictError, MachineError, NeedsPersonError, UsageError
from mlir_release.ground.foreign import in_commit
from mlir_release.ground.git.patch import T_DROP, T_KIND, T_LINK, T_OF, T_UNTIL, T_WHY
from mlir_release.ground.git.repository import NO_OBJECT
from mlir_release.ground.git.reverts import Effects, aliases, as_reverting
from mlir_release.ground.git.trees import is_ancestor, merge_commits
from mlir_release.integrate.deliver.deliver import merge_subject, update_pull_request
from mlir_release.integrate.patches.export import check_fork, export_stack
from mlir_release.integrate.patches.files import check_files, follow
from mlir_release.integrate.patches.ledger import as_trailer, named
from mlir_release.integrate.patches.patches import Stack, add_patch, without
from mlir_release.integrate.pins.refresh import refreshed
from mlir_release.integrate.pins.submodules import update
from mlir_release.integrate.project import Integration, branch_diverged
from mlir_release.integrate.state import T_DROPPED, T_PATCHES, T_PIN, T_START, T_UPSTREAM, past_of
from mlir_release.integrate.upstream import shown
from mlir_release.integrate.walk.diamond import check_waiting
from mlir_release.integrate.walk.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mlir_release.ground.git.patch import Patch
    from mlir_release.ground.hosting import PullRequests
    from mlir_release.integrate.walk.observe import Observation


# -- start -------------------------------------------------------------------------------------------------------------


def start(
    project: Integration,
    *also: Integration,
    publish: bool = False,
    pulls: PullRequests | None = None,
    repair: bool = False,
) -> str:
    """Begin an integrate: main up to date, a dated branch with one empty commit that describes it. Returns its name.

    Re-running it before the first advance finds the same branch.

    :param also: the downstream with its other upstreams, if they are walked, too
    :param publish: push the branch, and open a draft pull request in ``pulls``
    :param repair: correct copies of the pin that say another commit, in the branch's first commit
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
    if not repair:
        for each in walked:
            each.check_copies(main)
    for each, head in zip(walked, heads, strict=True):
        pin = each.pin(main)
        check_files(each, main, pin, base := each.upstream.base_of(pin, head))
        check_fork(each, pin, base)
    plain = project.config.branch_pattern(None if also else project.upstream.config)
    plain = plain.replace("{date}", project.clock().strftime("%Y%m%d"))
    remote = downstream.remote
    there = outer.text("ls-remote", "--heads", "--", remote, f"refs/heads/{plain}*", remote=remote)
    taken = {line.partition("\t")[2] for line in there.splitlines()}
    for number in count():  # a free name of today; or the branch of today that started from main and has not moved
        name = f"{plain}_{number}" if number else plain
        existing = outer.resolve(f"refs/heads/{name}")
        if existing is None and f"refs/heads/{name}" not in taken:
            break
        if existing is not None and parse_trailers(outer.message(existing)).get(T_START) == main:
            break
    if existing is None:
        begun, lines, tree = [], [], main
        trailers: dict[str, object] = {T_START: main}
        for each, head in zip(walked, heads, strict=True):
            upstream, title, pin = each.upstream, each.upstream.config.title, each.pin(main)
            base = upstream.base_of(pin, head)
            ahead = len(upstream.affecting(base, head))
            lines.append(f"{f'{title}: ' if also else ''}{ahead} affecting commits ahead, up to {head}.")
            lines.append(f"Tracked: {', '.join(upstream.config.paths)}.")
            begun.append(f"{title} from {base[:12]}")
            recorded = (f"--grep=^{T_UPSTREAM}{name}:" for name in each.names)  # it may have come by a merge
            landed = outer.text("log", "-n1", "--format=%H", *recorded, main)
            dropped = past_of(outer, landed or main, each.names).dropped.strip()
            trailers |= each.named({T_UPSTREAM: base, **({T_DROPPED: dropped} if dropped else {})})
            if repair:
                tree = each.tree_with_pin(tree, pin)
        message = format_message(f"Start integrating {', '.join(begun)}", "\n".join(lines), trailers)
        commit = project.commit(f"{tree}^{{tree}}", [main], message)
    if local is None:
        outer.run("branch", "--quiet", "--track", downstream.branch, project.main_ref())
    outer.run("switch", "--quiet", downstream.branch)
    outer.run("merge", "--quiet", "--ff-only", main)
    update(project)
    if existing is None and not outer.update_ref(f"refs/heads/{name}", commit, expected=NO_OBJECT):
        what = f"another process has just made {name}"
        raise ConflictError("lost-race", what, where=str(outer.directory))
    outer.run("switch", "--quiet", name)
    project.follow()
    warn_of_taken_back(walked)
    if publish:
        Walk(project).push_branch()
        if pulls is not None:
            update_pull_request(project, name, pulls)
    return name


def warn_of_taken_back(projects: Iterable[Integration]) -> None:
    """Warn of what main has had and taken back, of each upstream."""
    for each in projects:
        if told := taken_back(each, each.main_ref())[1]:
            console.warn(told)


#: How many of main's changes of the pin are looked at, newest first.
_PINNED = 20


def taken_back(project: Integration, main: str) -> tuple[str, str]:
    """The newest upstream commit that main had and took back, if its pin has not come as far since; and a sentence.

    Both are empty if there is none. What was taken back and landed again is none either.
    """
    outer, upstream = project.outer, project.upstream
    asked = ("log", "-z", "--no-mailmap", f"-n{_PINNED}", "--topo-order", "--format=%H%x00%B", main, "--")
    output = outer.run(*asked, *upstream.config.carriers).stdout.decode(errors="replace").split("\0")
    rows = [(sha, 0, message) for sha, message in zip(output[::2], output[1::2], strict=False)]
    named = aliases((sha, message.partition("\n")[0]) for sha, _, message in rows)
    taken = Effects(as_reverting(outer, rows), named).taken()
    order = {sha: place for place, (sha, *_) in enumerate(rows)}
    commit = min(taken, key=lambda name: order[taken[name].sha], default="")
    if not commit or outer.resolve(commit) is None:
        return "", ""
    head, by, title = upstream.head(), taken[commit].sha, upstream.config.title
    try:
        here, there = (upstream.base_of(project.pin(each), head) for each in (main, commit))
    except (UsageError, ConflictError, MachineError):  # a commit of long ago, from before there was a pin
        return "", ""
    if is_ancestor(upstream, there, here):
        return "", ""
    return there, (
        f"{project.config.downstream.branch} had {title} at {there[:12]} (in {commit[:12]}), and took it back in "
        f"{by[:12]}. To find why, before a walk goes there again: "
        f"mlir-release integrate bisect upstream --good {here[:12]} --bad {there[:12]} -- CMD…"
    )


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
            raise branch_diverged(project, branch, before, theirs)
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
        merged = project.commit(merge.tree, [head, main], f"{merge_subject(project, branch)}\n")
        project.move_branch(branch, merged)
    update(project)
    project.follow()
    walk.store.pull(downstream.remote)
    if walk.publish:
        walk.push_branch()
    return outer.text("rev-parse", "HEAD") != before


# -- carried patches ---------------------------------------------------------------------------------------------------


def carry(walk: Walk, revision: str, *, revert: bool, why: str, link: str, drop_when: str, until: str = "") -> str:
    """Pick (or revert) an upstream commit on top of the carried stack, and commit that. Returns the patch's id.

    The revert of a commit ahead needs it, and a pick may need the next one, which broke the walk: then the same commit
    advances there.

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
    signature = project.signature(official=True)
    made = partial(add_patch, project.upstream, commit=commit.sha, revert=revert, ledger=recorded, signature=signature)
    contained = partial(is_ancestor, project.upstream, commit.sha)
    onto = None
    if revert and contained(seen.until) and not contained(seen.base):  # a merge may bring it
        onto = [*seen.ahead, commit][bisect_left(seen.ahead, True, key=lambda each: contained(each.sha))]
    if onto is None:
        try:
            tip = made(tip=seen.pin)
        except NeedsPersonError:
            if revert or not seen.ahead:
                raise
            onto = seen.ahead[0]
    lines, trailers, there = [f"Why: {why}"], dict[str, object](), ""
    stack = walk.observer.stack_at(seen, onto.sha if onto else seen.base)
    if onto is not None:
        tip = made(tip=stack.tip)
        more, trailers = walk.advance_text(seen, onto, stack, walk.verdict_at(seen, onto.sha))
        lines, there = [*lines, *more], f"Advance {project.upstream.config.title} to {onto.sha[:12]} and carry "
    carried_as = in_commit(repr(shown(project.upstream.message(tip)).partition("\n")[0]))
    subject = f"{there or 'Carry '}{carried_as}"
    _commit_stack(walk, seen, tip, len(stack.kept) + 1, subject, "\n".join(lines), trailers)
    return tip


def drop(walks: Sequence[Walk], unwanted: str) -> Patch:
    """Stop carrying the patch whose id begins with ``unwanted``, and commit that. Returns the patch.

    :param walks: those of the upstreams that it may be carried on
    """
    walks[0].project.refuse_dirty()
    looked = {walk: walk.observer.look() for walk in walks}
    known = {walk: (*seen.patches, *(each.patch for each in seen.asleep)) for walk, seen in looked.items()}
    patch = named([patch for patches in known.values() for patch in patches], unwanted)
    walk = next(walk for walk, patches in known.items() if patch in patches)
    seen = looked[walk]
    more: dict[str, object] = {}
    if patch in seen.patches:
        stack = without(walk.project.upstream, seen.patches, seen.base, patch)
    else:  # it would come back
        asleep = tuple(each for each in seen.asleep if each.patch is not patch)
        stack = Stack(seen.base, seen.pin, seen.patches, asleep=asleep)
        words = [*as_trailer(asleep).split(), *follow(walk.project, seen.head, seen.pin).asleep]
        more = {T_UPSTREAM: seen.base, **({T_DROPPED: " ".join(words)} if words else {})}
    subject = f"Drop {in_commit(repr(patch.subject))}"
    more = walk.project.named(more)
    _commit_stack(walk, seen, stack.tip, len(stack.kept), subject, f"It was {patch.sha}.", more)
    return patch


def _commit_stack(
    walk: Walk,
    seen: Observation,
    tip: str,
    patches: int,
    subject: str,
    body: str,
    more: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """``more``: trailers of an advance."""
    project = walk.project
    if patches:
        export_stack(project, tip)
    message = format_message(subject, body, {**more, **project.named({T_PIN: tip, T_PATCHES: patches})})
    generated = refreshed(project, seen.head, tip)
    project.move_branch(walk.branch, project.pin_commit(seen.head, tip, message, generated))
    if walk.publish:
        walk.push_branch()
