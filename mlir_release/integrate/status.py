"""The state of an integrate, as data and as text."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mlir_release.integrate import strategy as st
from mlir_release.integrate.ledger import named
from mlir_release.integrate.patches import fates
from mlir_release.integrate.upstream import shown

if TYPE_CHECKING:
    from mlir_release.integrate.observe import Observer


def collect(observer: Observer, *, until: str | None = None, fetch: bool = True) -> dict[str, Any]:
    """The pin, the patches with their ledgers, the commits ahead (oldest first) with verdicts, the tests to come."""
    seen = observer.look(until=until, fetch=fetch)
    records = observer.verdicts(seen)
    known = observer.knowledge(seen, records)
    config = observer.project.config
    become = fates(observer.project.upstream, seen.patches, seen.base, seen.until) if seen.patches else {}
    return {
        "branch": seen.branch,
        "upstream": config.upstream.title,
        "pin": seen.pin,
        "base": seen.base,
        "upstream_head": seen.until,
        "carried_at": config.downstream.carrier,
        "patches": [{**asdict(patch), "contained": become[patch.sha]} for patch in seen.patches],
        "ahead": [
            {**commit.as_json(), "verdict": str(known.verdicts.get(position, ""))}
            for position, commit in enumerate(seen.ahead, 1)
        ],
        "base_verdict": str(known.verdicts.get(0, "")),
        "tests_left": round(st.estimate_tests(known, st.make_strategy(config.walk.strategy, config.walk.width)), 1),
        "break_rate": round(seen.rate.mean(), 4),
    }


def explain(observer: Observer, prefix: str) -> dict[str, Any]:
    """The data of the carried patch whose id begins with ``prefix``. :raises UsageError: if none or several do"""
    seen = observer.look(fetch=False)
    patch = named(seen.patches, prefix)
    become = fates(observer.project.upstream, seen.patches, seen.base, seen.until)
    return {**asdict(patch), "contained": become[patch.sha]}


def render(data: dict[str, Any], *, limit: int = 40) -> str:
    """For people: newest first, the next commit last."""
    tested = f", which tests {data['base_verdict']}" if data["base_verdict"] else ""
    lines = [f"{data['branch']}: {data['upstream']} at {data['base'][:12]} in {data['carried_at']}{tested}"]
    lines.append(f"{len(data['ahead'])} affecting commits ahead, about {data['tests_left']} smoke tests")
    if data["patches"]:
        lines.append(f"{len(data['patches'])} carried patches:")
        for patch in data["patches"]:
            lines.append(f"  {patch['sha'][:12]} {shown(patch['subject'])} [{patch['kind']}]")
            for label, key in (("why", "why"), ("upstream", "link"), ("drop when", "drop_when"), ("now", "contained")):
                if patch[key]:
                    lines.append(f"      {label}: {shown(patch[key])}")
    else:
        lines.append("no carried patches")
    ahead = list(reversed(data["ahead"]))
    cut = max(0, len(ahead) - limit)
    if cut:
        lines.append(f"  … {cut} newer")
    for number, commit in enumerate(ahead[cut:], cut):
        mark = "next ->" if number == len(ahead) - 1 else ""
        lines.append(f"  {commit['commit'][:12]} {commit['verdict']:<10} {commit['subject'][:90]} {mark}".rstrip())
    return "\n".join(lines)
