"""``integrate.toml``: how a downstream carries its upstream, mostly LLVM, and how that is walked forward.

The file's JSON Schema comes from here.
"""

from __future__ import annotations

import re
from string import Formatter
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, field, structs

from mlir_release.ground.documents.decode import MalformedError, convert, doc, parse_toml
from mlir_release.ground.errors import UsageError
from mlir_release.ground.programs.surroundings import withheld
from mlir_release.ground.storage.files import read_document
from mlir_release.ground.strategy import STRATEGIES
from mlir_release.integrate.tables import Command, ExportTarget, Table, UpstreamTable, inside, words

if TYPE_CHECKING:
    from pathlib import Path

CONFIG_FILE = "integrate.toml"

#: What a roller does: all of it, nothing, or tests and reports only.
MODES = ("running", "stopped", "dry-run")

#: The variable that goes before the mode in the file.
ROLL_VARIABLE = "MLIR_RELEASE_ROLL"


class DownstreamTable(Table, frozen=True):
    """``[downstream]``: this repository."""

    branch: Annotated[str, doc("The main branch: integrates start from it and land on it.")] = "main"
    remote: Annotated[str, doc("The git remote that has the main branch.")] = "origin"


class SmokeTable(Table, frozen=True):
    """``[smoke]``: the command that decides whether a commit is good."""

    command: Annotated[Command, doc("Runs in the top folder. Exit code 0: good, 125: untestable, else bad.")]
    timeout_minutes: Annotated[float, Meta(gt=0, title="a number above 0"), doc("Longer than this is a failure.")] = 90
    attempts: Annotated[
        int, Meta(ge=1, le=10, title="a whole number from 1 to 10"), doc("Failures in a row before a commit is bad.")
    ] = 2
    confirmations: Annotated[
        int,
        Meta(ge=0, le=20, title="a whole number from 0 to 20"),
        doc("At most so many more tests of a commit that failed, before it is named."),
    ] = 20
    environment: Annotated[tuple[str, ...], doc("Variables that the verdict depends on; it sees these, too.")] = ()
    submodules: Annotated[
        tuple[str, ...] | None,
        doc(
            "Paths of other submodules that it needs; default: those initialised in the checkout, and [[export.also]]."
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.submodules is not None:
            structs.force_setattr(self, "submodules", tuple(inside("submodules", path) for path in self.submodules))
        words(self.command)

    @property
    def withheld(self) -> str:
        """The variables that a failed smoke test did not see. See
        :func:`~mlir_release.ground.programs.surroundings.withheld`.
        """
        return withheld(named=self.environment, place=f"environment of [smoke] in {CONFIG_FILE}")

    @property
    def timeout(self) -> float:
        """Seconds."""
        return 60.0 * self.timeout_minutes

    @property
    def argv(self) -> tuple[str, ...]:
        """The command's words."""
        return words(self.command)


class SubmoduleExport(ExportTarget, frozen=True):
    """``[[export.also]]``: another submodule with patched commits."""

    path: Annotated[str, doc("The submodule's path.")]

    def __post_init__(self) -> None:
        structs.force_setattr(self, "path", inside("path", self.path))


class ExportTable(Table, frozen=True):
    """``[export]``: submodules with patches that are no upstream. An upstream has an export of its own."""

    also: Annotated[tuple[SubmoduleExport, ...], doc("A patched submodule each.")] = ()


class WalkTable(Table, frozen=True):
    """``[walk]``: the integrate branch, and how commits are chosen for testing."""

    branch: Annotated[
        str,
        doc(
            "The name of an integrate branch, with {date} in it, and {upstream} where several are followed; default: "
            "integrates/{upstream}-{date}."
        ),
    ] = ""
    strategy: Annotated[
        str, Meta(extra_json_schema={"enum": list(STRATEGIES)}), doc("Which commits are tested next.")
    ] = "adaptive"
    width: Annotated[
        int, Meta(ge=1, le=256, title="a whole number from 1 to 256"), doc("Smoke tests side by side.")
    ] = 1

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise MalformedError("strategy", f"is {self.strategy!r}; known are {', '.join(STRATEGIES)}")
        rest = self.branch.replace("{date}", "").replace("{upstream}", "", 1)
        if self.branch and (self.branch.count("{date}") != 1 or not re.fullmatch(r"[\w./-]+", rest)):
            raise MalformedError("branch", f"is {self.branch!r}, not a branch name that contains {{date}} once")


class CITable(Table, frozen=True):
    """``[ci]``: the downstream's own checks."""

    workflow: Annotated[str, doc("A workflow that is dispatched on the integrate branch.")] = ""
    broken: Annotated[
        bool, doc("With --push: push BRANCH-broken, which has the culprit in it, when a walk stops there.")
    ] = True


#: Fields of a landing's title, each with its meaning.
TITLE_FIELDS = {
    "name": "the upstream's name",
    "short": "its commit, 12 digits",
    "commit": "its commit",
    "from": "the commit before, 12 digits",
    "count": "the number of affecting commits",
}


class LandTable(Table, frozen=True):
    """``[land]``: the pull request and the squashed commit."""

    title: Annotated[
        str, doc(f"The title. Fields: {', '.join(f'{{{name}}} ({text})' for name, text in TITLE_FIELDS.items())}.")
    ] = "Integrate {name} at {short}"

    def __post_init__(self) -> None:
        if not self.title.strip() or self.title != " ".join(self.title.split()):
            raise MalformedError("title", "must be on one line, without spaces at its ends")
        try:
            parts = [part[1:] for part in Formatter().parse(self.title)]
        except ValueError as error:
            raise MalformedError("title", f"is {self.title!r}: {error}") from None
        for name, *format_and_conversion in parts:
            if name is not None and (name not in TITLE_FIELDS or any(format_and_conversion)):
                known = ", ".join(f"{{{field}}}" for field in TITLE_FIELDS)
                raise MalformedError("title", f"has the field {{{name}}}; known are {known}, without any format")


class NotifyTable(Table, frozen=True):
    """``[notify]``: where a report is sent when a walk stops."""

    variable: Annotated[str, doc("The environment variable that holds the apprise addresses.")] = "MLIR_RELEASE_NOTIFY"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_]\w*", self.variable):  # not shown: it may be an address with a secret in it
            raise MalformedError("variable", "is not the name of an environment variable (which holds the addresses)")


class RollTable(Table, frozen=True):
    """``[roll]``: what scheduled runs may do. That of the main branch counts, and MLIR_RELEASE_ROLL before it."""

    mode: Annotated[
        str, Meta(extra_json_schema={"enum": list(MODES)}), doc("running, stopped, or dry-run: only tests and reports.")
    ] = "running"
    why: Annotated[str, doc("Told wherever the mode is.")] = ""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise MalformedError("mode", f"is {self.mode!r}; known are {', '.join(MODES)}")


def switched_to(text: str) -> tuple[str, str]:
    """The mode and the reason that :data:`ROLL_VARIABLE` holds: ``stopped: release week (Ada)``.

    :raises UsageError: ``config-invalid``
    """
    mode, _, why = (part.strip() for part in text.partition(":"))
    if mode in MODES:
        return mode, why
    raise UsageError(
        "config-invalid",
        f"{ROLL_VARIABLE} is {text!r}, which begins with no mode of a roller",
        remedy=f"set it to {', '.join(MODES)}, with a reason after a colon if you like; or delete it",
    )


class Config(Table, frozen=True):
    """The validated file. See ``docs/integrate.md``."""

    upstream: Annotated[
        UpstreamTable | tuple[UpstreamTable, ...],
        Meta(title="a table, or several: [[upstream]]"),
        doc("What is followed: one table, or several."),
    ]
    smoke: SmokeTable
    downstream: DownstreamTable = field(default_factory=DownstreamTable)
    export: ExportTable = field(default_factory=ExportTable)
    walk: WalkTable = field(default_factory=WalkTable)
    ci: CITable = field(default_factory=CITable)
    land: LandTable = field(default_factory=LandTable)
    notify: NotifyTable = field(default_factory=NotifyTable)
    roll: RollTable = field(default_factory=RollTable)

    def __post_init__(self) -> None:
        found = self.upstream if isinstance(self.upstream, tuple) else (self.upstream,)
        if not found:
            raise MalformedError("upstream", "is empty")
        for name in ("slug", "carrier"):
            values = [getattr(table, name) for table in found]
            if len(set(values)) < len(values) and (name == "slug" or not all(table.pattern for table in found)):
                raise MalformedError(
                    "upstream", f"has two tables with the same {name}, {max(values, key=values.count)!r}"
                )
        if len(found) > 1 and self.walk.branch and "{upstream}" not in self.walk.branch:
            raise MalformedError("walk.branch", "needs {upstream} in it: several upstreams are followed")
        structs.force_setattr(self, "upstream", found)

    @property
    def upstreams(self) -> tuple[UpstreamTable, ...]:
        """All that is followed, in the file's order."""
        assert isinstance(self.upstream, tuple)
        return self.upstream

    def branch_pattern(self, upstream: UpstreamTable | None = None) -> str:
        """The name of an integrate branch, with ``{date}`` once in it: ``integrates/llvm-{date}``.

        :param upstream: the one that is walked alone; None: all are
        """
        walked = self.upstreams if upstream is None else (upstream,)
        name = "+".join(table.slug for table in walked)
        return (self.walk.branch or "integrates/{upstream}-{date}").replace("{upstream}", name)

    def date_of(self, name: str, upstream: UpstreamTable | None = None) -> tuple[str, int] | None:
        """The date in the name of an integrate branch, and its number on that day; None for any other branch.

        :param upstream: as of :meth:`branch_pattern`
        """
        before, after = map(re.escape, self.branch_pattern(upstream).split("{date}"))
        match = re.fullmatch(rf"{before}(\d{{8}}){after}(?:_(\d{{1,9}}))?", name)
        return (match[1], int(match[2] or 0)) if match else None

    def walked(self, branch: str) -> tuple[UpstreamTable, ...]:
        """The upstreams that the integrate branch of that name is of; empty if it is another branch."""
        if self.date_of(branch) is not None:
            return self.upstreams
        return tuple(table for table in self.upstreams if self.date_of(branch, table) is not None)


def load_config(directory: Path) -> Config:
    """Read ``integrate.toml`` in ``directory``. :raises UsageError: naming the first mistake."""
    path = directory / CONFIG_FILE
    try:
        content = read_document(path)
    except FileNotFoundError:
        raise UsageError(
            "input-missing",
            f"there is no {CONFIG_FILE} in this repository",
            where=str(directory),
            remedy="mlir-release integrate init writes one (see docs/integrate.md); commit it on the main branch",
        ) from None
    return read_config(content, where=str(path))


#: What the file had once: a table, or a table's key; each with what is wrong with it, and what to do instead.
_HOURS = ("is no key any more", "remove it: walks begin when the cron of your workflow says")
_DROPPED = {
    "fix": (
        "is no table any more",
        'remove it: a job of your own runs the program, as "A program that fixes" in docs/integrate.md shows',
    ),
    "roll.hours": _HOURS,
    "roll.days": _HOURS,
}


def read_config(content: bytes, *, where: str) -> Config:
    """The configuration in a file's content. :raises UsageError: naming the first mistake."""
    try:
        data = parse_toml(content)
        for path, (problem, hint) in _DROPPED.items():
            table, _, key = path.partition(".")
            if table in data and (not key or (isinstance(data[table], dict) and key in data[table])):
                raise MalformedError(path, problem, hint)
        return convert(data, Config, table="a table")
    except MalformedError as error:
        raise UsageError(
            "config-invalid", f"{CONFIG_FILE}: {error}", where=where, remedy="correct the file (docs/integrate.md)"
        ) from None
