"""The releases of a local forge on disk: one folder each, whose place says whether it is a draft, and their pages.

The folder may be someone else's (a mirror). So records can name only plain file names, and no link is followed.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, BinaryIO, Literal
from urllib.parse import quote, unquote

from msgspec import Struct

from mlir_release.ground.documents.decode import DOCUMENT_LIMIT, PlainName, from_json
from mlir_release.ground.documents.digests import open_regular
from mlir_release.ground.errors import ForgeError
from mlir_release.release.forge.base import Asset, Release, ReleaseRow
from mlir_release.release.forge.local.store import Store, damaged
from mlir_release.release.forge.refusals import release_immutable

if TYPE_CHECKING:
    from pathlib import Path


_RECORD = ".forge.json"


class _File(Struct, frozen=True):
    size: int
    sha256: str


class _ReleaseRecord(Struct, frozen=True):
    """What :meth:`Records.save` writes."""

    id: PlainName
    tag: PlainName
    title: str
    body: str
    prerelease: bool
    created_at: str
    published_at: str | None
    assets: Mapping[PlainName, _File]


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

    def all(self, *places: Literal["drafts", "releases"]) -> list[Release]:
        """All drafts, all releases, or both, in the order of their creation."""
        folders = (folder for place in places for folder in (self._root / place).iterdir())
        found = (self.find(folder) for folder in folders)
        return sorted((release for release in found if release is not None), key=lambda release: release.id)

    def find(self, folder: Path) -> Release | None:
        """The release in ``folder``; None if the folder holds no release."""
        return self.load(folder) if folder.is_symlink() or (folder / _RECORD).exists() else None

    def draft(self, release: Release) -> Release:
        """The draft as it is now. :raises ForgeError: if it was published or deleted"""
        self.refuse_published(release)
        folder = self.draft_folder(release)
        if not folder.exists():
            raise ForgeError(
                "not-on-forge",
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
        with _undamaged(folder, _RECORD):
            with self.open(folder, _RECORD) as file:
                record = from_json(file.read(DOCUMENT_LIMIT + 1), _ReleaseRecord)
            if folder.name != (record.id if draft else record.tag):
                raise ValueError(f"it is of {record.tag}, {record.id}, and its folder is called {folder.name}")
            assets = []
            for name, entry in sorted(record.assets.items()):
                size = _size(folder / name)
                if draft and size is None:
                    continue  # an upload that was killed before its file was in place
                whole = size == entry.size
                sha256 = entry.sha256 if whole else ""
                assets.append(self.asset(record.tag, name, size or 0, sha256, complete=whole))
            published = record.published_at
            return Release(
                id=record.id,
                tag=record.tag,
                title=record.title,
                body=record.body,
                draft=draft,
                prerelease=record.prerelease,
                created_at=datetime.fromisoformat(record.created_at),
                published_at=datetime.fromisoformat(published) if published and not draft else None,
                assets=tuple(assets),
            )

    def open(self, folder: Path, name: str) -> BinaryIO:
        """Open a file of a release's folder. A link may lead out of the forge. :raises ForgeError: ``forge-damaged``"""
        with _undamaged(folder, name):
            if folder.is_symlink():
                raise ValueError("its folder is a link")
            _size(folder / name)
            return open_regular(folder / name, follow=False)


@contextmanager
def _undamaged(folder: Path, name: str) -> Iterator[None]:
    """:raises ForgeError: ``forge-damaged``, at anything that this forge never writes"""
    try:
        yield
    except ValueError as error:
        remedy = "it was changed by hand: restore it; the folder of a draft may also be deleted as a whole"
        raise damaged(folder / name, why=str(error), remedy=remedy) from error


def _size(path: Path) -> int | None:
    """The bytes of a file of a release; None if it is not there. :raises ValueError: if it is not a regular file"""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path.name} is a link, or no file at all")
    return found.st_size


# -- the page of a release --------------------------------------------------------------------------------------------

_STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1f2328; }
a { color: #0969da; } table { border-collapse: collapse; } th, td { padding: .3rem .8rem; border: 1px solid #d1d9e0; }
th { text-align: left; } td.size { text-align: right; } code { font-size: 85%; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #f0f6fc; } a { color: #4493f8; }
th, td { border-color: #3d444d; } }
"""


def render_page(release: Release, base: str) -> str:
    """The HTML that ``pip install -f`` and people read.

    Links to the release's own assets are relative, so that the page works wherever the folder is served from.

    :param base: URL of the release's folder, with a slash at the end; assets' URLs begin with it
    """
    title = escape(release.title or release.tag)
    when = release.published_at.strftime("%Y-%m-%d %H:%M UTC") if release.published_at else ""
    rows = "\n".join(_row(asset, release) for asset in release.assets)
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p><code>{escape(release.tag)}</code>, published {when}</p>
{_markdown(release, base)}
<h2>Assets</h2>
<table>
<tr><th>file</th><th>bytes</th><th>sha256</th></tr>
{rows}
</table>
</body>
</html>
"""


def _row(asset: Asset, release: Release) -> str:
    attributes = "".join(f' {name}="{value}"' for name, value in _core_metadata(asset.name, release).items())
    link = f'<a href="{quote(asset.name)}#sha256={asset.sha256}"{attributes}>{escape(asset.name)}</a>'
    return f'<tr><td>{link}</td><td class="size">{asset.size:,}</td><td><code>{asset.sha256}</code></td></tr>'


def _core_metadata(name: str, release: Release) -> dict[str, str]:
    """The attribute (PEP 714) by which pip learns that it can read ``<name>.metadata`` instead of the whole wheel."""
    metadata = release.asset(f"{name}.metadata")
    return {"data-core-metadata": f"sha256={metadata.sha256}"} if metadata else {}


def _markdown(release: Release, base: str) -> str:
    """The body as HTML: GitHub-like Markdown without raw HTML, because a release page never shows a script."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    is_safe = markdown.validateLink
    markdown.validateLink = lambda url: url.startswith(base) or is_safe(url)  # type: ignore[method-assign]
    tokens = markdown.parse(release.body)
    for token in tokens:
        for child in token.children or ():
            href = child.attrGet("href")
            if child.type == "link_open" and isinstance(href, str) and href.startswith(base):
                relative = href.removeprefix(base)
                child.attrSet("href", relative)
                for name, value in _core_metadata(unquote(relative.partition("#")[0]), release).items():
                    child.attrSet(name, value)
    rendered: str = markdown.renderer.render(tokens, markdown.options, {})
    return rendered
