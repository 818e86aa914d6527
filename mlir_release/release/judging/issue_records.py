"""What an issue about a target that fails has to tell the next command: a marker in its body."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.release.model.release_tags import parse_tag

if TYPE_CHECKING:
    from mlir_release.ground.hosting import Issue


#: What the title of an issue about a target that is not required ends in.
EXPERIMENTAL = " (experimental)"

_MARKER = re.compile(r"^<!-- mlir-release-track: (?P<json>\{.*\}) -->\s*$", re.MULTILINE)

#: What bodies say that have no marker: those of older toolkits.
_FIRST, _LAST = (re.compile(rf"^{word} failed in: `(?P<tag>[^`]+)`", re.MULTILINE) for word in ("First", "Last"))


class IssueRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an issue's marker."""

    first: str  #: the release in which it failed first
    last: str  #: and last
    required: bool  #: whether publication waits for it

    def is_of(self, kind: str) -> bool:
        """Whether both are tags of releases of a kind."""
        return all((tag := parse_tag(name)) is not None and tag.kind == kind for name in (self.first, self.last))

    def marker(self) -> str:
        """The marker, which people don't see."""
        return f"<!-- mlir-release-track: {msgspec.json.encode(self).decode()} -->"


def read_record(issue: Issue) -> IssueRecord | None:
    """Read the marker of an issue. None if there is no proper one: a person may edit the body.

    The text after the beginning of the first block of code is not ours: names of tests are there, and older
    toolkits quoted logs.
    """
    head = f"\n{issue.body}".partition("\n```")[0]
    marker, first, last = (pattern.search(head) for pattern in (_MARKER, _FIRST, _LAST))
    found: list[IssueRecord] = []
    if marker is not None:
        with suppress(MalformedError):
            found.append(from_json(marker["json"], IssueRecord))
    if first is not None and last is not None:
        required = not issue.title.endswith(EXPERIMENTAL)
        found.append(IssueRecord(first=first["tag"], last=last["tag"], required=required))
    return next((record for record in found if record.is_of(issue.key.partition("/")[0])), None)
