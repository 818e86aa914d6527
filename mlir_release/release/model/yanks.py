"""``yanked.toml``: the published releases, and files of releases, that nobody should get unless they pinned them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from mlir_release.ground.documents.decode import MalformedError, from_toml
from mlir_release.ground.errors import UsageError
from mlir_release.release.model.release_tags import Kind, parse_tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


#: Path of the yanks on the release branch.
YANKS_PATH = "yanked.toml"

_HEADER = """\
# Releases, and single files of releases, that nobody should get unless they pinned them (PEP 592).
# Written by `mlir-release release yank TAG [FILE] --reason …`; the pages follow when the index is next generated.

"""


class Yank(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A published release, or one file of it, that nobody should get unless they pinned it (PEP 592)."""

    tag: str
    reason: str
    file: str = ""  #: empty: all of the release
    by: str = ""
    at: str = ""  #: UTC, ``2026-11-20T12:00:00Z``

    def __post_init__(self) -> None:
        if parse_tag(self.tag) is None:
            raise MalformedError("tag", f"is {self.tag!r}, which is not a release tag")


class _YanksDocument(Struct, frozen=True, forbid_unknown_fields=True):
    yank: tuple[Yank, ...] = ()


def parse_yanks(content: str, *, where: str = YANKS_PATH) -> tuple[Yank, ...]:
    """The ``[[yank]]`` tables of ``yanked.toml``, in their order. :raises UsageError: with the key that is wrong"""
    try:
        return from_toml(content, _YanksDocument).yank
    except MalformedError as error:
        raise UsageError(
            "config-invalid",
            f"{YANKS_PATH} can't be read",
            where=where,
            why=str(error),
            remedy="each entry is a [[yank]] table with tag, reason and, optionally, file, by and at",
        ) from error


def format_yanks(yanks: Iterable[Yank]) -> str:
    """The content of ``yanked.toml`` that :func:`parse_yanks` reads back.

    :raises UsageError: ``config-invalid``: it would not, for example because a reason is too long
    """
    tables = [msgspec.to_builtins(yank) for yank in yanks]
    import tomli_w  # who only reads may lack it

    text = _HEADER + (tomli_w.dumps({"yank": tables}) if tables else "")
    parse_yanks(text)  # what nobody can read would undo all yanks
    return text


def yank_reason(yanks: Iterable[Yank], tag: str, filename: str = "") -> str | None:
    """Why the release ``tag`` (or its file ``filename``) is yanked; None if it is not."""
    for yank in yanks:
        if yank.tag == tag and yank.file in ("", filename):
            return yank.reason
    return None


def newest_tag(tags: Iterable[str], yanks: Sequence[Yank] = (), *, kind: Kind = "snapshot") -> str:
    """Which release is the newest: the highest tag of a kind that nobody has yanked; empty: there is none.

    Every command and page asks this function. The order is that of versions, which pip follows: it does not matter
    which release was published last.

    :param tags: of published releases; others than ours are ignored
    """
    orders = (order for tag in tags if (order := parse_tag(tag)) is not None and order.kind == kind)
    return str(max((order for order in orders if yank_reason(yanks, str(order)) is None), default=""))
