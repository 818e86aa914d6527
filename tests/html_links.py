"""The links of HTML pages in a folder, and which of them lead nowhere."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from pathlib import Path


class _Anchors(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: Counter[str] = Counter()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids.update(value for name, value in attrs if name == "id" and value)
        self.links += [value for name, value in attrs if name in ("href", "src") and value]


def read_pages(folder: Path) -> dict[Path, _Anchors]:
    """The pages below a folder."""
    return {path.resolve(): _Anchors(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}


def dangling(folder: Path) -> list[str]:
    """Links from a page to a file or a heading that is not there; those to other hosts are not looked at."""
    pages, found = read_pages(folder), []
    for page, anchors in pages.items():
        for link in anchors.links:
            if "://" in link or link.startswith("mailto:"):
                continue
            place, _, anchor = link.partition("#")
            target = (page.parent / unquote(place)).resolve() if place else page
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (anchor and target in pages and unquote(anchor) not in pages[target].ids):
                found.append(f"{page.name}: {link}")
    return found


def repeated_ids(folder: Path) -> list[str]:
    """Identifiers that a page has twice."""
    pages = read_pages(folder).items()
    return [f"{page.name}: {name}" for page, anchors in pages for name, times in anchors.ids.items() if times > 1]
