"""One check's answer, and how answers are shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.errors import ReleaseError
    from mlir_release.forge.github.observations import Observations

Level = Literal["ok", "problem", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One check's answer."""

    check: str  #: stable, kebab-case; a check may have several answers
    level: Level
    text: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        """For ``--json``."""
        return asdict(self)


def verdict(check: str, well: bool, text: str, remedy: str) -> Finding:
    """Well, or a problem with its remedy."""
    return Finding(check=check, level="ok" if well else "problem", text=text, remedy="" if well else remedy)


def hidden(seen: Observations, check: str, what: str, *, asked: str, usual: str) -> Finding:
    """Something that was not shown.

    :param asked: the part of the address by which it was asked for
    :param usual: the permission that shows it, where GitHub does not say which
    """
    refusal = next((refusal for path, refusal in seen.refusals.items() if asked in path.split("/")), None)
    if refusal is not None and refusal.by_plan:
        text, remedy = (
            f"{what}: {refusal.said}",
            "make the repository public, or have its owner take such a plan",
        )
    else:
        permission = refusal.permissions.replace("=", ": ").replace("_", " ") if refusal else ""
        text = f"{what}: this token may not see it"
        remedy = f"run this with a token that has {permission or usual}"
    return Finding(check=check, level="unknown", text=text, remedy=remedy)


def of_error(check: str, error: ReleaseError, *, about: str = "", level: Level = "problem") -> Finding:
    """The toolkit's own error as a finding; ``about``: the file that it is about."""
    text = ": ".join(part for part in (about, error.what, error.why) if part)
    return Finding(check=check, level=level, text=text, remedy=error.remedy)


def to_do(findings: Sequence[Finding]) -> list[str]:
    """Remedies, each once with all that it mends, problems before what is unknown."""
    checks: dict[str, list[str]] = {}
    for finding in sorted(findings, key=lambda finding: finding.level != "problem"):
        if finding.remedy and finding.check not in checks.setdefault(finding.remedy, []):
            checks[finding.remedy].append(finding.check)
    return [f"{', '.join(names)}: {remedy}" for remedy, names in checks.items()]


def count(findings: Sequence[Finding]) -> str:
    """How many of each, for people: ``2 problems, 1 unknown, 14 ok``."""
    numbers = {level: sum(finding.level == level for finding in findings) for level in ("problem", "unknown", "ok")}
    plural = "" if numbers["problem"] == 1 else "s"
    return f"{numbers['problem']} problem{plural}, {numbers['unknown']} unknown, {numbers['ok']} ok"


def markdown(findings: Sequence[Finding], *, title: str) -> str:
    """What does not stand well as a table for the step summary."""
    lines = [f"### {title}", "", count(findings)]
    shown = [finding for finding in findings if finding.level != "ok"]
    if shown:
        lines += ["", "| check | | what | to do |", "|---|---|---|---|"]
    for finding in sorted(shown, key=lambda finding: finding.level != "problem"):
        cells = (finding.check, finding.level, finding.text, finding.remedy)
        lines.append("| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |")
    return "\n".join(lines)
