"""``made.json`` of an API section: what its pages were made from, so that they are made only once."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from mlir_release.model.decode import MalformedError, PlainName, Sha256, from_json

SECTION_NAME = "made.json"
_SCHEMA = 1


class ApiSection(Struct, frozen=True, kw_only=True):
    """The pages of one wheel."""

    tag: str  #: of its release
    wheel: str  #: SHA-256
    renderer: str  #: digest of the code that drew them
    files: Mapping[PlainName, Sha256]  #: the pages' names, all in one folder, with their SHA-256
    schema: int = _SCHEMA

    @classmethod
    def parse(cls, content: bytes | None) -> ApiSection | None:
        """Read the document; None if there is none, or it is of another kind: then the pages are made anew."""
        try:
            found = from_json(content or b"", cls)
        except MalformedError:
            return None
        return found if found.schema == _SCHEMA else None

    def to_bytes(self) -> bytes:
        """The document; the same pages give the same bytes."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1) + b"\n"

    def is_of(self, other: ApiSection) -> bool:
        """Whether ``other`` was made from the same."""
        return (self.tag, self.wheel, self.renderer) == (other.tag, other.wheel, other.renderer)
