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
from mlir_release.integrate.smoke import prepared, smoke_test

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mlir_release.git.repository import Git
    from mlir_release.integrate.project import Project

#: Every commit is as likely as the next: halving.
_EVEN = 1e-6


@dataclass(frozen=True)
class Tested:
    """What one step found. ``reason``: why a commit can't be tested, if it was not the command that said so."""

    verdict: st.Verdict
    reason: str = ""


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


def _search(git: Git, good_end: str, bad_end: str, test: Callable[[str], Tested]) -> BisectResult:
    """Find the first bad commit between two revisions, which are tested first.

    :raises UsageError: if one of them tests otherwise
    """
    commits = _line(git, good_end, bad_end)
    last = len(commits) - 1
    verdicts: dict[int, st.Verdict] = {}
    reasons: dict[str, None] = {}

    def probe(position: int) -> Tested:
        found = test(commits[position])
        verdicts[position] = found.verdict
        if found.reason:
            reasons[found.reason] = None
        why = f": {found.reason}" if found.reason else ""
        console.say(f"    step {len(verdicts)}: {commits[position][:12]} is {found.verdict}{why}")
        return found

    for position, option, expected in ((last, "--bad", st.Verdict.BAD), (0, "--good", st.Verdict.GOOD)):
        found = probe(position)
        if found.verdict is not expected:
            raise _wrong(option, commits[position], found)
    strategy = st.Adaptive(head_first=True)
    while isinstance(decision := strategy.decide(st.Knowledge(last, verdicts, [_EVEN] * (last + 1))), st.Probe):
        probe(decision.positions[0])
    assert isinstance(decision, st.Culprit | st.Range), "both ends were tested"
    bad = decision.position if isinstance(decision, st.Culprit) else decision.bad
    good = bad - 1 if isinstance(decision, st.Culprit) else decision.good
    return BisectResult(
        first_bad=commits[bad],
        last_good=commits[good],
        skipped=tuple(commits[good + 1 : bad]),
        reasons=tuple(reasons),
        steps=len(verdicts),
        subject=git.message(commits[bad]).partition("\n")[0],
    )


def _wrong(option: str, commit: str, found: Tested) -> UsageError:
    return UsageError(
        "revision-unsuitable",
        f"the commit given with {option} tests {found.verdict}",
        where=commit,
        why=found.reason,
        remedy="check the command, and give a commit that tests so",
    )


def _line(git: Git, good: str, bad: str) -> list[str]:
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

    The ledger decides which patches: those that upstream has at a step are left out there, and so are reverts of what
    it does not have yet. Another one that does not apply makes the step untestable.
    """
    head = project.upstream.head()
    pin = project.pin()
    base = project.upstream.base_of(pin, head)
    patches = carried(project.upstream, base, pin)
    outer = project.outer.text("rev-parse", "HEAD")

    def test(commit: str) -> Tested:
        try:
            stack = rebase(project.upstream, patches, base, commit)
        except PatchConflict as conflict:
            patch = conflict.patch
            return Tested(st.Verdict.UNTESTABLE, f"the carried patch {patch.sha[:12]} ({patch.subject}) does not apply")
        return _test(project, outer, stack.tip, commit, command)

    return _search(project.upstream, good, bad, test)


def bisect_branch(project: Project, good: str, bad: str, command: Sequence[str]) -> BisectResult:
    """Bisect the outer branch along first parents, with all submodules at what each commit points at."""

    def test(commit: str) -> Tested:
        pin = project.pin(commit)
        project.upstream.require(pin)
        return _test(project, commit, pin, pin, command)

    return _search(project.outer, good, bad, test)


def _test(project: Project, outer: str, llvm: str, upstream: str, command: Sequence[str]) -> Tested:
    with prepared(project, outer, llvm) as slot:
        log = project.log(f"bisect-{upstream[:12]}")
        return Tested(smoke_test(project, slot, upstream, log, command=command)[0])
