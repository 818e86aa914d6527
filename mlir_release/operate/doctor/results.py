"""The results of checks, and how they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from mlir_release.ground.foreign import markdown, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.ground.errors import ReleaseError

Level = Literal["ok", "problem", "unknown"]


@dataclass(frozen=True)
class Finding:
    """The result of a check."""

    check: str  #: stable, kebab-case; a check may have several results. Empty: that of the row in the table
    level: Level
    text: str
    remedy: str = ""


class Hidden(NamedTuple):
    """A fact that the token may not see."""

    title: str  #: for people
    asked: str  #: the part of the address that it is requested from
    permission: str  #: that usually shows it


#: The yield of a check; None: the token may not see the setting that its row in the table names.
Answer: TypeAlias = Finding | Hidden | None


def ok(text: str, *, check: str = "") -> Finding:
    """Nothing to do."""
    return Finding(check, "ok", text)


def problem(text: str, remedy: str, *, check: str = "") -> Finding:
    """Something to do."""
    return Finding(check, "problem", text, remedy)


def unknown(text: str, remedy: str, *, check: str = "") -> Finding:
    """A fact that could not be seen; never shown as ok."""
    return Finding(check, "unknown", text, remedy)


def verdict(well: bool, text: str, remedy: str, *, check: str = "") -> Finding:
    """Ok, or a problem with its remedy."""
    return Finding(check, "ok", text) if well else Finding(check, "problem", text, remedy)


def of_error(check: str, error: ReleaseError, *, about: str = "", level: Level = "problem") -> Finding:
    """An error of the toolkit as a finding; ``about``: the file concerned."""
    text = ": ".join(part for part in (about, error.what, error.why) if part)
    return Finding(check, level, text, error.remedy)


def to_do(findings: Sequence[Finding]) -> list[str]:
    """Each remedy once, with the checks that it fixes; problems before unknown findings."""
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


def summary(findings: Sequence[Finding], *, title: str, whole: bool = False) -> str:
    """A table for the step summary: of problems and unknown findings, or of all."""
    lines = [f"### {markdown(title)}", "", count(findings)]
    shown = [finding for finding in findings if whole or finding.level != "ok"]
    if shown:
        rows = [
            [markdown(cell) for cell in (finding.check, finding.level, finding.text, finding.remedy)]
            for finding in sorted(shown, key=lambda finding: finding.level != "problem")
        ]
        lines += ["", table(("check", "", "what", "to do"), rows)]
    return "\n".join(lines)
