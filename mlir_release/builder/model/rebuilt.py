"""What ``wheels rebuild --json`` prints: a published wheel made again, and how the two differ."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from mlir_release.ground.documents.decode import Sha256, doc

#: Differences that people are shown.
_SHOWN = 10


class Difference(Struct, frozen=True, kw_only=True):
    """A member that two builds of one file do not share."""

    member: Annotated[str, doc("Its name; empty: the archive itself")]
    what: Annotated[str, doc("How it differs: `section .text`, `byte 17 of 4096`, `only in the release`, …")]


class Rebuilt(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """A wheel of a published release that was made again."""

    tag: str
    target: Annotated[str, doc("Row of the build matrix, `mlir-linux-x86_64-cp312`")]
    filename: Annotated[str, doc("Of the published wheel")]
    equal: Annotated[bool, doc("Whether the two are the same bytes")]
    published_sha256: Sha256
    rebuilt_sha256: Sha256
    rebuilt: Annotated[str, doc("Path of the wheel that was made")]
    sdk: Annotated[str, doc("Digest of the SDK that both were made from")]
    image: Annotated[str, doc("The container image that both were made in, by its digest; empty: none")] = ""
    toolkit: Annotated[str, doc("Commit, or else version, of the toolkit that made both")]
    differences: Annotated[tuple[Difference, ...], doc("All that differs, what is hashes of the rest last")] = ()

    def text(self) -> str:
        """For people."""
        if self.equal:
            return f"{self.filename} of {self.tag}, made again, is the same bytes\n  sha256 {self.published_sha256}"
        lines = [
            f"{self.filename} of {self.tag}, made again, differs",
            f"  published  sha256 {self.published_sha256}",
            f"  made again sha256 {self.rebuilt_sha256}: {self.rebuilt}",
            *(f"  {one.member or 'the archive'}: {one.what}" for one in self.differences[:_SHOWN]),
        ]
        more = len(self.differences) - _SHOWN
        return "\n".join([*lines, *([f"  … and {more} more"] if more > 0 else [])])
