"""What ``integrate init`` finds beside the pins: patch files that the build mentions."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from msgspec import structs

from mlir_release.ground.foreign import visible
from mlir_release.integrate.patches.files import changed_by, mentioned_alone
from mlir_release.integrate.tables import PatchesTable, UpstreamTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.ground.git.repository import Git

#: A path in a build file, as Bazel (``@repository//folder:name``) and CMake (``${folder}/name``) have it.
_PATH = re.compile(r"[\w./:@+-]+")


def with_patches(git: Git, tables: Sequence[UpstreamTable], notes: list[str]) -> tuple[UpstreamTable, ...]:
    """``tables`` with the patch files of HEAD that the files of their pins mention.

    :param notes: gets what a person should know
    """
    rows = git.run("ls-tree", "-r", "-z", "--full-tree", "HEAD").stdout.split(b"\0")[:-1]
    files = {os.fsdecode(name): row.split()[2].decode() for row, _, name in (row.partition(b"\t") for row in rows)}
    patches = [path for path in files if path.endswith((".patch", ".diff"))]
    found: dict[str, list[PatchesTable]] = {table.slug: [] for table in tables}
    others, what = {*patches}, "write [[upstream.patches]] if it is for one of them"
    for carrier in dict.fromkeys(path for table in tables for path in table.carriers if path in files and patches):
        sharing = [table for table in tables if carrier in table.carriers]
        plain = carrier not in {table.submodule for table in sharing}
        text = git.run("cat-file", "-p", files[carrier]).stdout if plain else b""
        words = (word.rstrip(".:") for word in _PATH.findall(text.decode(errors="replace")))
        named = [word.rpartition("//")[2].replace(":", "/") for word in words if word.endswith((".patch", ".diff"))]
        listed = dict.fromkeys(p for name in named for p in patches if f"/{p}".endswith(f"/{name.lstrip('/')}"))
        others -= {*listed}
        mine: dict[str, list[str]] = {}
        for path in listed:
            owners = [table for table in sharing if len(sharing) == 1 or _is_for(git, files[path], path, table)]
            if len(owners) == 1:
                mine.setdefault(owners[0].slug, []).append(path)
            else:
                notes.append(f"{visible(carrier)} mentions {visible(path)}: {what}")
        for slug, paths in mine.items():
            alone = any(mentioned_alone(text, path) for path in paths)
            found[slug].append(PatchesTable(files=tuple(paths), listed_in=(carrier,) if alone else ()))
    likely = [path for path in sorted(others) if any(_is_for(git, files[path], path, table) for table in tables)]
    for folder in dict.fromkeys(path.rpartition("/")[0] for path in likely):
        notes.append(
            f"{visible(folder)}/ has patch files that no pin's file mentions: [[upstream.patches]] names an upstream's"
        )
    return tuple(structs.replace(table, patches=tuple(found[table.slug])) for table in tables)


def _is_for(git: Git, blob: str, path: str, table: UpstreamTable) -> bool:
    """Whether the name of a patch file, or each path that it changes, tells that it is for this upstream."""
    tops = {folder.partition("/")[0] for folder in table.paths} | {table.slug}
    changed = changed_by(git.run("cat-file", "blob", blob).stdout)
    inside = bool(changed) and all(os.fsdecode(name).partition("/")[0] in tops for name in changed)
    return inside or bool(re.search(rf"(?<![a-z0-9]){re.escape(table.slug)}(?![a-z0-9])", path.lower()))
