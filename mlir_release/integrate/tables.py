"""The tables of ``integrate.toml`` that describe an upstream: where it is pinned, and what follows from the pin."""

from __future__ import annotations

import re
import shlex
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, structs

from mlir_release.ground.documents.decode import MalformedError, check_choice, doc, one_of
from mlir_release.ground.llvm.projects import find_project
from mlir_release.ground.plugins import PROJECTS, plugins

#: What ``[[upstream.also]]`` can hold.
VALUES = ("commit", "sha256", "date", "tag", "nearest-tag")

#: Who applies ``[[upstream.patches]]``.
APPLIERS = ("build", "us")

_GITHUB = re.compile(r"(?:https://github\.com/|(?:ssh://)?git@github\.com[:/])(?P<name>[^/\s]+/[^/\s]+?)(?:\.git)?/?")


Command = Annotated[tuple[str, ...] | str, Meta(title="a command: a string, or a list of strings")]


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A table of the file. ``__post_init__`` checks rules that types can't express."""


def inside(key: str, path: str) -> str:
    """``path`` without a trailing slash. :raises MalformedError: if it leads out of the repository"""
    path = path.rstrip("/")
    if path.startswith(("/", "-", ":")) or ".." in path.split("/"):
        raise MalformedError(key, f"is {path!r}, not a path inside the repository")
    return path


def words(command: tuple[str, ...] | str) -> tuple[str, ...]:
    """The words of a command. :raises MalformedError: if it can't be split, or is empty"""
    try:
        found = tuple(shlex.split(command)) if isinstance(command, str) else command
    except ValueError as error:
        raise MalformedError("command", f"can't be split into words: {error}") from None
    if not found:
        raise MalformedError("command", "is empty")
    return found


def check_pattern(key: str, pattern: str, *, groups: int | None = None) -> None:
    """:raises MalformedError: if it is no regular expression, or has more than ``groups`` groups"""
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise MalformedError(key, f"has {pattern!r}, not a regular expression: {error}") from None
    if groups is not None and compiled.groups > groups:
        problem = f"has {compiled.groups} groups, and may have {groups}"
        raise MalformedError(key, problem, "write (?:…) for those that are not the value")


def check_address(key: str, url: str) -> None:
    """:raises MalformedError: for an address that is not HTTPS (or HTTP on this machine)"""
    try:
        parts = urlsplit(url)
        local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
        if (parts.scheme == "https" or local) and parts.hostname and "@" not in parts.netloc:
            return
    except ValueError:
        pass
    raise MalformedError(key, "is not an https address without a password in it")


def github_name(url: str) -> str:
    """``OWNER/NAME`` of an address on GitHub; empty for others."""
    match = _GITHUB.fullmatch(url)
    return match["name"] if match else ""


class ExportTarget(Table, frozen=True):
    """Where patched commits of one repository are made reachable for others."""

    remote: Annotated[str, doc("A Git URL, or the name of a remote in that repository.")]
    branch: Annotated[str, doc("The branch there; it is only ever extended.")]


class AlsoTable(Table, frozen=True):
    """``[[upstream.also]]``: another place that says the commit, or a value that follows from it."""

    file: Annotated[str, doc("The path of the file.")]
    pattern: Annotated[str, doc("A regular expression that fits once; its group is the value.")]
    value: Annotated[
        str,
        one_of(VALUES),
        doc(
            "`commit`: the commit again; `sha256`: of its archive; `date`: when it was committed; `tag`: the tag that "
            "names it, or else the commit; `nearest-tag`: the last tag before it."
        ),
    ] = "commit"
    url: Annotated[str, doc("With sha256: the archive's address, with {commit} in it; default: GitHub's own.")] = ""
    format: Annotated[str, doc("With date: strftime's format, in UTC.")] = "%Y-%m-%d"

    def __post_init__(self) -> None:
        structs.force_setattr(self, "file", inside("file", self.file))
        check_pattern("pattern", self.pattern, groups=1)
        check_choice("value", self.value, VALUES)
        if self.url:
            if self.url.count("{commit}") != 1:
                raise MalformedError("url", "needs {commit} in it once")
            check_address("url", self.url)
            if self.value != "sha256":
                raise MalformedError("url", "is for value = 'sha256' only")

    @property
    def copies(self) -> bool:
        """Whether it says which commit it is: it can contradict the pin."""
        return self.value in ("commit", "tag")


class RefreshTable(Table, frozen=True):
    """``[upstream.refresh]``: a command that brings generated files up to date once the pin was written."""

    command: Annotated[Command, doc("Runs in the top folder of a work tree of its own, without secrets.")]
    files: Annotated[
        tuple[str, ...], Meta(min_length=1), doc("Paths or globs of the files that it may change: `**/*.lock`.")
    ]
    timeout_minutes: Annotated[float, Meta(gt=0, title="a number above 0"), doc("Longer than this is a failure.")] = 10

    def __post_init__(self) -> None:
        structs.force_setattr(self, "files", tuple(inside("files", path) for path in self.files))
        if not all(self.files):
            raise MalformedError("files", "names an empty path")
        words(self.command)

    @property
    def argv(self) -> tuple[str, ...]:
        """The command's words."""
        return words(self.command)

    @property
    def pathspecs(self) -> tuple[str, ...]:
        """The files as git takes them."""
        return tuple(f":(top,glob){path}" for path in self.files)


class PatchesTable(Table, frozen=True):
    """``[[upstream.patches]]``: patches of the upstream that are files of this repository."""

    files: Annotated[
        tuple[str, ...], Meta(min_length=1), doc("Paths or globs of the files, in the order in which they are applied.")
    ]
    applied_by: Annotated[
        str,
        one_of(APPLIERS),
        doc("`build`: the project's own build applies them; `us`: the smoke test's sources have them already."),
    ] = "build"
    listed_in: Annotated[
        tuple[str, ...],
        doc("Files that mention a patch in a line of its own, which goes with it. Default: a person drops it."),
    ] = ()

    def __post_init__(self) -> None:
        check_choice("applied-by", self.applied_by, APPLIERS)
        for key in ("files", "listed_in"):
            paths = tuple(inside(key.replace("_", "-"), path) for path in getattr(self, key))
            structs.force_setattr(self, key, paths)


#: Folders of llvm-project that a project which builds on MLIR is tested for.
TRACKED = ("mlir", "utils/bazel")

#: Subjects of upstream commits that can't break a downstream: tidying and documentation.
DEFAULT_IGNORED = (r"^\[clang-tidy\]", r"^\[(mlir\]\[)?(docs?|NFC\]\[docs?)\]", r"^\[clang-format\]")


class UpstreamTable(Table, frozen=True):
    """``[upstream]``: a repository that is followed, llvm-project or another one; several: an ``[[upstream]]`` each."""

    url: Annotated[str, doc("The Git URL of llvm-project, or of another upstream.")]
    branch: Annotated[str, doc("The branch whose commits are walked.")] = "main"
    name: Annotated[str, doc("What commits, reports and pull requests call it; default: from the URL.")] = ""
    submodule: Annotated[str, doc("The path of the submodule that is the upstream.")] = ""
    pin_file: Annotated[str, doc("The path of the file that holds the upstream's commit.")] = ""
    pattern: Annotated[
        str,
        doc(
            "With pin-file: a regular expression that fits once. Its group is the commit, whole or abbreviated, or a "
            "tag; with `releases`, a version. Default: the file holds the commit alone."
        ),
    ] = ""
    checkout: Annotated[str, doc("With pin-file: where a smoke test finds the upstream's sources.")] = ""
    releases: Annotated[
        str, doc("The pin is a release: the address of a release repository's `index.json`, or of a page of wheels.")
    ] = ""
    distribution: Annotated[str, doc("With a page of wheels: the distribution whose versions are walked.")] = ""
    also: Annotated[tuple[AlsoTable, ...], doc("Copies of the commit, and values that follow from it.")] = ()
    patches: Annotated[tuple[PatchesTable, ...], doc("Patches that are files of this repository.")] = ()
    refresh: Annotated[RefreshTable | None, doc("A command that brings generated files up to date.")] = None
    project: Annotated[
        str, doc("The project of llvm-project that the downstream builds on: its folders are the default of `paths`.")
    ] = ""
    paths: Annotated[
        tuple[str, ...], Meta(min_length=1, description="Upstream commits that touch one of these are tested.")
    ] = TRACKED
    ignore_subjects: Annotated[
        tuple[str, ...], doc("Regular expressions: commits whose subject matches one are not tested.")
    ] = DEFAULT_IGNORED
    export: Annotated[
        ExportTarget | None, doc("A fork of the upstream, where carried patches are pushed. Needed to carry one.")
    ] = None

    def __post_init__(self) -> None:
        if self.name != " ".join(self.name.split()):
            raise MalformedError("name", "must be on one line, without spaces at its ends")
        for name in ("submodule", "pin_file", "checkout"):
            structs.force_setattr(self, name, inside(name.replace("_", "-"), getattr(self, name)))
        if self.project:
            check_choice("project", self.project, plugins(PROJECTS))
            if self.paths is TRACKED:
                structs.force_setattr(self, "paths", find_project(self.project).paths)
        structs.force_setattr(self, "paths", tuple(inside("paths", path) for path in self.paths))
        for pattern in self.ignore_subjects:
            check_pattern("ignore-subjects", pattern)
        if self.pattern:
            check_pattern("pattern", self.pattern, groups=1)
        if self.releases:
            check_address("releases", self.releases)
            if not self.releases.endswith(".json") and not self.distribution:
                raise MalformedError("distribution", "is missing", "name the distribution whose wheels the page lists")
        elif self.distribution:
            raise MalformedError("distribution", "is for releases only")
        for index, also in enumerate(self.also):
            if also.value == "sha256" and not also.url and not self.github:
                raise MalformedError(f"also[{index}].url", "is missing", "give the address of the archive of a commit")
        if bool(self.submodule) == bool(self.pin_file):
            raise MalformedError("", "needs exactly one of submodule and pin-file")
        for key, value in (("checkout", self.checkout), ("pattern", self.pattern), ("releases", self.releases)):
            if value and self.submodule:
                raise MalformedError(key, "is for a pin file only")
        if self.releases and not self.pattern:
            raise MalformedError("pattern", "is missing", "releases needs one, whose group is the version")
        for key, given in (("patches", "are" if self.patches else ""), ("checkout", "is" if self.checkout else "")):
            if self.releases and given:
                raise MalformedError(key, f"{given} not for releases: no sources are checked out")
        if not self.pattern and any(also.file == self.carrier for also in self.also):
            raise MalformedError("also", f"names {self.carrier!r}, which is the pin itself")

    @property
    def title(self) -> str:
        """The upstream's name for people: ``LLVM``, ``stablehlo``."""
        last = re.split(r"[/:]", self.url.rstrip("/"))[-1].removesuffix(".git")
        return self.name or {"llvm-project": "LLVM"}.get(last, last)

    @property
    def commit_url(self) -> str:
        """The address of a commit's page, up to its id; empty for a host that is not known."""
        return f"https://github.com/{self.github}/commit/" if self.github else ""

    @property
    def carrier(self) -> str:
        """The path in the downstream that names the upstream's commit."""
        return self.submodule or self.pin_file

    @property
    def carriers(self) -> tuple[str, ...]:
        """All paths in the downstream that say the commit, or what follows from it, each once."""
        return tuple(dict.fromkeys((self.carrier, *(also.file for also in self.also))))

    @property
    def slug(self) -> str:
        """The name for branches and folders: ``llvm``, ``torch-mlir``."""
        return re.sub(r"[^a-z0-9.]+", "-", self.title.lower()).strip("-.") or "upstream"

    @property
    def github(self) -> str:
        """``OWNER/NAME`` of an upstream on GitHub, else empty."""
        return github_name(self.url)

    def archive(self, also: AlsoTable, commit: str, *, carried: bool) -> str:
        """The address of a commit's archive; empty if there is none.

        :param carried: it is on top of carried patches, which the export has
        """
        name = self.github if not carried else github_name(self.export.remote) if self.export else ""
        default = f"https://github.com/{name}/archive/{{commit}}.tar.gz" if name else ""
        return (also.url or default).replace("{commit}", commit)
