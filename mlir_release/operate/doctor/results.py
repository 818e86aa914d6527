"""The results of checks, and how they are shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from click import wrap_text

from mlir_release.ground.console import counted
from mlir_release.ground.foreign import markdown, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.ground.errors import ReleaseError

Level = Literal["ok", "problem", "unknown"]

_STYLES = {"ok": "green", "problem": "bold red", "unknown": "yellow"}


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


@dataclass(frozen=True)
class Examination:
    """What was found, for the console: the findings of all checks."""

    COLUMNS = ("", "check", "what was found")

    findings: Sequence[Finding]
    heading: str = ""  #: of the table
    whole: bool = False  #: whether the summary has what is ok, too

    @property
    def count(self) -> str:
        """How many of each, for people: ``2 problems, 1 unknown, 14 ok``."""
        numbers = Counter(finding.level for finding in self.findings)
        return f"{counted(numbers['problem'], 'problem')}, {numbers['unknown']} unknown, {numbers['ok']} ok"

    @property
    def by_urgency(self) -> list[Finding]:
        """Problems first."""
        return sorted(self.findings, key=lambda finding: finding.level != "problem")

    def text(self) -> str:
        """Each remedy once, with the checks that it fixes; and how many findings there are of each kind."""
        checks: dict[str, dict[str, None]] = {}
        for finding in self.by_urgency:
            if finding.remedy:
                checks.setdefault(finding.remedy, {})[finding.check] = None
        remedies = (f"{', '.join(names)}: {remedy}" for remedy, names in checks.items())
        lines = [wrap_text(each, width=100, initial_indent="  - ", subsequent_indent="    ") for each in remedies]
        return "\n".join([*(["To do:"] if lines else []), *lines, self.count])

    def cells(self) -> list[tuple[object, ...]]:
        """A row for each finding."""
        from rich.text import Text

        return [(Text(row.level, style=_STYLES[row.level]), row.check, row.text) for row in self.findings]

    def to_json(self) -> Sequence[Finding]:
        """For ``--json``."""
        return self.findings

    def markdown(self) -> str:
        """Their numbers, and a table of problems and unknown findings, or of all."""
        shown = [each for each in self.by_urgency if self.whole or each.level != "ok"]
        rows = [[markdown(cell) for cell in (each.check, each.level, each.text, each.remedy)] for each in shown]
        return "\n\n".join([self.count, *([table(("check", "", "what", "to do"), rows)] if rows else [])])
