"""Canaries: other projects' tests, tried with the wheels of each release; and the record of their results."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from mlir_release.ground.documents.decode import Line, MalformedError, PlainName, ProjectName, doc, from_json, text
from mlir_release.ground.python.cpython import CPython
from mlir_release.release.model.release_index import INDEX_FOLDER, CanaryResult
from mlir_release.release.model.release_tags import parse_tag

#: The record of all results, on the branch ``latest``: in the folder that stays when a new pointer is stored.
CANARIES_NAME = f"{INDEX_FOLDER}/canaries.json"

#: What git and a person read as one word, and no program as an option. ``..`` would be a range of commits.
_REF = r"(?!.*(?:\.\.|//|\.lock$|/$))[A-Za-z0-9_][A-Za-z0-9_./+-]{0,199}"
_REPOSITORY = r"https://[A-Za-z0-9.-]+(?::[0-9]{1,5})?/[A-Za-z0-9._~/+-]+|file:///[A-Za-z0-9._~/+-]+"

_PYTHON = text("cp3[1-9][0-9]t?", "the tag of CPython 3.10 or newer, like cp312")
_LLVM = text("[1-9][0-9]*", "the first number of an LLVM's version, like 22")
_MINUTES = Meta(ge=1, le=300, title="a whole number of minutes from 1 to 300")


class CanaryTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Another project as it is: its tests are run with the wheels of each release, in a job without rights."""

    name: Annotated[str, text("[a-z0-9]+(?:[-_][a-z0-9]+)*", "a name of lower-case letters, digits, - and _")]
    repository: Annotated[
        str,
        text(_REPOSITORY, "an address that begins with https:// (or file:///), without a password"),
        doc("Where git fetches it from."),
    ]
    ref: Annotated[
        str,
        text(_REF, "a commit, a branch or a tag"),
        doc("What is tried: a full commit, or else a branch or a tag, whose content can change."),
    ]
    llvm: Annotated[
        tuple[Annotated[str, _LLVM], ...],
        doc("The LLVMs whose API `ref` fits. With others, it is not run, and latest-good does not wait for it."),
    ] = ()
    python: Annotated[str, _PYTHON, doc("The CPython of its environment.")]
    commands: Annotated[
        tuple[Line, ...],
        Meta(min_length=1),
        doc("Its tests, run one after the other in its checkout, without a shell. They all have to succeed."),
    ]
    prepare: Annotated[
        tuple[Line, ...], doc("Commands to run before these. If one fails, the canary is broken, and did not fail.")
    ] = ()
    requirements: Annotated[tuple[Line, ...], doc("What pip installs beside the wheel, as it writes them.")] = ()
    distribution: Annotated[
        ProjectName | None, doc("The wheel that is installed; without it, that of the first [llvm.NAME].")
    ] = None
    needs: Annotated[
        tuple[PlainName, ...], doc("Programs of the SDK that it calls, such as FileCheck; they are put on the PATH.")
    ] = ()
    timeout: Annotated[int, _MINUTES, doc("Minutes after which it is stopped, and has failed.")] = 30
    required: Annotated[bool, doc("Whether latest-good waits until it has passed.")] = True

    def __post_init__(self) -> None:
        for field in ("requirements", "needs"):
            for each in getattr(self, field):
                if each.startswith("-"):
                    raise MalformedError(field, f"has {each!r}, which is an option", "name packages or programs only")
        for field in ("prepare", "commands"):
            for each in getattr(self, field):
                try:
                    empty = not shlex.split(each)
                except ValueError as error:
                    raise MalformedError(field, f"has {each!r}, whose words can't be told apart: {error}") from None
                if empty:
                    raise MalformedError(field, "has an empty command", "remove it")

    @property
    def cpython(self) -> CPython:
        """:attr:`python`."""
        return CPython.of_tag(self.python)

    @property
    def commit(self) -> str:
        """The commit that it is pinned to; empty if it follows a branch or tag."""
        return self.ref if len(self.ref) == 40 and not self.ref.strip("0123456789abcdef") else ""

    def misfit(self, version: str) -> str:
        """Why it would tell nothing about wheels of an LLVM version; empty: it would, or the version is not known."""
        if not self.llvm or not version or version.partition(".")[0] in self.llvm:
            return ""
        return f"its ref fits LLVM {' and '.join(self.llvm)}, and the release has LLVM {version}"


def check_names(canaries: Iterable[CanaryTable]) -> None:
    """Refuse two canaries of one name. :raises MalformedError:"""
    seen: set[str] = set()
    for number, canary in enumerate(canaries):
        if canary.name in seen:
            raise MalformedError(f"canary[{number}].name", f"is {canary.name!r}, as another canary is called")
        seen.add(canary.name)


class CanaryRecords(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """``index/canaries.json``: the results of each snapshot of `linked-days`, by its tag."""

    releases: Mapping[str, tuple[CanaryResult, ...]] = {}

    def with_results(
        self, tag: str, results: Iterable[CanaryResult], *, kept: Collection[str] | None = None
    ) -> CanaryRecords:
        """The records with those of a release, which replace earlier ones of the same canaries.

        :param kept: the tags that may stay, beside this one; None: all
        """
        merged = {each.name: each for each in (*self.releases.get(tag, ()), *results)}
        others = {name: rows for name, rows in self.releases.items() if kept is None or name in kept}
        return CanaryRecords(releases={**others, tag: tuple(merged[name] for name in sorted(merged))})

    def known(self, tags: Collection[str], canaries: Iterable[CanaryTable]) -> dict[str, tuple[CanaryResult, ...]]:
        """The results of published releases and canaries that there are: others tell nothing any more."""
        names = {canary.name for canary in canaries}
        return {
            tag: tuple(each for each in rows if each.name in names)
            for tag, rows in self.releases.items()
            if tag in tags and parse_tag(tag) is not None
        }

    def to_bytes(self) -> bytes:
        """The content of the file. The same results give the same bytes."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1) + b"\n"


def parse_records(content: bytes) -> CanaryRecords:
    """Read ``canaries.json``. :raises MalformedError:"""
    return from_json(content, CanaryRecords)
