"""What outlives a walk: how often upstream breaks this project, where, and what the walks cost, from git alone."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mlir_release.console import format_seconds
from mlir_release.integrate.pull_request import CULPRITS, branch_commits, totals
from mlir_release.integrate.state import PROBES, T_BREAKS, T_COMMITS, T_UPSTREAM, T_VERDICT, ProbeStore
from mlir_release.integrate.strategy import Verdict
from mlir_release.model.trailers import parse_trailers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mlir_release.integrate.project import Project

#: How deep a folder is named, and how many are shown.
_DEPTH, _FOLDERS = 4, 10

_CULPRIT = re.compile(r"^- ([0-9a-f]{40})$", re.MULTILINE)


@dataclass
class Month:
    """What one month's integrates passed."""

    commits: int = 0
    breaks: int = 0


@dataclass(frozen=True, kw_only=True)
class Stats:
    """The history of a downstream's integrates."""

    months: dict[str, Month] = field(default_factory=dict)  #: by ``YYYY-MM``, oldest first
    culprits: tuple[str, ...] = ()  #: upstream commits
    folders: dict[str, int] = field(default_factory=dict)  #: of upstream: how many culprits changed something there
    walks: int = 0  #: whose verdicts are here
    tests: int = 0  #: of these walks
    seconds: float = 0.0
    linear_tests: int = 0  #: what these walks would have taken, one commit after the other

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {**vars(self), "months": {name: vars(month) for name, month in self.months.items()}}

    def as_text(self) -> str:
        """For people."""
        lines = [f"{'month':<10}{'commits':>9}{'breaks':>8}"]
        lines += [f"{name:<10}{month.commits:>9}{month.breaks:>8}" for name, month in self.months.items()]
        commits, breaks = (sum(getattr(m, key) for m in self.months.values()) for key in ("commits", "breaks"))
        rate = f", one in {commits / breaks:.0f}" if breaks else ""
        lines.append(f"{'all':<10}{commits:>9}{breaks:>8}{rate}")
        if self.folders:
            lines += ["", f"where the {len(self.culprits)} known culprits changed upstream:"]
            lines += [f"{count:>5}  {folder}" for folder, count in self.folders.items()]
        if self.walks:
            mean = self.seconds / self.tests if self.tests else 0.0
            saved = self.linear_tests - self.tests
            lines += [
                "",
                f"{self.walks} walks with verdicts here: {self.tests} smoke tests, {format_seconds(self.seconds)}; one "
                f"commit after the other: {self.linear_tests}. Saved: {saved}, about {format_seconds(saved * mean)}",
            ]
        return "\n".join(lines) if commits else "no integrate is recorded in this branch's history"


def collect_stats(project: Project, revision: str = "HEAD") -> Stats:
    """Read the history of ``revision``, and the verdicts of all branches that are here; one ``git log`` each."""
    months: dict[str, Month] = {}
    culprits: dict[str, None] = {}
    output = project.outer.run(
        *("log", "-z", "--reverse", "--fixed-strings", f"--grep={T_COMMITS}: ", "--date=format:%Y-%m"),
        *("--format=%cd%n%B", revision, "--"),
    ).stdout
    for entry in output.decode(errors="replace").split("\0"):
        month, _, message = entry.partition("\n")
        trailers = parse_trailers(message)
        if not trailers.get(T_COMMITS, "").isdecimal():
            continue
        broke = trailers.get(T_VERDICT) == Verdict.BAD
        found = months.setdefault(month, Month())
        found.commits += int(trailers[T_COMMITS])
        found.breaks += int(trailers[T_BREAKS]) if trailers.get(T_BREAKS, "").isdecimal() else int(broke)
        named = _CULPRIT.findall(message.partition(f"### {CULPRITS}\n")[2].partition("\n### ")[0])
        culprits |= dict.fromkeys([trailers[T_UPSTREAM]] if broke and T_UPSTREAM in trailers else named)
    return Stats(months=months, culprits=tuple(culprits), folders=_folders(project, culprits), **_costs(project))


def _folders(project: Project, culprits: Iterable[str]) -> dict[str, int]:
    """How many of these commits changed something in which of upstream's folders, most first."""
    listing = ("diff-tree", "--stdin", "-r", "-m", "--first-parent", "--name-only", "--format=%x01")
    asked = "".join(f"{commit}\n" for commit in culprits).encode()
    output = project.upstream.run(*listing, input=asked, check=False).stdout if asked else b""
    counted: Counter[str] = Counter()
    for record in output.decode(errors="replace").split("\x01")[1:]:
        folders = ("/".join(path.split("/")[:-1][:_DEPTH]) for path in record.split("\n") if "/" in path)
        counted.update(set(folders))
    return dict(counted.most_common(_FOLDERS))


def _costs(project: Project) -> dict[str, Any]:
    """Tests and seconds of the walks whose verdicts are here, and what linear would have taken for them."""
    walks = tests = linear = 0
    seconds = 0.0
    for ref in project.outer.refs(PROBES):
        branch = ref.name.removeprefix(PROBES)
        if project.outer.resolve(f"refs/heads/{branch}") is None:
            continue
        records = ProbeStore(project.outer, branch, project.signature).load().values()
        walks += 1
        tests += sum(len(record.exits) for record in records)
        seconds += sum(record.seconds for record in records)
        linear += sum(totals(branch_commits(project, branch)))
    return {"walks": walks, "tests": tests, "seconds": round(seconds, 1), "linear_tests": linear}
