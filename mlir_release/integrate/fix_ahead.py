"""``integrate fix --ahead``: a fix that also passes on the old upstream lands on the main branch before the bump.

The fix is replayed on main's head without the pins that the advance moved, and tested there, too. Once it has landed,
``integrate sync`` merges it into the integrate branch, where the culprit's verdict is known already.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from mlir_release.console import console
from mlir_release.errors import ConflictError, NeedsPersonError, UsageError
from mlir_release.foreign import code, in_commit, link, markdown
from mlir_release.git.remotes import UnreachableError
from mlir_release.git.repository import NO_OBJECT
from mlir_release.git.trees import commit_tree, entry_at, merge_trees, replay_commit, tree_of, tree_with
from mlir_release.integrate import strategy as st
from mlir_release.integrate.export import export_others
from mlir_release.integrate.fix import SENT_AHEAD, at_culprit, committed, failure, tested, work_tree
from mlir_release.integrate.ledger import carried
from mlir_release.integrate.state import T_PIN, T_UPSTREAM
from mlir_release.integrate.upstream import shown
from mlir_release.model.trailers import parse_trailers

if TYPE_CHECKING:
    from mlir_release.forge.services import PullRequests
    from mlir_release.integrate.observe import Observation
    from mlir_release.integrate.project import Project
    from mlir_release.integrate.walk import Walk


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """A fix on its way to main."""

    branch: str  #: that has it, from main's head; not an integrate branch
    commit: str
    main: str  #: the name of the main branch
    old: str  #: upstream commits that it passed on: that of main
    bad: str  #: and the culprit
    pushed: bool
    pull_request: str  #: its address, or empty

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self)

    def as_text(self) -> str:
        """For the terminal, with the next command."""
        if self.pull_request:
            then = f"once {self.pull_request} has landed: mlir-release integrate sync, then run"
        elif self.pushed:
            then = f"open a pull request of it to {self.main} (GITHUB_REPOSITORY and GITHUB_TOKEN make this do so)"
        else:
            then = "mlir-release integrate fix --ahead --push"
        return f"{self.branch} is at {self.commit[:12]}, tested on {self.old[:12]} and {self.bad[:12]}.\n  next: {then}"


def send_ahead(walk: Walk, pulls: PullRequests | None = None) -> Ahead:
    """Test the work tree's commit at the culprit, and on main's head; then make a branch of it from there.

    With ``walk.publish`` the branch is pushed, and a pull request opened in ``pulls``. Repeating this repeats no test.

    :raises NeedsPersonError: if it fails on either upstream commit, or does not apply to main
    :raises UsageError: if nothing was committed, or main has it
    :raises ConflictError: if others have changed the branch
    """
    project, outer = walk.project, walk.project.outer
    with work_tree(project) as slot:
        seen = walk.observer.look(fetch=False)
        main = _main(project)
        _, high, stack = failure(walk, seen)
        fixed = committed(project, slot, seen.head, stack.tip)
        bad = seen.upstream_at(high)
        commits = _replayed(project, seen.head, fixed, main, bad)
        walk.store.record(tested(walk, slot, at_culprit(seen, fixed, high, stack)))
        old = _tested_on_old(walk, seen, commits[-1])
        name = f"{walk.branch}-ahead-{bad[:12]}"
        _make_branch(project, name, commits[-1], fixed)
    made = Ahead(
        branch=name,
        commit=commits[-1],
        main=project.config.downstream.branch,
        old=old,
        bad=bad,
        pushed=walk.publish,
        pull_request="",
    )
    if not walk.publish:
        return made
    export_others(project, commits[-1], cloned=True)
    walk.store.push(project.config.downstream.remote)
    _push(project, name, commits[-1])
    if pulls is None:
        return made
    title, body = _text(walk, made, [outer.message(commit) for commit in commits])
    address = pulls.ensure_draft(branch=name, base=made.main, title=title, body=body)
    pulls.mark_ready(branch=name)
    if project.config.ci.workflow:
        pulls.ensure_ci(workflow=project.config.ci.workflow, branch=name, head=commits[-1])
    return replace(made, pull_request=address)


def _main(project: Project) -> str:
    """The main branch's commit, as its remote has it now."""
    try:
        found = project.fetch_branch(project.config.downstream.branch)
    except UnreachableError as error:
        console.warn(str(error))
        found = None
    return found or project.outer.text("rev-parse", "--verify", project.main_ref())


def _replayed(project: Project, since: str, fixed: str, main: str, bad: str) -> list[str]:
    """The commits after ``since`` up to ``fixed``, replayed on ``main`` with its pin; those that change only pins not.

    Repeated on the same commits, it gives the same ids.
    """
    outer, tip = project.outer, main
    made: list[str] = []
    for commit in outer.text("rev-list", "--first-parent", "--reverse", f"{since}..{fixed}").split():
        before, after = (_pinned_as(project, revision, main) for revision in (f"{commit}^1", commit))
        if before == after:
            continue
        base = commit_tree(outer, before, [], "before\n", project.signature())
        merge = merge_trees(outer, base, tree_of(outer, tip), after)
        if merge.conflicts:
            raise NeedsPersonError(
                "patch-conflict",
                f"the fix {commit[:12]} does not apply on {project.config.downstream.branch}",
                where=", ".join(merge.conflicts),
                why=f"{project.config.downstream.branch} changed the same lines since the integrate branch left it",
                remedy="mlir-release integrate sync merges it into the integrate branch; then fix again there, or take "
                "the fix into the bump: mlir-release integrate fix --continue",
            )
        if merge.tree != tree_of(outer, tip):
            message = outer.message(commit)
            # An advance that was amended: main does not advance.
            amended = not {T_UPSTREAM, T_PIN}.isdisjoint(parse_trailers(message))
            own = f"Adapt to {project.upstream.config.title} {bad[:12]}\n".encode() if amended else None
            tip = replay_commit(outer, commit, merge.tree, tip, message=own)
            made.append(tip)
    if not made:
        raise UsageError(
            "nothing-to-do",
            f"{project.config.downstream.branch} has all of this fix already",
            where=main,
            remedy="mlir-release integrate sync merges it into the integrate branch; then run",
        )
    return made


def _pinned_as(project: Project, commit: str, main: str) -> str:
    """The tree of ``commit`` with the pins of ``main``."""
    tree = tree_of(project.outer, commit)
    for each in project.everyone:
        table = each.upstream.config
        if table.pattern or table.also:
            tree = each.tree_with_pin(tree, each.pin(main))
        else:
            tree = tree_with(project.outer, tree, {table.carrier: entry_at(project.outer, main, table.carrier)})
    return tree


def _tested_on_old(walk: Walk, seen: Observation, commit: str) -> str:
    """The upstream commit that main is at, on which ``commit`` passes. :raises NeedsPersonError: if it fails"""
    project = walk.project
    pin = project.pin(commit)
    base = project.upstream.base_of(pin, seen.until)
    patches = tuple(carried(project.upstream, base, pin))
    record = walk.probe(replace(seen, head=commit, pin=pin, base=base, patches=patches, ahead=()), base)
    if record.verdict is st.Verdict.GOOD:
        return base
    title, main = project.upstream.config.title, project.config.downstream.branch
    raise NeedsPersonError(
        "smoke-failed",
        f"the fix can't land before the bump: on the {title} of {main}, {base[:12]}, it tested {record.verdict}",
        where=f"{commit}, the fix on {main}",
        why="\n".join(shown(found.line) for found in record.findings[:25]),
        remedy=f"the whole log is {project.log(record.key)}; mlir-release integrate fix --continue takes the fix into "
        f"the bump; or commit one there that passes on both{project.config.smoke.withheld}",
    )


# -- its branch --------------------------------------------------------------------------------------------------------


def _ours(project: Project, commit: str) -> bool:
    """Whether this checkout sent ``commit`` ahead."""
    return project.outer.resolve(f"{SENT_AHEAD}/{commit}") is not None


def _make_branch(project: Project, name: str, commit: str, fixed: str) -> None:
    """Set the branch to ``commit``, and note that the work tree's commit ``fixed`` is in it; all at once."""
    ref = f"refs/heads/{name}"
    old = project.outer.resolve(ref)
    if old is not None and old != commit and not _ours(project, old):
        raise _changed_by_others(name, f"{old[:12]} in this checkout", f"git branch -m {name} another-name")
    lines = [f"update {ref} {commit} {old or NO_OBJECT}"]
    lines += [f"update {SENT_AHEAD}/{sent} {sent}" for sent in (commit, fixed)]
    project.outer.run("update-ref", "--stdin", input="".join(f"{line}\n" for line in lines).encode())


def _push(project: Project, name: str, commit: str) -> None:
    outer, remote = project.outer, project.config.downstream.remote
    there = outer.text("ls-remote", "--", remote, f"refs/heads/{name}", remote=remote).partition("\t")[0]
    if there == commit:
        return
    if there and not _ours(project, there):
        raise _changed_by_others(name, f"{there[:12]} at {remote}", f"git fetch {remote} {name}, and see what it has")
    lease = f"--force-with-lease=refs/heads/{name}:{there}"
    outer.run("push", "--quiet", "--no-verify", lease, remote, f"{commit}:refs/heads/{name}", remote=remote)


def _changed_by_others(name: str, why: str, remedy: str) -> ConflictError:
    return ConflictError(
        "branch-diverged",
        f"{name} has commits that were not sent ahead from here",
        where=name,
        why=why,
        remedy=f"{remedy}; nothing was overwritten",
    )


def _text(walk: Walk, made: Ahead, messages: list[str]) -> tuple[str, str]:
    """Title and body of the pull request."""
    config, upstream = walk.project.config, walk.project.upstream
    name = markdown(upstream.config.title)
    subjects = [shown(message).partition("\n")[0] for message in messages]
    culprit = upstream.commit(made.bad)
    address = upstream.config.commit_url and f"{upstream.config.commit_url}{made.bad}"
    title = f"Adapt to {upstream.config.title} {made.bad[:12]}" if len(subjects) > 1 else subjects[0]
    paragraphs = [
        f"Lands before {name} moves. It is for this commit of {name}, which breaks this project without it:",
        f"- {link(code(made.bad[:12]), address)} {markdown(culprit.title)}",
        f"The smoke test {code(' '.join(config.smoke.argv))} passes on both: on {code(made.old[:12])}, the {name} of "
        f"{code(made.main)}, and on {code(made.bad[:12])}.",
        "### Changes",
        "\n".join(f"- {markdown(subject)}" for subject in subjects),
        f"Once this has landed, {code('mlir-release integrate sync')} takes it into {code(walk.branch)}, and the walk "
        "goes on.",
    ]
    return in_commit(title), "\n\n".join(paragraphs)
