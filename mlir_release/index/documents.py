"""The toolkit's own documentation, in the look of the pages: a folder of Markdown files, with their links kept."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.index.markdown import render

if TYPE_CHECKING:
    from pathlib import Path

    from markupsafe import Markup

    from mlir_release.forge.base import Forge

#: Their folder on the site.
DOCUMENTS = "docs"


@dataclass(frozen=True, kw_only=True)
class Document:
    """A Markdown file."""

    name: str  #: without ``.md``
    text: str

    @property
    def title(self) -> str:
        """Its first heading."""
        return next((line[2:].strip() for line in self.text.splitlines() if line.startswith("# ")), self.name)


@dataclass(frozen=True, kw_only=True)
class Documents:
    """The files of one folder."""

    files: tuple[Document, ...]
    source: str = ""  #: URL of the repository's root, which links out of the folder lead to; empty: they lead nowhere

    @classmethod
    def read(cls, folder: Path, source: str = "") -> Documents:
        """All Markdown files of a folder. ``source``: of the repository that it is in, at its root"""
        paths = sorted(folder.glob("*.md"))
        files = tuple(Document(name=path.stem, text=path.read_text(encoding="utf-8")) for path in paths)
        return cls(files=files, source=source)

    def html(self, document: Document) -> Markup:
        """A document's text; links to its neighbours lead to their pages, those to other files to the repository."""
        return render(document.text, self._follow)

    def _follow(self, href: str) -> str | None:
        path, mark, anchor = href.partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return href
        if path.removesuffix(".md") in {each.name for each in self.files}:
            return f"{path.removesuffix('.md')}.html{mark}{anchor}"
        if not self.source:
            return None
        return f"{self.source.rstrip('/')}/{posixpath.normpath(f'{DOCUMENTS}/{path}')}{mark}{anchor}"


def source_of(forge: Forge, branch: str) -> str:
    """Where people read a file of a branch; empty for a forge without pages of files."""
    return f"https://{forge.services.location}/blob/{branch}" if forge.services is not None else ""
