"""How releases lie on a local forge's disk: one folder each, whose place says whether it is a draft."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mlir_release.errors import ForgeError
from mlir_release.forge.base import Asset, Release
from mlir_release.forge.local.store import damaged
from mlir_release.forge.refusals import release_immutable
from mlir_release.host.files import read_document
from mlir_release.model.decode import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.forge.base import ReleaseRow
    from mlir_release.forge.local.store import Store

_RECORD = ".forge.json"


class Records:
    """Reads and writes the folders of drafts and releases. Callers hold the store's lock."""

    def __init__(self, store: Store, base_url: str) -> None:
        self._store = store
        self._root = store.root
        self._base_url = base_url

    def draft_folder(self, release: ReleaseRow) -> Path:
        """Where a draft's files lie."""
        return self._root / "drafts" / release.id

    def release_folder(self, tag: str) -> Path:
        """Where a published release's files lie."""
        return self._root / "releases" / tag

    def url(self, tag: str, name: str) -> str:
        """Where anyone can download the file ``name`` of a published release."""
        return f"{self._base_url}/{quote(tag)}/{quote(name)}"

    def asset(self, tag: str, name: str, size: int, sha256: str, *, complete: bool = True) -> Asset:
        """The description of an asset of ``tag``."""
        return Asset(name=name, size=size, sha256=sha256, complete=complete, url=self.url(tag, name))

    def all(self) -> Iterator[Release]:
        """All drafts and releases."""
        yield from self.drafts()
        yield from self._within("releases")

    def drafts(self) -> Iterator[Release]:
        """All drafts."""
        return self._within("drafts")

    def _within(self, place: str) -> Iterator[Release]:
        for folder in (self._root / place).iterdir():
            if (release := self.find(folder)) is not None:
                yield release

    def find(self, folder: Path) -> Release | None:
        """The release in ``folder``; None if there is none."""
        return self.load(folder) if (folder / _RECORD).exists() else None

    def draft(self, release: Release) -> Release:
        """The draft as it is now. :raises ForgeError: if it was published or deleted"""
        self.refuse_published(release)
        folder = self.draft_folder(release)
        if not folder.exists():
            raise ForgeError(
                "draft-gone",
                f"the draft {release.id} of {release.tag} was deleted",
                where=str(self._root),
                remedy="run mlir-release snapshot (or number) again: it opens a new one if the tag is still pending",
            )
        return self.load(folder)

    def refuse_published(self, release: Release) -> None:
        """:raises ForgeError: if ``release`` is published: it can't be changed."""
        target = self.release_folder(release.tag)
        if target.exists() and self.load(target).id == release.id:
            raise release_immutable(release.tag, where=str(target))

    def save(self, folder: Path, release: Release) -> None:
        """Write the record of the release in ``folder``."""
        data = vars(release) | {
            "created_at": release.created_at.isoformat(),
            "published_at": release.published_at.isoformat() if release.published_at else None,
            "assets": {asset.name: {"size": asset.size, "sha256": asset.sha256} for asset in release.assets},
        }
        del data["draft"]  # the place of the folder says it
        self._store.write(folder / _RECORD, json.dumps(data, indent=1, sort_keys=True).encode() + b"\n")

    def load(self, folder: Path) -> Release:
        """The release in ``folder``; whether it is a draft follows from where the folder is."""
        draft = folder.parent.name == "drafts"
        try:
            data: dict[str, Any] = parse_json(read_document(folder / _RECORD))
            assets = []
            for name, entry in sorted(data["assets"].items()):
                path = folder / name
                if draft and not path.exists():
                    continue  # an upload that was killed before its file was in place
                size = path.stat().st_size if path.exists() else 0
                whole = size == entry["size"]
                assets.append(self.asset(data["tag"], name, size, entry["sha256"] if whole else "", complete=whole))
            published = data["published_at"]
            return Release(
                id=data["id"],
                tag=data["tag"],
                title=data["title"],
                body=data["body"],
                draft=draft,
                prerelease=data["prerelease"],
                created_at=datetime.fromisoformat(data["created_at"]),
                published_at=datetime.fromisoformat(published) if published and not draft else None,
                assets=tuple(assets),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            remedy = "it was changed by hand: restore it; the folder of a draft may also be deleted as a whole"
            raise damaged(folder / _RECORD, why=str(error), remedy=remedy) from error
