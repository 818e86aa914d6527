"""Releases on GitHub as records of ours; and their rows without the assets, newest first.

REST gives every release with all its assets (25 MB for a hundred snapshots, or a 504 instead). Their order is not
documented, and REST can't look up a draft by its tag. GraphQL gives the rows alone, a hundred in 15 KB, in the order
that is asked for. GitHub's own command line finds drafts this way, too.
"""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mlir_release.release.forge.base import Asset, Release, ReleaseRow
from mlir_release.release.forge.github.client import PER_PAGE, GitHubClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from github.GitRelease import GitRelease
    from github.GitReleaseAsset import GitReleaseAsset


#: A snapshot's release is 250 KB with its assets. GitHub has ten seconds for an answer, and gives up on large pages.
RELEASES_PER_PAGE = 10

#: A draft is not older than the commit of its tag, but the clock that dated the commit may be wrong.
_MARGIN = timedelta(days=1)

_COMMIT = "... on Commit { committedDate }"
_QUERY = f"""query($owner: String!, $name: String!, $ref: String!, $first: Int!, $after: String) {{
  repository(owner: $owner, name: $name) {{
    ref(qualifiedName: $ref) {{ target {{ __typename {_COMMIT} ... on Tag {{ target {{ __typename {_COMMIT} }} }} }} }}
    releases(first: $first, after: $after, orderBy: {{field: CREATED_AT, direction: DESC}}) {{
      nodes {{ databaseId tagName name isDraft isPrerelease createdAt publishedAt }}
      pageInfo {{ hasNextPage endCursor }}
    }}
  }}
}}"""


class ReleaseReader:
    """Reads the releases of ``client``'s repository."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client

    def pages(self) -> Iterator[list[Release]]:
        """The pages of REST's list, whose order is not documented; in practice, the newest come first."""
        from github.GitRelease import GitRelease

        requester = self._client.repository.requester
        for rows in self._client.pages("/releases", size=RELEASES_PER_PAGE):
            yield [self.release(GitRelease(requester, {}, row, completed=True)) for row in rows]

    def release(self, found: GitRelease) -> Release:
        """A release as PyGithub gives it, as ours."""
        assets = [self.asset(found.tag_name, asset) for asset in found.assets]
        return Release(
            id=str(found.id),
            tag=found.tag_name,
            title=found.name or "",
            body=found.body or "",
            draft=found.draft,
            prerelease=found.prerelease,
            created_at=found.created_at,
            published_at=found.published_at,
            assets=tuple(sorted(assets, key=lambda asset: asset.name)),
        )

    def asset(self, tag: str, found: GitReleaseAsset) -> Asset:
        """An asset as PyGithub gives it, as ours."""
        digest = (found.digest or "").removeprefix("sha256:")
        complete = found.state == "uploaded" and bool(digest)
        return Asset(
            name=found.name,
            size=found.size,
            sha256=digest if complete else "",
            complete=complete,
            # A draft's own addresses change when it is published; this is the final one.
            url=self.file_url(tag, found.name),
            id=str(found.id),
        )

    def file_url(self, tag: str, name: str) -> str:
        """The public address of a file of a published release."""
        return f"{self._client.where}/releases/download/{quote(tag)}/{quote(name)}"

    # -- rows, from GraphQL, which needs a token -----------------------------------------------------------------

    def newest(self, count: int | None) -> Sequence[ReleaseRow]:
        """The newest ``count`` releases and drafts, newest first; None: all."""
        pages = self._pages("", PER_PAGE if count is None else min(count, PER_PAGE))
        rows = itertools.chain.from_iterable(found for found, _ in pages)
        return list(itertools.islice(rows, count))

    def drafts(self, tag: str) -> Sequence[ReleaseRow]:
        """The drafts of a tag, oldest first. Reads no further than to releases that are older than the tag's commit."""
        found: list[ReleaseRow] = []
        for rows, since in self._pages(tag, PER_PAGE):
            found += [row for row in rows if row.draft and row.tag == tag]
            if rows and since is not None and rows[-1].created_at < since - _MARGIN:
                break
        return sorted(found, key=lambda row: int(row.id))

    def _pages(self, tag: str, size: int) -> Iterator[tuple[list[ReleaseRow], datetime | None]]:
        """The pages, newest first, each with the date of the tag's commit."""
        owner, _, name = self._client.name.partition("/")
        asked = {"owner": owner, "name": name, "ref": f"refs/tags/{tag}", "first": size, "after": None}
        while True:
            found = self._client.graphql(_QUERY, asked, about=tag or "releases")["repository"]
            releases = found["releases"]
            target = found["ref"]["target"] if found["ref"] else {}  # a commit, or a tag of one, or something else
            date = target.get("committedDate") or target.get("target", {}).get("committedDate")
            yield [_row(node) for node in releases["nodes"]], datetime.fromisoformat(date) if date else None
            if not releases["pageInfo"]["hasNextPage"]:
                return
            asked["after"] = releases["pageInfo"]["endCursor"]


def _row(node: dict[str, Any]) -> ReleaseRow:
    published = node["publishedAt"]
    return ReleaseRow(
        id=str(node["databaseId"]),
        tag=node["tagName"],
        title=node["name"] or "",
        draft=node["isDraft"],
        prerelease=node["isPrerelease"],
        created_at=datetime.fromisoformat(node["createdAt"]),
        published_at=datetime.fromisoformat(published) if published else None,
    )
