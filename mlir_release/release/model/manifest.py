"""What a release is, as data: ``release.json``, the manifest that each release carries as an asset.

The index's only state is these manifests and ``yanked.toml`` (:mod:`mlir_release.release.model.yanks`). Everything here
is immutable and pure; a manifest's text is a function of its content (sorted keys, sorted rows), so that two machines
that verify the same draft write the same bytes.
"""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from mlir_release.builder.model.names import named
from mlir_release.builder.model.regalloc_model import RegallocModel
from mlir_release.builder.model.test_report import ExpectedFailures, TestEntry
from mlir_release.ground.documents.decode import (
    Count,
    Line,
    LockName,
    MalformedError,
    PlainName,
    PlainNameOrEmpty,
    ProjectName,
    RepositoryUrlOrEmpty,
    Sha1,
    Sha1OrEmpty,
    Sha256,
    SourceName,
    WheelName,
    builtins,
    doc,
    from_json,
    text,
)
from mlir_release.ground.documents.times import parse_time
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.ground.python.cpython import ANY_PYTHON, CPython
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.python.requirements import Relaxed, check_requirement, check_specifiers
from mlir_release.release.model.release_tags import Kind, parse_tag
from mlir_release.release.model.stack import CarriedStack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


# -- what the wheels depend on, as it was resolved when the release was published: versions, files and digests ---------

#: Where a wheel can be downloaded. Nothing in it needs quoting, in TOML, HTML or on a command line.
WheelUrl = Annotated[
    str, text(r"(?:https?|file)://[A-Za-z0-9:/_.~%+!@=,-]{1,1800}\.whl", "the address of a wheel, https://…/….whl")
]


class LockedWheel(Struct, frozen=True, kw_only=True):
    """A file of a package index, which its digest identifies."""

    url: WheelUrl
    sha256: Sha256
    size: Annotated[Count, doc("Bytes; 0: the index does not say")] = 0

    @property
    def filename(self) -> str:
        """``numpy-2.4.6-cp311-cp311-win_amd64.whl``."""
        return unquote(self.url.rpartition("/")[2])


class LockedPackage(Struct, frozen=True, kw_only=True):
    """One version of a distribution, with its wheels for the CPythons and platforms of the release."""

    name: ProjectName
    version: Line
    marker: Annotated[Line, doc("PEP 508, of the machines that take this version; empty: all")] = ""
    wheels: tuple[LockedWheel, ...] = ()

    def __post_init__(self) -> None:
        check_requirement(f"{self.name} ; {self.marker}" if self.marker else self.name)
        for wheel in self.wheels:
            if named(wheel.filename) != (canonicalize_name(self.name), Version(self.version)):
                problem = f"name the file {wheel.filename}, which is not one of {self.name} {self.version}"
                raise MalformedError("dependencies", problem)


class Dependencies(Struct, frozen=True, kw_only=True):
    """What some requirements led to. Distributions with the same requirements share it."""

    requires: Annotated[tuple[Line, ...], doc("The requirements of the wheels, PEP 508, sorted")]
    packages: tuple[LockedPackage, ...]

    def sorted(self) -> Dependencies:
        """The same with its rows in their one order."""
        return Dependencies(
            requires=tuple(sorted(self.requires)),
            packages=tuple(sorted(self.packages, key=lambda package: (package.name, Version(package.version)))),
        )


def fits(filename: str, python: CPython, platform: PlatformTag) -> bool:
    """Whether a dependency's wheel is for a CPython on a platform of the release's, on some version of that system.

    :param platform: a tag of one of the release's own wheels
    """
    tags = parse_wheel_filename(filename)[3]

    def runs_on(tag: str) -> bool:
        parsed = PlatformTag.parse(tag)
        both = parsed.family == platform.family == "macosx" and parsed.arch == "universal2"
        return tag == "any" or both or parsed.platform == platform.platform

    return any((tag.interpreter, tag.abi) in _abis(python) and runs_on(tag.platform) for tag in tags)


@lru_cache(maxsize=100)
def _abis(python: CPython) -> frozenset[tuple[str, str]]:
    """The interpreter and ABI tags of the wheels that its pip takes."""
    own = cpython_tags(python.release, [python.tag], ["any"])
    return frozenset(
        (tag.interpreter, tag.abi) for tag in (*own, *compatible_tags(python.release, python.tag, ["any"]))
    )


# -- the manifest ------------------------------------------------------------------------------------------------------

#: Name of the manifest among a release's assets, and of its copy on the pages.
MANIFEST_NAME = "release.json"


#: The CPythons that a wheel is for.
PythonTag = Annotated[
    str, text(rf"{ANY_PYTHON}|cp3(?:[0-9]|[1-9][0-9])t?", f"an interpreter tag like cp312, or {ANY_PYTHON}")
]


class WheelEntry(Struct, frozen=True, kw_only=True):
    """One wheel of a release. Its file is among the release's assets, with ``<filename>.metadata`` beside it."""

    filename: WheelName
    target: Annotated[PlainName, doc("Row of the build matrix, `mlir-linux-x86_64-cp312`")]
    distribution: Annotated[ProjectName, doc("`mlir`, `mlir-core`, `mlir-full`, `mlir-sdk`, `mlir-sdk-tools`, …")]
    profile: Annotated[PlainName, doc("`host`, `core`, `full`, `sdk`, `sdk-tools`, `test-tools`")]
    project: Annotated[PlainName, doc("The project of llvm-project that it is of")] = DEFAULT_PROJECT
    python: Annotated[PythonTag, doc("The interpreter tag, `cp312`; `py3` of wheels for every CPython")]
    serves: Annotated[tuple[PythonTag, ...], doc("Of a wheel for the stable ABI: the CPythons that it is for")] = ()
    platforms: Annotated[tuple[PlainName, ...], doc("Platform tags, `manylinux_2_28_x86_64`")] = ()
    requires_python: Annotated[Line, doc("PEP 440 specifiers, or empty")] = ""
    requires_dist: Annotated[tuple[Line, ...], doc("PEP 508 requirements of the wheel")] = ()
    size: Annotated[Count, doc("Bytes")]
    sha256: Sha256
    metadata_sha256: Annotated[Sha256, doc("Of the METADATA file, which is the `.metadata` asset")]
    provenance: Annotated[PlainNameOrEmpty, doc("Name of the PEP 740 provenance asset, or empty")] = ""
    regalloc_model: Annotated[
        RegallocModel | None, doc("The learned eviction policy that it compiles with; null: LLVM's own heuristic")
    ] = None
    sdk: Annotated[Line, doc("Digest of the SDK that it was built from, as `sdk.json` has it; empty: not recorded")] = (
        ""
    )
    image: Annotated[Line, doc("The container image that it was built in, by its digest; empty: none")] = ""

    @property
    def pythons(self) -> tuple[str, ...]:
        """The CPythons that it is made for: ``cp312``, …; none of a wheel that is for all."""
        return () if self.python == ANY_PYTHON else self.serves or (self.python,)

    def __post_init__(self) -> None:
        check_specifiers(self.requires_python)
        for requirement in self.requires_dist:
            check_requirement(requirement)


class SourceEntry(Struct, frozen=True, kw_only=True):
    """A source distribution of a release. Indexes never list it: who has no wheel would get hours of compilation."""

    filename: SourceName
    target: Annotated[PlainName, doc("Row of the build matrix, `mlir-source-linux-x86_64-py3`")]
    distribution: Annotated[ProjectName, doc("`mlir`")]
    project: Annotated[PlainName, doc("The project of llvm-project that it is of")] = DEFAULT_PROJECT
    requires_python: Annotated[Line, doc("PEP 440 specifiers, or empty")] = ""
    size: Annotated[Count, doc("Bytes")]
    sha256: Sha256
    provenance: Annotated[PlainNameOrEmpty, doc("Name of the PEP 740 provenance asset, or empty")] = ""
    sdk: Annotated[Line, doc("Digest of the SDK that the sources are from, as `sdk.json` has it")] = ""

    def __post_init__(self) -> None:
        check_specifiers(self.requires_python)


class LockEntry(Struct, frozen=True, kw_only=True):
    """A file that pins one distribution of a release, each wheel by its URL and digest."""

    filename: Annotated[LockName, doc("`requirements.txt`, `pylock.toml`; with `-mlir-core`, `.mlir-core` of others")]
    sha256: Sha256


class Waiver(Struct, frozen=True, kw_only=True):
    """A person's decision to publish although ``target`` (a wheel's or a test's) is missing or fails.

    In a draft it is the asset ``waiver-<target>.json``, in the manifest a row.
    """

    target: PlainName
    reason: str
    by: Line = ""
    at: Annotated[Line, doc("UTC, `2026-11-20T12:00:00Z`")] = ""

    def to_text(self) -> str:
        """The content of the asset."""
        return _to_text(self)

    @classmethod
    def from_text(cls, content: str | bytes, *, where: str) -> Waiver:
        """Read :meth:`to_text`'s text; ``where`` names the source in errors. :raises VerificationError:"""
        try:
            return from_json(content, cls)
        except MalformedError as error:
            raise VerificationError(
                "file-damaged",
                "a waiver can't be read",
                where=where,
                why=str(error),
                remedy="delete that asset of the draft and waive again: "
                "mlir-release release waive TAG TARGET --reason …",
            ) from error


class LeftOut(Struct, frozen=True, kw_only=True):
    """An experimental target that is not part of the release, and why."""

    target: PlainName
    reason: str


class TestedRelaxed(Relaxed, frozen=True, kw_only=True):
    """A requirement of upstream's whose cap the wheels relax, and what their bindings were tested with."""

    __test__ = False  # not a test class

    tested_with: Annotated[tuple[Line, ...], doc("The versions with which the suite `bindings` has passed")] = ()


class Manifest(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """The manifest of a release: what it is made of, and what it was tested by.

    The schema's number is raised when the meaning of a field changes; a reader refuses what is newer than itself.
    """

    tag: str
    kind: Kind
    version: Annotated[str, doc("Of the wheels, canonical PEP 440")]
    revision: Annotated[Sha1, doc("llvm-project commit")]
    revision_date: Annotated[Line, doc("When that commit was made, UTC; empty in releases of before")] = ""
    commit: Annotated[Sha1, doc("Commit of the release repository that pins it")]
    upstream: Annotated[Line, doc("URL or path of llvm-project, or of the fork that has the commit")]
    stack: Annotated[CarriedStack | None, doc("What the commit has beyond upstream's; absent: nothing")] = None
    created_at: Annotated[str, doc("When its tag was made, by the forge's clock; UTC, `2026-11-20T12:00:00Z`")]
    toolkit_version: Line
    previous_tag: Annotated[
        PlainNameOrEmpty, doc("The newest release of the same kind that was published before; or empty")
    ] = ""
    previous_revision: Sha1OrEmpty = ""
    llvm_version: Line = ""
    provenance: Annotated[
        Literal["required", "none"], doc("`required`: the release's files are signed; each has a `.sigstore.json`")
    ] = "none"
    repository: Annotated[
        RepositoryUrlOrEmpty,
        doc("Address of the repository whose workflows signed, `https://github.com/OWNER/NAME`; or empty"),
    ] = ""
    signed_latest: Annotated[
        bool, doc("Whether the repository that signed also signs which of its snapshots is the newest")
    ] = False
    main: Annotated[
        ProjectName, doc("The distribution that `requirements.txt` and `pylock.toml` are of; others' names have theirs")
    ] = DEFAULT_PROJECT
    wheels: tuple[WheelEntry, ...] = ()
    sources: Annotated[tuple[SourceEntry, ...], doc("Source distributions, which no index lists")] = ()
    locks: Annotated[
        tuple[LockEntry, ...], doc("Files that pin its distributions; their URLs are of where it was published first")
    ] = ()
    dependencies: Annotated[
        tuple[Dependencies, ...], doc("What its wheels depend on, as `pylock.toml` locks it; resolved once, by uv")
    ] = ()
    tests: tuple[TestEntry, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    relaxed: tuple[TestedRelaxed, ...] = ()
    notice: Annotated[Line, doc("What it says of its standing, or empty")] = ""

    def __post_init__(self) -> None:
        parsed = parse_tag(self.tag)
        if parsed is None:
            raise MalformedError("tag", f"is {self.tag!r}, which is not a release tag")
        if self.kind != parsed.kind:
            raise MalformedError("kind", f"is not {parsed.kind!r}, which the tag {self.tag} says")
        if not _is_canonical(self.version):
            raise MalformedError("version", f"is {self.version!r}, which is not a canonical PEP 440 version")
        for name in ("created_at", "revision_date"):
            try:
                parse_time(getattr(self, name) or self.created_at)
            except ValueError:
                problem = f"is {getattr(self, name)!r}, not a UTC time like 2026-11-20T12:00:00Z"
                raise MalformedError(name, problem) from None
        if self.stack is not None and self.stack.commits[-1].commit != self.revision:
            raise MalformedError("stack", "does not end with the revision")
        seen: set[str] = set()
        for file in self.files:
            if file.filename in seen:
                raise MalformedError("wheels", f"name the file {file.filename} twice")
            seen.add(file.filename)
            if named(file.filename) != (canonicalize_name(file.distribution), Version(self.version)):
                problem = f"name the file {file.filename}, which is not one of {file.distribution} {self.version}"
                raise MalformedError("wheels", problem)

    @property
    def known_failures(self) -> Mapping[ExpectedFailures, Sequence[str]]:
        """The known failures of all runs, one for each reason with all of its tests, and the runs that had them."""
        found: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
        for run in self.tests:
            for row in run.known_failures:
                found.setdefault((row.reason, row.link), {})[run.name] = row.tests
        return {
            ExpectedFailures(tests=tuple(sorted({*chain(*runs.values())})), reason=reason, link=link): tuple(runs)
            for (reason, link), runs in found.items()
        }

    @property
    def created(self) -> datetime:
        """:attr:`created_at` as a timezone-aware time."""
        return parse_time(self.created_at)

    @property
    def files(self) -> tuple[WheelEntry | SourceEntry, ...]:
        """All that can be installed."""
        return (*self.wheels, *self.sources)

    @property
    def size(self) -> int:
        """Bytes of all wheels."""
        return sum(wheel.size for wheel in self.wheels)

    @property
    def pythons(self) -> tuple[str, ...]:
        """The CPythons that it has wheels for, each once."""
        return tuple(dict.fromkeys(python for wheel in self.wheels for python in wheel.pythons))

    @property
    def distributions(self) -> tuple[str, ...]:
        """The distributions of its wheels: the main one first, then others of its project, then other projects'."""
        rows = {wheel.distribution: wheel.project for wheel in self.wheels}
        mine = rows.get(self.main, DEFAULT_PROJECT)
        return tuple(sorted(rows, key=lambda name: (name != self.main, rows[name] != mine, rows[name], name)))

    @property
    def projects(self) -> Mapping[str, tuple[str, ...]]:
        """Its projects, that of the main distribution first, each with its distributions."""
        rows, found = {wheel.distribution: wheel.project for wheel in self.wheels}, dict[str, tuple[str, ...]]()
        for name in self.distributions:
            found[rows[name]] = (*found.get(rows[name], ()), name)
        return found

    def project_of(self, distribution: str) -> str:
        """The project of one of its distributions."""
        mine = (wheel.project for wheel in self.wheels if wheel.distribution == distribution)
        return next(mine, DEFAULT_PROJECT)

    @property
    def heads(self) -> tuple[str, ...]:
        """The first distribution of each project, that of the main one first."""
        return tuple(names[0] for names in self.projects.values())

    @property
    def unnamed(self) -> str:
        """The distribution whose lock files don't have its name in theirs: ``requirements.txt``.

        Another project's never takes the main one's place: who installs that file would get something else.
        """
        first = next(iter(self.distributions), "")
        return first if self.main == DEFAULT_PROJECT and DEFAULT_PROJECT in self.projects else self.main

    def requires(self, distribution: str) -> tuple[str, ...]:
        """What the wheels of one of its distributions require, sorted; PEP 508."""
        rows = (wheel.requires_dist for wheel in self.wheels if wheel.distribution == distribution)
        return tuple(sorted({requirement for row in rows for requirement in row}))

    def sorted(self) -> Manifest:
        """The same manifest with its rows in their one order."""
        return msgspec.structs.replace(
            self,
            wheels=tuple(sorted(self.wheels, key=lambda wheel: (wheel.distribution, wheel.filename))),
            sources=tuple(sorted(self.sources, key=lambda source: source.filename)),
            locks=tuple(sorted(self.locks, key=lambda lock: lock.filename)),
            dependencies=tuple(sorted((row.sorted() for row in self.dependencies), key=lambda row: row.requires)),
            tests=tuple(sorted(self.tests, key=lambda test: test.name)),
            waivers=tuple(sorted(self.waivers, key=lambda waiver: waiver.target)),
            left_out=tuple(sorted(self.left_out, key=lambda target: target.target)),
            relaxed=tuple(sorted(self.relaxed, key=lambda row: row.upstream)),
        )

    def to_text(self) -> str:
        """The content of ``release.json``."""
        return _to_text(self.sorted())

    @classmethod
    def from_text(cls, content: str | bytes, *, where: str) -> Manifest:
        """Read :meth:`to_text`'s text; ``where`` names the source in errors. :raises VerificationError:"""
        try:
            return from_json(content, cls).sorted()
        except MalformedError as error:
            raise VerificationError(
                "file-damaged",
                str(error),
                where=where,
                remedy="release.json is written by `mlir-release publish`; in a draft, delete the asset and publish "
                "again; in a published release, another version wrote it: update mlir-release",
            ) from error


def _is_canonical(version: str) -> bool:
    try:
        return str(Version(version)) == version
    except InvalidVersion:
        return False


#: Fields that are left out while they are empty.
_OPTIONAL = (
    *("regalloc_model", "relaxed", "serves", "sdk", "image", "sources", "locks", "signed_latest"),
    *("known_failures", "notice", "dependencies", "marker", "revision_date", "measures", "stack", "judges"),
)


#: Fields that are left out while they say what releases of one project, the first that there was, would say.
_USUAL = {"project": DEFAULT_PROJECT, "main": DEFAULT_PROJECT}


def _to_text(document: Struct) -> str:
    data = builtins(document, optional=_OPTIONAL)
    for row in (data, *data.get("wheels", ()), *data.get("sources", ())):
        for name in [name for name, usual in _USUAL.items() if row.get(name) == usual]:
            del row[name]
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


# -- times ------------------------------------------------------------------------------------------------------------
