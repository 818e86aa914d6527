"""Bisect a patched upstream, or an integrate branch, in work trees of their own: the checkout is never touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.errors import UsageError
from mlir_release.git.trees import is_ancestor
from mlir_release.integrate import strategy as st
from mlir_release.integrate.ledger import carried
from mlir_release.integrate.patches import PatchConflict, rebase
from mlir_release.integrate.search import search
from mlir_release.integrate.smoke import prepared, smoke_test

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mlir_release.git.repository import Git
    from mlir_release.integrate.project import Project


@dataclass(frozen=True, kw_only=True)
class BisectResult:
    """``first_bad`` is a verified edge if ``skipped`` is empty; else the culprit is it or one of ``skipped``.

    ``reasons``: why commits could not be tested, where that is known, each once.
    """

    first_bad: str
    last_good: str
    skipped: tuple[str, ...]
    reasons: tuple[str, ...]
    steps: int
    subject: str


def _search(git: Git, good_end: str, bad_end: str, test: Callable[[str], tuple[st.Verdict, str]]) -> BisectResult:
    """Find the first bad commit between two revisions, which are tested first.

    :param test: the verdict on a commit; and why it can't be tested, if it was not the command that said so
    :raises UsageError: if one of the ends tests otherwise
    """
    commits = _line(git, good_end, bad_end)
    last = len(commits) - 1
    verdicts: dict[int, st.Verdict] = {}
    reasons: dict[str, None] = {}

    def probe(position: int) -> st.Verdict:
        verdict, reason = test(commits[position])
        if reason:
            reasons[reason] = None
        why = f": {reason}" if reason else ""
        console.say(f"    step {len(verdicts) + 1}: {commits[position][:12]} is {verdict}{why}")
        return verdict

    for position, option, expected in ((last, "--bad", st.Verdict.BAD), (0, "--good", st.Verdict.GOOD)):
        verdicts[position] = probe(position)
        if verdicts[position] is not expected:
            raise UsageError(
                "revision-unsuitable",
                f"the commit given with {option} tests {verdicts[position]}",
                where=commits[position],
                why="; ".join(reasons),
                remedy="check the command, and give a commit that tests so",
            )

    edge = search(last, verdicts, probe)
    return BisectResult(
        first_bad=commits[edge.bad],
        last_good=commits[edge.good],
        skipped=tuple(commits[edge.good + 1 : edge.bad]),
        reasons=tuple(reasons),
        steps=len(verdicts),
        subject=git.message(commits[edge.bad]).partition("\n")[0],
    )


def _line(git: Git, good: str, bad: str) -> list[str]:
    """The commits from ``good`` to ``bad``, along first parents. :raises UsageError: if they are not in line"""
    ends = []
    for revision in (good, bad):
        sha = git.resolve(revision)
        if sha is None:
            raise UsageError(
                "revision-unknown",
                f"{revision!r} names no commit",
                where=str(git.directory),
                remedy="give a commit, tag or branch that exists there",
            )
        ends.append(sha)
    if ends[0] == ends[1] or not is_ancestor(git, *ends):
        raise UsageError(
            "revision-unsuitable",
            "the good commit is not an ancestor of the bad one",
            where=f"{ends[0]} and {ends[1]}",
            remedy="swap --good and --bad, or give commits of one line of history",
        )
    return [ends[0], *git.text("rev-list", "--first-parent", "--reverse", f"{ends[0]}..{ends[1]}").split()]


def bisect_upstream(project: Project, good: str, bad: str, command: Sequence[str]) -> BisectResult:
    """Bisect the upstream under the carried patches: each step is a pristine upstream commit plus the carried stack.

    By the ledger, a step leaves out patches that upstream has by then, and reverts of commits that upstream does not
    have yet. A step is untestable if another patch does not apply.
    """
    head = project.upstream.head()
    pin = project.pin()
    base = project.upstream.base_of(pin, head)
    patches = carried(project.upstream, base, pin)
    outer = project.outer.text("rev-parse", "HEAD")

    def test(commit: str) -> tuple[st.Verdict, str]:
        try:
            stack = rebase(project.upstream, patches, base, commit)
        except PatchConflict as conflict:
            patch = conflict.patch
            return st.Verdict.UNTESTABLE, f"the carried patch {patch.sha[:12]} ({patch.subject}) does not apply"
        return _test(project, outer, stack.tip, commit, command), ""

    return _search(project.upstream, good, bad, test)


def bisect_branch(project: Project, good: str, bad: str, command: Sequence[str]) -> BisectResult:
    """Bisect the outer branch along first parents, with all submodules at each commit's pins."""

    def test(commit: str) -> tuple[st.Verdict, str]:
        pin = project.pin(commit)
        project.upstream.require(pin)
        return _test(project, commit, pin, pin, command), ""

    return _search(project.outer, good, bad, test)


def _test(project: Project, outer: str, llvm: str, upstream: str, command: Sequence[str]) -> st.Verdict:
    with prepared(project, outer, llvm) as slot:
        return smoke_test(project, slot, upstream, project.log(f"bisect-{upstream[:12]}"), command=command)[0]
