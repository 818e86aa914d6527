"""``integrate.toml``: how a downstream carries LLVM, and how it is walked forward. Every mistake is one clear error.

:class:`Config` has the file's own tables and keys; the file's JSON Schema is generated from it.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, field

from mlir_release.errors import UsageError
from mlir_release.integrate.strategy import STRATEGIES

if TYPE_CHECKING:
    from pathlib import Path

CONFIG_FILE = "integrate.toml"

#: Subjects of upstream commits that can't break a downstream: tidying and documentation.
DEFAULT_IGNORED = (r"^\[clang-tidy\]", r"^\[(mlir\]\[)?(docs?|NFC\]\[docs?)\]", r"^\[clang-format\]")


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A table of the file. What its types do not say is checked in ``__post_init__``, by a ValueError."""


def _inside(key: str, path: str) -> str:
    """``path`` without a trailing slash. :raises ValueError: if it leads out of the repository"""
    path = path.rstrip("/")
    if path.startswith(("/", "-", ":")) or ".." in path.split("/"):
        raise ValueError(f"{key} must be a path inside the repository, not {path!r}")
    return path


class UpstreamTable(_Table, frozen=True):
    """``[upstream]``: the llvm-project repository that is followed."""

    url: Annotated[str, Meta(description="The Git URL of llvm-project.")]
    branch: Annotated[str, Meta(description="The branch whose commits are walked.")] = "main"


class DownstreamTable(_Table, frozen=True):
    """``[downstream]``: how this repository carries LLVM: as a submodule, or as a commit written in a file."""

    branch: Annotated[str, Meta(description="The main branch: integrates start from it and land on it.")] = "main"
    remote: Annotated[str, Meta(description="The git remote that has the main branch.")] = "origin"
    submodule: Annotated[str, Meta(description="The path of the submodule that is LLVM.")] = ""
    pin_file: Annotated[str, Meta(description="The path of the file that holds LLVM's commit.")] = ""
    checkout: Annotated[str, Meta(description="With pin-file: where a smoke test finds LLVM's sources.")] = ""

    def __post_init__(self) -> None:
        for name in ("submodule", "pin_file", "checkout"):
            msgspec.structs.force_setattr(self, name, _inside(name.replace("_", "-"), getattr(self, name)))
        if bool(self.submodule) == bool(self.pin_file):
            raise ValueError("needs exactly one of submodule and pin-file")
        if self.checkout and self.submodule:
            raise ValueError("checkout is for a pin file only; a submodule's sources are where the submodule is")

    @property
    def carrier(self) -> str:
        """The path in this repository that names LLVM's commit."""
        return self.submodule or self.pin_file


class TrackTable(_Table, frozen=True):
    """``[track]``: which upstream commits are tested."""

    paths: Annotated[
        tuple[str, ...], Meta(min_length=1, description="Upstream commits that touch one of these are tested.")
    ] = ("mlir", "utils/bazel")
    ignore_subjects: Annotated[
        tuple[str, ...],
        Meta(description="Regular expressions: commits whose subject matches one are not tested."),
    ] = DEFAULT_IGNORED

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "paths", tuple(_inside("paths", path) for path in self.paths))
        for pattern in self.ignore_subjects:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"ignore-subjects: {pattern!r} is not a regular expression ({error})") from None


class SmokeTable(_Table, frozen=True):
    """``[smoke]``: the command that decides whether a commit is good."""

    command: Annotated[
        str | tuple[str, ...],
        Meta(description="Runs in the top folder. Exit code 0: good, 125: untestable, else bad."),
    ]
    timeout_minutes: Annotated[float, Meta(gt=0, description="Longer than this is a failure.")] = 90.0
    attempts: Annotated[int, Meta(ge=1, le=10, description="Failures in a row before a commit is bad.")] = 2
    environment: Annotated[tuple[str, ...], Meta(description="Variables that the verdict depends on.")] = ()

    def __post_init__(self) -> None:
        try:
            words = self.argv
        except ValueError as error:
            raise ValueError(f"command can't be split into words: {error}") from None
        if not words:
            raise ValueError("command is empty")

    @property
    def timeout(self) -> float:
        """Seconds."""
        return 60.0 * self.timeout_minutes

    @property
    def argv(self) -> tuple[str, ...]:
        """The command's words."""
        return tuple(shlex.split(self.command)) if isinstance(self.command, str) else self.command


class ExportTarget(_Table, frozen=True):
    """Where patched commits of one repository are made reachable for others."""

    remote: Annotated[str, Meta(description="A Git URL, or the name of a remote in that repository.")]
    branch: Annotated[str, Meta(description="The branch there; it is only ever extended.")]


class SubmoduleExport(ExportTarget, frozen=True):
    """``[[export.also]]``: another submodule with patched commits."""

    path: Annotated[str, Meta(description="The submodule's path.")]

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "path", _inside("path", self.path))


class ExportTable(_Table, frozen=True):
    """``[export]``: where LLVM's carried patches are pushed. Needed as soon as a patch is carried."""

    remote: Annotated[str, Meta(description="A fork of llvm-project: a Git URL, or a remote's name.")] = ""
    branch: Annotated[str, Meta(description="The branch there; it is only ever extended.")] = ""
    also: Annotated[tuple[SubmoduleExport, ...], Meta(description="Other patched submodules.")] = ()

    def __post_init__(self) -> None:
        if bool(self.remote) != bool(self.branch):
            raise ValueError("needs both remote and branch")

    @property
    def target(self) -> ExportTarget | None:
        """Where LLVM's carried patches go; None if the file does not say it."""
        return ExportTarget(remote=self.remote, branch=self.branch) if self.remote else None


class WalkTable(_Table, frozen=True):
    """``[walk]``: the integrate branch, and how commits are chosen for testing."""

    branch: Annotated[str, Meta(description="The name of an integrate branch, with {date} in it.")] = (
        "integrates/llvm-{date}"
    )
    strategy: Annotated[
        str, Meta(extra_json_schema={"enum": list(STRATEGIES)}, description="Which commits are tested next.")
    ] = "adaptive"
    width: Annotated[int, Meta(ge=1, le=256, description="Smoke tests side by side.")] = 1

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ValueError(f"there is no strategy {self.strategy!r}; known: {', '.join(STRATEGIES)}")
        if self.branch.count("{date}") != 1 or not re.fullmatch(r"[\w./-]+", self.branch.replace("{date}", "")):
            raise ValueError(f"branch must be a branch name that contains {{date}} once, not {self.branch!r}")


class CITable(_Table, frozen=True):
    """``[ci]``: the downstream's own checks."""

    workflow: Annotated[str, Meta(description="A workflow that is dispatched on the integrate branch.")] = ""


class NotifyTable(_Table, frozen=True):
    """``[notify]``: who is told when a walk stops."""

    variable: Annotated[str, Meta(description="The environment variable that holds the apprise addresses.")] = (
        "MLIR_RELEASE_NOTIFY"
    )

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_]\w*", self.variable):  # not shown: it may be an address with a secret in it
            raise ValueError("variable must be the name of an environment variable that holds the addresses")


class Config(_Table, frozen=True):
    """The validated file. See ``docs/integrate.md``."""

    upstream: UpstreamTable
    downstream: DownstreamTable
    smoke: SmokeTable
    track: TrackTable = field(default_factory=TrackTable)
    export: ExportTable = field(default_factory=ExportTable)
    walk: WalkTable = field(default_factory=WalkTable)
    ci: CITable = field(default_factory=CITable)
    notify: NotifyTable = field(default_factory=NotifyTable)


def load_config(directory: Path) -> Config:
    """Read ``integrate.toml`` in ``directory``. :raises UsageError: naming the first mistake."""
    path = directory / CONFIG_FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            "integrate-config-missing",
            f"there is no {CONFIG_FILE} in this repository",
            where=str(directory),
            remedy="write one (docs/integrate.md begins with a template) and commit it on the main branch",
        ) from None
    return read_config(content, where=str(path))


def read_config(content: bytes, *, where: str) -> Config:
    """The configuration in a file's content. :raises UsageError: naming the first mistake."""
    try:
        return msgspec.convert(tomllib.loads(content.decode("utf-8")), Config)
    except UnicodeDecodeError as error:
        what = f"the file is not UTF-8 ({error})"
    except tomllib.TOMLDecodeError as error:
        what = f"the file is not TOML: {error}"
    except msgspec.ValidationError as error:
        what = _sentence(error)
    raise UsageError("integrate-config-invalid", what, where=where, remedy="correct the file (docs/integrate.md)")


def _sentence(error: msgspec.ValidationError) -> str:
    """What is wrong at which key, in TOML's words."""
    problem, _, path = str(error).partition(" - at `$.")
    for pattern, replacement in _SENTENCES:
        problem = re.sub(pattern, replacement, problem)
    problem = re.sub(r"`(\w+)`", lambda kind: _KINDS.get(kind[1], kind[0]), problem)
    return f"{path.rstrip('`') or CONFIG_FILE}: {problem}"


_SENTENCES = (
    (r"^Object contains unknown field `(.*)`$", r"has no key '\1'"),
    (r"^Object missing required field `(.*)`$", r"lacks the key '\1'"),
    (r"^Expected `(\w+) \| (\w+)`", r"must be `\1` or `\2`"),
    (r"^Expected (`\w+`)", r"must be \1"),
    (r", got (`\w+`)$", r", not \1"),
)
_KINDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
