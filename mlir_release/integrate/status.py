"""The position of an integrate, and the cost of integrates so far, as data and as text."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from mlir_release.ground import strategy as st
from mlir_release.ground.console import counted, format_seconds
from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.llvm.pin import SHA_PATTERN
from mlir_release.integrate.patches.files import patch_files
from mlir_release.integrate.patches.ledger import Reverted, named, reverted_since
from mlir_release.integrate.state import (
    PROBES,
    T_BREAKS,
    T_COMMITS,
    T_VERDICT,
    ProbeStore,
    count_of,
    culprits_in,
    linear_tests,
    of_upstream,
    retries,
    told_retries,
)
from mlir_release.integrate.upstream import shown
from mlir_release.integrate.walk.diamond import outlook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.integrate.project import Integration
    from mlir_release.integrate.walk.observe import Observer


def collect(observer: Observer, *, until: str | None = None, fetch: bool = True) -> dict[str, Any]:
    """The pin, the patches with their ledgers, what upstream has reverted of what the branch has, the commits ahead
    (oldest first) with verdicts, the tests to come."""
    seen = observer.look(until=until, fetch=fetch)
    records = observer.verdicts(seen)
    config, walk = observer.project.upstream.config, observer.project.config.walk
    upstream = observer.project.upstream
    head, ahead = (seen.until, seen.ahead) if until is None else (upstream.head(), None)
    become = observer.fates(seen, seen.until)
    reach = observer.reach(seen) if observer.refused(seen, len(seen.ahead)) else len(seen.ahead)
    known, within_reach = (observer.knowledge(seen, records, reach=limit) for limit in (None, reach))
    conflict = observer.refused(seen, reach + 1) if reach < len(seen.ahead) else {}
    return {
        "branch": seen.branch,
        "upstream": config.title,
        "pin": seen.pin,
        "base": seen.base,
        "upstream_head": seen.until,
        "carried_at": config.carrier,
        "patches": [
            {
                **asdict(patch),
                "contained": become[patch.sha],
                "dependency": outlook(observer.project, seen, patch, fetch=fetch),
            }
            for patch in seen.patches
        ],
        "dropped": [asdict(each.patch) for each in seen.asleep],
        "patch_files": [file.as_json() for file in patch_files(observer.project, seen.head)],
        "reverted": [vars(each) for each in reverted_since(upstream, seen.base, seen.patches, head, ahead=ahead)],
        "ahead": [
            {**commit.as_json(), "verdict": str(known.verdicts.get(position, ""))}
            for position, commit in enumerate(seen.ahead, 1)
        ],
        "patches_apply_up_to": {"commit": seen.upstream_at(reach), "position": reach, "conflict": conflict},
        "base_verdict": str(known.verdicts.get(0, "")),
        "tests_left": round(st.estimate_tests(within_reach, st.make_strategy(walk.strategy, walk.width)), 1),
        "break_rate": round(seen.rate.mean(), 4),
    }


def explain(observers: Sequence[Observer], prefix: str) -> dict[str, Any]:
    """The data of the carried patch whose id begins with ``prefix``. :raises UsageError: unless exactly one does"""
    seen = {each: each.look(fetch=False) for each in observers}
    patch = named([patch for here in seen.values() for patch in here.patches], prefix)
    observer = next(each for each, here in seen.items() if patch in here.patches)
    here = seen[observer]
    become = observer.fates(here, here.until)
    waits = outlook(observer.project, here, patch, fetch=False)
    return {**asdict(patch), "contained": become[patch.sha], "dependency": waits}


#: What is told of a carried patch: the keys in its data, by their labels.
_TOLD = {"why": "why", "upstream": "link", "drop when": "drop_when", "now": "contained", "dependency": "dependency"}


def render(data: dict[str, Any], *, limit: int = 40) -> str:
    """For people: newest first, the next commit last."""
    tested = f", which tests {data['base_verdict']}" if data["base_verdict"] else ""
    lines = [f"{data['branch']}: {data['upstream']} at {data['base'][:12]} in {data['carried_at']}{tested}"]
    lines.append(
        f"{counted(len(data['ahead']), 'affecting commit')} ahead, about {counted(data['tests_left'], 'smoke test')}"
    )
    if data["patches"]:
        lines.append(f"{len(data['patches'])} carried {'patches' if data['patches'][1:] else 'patch'}:")
        for patch in data["patches"]:
            lines.append(f"  {patch['sha'][:12]} {shown(patch['subject'])} [{patch['kind']}]")
            for label, key in _TOLD.items():
                if patch[key]:
                    lines.append(f"      {label}: {shown(patch[key])}")
    else:
        lines.append("no carried patches")
    lines += [f"  {file['text']}" for file in data["patch_files"]]
    lines += [f"  {each['sha'][:12]} {shown(each['subject'])} [{each['kind']}, dropped]" for each in data["dropped"]]
    limit_at = data["patches_apply_up_to"]
    if limit_at["conflict"]:
        place = f"{limit_at['commit'][:12]} ({limit_at['position']} of {len(data['ahead'])})"
        lines.append(f"the carried patches apply up to {place}")
        named_so = {name: name[:12] if SHA_PATTERN.fullmatch(name) else name for name in limit_at["conflict"]}
        lines += [f"      then {named_so[name]} {shown(fate)}" for name, fate in limit_at["conflict"].items()]
    if data["reverted"]:
        lines.append("upstream has reverted commits that are here:")
        lines += [f"  {Reverted(**each).text()}" for each in data["reverted"]]
    ahead = list(reversed(data["ahead"]))
    cut = max(0, len(ahead) - limit)
    if cut:
        lines.append(f"  … {cut} newer")
    for number, commit in enumerate(ahead[cut:], cut):
        mark = "next ->" if number == len(ahead) - 1 else ""
        lines.append(f"  {commit['commit'][:12]} {commit['verdict']:<10} {commit['subject'][:90]} {mark}".rstrip())
    return "\n".join(lines)


# -- the history of integrates -----------------------------------------------------------------------------------------

#: How deep a folder is named, and how many are shown.
_DEPTH, _FOLDERS = 4, 10


@dataclass(frozen=True, kw_only=True)
class Stats:
    """The history of a downstream's integrates."""

    months: dict[str, dict[str, int]] = field(default_factory=dict)  #: ``commits``, ``breaks`` by ``YYYY-MM``, in order
    culprits: tuple[str, ...] = ()  #: upstream commits
    folders: dict[str, int] = field(default_factory=dict)  #: of upstream: how many culprits changed something there
    walks: int = 0  #: whose verdicts are here
    tests: int = 0  #: of these walks: attempts, without confirmations
    confirmations: int = 0
    verdicts: int = 0  #: of these walks,
    retried: int = 0  #: of which so many were good only on a retry
    seconds: float = 0.0
    linear_tests: int = 0  #: the time of these walks, one commit after the other

    def as_text(self) -> str:
        """For people."""
        lines = [f"{'month':<10}{'commits':>9}{'breaks':>8}"]
        lines += [f"{name:<10}{month['commits']:>9}{month['breaks']:>8}" for name, month in self.months.items()]
        commits, breaks = (sum(month[key] for month in self.months.values()) for key in ("commits", "breaks"))
        rate = f", one in {commits / breaks:.0f}" if breaks else ""
        lines.append(f"{'all':<10}{commits:>9}{breaks:>8}{rate}")
        if self.folders:
            lines += ["", f"where the {len(self.culprits)} known culprits changed upstream:"]
            lines += [f"{count:>5}  {folder}" for folder, count in self.folders.items()]
        if self.walks:
            mean = self.seconds / (self.tests + self.confirmations) if self.tests else 0.0
            saved = self.linear_tests - self.tests
            confirmed = f" and {counted(self.confirmations, 'confirmation')}" if self.confirmations else ""
            lines += [
                "",
                f"{counted(self.walks, 'walk')} with verdicts here: {counted(self.tests, 'smoke test')}{confirmed}, "
                f"{format_seconds(self.seconds)}; one commit after the other: {self.linear_tests}. Saved: {saved}, "
                f"about {format_seconds(saved * mean)}",
                *filter(None, [told_retries(self.retried, self.verdicts)]),
            ]
        return "\n".join(lines) if commits else "no integrate is recorded in this branch's history"


def collect_stats(project: Integration) -> Stats:
    """Read the history of ``HEAD``, and the verdicts of all branches that are here; one ``git log`` each."""
    months: dict[str, dict[str, int]] = {}
    culprits: dict[str, None] = {}
    output = project.outer.run(
        *("log", "-z", "--reverse", "--fixed-strings", f"--grep={T_COMMITS}", "--date=format:%Y-%m"),
        *("--format=%cd%n%B", "HEAD", "--"),
    ).stdout
    for entry in output.decode(errors="replace").split("\0"):
        month, _, message = entry.partition("\n")
        trailers = of_upstream(parse_trailers(message), project.names)
        commits, breaks = count_of(trailers, T_COMMITS), count_of(trailers, T_BREAKS)
        if commits is None:
            continue
        broke = trailers.get(T_VERDICT) == st.Verdict.BAD
        found = months.setdefault(month, {"commits": 0, "breaks": 0})
        found["commits"] += commits
        found["breaks"] += int(broke) if breaks is None else breaks
        culprits |= dict.fromkeys(culprits_in(message, project.names))
    counted: Counter[str] = Counter()
    for paths in project.upstream.touched(culprits, check=False).values():
        counted.update({"/".join(path.split("/")[:-1][:_DEPTH]) for path in paths if "/" in path})
    costs = Counter(walks=0, tests=0, confirmations=0, verdicts=0, retried=0, linear_tests=0)
    seconds = 0.0
    for ref in project.outer.refs(PROBES):
        branch = ref.name.removeprefix(PROBES)
        if project.outer.resolve(f"refs/heads/{branch}") is None:
            continue
        stored = ProbeStore(project.outer, branch, project.signature).load().values()
        records = [record for record in stored if project.owns(record.of)]
        retried, verdicts = retries(records)
        walked, attempts = project.commits(branch), project.config.smoke.attempts
        costs.update(
            walks=1,
            tests=sum(record.attempts for record in records),
            confirmations=sum(record.confirmations for record in records),
            verdicts=verdicts,
            retried=retried,
            linear_tests=linear_tests(walked, project.names, attempts=attempts),
        )
        seconds += sum(record.seconds for record in records)
    folders = dict(counted.most_common(_FOLDERS))
    return Stats(months=months, culprits=tuple(culprits), folders=folders, **costs, seconds=round(seconds, 1))
