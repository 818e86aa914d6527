"""What a fork of llvm-project carries at a commit: upstream's commit below it, and each commit on top of that.

There is one record. It is computed from git (:mod:`mlir_release.release.pinning.reachable`) and stands in the tag, the
manifest, the notes, the pages and the index as it is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from mlir_release.ground.documents.decode import Line, Sha1, doc, from_json, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Trailers of a tag: upstream's address and commit, and ``Stack-1``, … for the carried commits, as JSON.
TRAILER_PREFIX = "Stack-"
_UPSTREAM, _BASE = TRAILER_PREFIX + "Upstream", TRAILER_PREFIX + "Base"


class CarriedCommit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A commit that a fork has on top of upstream's."""

    commit: Sha1
    subject: Line
    kind: Annotated[Line, doc("`revert`, `cherry-pick`, or `local`: the project's own")]
    origin: Annotated[Line, doc("The commit or pull request that it picks or reverts; or empty")] = ""
    reason: Annotated[Line, doc("Why it is carried, as its own message says; or empty")] = ""
    judges: Annotated[
        tuple[Line, ...],
        doc(
            "Files that it changes of those that judge the wheels, or say what they need: tests, requirements, version"
        ),
    ] = ()

    def text(self) -> str:
        """All but its id and its files, on one line."""
        kind = f"{self.kind} of {self.origin}" if self.origin else self.kind
        return f"{self.subject} ({kind})" + (f": {self.reason}" if self.reason else "")


class CarriedStack(Struct, frozen=True, kw_only=True):
    """Upstream's commit, and the commits on top of it up to a release's revision, each one's parent the one before."""

    upstream: Annotated[Line, doc("URL or path of llvm-project")]
    base: Annotated[Sha1, doc("Upstream's commit")]
    commits: Annotated[tuple[CarriedCommit, ...], Meta(min_length=1), doc("Oldest first; the last is the revision")]

    def text(self) -> str:
        """A clause: ``0123456789ab with 2 carried patches``."""
        count = len(self.commits)
        return f"{self.base[:12]} with {count} carried patch{'es' * (count > 1)}"

    def lines(self) -> list[str]:
        """For people: a line for each commit."""
        shown = ((each.commit[:12], each.text(), ", ".join(each.judges)) for each in self.commits)
        return [f"{sha} {text}" + (f"; changes {judges}" if judges else "") for sha, text, judges in shown]

    def trailers(self) -> dict[str, str]:
        """For a tag's message; :meth:`from_trailers` reads them."""
        rows = {f"{TRAILER_PREFIX}{i}": msgspec.json.encode(each).decode() for i, each in enumerate(self.commits, 1)}
        return {_UPSTREAM: self.upstream, _BASE: self.base, **rows}

    @classmethod
    def from_trailers(cls, trailers: Mapping[str, str]) -> CarriedStack | None:
        """The record in a tag's message; None if there is none. :raises MalformedError:"""
        if not (found := stack_trailers(trailers)):
            return None
        data = {"upstream": found.pop(_UPSTREAM, ""), "base": found.pop(_BASE, "")}
        return from_json(msgspec.json.encode({**data, "commits": list(map(parse_json, found.values()))}), cls)


def stack_trailers(trailers: Mapping[str, str]) -> dict[str, str]:
    """What a tag's message says of a stack, as it says it."""
    return {key: value for key, value in trailers.items() if key.startswith(TRAILER_PREFIX)}
