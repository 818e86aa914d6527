"""Bisect a patched upstream, or an integrate branch, in work trees of their own: the checkout is never touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.errors import UsageError
from mlir_release.git.trees import is_ancestor
from mlir_release.integrate import strategy as st
from mlir_release.integrate.patches import PatchConflict, carried, rebase
from mlir_release.integrate.smoke import prepared, smoke_test

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mlir_release.git.repository import Git
    from mlir_release.integrate.project import Project

#: Every commit is as likely as the next: halving.
_EVEN = 1e-6


@dataclass(frozen=True, kw_only=True)
class BisectResult:
    """``first_bad`` is a verified edge if ``skipped`` is empty; else the culprit is it or one of ``skipped``."""

    first_bad: str
    last_good: str
    skipped: tuple[str, ...]
    steps: int
    subject: str


def _search(git: Git, good_end: str, bad_end: str, test: Callable[[str], st.Verdict]) -> BisectResult:
    """Find the first bad commit between two revisions; both are tested themselves if the answer needs it.

    :raises UsageError: if one of them tests otherwise
    """
    commits = _line(git, good_end, bad_end)
    strategy = st.Adaptive(head_first=True)
    last = len(commits) - 1
    verdicts: dict[int, st.Verdict] = {}
    steps = 0
    while True:
        decision = strategy.decide(st.Knowledge(last, verdicts, [_EVEN] * (last + 1)))
        match decision:
            case st.Probe((position, *_)):
                steps += 1
                verdicts[position] = test(commits[position])
                console.say(f"    step {steps}: {commits[position][:12]} is {verdicts[position]}")
                if position == last and verdicts[last] is not st.Verdict.BAD:
                    raise _wrong("--bad", commits[last], verdicts[last])
                continue
            case st.Culprit(bad):
                good = bad - 1
            case st.Range(good, bad):
                pass
            case _:
                raise _wrong("--good", commits[0], verdicts.get(0, st.Verdict.UNTESTABLE))
        return BisectResult(
            first_bad=commits[bad],
            last_good=commits[good],
            skipped=tuple(commits[good + 1 : bad]),
            steps=steps,
            subject=git.message(commits[bad]).partition("\n")[0],
        )


def _wrong(option: str, commit: str, verdict: st.Verdict) -> UsageError:
    return UsageError(
        "bisect-wrong-end",
        f"the commit given with {option} tests {verdict}",
        where=commit,
        remedy="check the command, and give a commit that tests so",
    )


def _line(git: Git, good: str, bad: str) -> list[str]:
    ends = []
    for revision in (good, bad):
        sha = git.resolve(revision)
        if sha is None:
            raise UsageError(
                "bisect-unknown-commit",
                f"{revision!r} names no commit",
                where=str(git.directory),
                remedy="give a commit, tag or branch that exists there",
            )
        ends.append(sha)
    if ends[0] == ends[1] or not is_ancestor(git, *ends):
        raise UsageError(
            "bisect-not-ordered",
            "the good commit is not an ancestor of the bad one",
            where=f"{ends[0]} and {ends[1]}",
            remedy="swap --good and --bad, or give commits of one line of history",
        )
    return [ends[0], *git.text("rev-list", "--first-parent", "--reverse", f"{ends[0]}..{ends[1]}").split()]


def bisect_upstream(project: Project, good: str, bad: str, command: Sequence[str]) -> BisectResult:
    """Bisect the upstream under the carried patches: each step is a pristine upstream commit plus the carried stack.

    Patches that upstream has at a step are left out there; one that does not apply makes the step untestable.
    """
    head = project.upstream.head()
    pin = project.pin()
    base = project.upstream.base_of(pin, head)
    patches = carried(project.upstream, base, pin)
    outer = project.outer.text("rev-parse", "HEAD")

    def test(commit: str) -> st.Verdict:
        try:
            stack = rebase(project.upstream, patches, base, commit)
        except PatchConflict as conflict:
            console.say(f"    {conflict.what}: untestable")
            return st.Verdict.UNTESTABLE
        return _test(project, outer, stack.tip, commit, command)

    return _search(project.upstream, good, bad, test)


def bisect_branch(project: Project, good: str, bad: str, command: Sequence[str]) -> BisectResult:
    """Bisect the outer branch along first parents, with all submodules at what each commit points at."""

    def test(commit: str) -> st.Verdict:
        pin = project.pin(commit)
        project.upstream.require(pin)
        return _test(project, commit, pin, pin, command)

    return _search(project.outer, good, bad, test)


def _test(project: Project, outer: str, llvm: str, upstream: str, command: Sequence[str]) -> st.Verdict:
    with prepared(project, outer, llvm) as slot:
        return smoke_test(project, slot, upstream, project.log(f"bisect-{upstream[:12]}"), command=command).verdict
