"""Reports of failed smoke tests: the errors in a log, once each, and the commits that most likely caused them."""

from __future__ import annotations

import os
import re
from collections import deque
from dataclasses import dataclass, field
from io import BytesIO, TextIOWrapper
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from mlir_release.ground import strategy as st
from mlir_release.ground.console import counted
from mlir_release.ground.documents.digests import open_regular
from mlir_release.ground.foreign import code, code_block, link, markdown
from mlir_release.integrate.state import LogFinding, Record, retries, told_retries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mlir_release.ground.git.repository import Git
    from mlir_release.integrate.patches.patches import PatchConflict
    from mlir_release.integrate.project import Integration
    from mlir_release.integrate.upstream import UpstreamCommit
    from mlir_release.integrate.walk.observe import Observation, Observer


#: The kind of findings that are the end of a log in which no error was recognised, a line each.
OUTPUT = "output"

#: How many lines that end has at most.
_LAST_LINES = 20

#: The kind of the last finding in a log that has errors beyond those that are kept: it counts their lines.
MORE = "more"

#: How many errors are kept of a log, and how many of these a report shows.
_KEPT, _SHOWN = 50, 25

#: Characters of a line that are looked at.
_LINE = 4000


_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("failed-target", re.compile(r"^FAILED: (?:\[[^\]]*\] )?(?P<where>\S+)(?P<text>.*)$")),
    ("compiler", re.compile(r"^(?P<where>[^\s:][^:\n]*):\d+(?::\d+)?: (?P<text>(?:fatal )?error: .*)$")),
    ("compiler", re.compile(r"^(?P<where>[^\s(][^(\n]*)\(\d+(?:,\d+)?\): (?P<text>(?:fatal )?error [A-Z]+\d+: .*)$")),
    ("compiler", re.compile(r"^CMake Error at (?P<where>[^:\n]+):\d+ (?P<text>.*)$")),
    ("linker", re.compile(r"^(?P<where>.*?)(?P<text>undefined (?:reference to|symbol:?) .*)$")),
    ("linker", re.compile(r"^(?P<where>)(?P<text>(?:ld\S*|collect2|lld\S*): error: .*)$")),
    ("assertion", re.compile(r"^(?P<where>)(?P<text>.*Assertion [`'].*['`] failed.*)$")),
    ("assertion", re.compile(r"^(?P<where>)(?P<text>(?:LLVM ERROR: |UNREACHABLE executed).*)$")),
    ("test", re.compile(r"^(?:FAIL|XPASS|TIMEOUT|UNRESOLVED): (?P<where>.+?)(?: \(\d+ of \d+\))?(?P<text>)$")),
    ("test", re.compile(r"^\s*\d+ - (?P<where>\S+) \((?P<text>Failed|Timeout|SEGFAULT|Subprocess aborted)\)")),
    ("build-tool", re.compile(r"^ERROR: (?P<where>[^:\s]+(?:/BUILD\S*|:\S+)?):(?:\d+:\d+: )?(?P<text>.*)$")),
)

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PROGRESS = re.compile(r"^\[\d+/\d+\] ")


def findings_in(log: bytes | Path, *, most: int = _KEPT) -> list[LogFinding]:
    """The first errors in a log, in order, each once; without a known error, its last lines.

    Bytes that are not UTF-8 become escapes. Of a log of any size, only the findings are in memory.

    :param most: errors; if the log has others, one more finding counts their lines
    :raises OSError: if it can't be read
    """
    found: dict[tuple[str, str], LogFinding] = {}
    last: deque[str] = deque(maxlen=_LAST_LINES)
    left_out = 0
    for line in _lines(log):
        if line.strip():
            last.append(line)
        for kind, pattern in _PATTERNS:
            match = pattern.match(line)
            if match:
                finding = LogFinding(kind, match["where"].strip().rstrip(":"), match["text"].strip())
                # The same error in another translation unit is the same error.
                key = (kind, finding.text or finding.where)
                if key in found or len(found) < most:
                    found.setdefault(key, finding)
                else:
                    left_out += 1
                break
    if not found:
        return [LogFinding(OUTPUT, "", line) for line in last]
    more = [LogFinding(MORE, "", f"and {left_out} more lines with errors")] if left_out else []
    return [*found.values(), *more]


def _lines(log: bytes | Path) -> Iterator[str]:
    """The lines of a log, without colours and Ninja's counts; of a very long one, its beginning."""
    file = BytesIO(log) if isinstance(log, bytes) else open_regular(log)
    with TextIOWrapper(file, encoding="utf-8", errors="backslashreplace") as text:
        begins = True
        while part := text.readline(_LINE):
            if begins:
                yield _PROGRESS.sub("", _COLOUR.sub("", part)).rstrip()
            begins = part.endswith("\n")


# -- suspects ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Suspect:
    """An upstream commit that may be to blame, with its words that the errors share."""

    commit: UpstreamCommit
    score: int
    evidence: tuple[str, ...]


_WORD = re.compile(r"[A-Za-z_]\w{3,}")
_QUOTED = re.compile(r"[‘'`\"]([^’'`\"]+)[’'`\"]")
_FILE = re.compile(r"(?<![\w./+-])[\w./+-]+\.(?:h|hpp|inc|cpp|cc|c|td|mlir|py|bazel|cmake|txt)\b")


def clues(findings: Sequence[LogFinding]) -> tuple[set[str], set[str]]:
    """Base names of the files, and the symbols, that errors name."""
    files: set[str] = set()
    symbols: set[str] = set()
    for finding in findings:
        text = f"{finding.where} {finding.text}"
        files |= {PurePosixPath(name).name for name in _FILE.findall(text)}
        for quoted in _QUOTED.findall(finding.text):
            symbols |= set(_WORD.findall(quoted))
    return files, symbols - {"const", "void", "class", "struct", "this", "mlir", "llvm", "auto", "error", "failed"}


def suspects(git: Git, commits: Sequence[UpstreamCommit], findings: Sequence[LogFinding]) -> list[Suspect]:
    """``commits`` by how much they have to do with the errors, likeliest first; those with nothing in common left out.

    A symbol that a commit removes weighs more than one that it merely touches.
    """
    files, symbols = clues(findings)
    if not commits or not (files or symbols):
        return []
    found = []
    stdin = "".join(f"{commit.sha}\n" for commit in commits[:500]).encode()
    output = git.run("diff-tree", "--stdin", "-p", "-U0", "-r", "--root", "--no-color", "--format=%x00%H", input=stdin)
    diffs = {part[:40].decode(): part[40:].decode(errors="replace") for part in output.stdout.split(b"\0")[1:]}
    for commit in commits:
        diff = diffs.get(commit.sha, "")
        touched = {PurePosixPath(line.split(" b/")[-1]).name for line in diff.splitlines() if line.startswith("diff ")}
        removed = {word for line in diff.splitlines() if line[:1] == "-" for word in _WORD.findall(line)}
        added = {word for line in diff.splitlines() if line[:1] == "+" for word in _WORD.findall(line)}
        evidence = [f"touches {name}" for name in sorted(touched & files)]
        evidence += [f"removes {name}" for name in sorted((removed - added) & symbols)]
        evidence += [f"changes {name}" for name in sorted(removed & added & symbols)]
        evidence += [f"adds {name}" for name in sorted((added - removed) & symbols)]
        score = sum(3 if item.startswith("removes") else 2 if item.startswith("touches") else 1 for item in evidence)
        if score:
            found.append(Suspect(commit, score, tuple(evidence)))
    return sorted(found, key=lambda suspect: -suspect.score)


# -- the end of a walk -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TriedTogether:
    """Upstreams that were moved together for a test."""

    moved: dict[str, str]  #: commits, by the upstream's name
    verdict: str

    def __str__(self) -> str:
        return f"{' with '.join(f'{name} at {commit[:12]}' for name, commit in self.moved.items())}: {self.verdict}"


@dataclass(frozen=True, kw_only=True)
class WalkEnd:
    """How a walk ended."""

    outcome: str  #: head, culprit, range, broken-base, stuck, conflict or untested
    branch: str
    upstream: str  #: its name
    base: str  #: its commit that the branch is at
    remaining: int  #: affecting commits ahead
    good: str = ""
    bad: str = ""  #: the culprit, or the first commit known bad
    suspects: tuple[UpstreamCommit, ...] = ()
    record: Record | None = None
    smoke_tests: int = 0
    confirmations: int = 0  #: smoke tests that repeated a failed one, apart from ``smoke_tests``
    cancelled: int = 0  #: smoke tests, whose answers were not needed any more
    retried: int = 0  #: tests of the whole branch that passed only on a retry,
    tested: int = 0  #: of so many
    conflict: PatchConflict | None = field(default=None, compare=False)
    tried: tuple[TriedTogether, ...] = ()  #: what was tested together with the culprit
    blocked: tuple[str, ...] = ()  #: why nothing else was
    undone: str = ""  #: a sentence about the commit ahead that undoes the culprit; empty: none does
    others: tuple[WalkEnd, ...] = ()  #: those of the downstream's other upstreams

    @classmethod
    def of(cls, observer: Observer, seen: Observation, *, outcome: str, **more: Any) -> WalkEnd:
        """With what the branch says by itself: its name, where it is, and how far upstream goes on."""
        left, title = len(seen.ahead), observer.project.upstream.config.title
        return cls(outcome=outcome, branch=seen.branch, upstream=title, base=seen.base, remaining=left, **more)

    def as_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            **vars(self),
            "suspects": [commit.as_json() for commit in self.suspects],
            "record": to_builtins(self.record),
            "conflict": self.conflict.to_json() if self.conflict else None,
            "tried": [vars(each) for each in self.tried],
            "others": [each.as_json() for each in self.others],
        }

    def everywhere(self) -> tuple[WalkEnd, ...]:
        """This end and those of the other upstreams."""
        return (self, *self.others)

    @property
    def stopped(self) -> bool:
        """Whether a person is needed."""
        return self.outcome not in ("head", "untested", "stopped")


# -- rendering ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class WalkReport:
    """Everything that a person needs to start with."""

    end: WalkEnd
    findings: tuple[LogFinding, ...]
    suspects: tuple[Suspect, ...] = ()
    advice: str
    log: str = ""  #: path of the whole log on this machine, or empty
    broken: str = ""  #: the branch at the remote that has the culprit in it
    commit_url: str = ""  #: a commit's id behind it makes a link; empty: no links

    @classmethod
    def of(
        cls,
        project: Integration,
        end: WalkEnd,
        *,
        findings: Sequence[LogFinding] = (),
        advice: str = "",
        broken: str = "",
    ) -> WalkReport:
        """Of the failed test in ``end``, or of ``findings``. ``advice``: in place of the usual one."""
        found = end.record.findings if end.record else findings
        log = project.log(end.record.key) if end.record else None
        usual = _ADVICE.get(end.outcome, "").format(upstream=end.upstream)
        return cls(
            end=end,
            findings=tuple(found),
            suspects=tuple(suspects(project.upstream, end.suspects, found)),
            advice=advice or (end.conflict.remedy if end.conflict else usual),
            log=os.fspath(log) if log and log.is_file() else "",
            broken=broken,
            commit_url=project.upstream.config.commit_url,
        )

    @property
    def attempts(self) -> int:
        """How often ``end.bad`` has failed."""
        return len(self.end.record.exits) if self.end.record else 0

    @property
    def together(self) -> list[str]:
        """What was tried beyond the culprit, or with other upstreams moved, a sentence each."""
        return [
            *([self.end.undone] if self.end.undone else []),
            *(f"Tried {each}." for each in self.end.tried),
            *(f"Blocked: {reason}." for reason in self.end.blocked),
        ]

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        end, same = self.end, ("outcome", "upstream", "branch", "good", "bad", "retried", "tested")
        return {
            **{name: getattr(end, name) for name in same},
            **{name: getattr(self, name) for name in ("attempts", "together", "advice", "log", "broken")},
            "culprit": end.bad if end.outcome == "culprit" else None,
            "findings": [vars(finding) for finding in self.findings],
            "range": [commit.as_json() for commit in end.suspects],
            "suspects": [{**suspect.commit.as_json(), "evidence": suspect.evidence} for suspect in self.suspects],
        }

    def as_markdown(self) -> str:
        """For a pull-request comment, a step summary or a message."""

        def shown(commit: UpstreamCommit) -> str:
            return f"{link(code(commit.sha[:12]), f'{self.commit_url}{commit.sha}')} {markdown(commit.title)}"

        end = self.end
        good, bad = code(end.good[:12]), code(end.bad[:12])
        blamed = [
            f"{shown(suspect.commit)} ({markdown(', '.join(suspect.evidence[:6]))})" for suspect in self.suspects[:8]
        ]
        paragraphs = [f"## {markdown(_TITLES.get(end.outcome, end.outcome).format(upstream=end.upstream))}"]
        if end.outcome == "culprit" and end.suspects:
            culprit = blamed[0] if blamed else shown(end.suspects[0])
            often = f" in {self.attempts} attempts" if self.attempts > 1 else ""
            paragraphs += [f"Culprit: {culprit}", f"{bad} tested bad{often}, {good} good."]
        elif end.outcome in ("range", "stuck", "conflict") and end.suspects:
            paragraphs.append(f"Last good: {good}. Among these {len(end.suspects)}:")
            paragraphs.append("\n".join(f"- {shown(commit)}" for commit in end.suspects[:20]))
        elif end.outcome == "bad":
            paragraphs.append(f"Under test: {bad}, {counted(len(end.suspects), 'affecting commit')} after {good}.")
        elif end.bad:
            paragraphs.append(f"Under test: {bad}")
        if self.together:
            paragraphs.append("\n".join(f"- {markdown(line)}" for line in self.together))
        if told := told_retries(end.retried, end.tested):
            paragraphs.append(told)
        if self.findings:
            errors = [found for found in self.findings if found.kind != MORE]
            recognised = any(found.kind != OUTPUT for found in errors)
            title = f"Errors ({len(errors)})" if recognised else "The end of the smoke test's output"
            lines = [found.line[:300] for found in errors[:_SHOWN]]
            lines += [f"and {len(errors) - _SHOWN} more errors"] if len(errors) > _SHOWN else []
            lines += [found.line for found in self.findings if found.kind == MORE]
            paragraphs += [f"### {title}", code_block(lines)]
        if self.log:
            paragraphs.append(f"Whole log: {code(self.log)}")
        if blamed and end.outcome != "culprit":
            paragraphs += ["### Suspects", "\n".join(f"- {item}" for item in blamed)]
        if end.outcome in ("culprit", "range", "broken-base"):
            command = code(f"mlir-release integrate probe {end.bad[:12]}")
            paragraphs.append(f"Reproduce on {code(end.branch)}: {command}")
        if self.broken:
            paragraphs.append(f"The branch with that commit in it, for CI and colleagues: {code(self.broken)}")
        if self.advice:
            paragraphs.append(markdown(self.advice))
        return "\n\n".join(paragraphs) + "\n"


_TITLES = {
    "head": "{upstream} is at head",
    "culprit": "An upstream commit breaks this project",
    "range": "An upstream commit breaks this project; the commits around it can't be tested",
    "broken-base": "The branch itself fails at its present {upstream} commit",
    "stuck": "No commit ahead can be tested",
    "conflict": "A carried patch does not apply",
    "bad": "The branch fails at its present {upstream} commit",
    "nothing": "No failed smoke test is known",
}

_ADVICE = {
    "culprit": "Next: `mlir-release integrate fix`, fix it there, commit; then `integrate fix --continue --push`.",
    "range": "Next: look at the errors, then `mlir-release integrate fix`, commit there, `integrate fix --continue`.",
    "broken-base": "Next: fix this project at the present {upstream} commit, commit, `mlir-release integrate run`.",
    "stuck": "Next: wait until upstream's build is fixed, or carry the fix: `integrate patches add`.",
}


def report_known(observer: Observer) -> WalkReport:
    """The report of the branch's last failed smoke test, as far as the verdicts narrow it."""
    seen = observer.look(fetch=False)
    records = observer.verdicts(seen)
    known = observer.knowledge(seen, records)
    here = st.bracket(known)
    if here.high is None:
        others = observer.other_settings()
        advice = f"There are {others}." if others else ""
        return WalkReport.of(observer.project, WalkEnd.of(observer, seen, outcome="nothing"), advice=advice)
    retried, tested = retries(observer.recorded.values())
    exact = here.high == here.low + 1 and known.verdicts.get(here.low) is st.Verdict.GOOD
    blaming = st.Culprit(here.high) if here.high else st.BaseBroken(0)
    again = (exact or here.high == 0) and observer.unconfirmed(known, records, blaming)
    end = WalkEnd.of(
        observer,
        seen,
        outcome="culprit" if exact else "broken-base" if here.high == 0 else "range",
        good=seen.upstream_at(here.low),
        bad=seen.upstream_at(here.high),
        suspects=seen.ahead[here.low : here.high],
        record=records.get(here.high),
        retried=retried,
        tested=tested,
        undone=observer.undoing(seen, records, blaming) if exact else "",
    )
    advice = "It is not confirmed: `mlir-release integrate run` tests it again." if again else ""
    return WalkReport.of(observer.project, end, advice=advice)


def report_log(observer: Observer, log: Path) -> WalkReport:
    """The report of any build log of the branch as it is. Every upstream commit since main may be to blame.

    :raises OSError: if it can't be read
    """
    project, seen = observer.project, observer.look(fetch=False)
    good = project.started_from(seen.head)
    passed = tuple(project.upstream.affecting(good, seen.base))
    end = WalkEnd.of(observer, seen, outcome="bad", good=good, bad=seen.base, suspects=passed)
    return WalkReport.of(project, end, findings=findings_in(log))
