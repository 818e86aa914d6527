"""``integrate.toml``: how a downstream carries its upstream, mostly LLVM, and how that is walked forward.

The file's JSON Schema comes from here.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, field, structs

from mlir_release.errors import UsageError
from mlir_release.host.files import read_document
from mlir_release.host.surroundings import withheld
from mlir_release.integrate.strategy import STRATEGIES
from mlir_release.model.decode import MalformedError, VariableName, doc, from_toml

if TYPE_CHECKING:
    from pathlib import Path

CONFIG_FILE = "integrate.toml"

#: Subjects of upstream commits that can't break a downstream: tidying and documentation.
DEFAULT_IGNORED = (r"^\[clang-tidy\]", r"^\[(mlir\]\[)?(docs?|NFC\]\[docs?)\]", r"^\[clang-format\]")


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A table of the file. ``__post_init__`` checks rules that types can't express."""


def _inside(key: str, path: str) -> str:
    """``path`` without a trailing slash. :raises MalformedError: if it leads out of the repository"""
    path = path.rstrip("/")
    if path.startswith(("/", "-", ":")) or ".." in path.split("/"):
        raise MalformedError(key, f"is {path!r}, not a path inside the repository")
    return path


class UpstreamTable(_Table, frozen=True):
    """``[upstream]``: the repository that is followed: llvm-project, or another one."""

    url: Annotated[str, doc("The Git URL of llvm-project, or of another upstream.")]
    branch: Annotated[str, doc("The branch whose commits are walked.")] = "main"
    name: Annotated[str, doc("What commits, reports and pull requests call it; default: from the URL.")] = ""

    def __post_init__(self) -> None:
        if self.name != " ".join(self.name.split()):
            raise MalformedError("name", "must be on one line, without spaces at its ends")

    @property
    def title(self) -> str:
        """The upstream's name for people: ``LLVM``, ``stablehlo``."""
        last = re.split(r"[/:]", self.url.rstrip("/"))[-1].removesuffix(".git")
        return self.name or {"llvm-project": "LLVM"}.get(last, last)


class DownstreamTable(_Table, frozen=True):
    """``[downstream]``: how this repository carries the upstream: as a submodule, or as a commit written in a file."""

    branch: Annotated[str, doc("The main branch: integrates start from it and land on it.")] = "main"
    remote: Annotated[str, doc("The git remote that has the main branch.")] = "origin"
    submodule: Annotated[str, doc("The path of the submodule that is the upstream.")] = ""
    pin_file: Annotated[str, doc("The path of the file that holds the upstream's commit.")] = ""
    checkout: Annotated[str, doc("With pin-file: where a smoke test finds the upstream's sources.")] = ""

    def __post_init__(self) -> None:
        for name in ("submodule", "pin_file", "checkout"):
            structs.force_setattr(self, name, _inside(name.replace("_", "-"), getattr(self, name)))
        if bool(self.submodule) == bool(self.pin_file):
            raise MalformedError("", "needs exactly one of submodule and pin-file")
        if self.checkout and self.submodule:
            raise MalformedError("checkout", "is for a pin file only: a submodule's sources are where the submodule is")

    @property
    def carrier(self) -> str:
        """The path in this repository that names the upstream's commit."""
        return self.submodule or self.pin_file


class TrackTable(_Table, frozen=True):
    """``[track]``: which upstream commits are tested."""

    paths: Annotated[
        tuple[str, ...], Meta(min_length=1, description="Upstream commits that touch one of these are tested.")
    ] = ("mlir", "utils/bazel")
    ignore_subjects: Annotated[
        tuple[str, ...],
        doc("Regular expressions: commits whose subject matches one are not tested."),
    ] = DEFAULT_IGNORED

    def __post_init__(self) -> None:
        structs.force_setattr(self, "paths", tuple(_inside("paths", path) for path in self.paths))
        for pattern in self.ignore_subjects:
            try:
                re.compile(pattern)
            except re.error as error:
                raise MalformedError("ignore-subjects", f"has {pattern!r}, not a regular expression: {error}") from None


class SmokeTable(_Table, frozen=True):
    """``[smoke]``: the command that decides whether a commit is good."""

    command: Annotated[
        tuple[str, ...] | str,
        Meta(title="a command: a string, or a list of strings"),
        doc("Runs in the top folder. Exit code 0: good, 125: untestable, else bad."),
    ]
    timeout_minutes: Annotated[float, Meta(gt=0, title="a number above 0"), doc("Longer than this is a failure.")] = 90
    attempts: Annotated[
        int, Meta(ge=1, le=10, title="a whole number from 1 to 10"), doc("Failures in a row before a commit is bad.")
    ] = 2
    environment: Annotated[tuple[str, ...], doc("Variables that the verdict depends on; it sees these, too.")] = ()
    submodules: Annotated[
        tuple[str, ...] | None,
        doc(
            "Paths of other submodules that it needs; default: those initialised in the checkout, and [[export.also]]."
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.submodules is not None:
            structs.force_setattr(self, "submodules", tuple(_inside("submodules", path) for path in self.submodules))
        if not _words(self.command):
            raise MalformedError("command", "is empty")

    @property
    def withheld(self) -> str:
        """The variables that a failed smoke test did not see. See :func:`~mlir_release.host.surroundings.withheld`."""
        return withheld(named=self.environment, place=f"environment of [smoke] in {CONFIG_FILE}")

    @property
    def timeout(self) -> float:
        """Seconds."""
        return 60.0 * self.timeout_minutes

    @property
    def argv(self) -> tuple[str, ...]:
        """The command's words."""
        return _words(self.command)


def _words(command: tuple[str, ...] | str) -> tuple[str, ...]:
    """The words of a command. :raises MalformedError:"""
    try:
        return tuple(shlex.split(command)) if isinstance(command, str) else command
    except ValueError as error:
        raise MalformedError("command", f"can't be split into words: {error}") from None


class FixTable(_Table, frozen=True):
    """``[fix]``: a program that tries to fix this repository at an upstream commit that breaks it."""

    command: Annotated[
        tuple[str, ...] | str,
        Meta(title="a command: a string, or a list of strings"),
        doc("Changes files in the work tree that it runs in. $MLIR_RELEASE_FIX names a JSON document about the break."),
    ] = ""
    automatic: Annotated[bool, doc("Whether a walk runs it at a culprit by itself, once for each.")] = False
    timeout_minutes: Annotated[float, Meta(gt=0, title="a number above 0"), doc("Longer than this is a failure.")] = 30
    environment: Annotated[tuple[VariableName, ...], doc("Variables that it sees besides those of every program.")] = ()
    allowed: Annotated[
        tuple[str, ...],
        doc("It may change only files that match one of these globs; default: all that aren't protected."),
    ] = ()
    protected: Annotated[
        tuple[str, ...],
        doc("It may not change files that match one of these globs, for example what the smoke test runs or expects."),
    ] = ()

    def __post_init__(self) -> None:
        words = self.argv
        if self.automatic and not words:
            raise MalformedError("automatic", "needs a command")
        for name in ("allowed", "protected"):
            structs.force_setattr(self, name, tuple(_glob(name, glob) for glob in getattr(self, name)))

    @property
    def argv(self) -> tuple[str, ...]:
        """The command's words; empty without a command."""
        return _words(self.command)

    @property
    def timeout(self) -> float:
        """Seconds."""
        return 60.0 * self.timeout_minutes


def _glob(key: str, glob: str) -> str:
    """A glob in a form that git knows. :raises MalformedError: if it matches nothing"""
    inside = _inside(key, glob.removeprefix("./"))
    if not inside:
        raise MalformedError(key, f"has {glob!r}, which matches no file", 'to match every file, write "**"')
    return inside


class ExportTarget(_Table, frozen=True):
    """Where patched commits of one repository are made reachable for others."""

    remote: Annotated[str, doc("A Git URL, or the name of a remote in that repository.")]
    branch: Annotated[str, doc("The branch there; it is only ever extended.")]


class SubmoduleExport(ExportTarget, frozen=True):
    """``[[export.also]]``: another submodule with patched commits."""

    path: Annotated[str, doc("The submodule's path.")]

    def __post_init__(self) -> None:
        structs.force_setattr(self, "path", _inside("path", self.path))


class ExportTable(_Table, frozen=True):
    """``[export]``: where the upstream's carried patches are pushed. Needed as soon as a patch is carried."""

    remote: Annotated[str, doc("A fork of the upstream: a Git URL, or a remote's name.")] = ""
    branch: Annotated[str, doc("The branch there; it is only ever extended.")] = ""
    also: Annotated[tuple[SubmoduleExport, ...], doc("Other patched submodules.")] = ()

    def __post_init__(self) -> None:
        if bool(self.remote) != bool(self.branch):
            raise MalformedError("", "needs both remote and branch")

    @property
    def target(self) -> ExportTarget | None:
        """Where the upstream's carried patches go, or None."""
        return ExportTarget(remote=self.remote, branch=self.branch) if self.remote else None


class WalkTable(_Table, frozen=True):
    """``[walk]``: the integrate branch, and how commits are chosen for testing."""

    branch: Annotated[
        str, doc("The name of an integrate branch, with {date} in it; default: integrates/UPSTREAM-{date}.")
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
        if self.branch and (
            self.branch.count("{date}") != 1 or not re.fullmatch(r"[\w./-]+", self.branch.replace("{date}", ""))
        ):
            raise MalformedError("branch", f"is {self.branch!r}, not a branch name that contains {{date}} once")


class CITable(_Table, frozen=True):
    """``[ci]``: the downstream's own checks."""

    workflow: Annotated[str, doc("A workflow that is dispatched on the integrate branch.")] = ""


class NotifyTable(_Table, frozen=True):
    """``[notify]``: where a report is sent when a walk stops."""

    variable: Annotated[str, doc("The environment variable that holds the apprise addresses.")] = "MLIR_RELEASE_NOTIFY"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_]\w*", self.variable):  # not shown: it may be an address with a secret in it
            raise MalformedError("variable", "is not the name of an environment variable (which holds the addresses)")


class Config(_Table, frozen=True):
    """The validated file. See ``docs/integrate.md``."""

    upstream: UpstreamTable
    downstream: DownstreamTable
    smoke: SmokeTable
    track: TrackTable = field(default_factory=TrackTable)
    fix: FixTable = field(default_factory=FixTable)
    export: ExportTable = field(default_factory=ExportTable)
    walk: WalkTable = field(default_factory=WalkTable)
    ci: CITable = field(default_factory=CITable)
    notify: NotifyTable = field(default_factory=NotifyTable)

    @property
    def branch_pattern(self) -> str:
        """The name of an integrate branch, with ``{date}`` once in it: ``integrates/llvm-{date}``."""
        name = re.sub(r"[^a-z0-9.]+", "-", self.upstream.title.lower()).strip("-.") or "upstream"
        return self.walk.branch or f"integrates/{name}-{{date}}"


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
            remedy="write one (docs/integrate.md begins with a template) and commit it on the main branch",
        ) from None
    return read_config(content, where=str(path))


def read_config(content: bytes, *, where: str) -> Config:
    """The configuration in a file's content. :raises UsageError: naming the first mistake."""
    try:
        return from_toml(content, Config)
    except MalformedError as error:
        raise UsageError(
            "config-invalid",
            f"{CONFIG_FILE}: {error}",
            where=where,
            remedy="correct the file (docs/integrate.md)",
        ) from None
