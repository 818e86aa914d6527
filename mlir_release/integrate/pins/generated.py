"""What a refresh command has made, as a verdict's record has it: the files, and which of them may be committed.

Foreign code made them, perhaps on another machine. Whoever commits them asks :func:`with_generated`, and runs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from mlir_release.ground.documents.decode import Sha1, text
from mlir_release.ground.errors import UsageError
from mlir_release.ground.foreign import visible
from mlir_release.ground.git.trees import GitEntry, entry_at, make_blob, tree_with
from mlir_release.integrate.pins.pins import changed_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.ground.git.repository import Git
    from mlir_release.integrate.tables import UpstreamTable

#: Files that one refresh may change, and their bytes together: a probe's record carries them.
FILES, LIMIT = 1000, 8 << 20

#: Folders within each other that such a file may be in.
_DEPTH = 50

#: A path that every system takes: no control character, no backslash.
Path = Annotated[str, text(r"[^\x00-\x1f\x7f\\]{1,1000}", "a path of at most 1000 characters")]

Mode = Literal["100644", "100755"]

#: The modes of plain files, as git prints them.
PLAIN: tuple[Mode, ...] = ("100644", "100755")


class File(Struct, frozen=True):
    """A generated file in the downstream's repository. ``mode``: as git has it, executable or not."""

    mode: Mode
    blob: Sha1


class Content(Struct, frozen=True):
    """A generated file on its way from one machine to another."""

    mode: Mode
    data: bytes


#: Generated files by path; None: it was removed. Several upstreams that move together may have a refresh each.
Generated = Annotated[dict[Path, File | None], Meta(max_length=2 * FILES)]
Contents = Annotated[dict[Path, Content | None], Meta(max_length=2 * FILES)]

NONE_GENERATED: Generated = {}


def contents_of(git: Git, generated: Generated) -> dict[str, Content | None]:
    """The files with their content, for another machine."""
    found: dict[str, Content | None] = dict.fromkeys(generated)
    present = [(path, file) for path, file in generated.items() if file is not None]
    for (path, file), blob in zip(present, git.objects([file.blob for _, file in present]), strict=True):
        assert blob is not None  # this machine has just stored it
        found[path] = Content(file.mode, blob[1])
    return found


def stored(git: Git, contents: Contents) -> Generated:
    """The same files in this repository. :raises ValueError: if they are too large together"""
    size = sum(len(each.data) for each in contents.values() if each is not None)
    if size > LIMIT:
        raise ValueError(f"its generated files have {size:,} bytes together; {LIMIT:,} are taken")
    return {
        path: None if each is None else File(each.mode, make_blob(git, each.data).oid)
        for path, each in contents.items()
    }


def with_generated(git: Git, commit: str, generated: Generated, tables: Sequence[UpstreamTable]) -> str:
    """The tree of ``commit`` with these files, if ``files`` of an ``[upstream.refresh]`` names each of them.

    Only plain files in the place of plain files: nothing of git or GitHub, no configuration of this toolkit, no pin.

    :param tables: of all that the downstream follows
    :raises UsageError: ``input-invalid``
    """
    refused = {path: why for path in generated if (why := _unfit(git, commit, path, tables))}
    if not refused:
        entries = {path: GitEntry(file.mode, "blob", file.blob) if file else None for path, file in generated.items()}
        tree = tree_with(git, commit, entries)
        specs = [spec for table in tables if table.refresh is not None for spec in table.refresh.pathspecs]
        others = set(changed_at(git, commit, tree, ()))
        others -= set(changed_at(git, commit, tree, specs) if specs else ())
        refused = dict.fromkeys(others, "files of [upstream.refresh] does not name it")
    if refused:
        raise UsageError(
            "input-invalid",
            f"{len(refused)} generated files can't be committed",
            where=", ".join(visible(path) for path in sorted(refused)[:5]),
            why="; ".join(dict.fromkeys(refused.values())),
            remedy="name what the refresh command may change in refresh.files in integrate.toml; nothing was committed",
        )
    return tree


def _unfit(git: Git, commit: str, path: str, tables: Sequence[UpstreamTable]) -> str:
    """Why no configuration can allow a generated file there; empty: it can."""
    folded = path.casefold()
    parts = folded.split("/")
    carriers = [carrier.casefold() for table in tables for carrier in table.carriers]
    if any(part in ("", ".", "..") for part in parts) or len(parts) > _DEPTH:
        return "it is no plain path inside the repository"
    if any(part.startswith(".git") for part in parts) or folded == "integrate.toml":
        return "it configures git, GitHub or this toolkit"
    if any(folded == carrier or folded.startswith(f"{carrier}/") for carrier in carriers):
        return "it is the pin"
    old = entry_at(git, commit, path)
    return "" if old is None or old.mode in PLAIN else "there is no plain file in its place"
