"""Published releases as their users look them up: by tag, or the newest first, without reading the whole history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mlir_release.forge.github.client import NotFound
from mlir_release.forge.github.forge import GitHubForge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.forge.base import Forge, Release


class Shelf(Protocol):
    """What is published."""

    def release(self, tag: str) -> Release | None:
        """The published release of a tag."""

    def newest(self) -> Iterator[Release]:
        """All published releases, newest first, read as far as they are asked for."""


class ListedShelf:
    """The shelf of a forge whose releases are all at hand."""

    def __init__(self, forge: Forge) -> None:
        self._forge = forge

    def release(self, tag: str) -> Release | None:
        """See :class:`Shelf`."""
        return next((release for release in self.newest() if release.tag == tag), None)

    def newest(self) -> Iterator[Release]:
        """See :class:`Shelf`."""
        found = [(release.published_at, release) for release in self._forge.releases() if not release.draft]
        dated = [(when, release) for when, release in found if when is not None]
        return iter([release for _, release in sorted(dated, key=lambda pair: (pair[0], pair[1].tag), reverse=True)])


class GitHubShelf:
    """The shelf of a repository on GitHub. An anonymous reader has sixty requests an hour: it needs one or two."""

    def __init__(self, forge: GitHubForge) -> None:
        self._forge = forge

    def release(self, tag: str) -> Release | None:
        """See :class:`Shelf`."""
        client = self._forge.client
        try:
            return self._forge.record(client.read(lambda: client.repository.get_release(tag), about=tag))
        except NotFound:
            return None

    def newest(self) -> Iterator[Release]:
        """See :class:`Shelf`. A page at a time, in GitHub's order."""
        client = self._forge.client
        pages = client.read(client.repository.get_releases)
        number = 0
        while page := client.read(lambda number=number: pages.get_page(number)):  # type: ignore[misc]
            yield from (self._forge.record(found) for found in page if not found.draft)
            number += 1


def shelf_of(forge: Forge) -> Shelf:
    """The shelf of a forge."""
    return GitHubShelf(forge) if isinstance(forge, GitHubForge) else ListedShelf(forge)
