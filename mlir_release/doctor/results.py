"""The results of checks, and how they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mlir_release.foreign import markdown, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.errors import ReleaseError
    from mlir_release.forge.github.observations import Observations

Level = Literal["ok", "problem", "unknown"]


@dataclass(frozen=True)
class Finding:
    """The result of a check."""

    check: str  #: stable, kebab-case; a check may have several results
    level: Level
    text: str
    remedy: str = ""


def verdict(check: str, ok: bool, text: str, remedy: str) -> Finding:
    """Ok, or a problem with its remedy."""
    return Finding(check, "ok", text) if ok else Finding(check, "problem", text, remedy)


def hidden(seen: Observations, check: str, what: str, *, asked: str, usual: str) -> Finding:
    """A fact that the token may not see.

    :param asked: the part of the address that it was requested from
    :param usual: the permission that shows it, if GitHub did not name one
    """
    refusal = next((refusal for path, refusal in seen.refusals.items() if asked in path.split("/")), None)
    if refusal is not None and refusal.by_plan:
        remedy = "make the repository public, or upgrade its owner's plan"
        return Finding(check, "unknown", f"{what}: {refusal.said}", remedy)
    permission = refusal.permissions.replace("=", ": ").replace("_", " ") if refusal else ""
    return Finding(
        check, "unknown", f"{what}: this token may not see it", f"use a token that has {permission or usual}"
    )


def adopt_command(repository: str) -> str:
    """What to do about files that are not this repository's own."""
    return f"in a checkout: mlir-release forge adopt {repository} @ORGANISATION/TEAM; then commit that"


def of_error(check: str, error: ReleaseError, *, about: str = "", level: Level = "problem") -> Finding:
    """An error of the toolkit as a finding; ``about``: the file concerned."""
    text = ": ".join(part for part in (about, error.what, error.why) if part)
    return Finding(check, level, text, error.remedy)


def to_do(findings: Sequence[Finding]) -> list[str]:
    """Each remedy once, with the checks that it fixes; problems before what is unknown."""
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
    """A table for the step summary: of what is not ok, or of the whole."""
    lines = [f"### {markdown(title)}", "", count(findings)]
    shown = [finding for finding in findings if whole or finding.level != "ok"]
    if shown:
        rows = [
            [markdown(cell) for cell in (finding.check, finding.level, finding.text, finding.remedy)]
            for finding in sorted(shown, key=lambda finding: finding.level != "problem")
        ]
        lines += ["", table(("check", "", "what", "to do"), rows)]
    return "\n".join(lines)
