"""What anybody sees without the API: release pages, downloads, and the storage that the API redirects to."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from tests.github_server.records import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.github_server.server import GitHubServer
    from tests.github_server.world import Release, Repository

_RELEASE = re.compile(
    r"/(?P<name>[^/]+/[^/]+)/releases(?:/(?P<what>tag|download|expanded_assets)/(?P<tag>[^/]+)(?:/(?P<file>.+))?)?"
)

#: Releases on a page of the list.
LISTED = 10


def storage(github: GitHubServer, path: str, authorization: str | None) -> Answer:
    """An asset's bytes. Signed addresses refuse a second kind of authorization, as GitHub's do."""
    if authorization:
        return Answer(400, b"Only one auth mechanism allowed")
    wanted = int(path.rpartition("/")[2])
    for repository in github.repositories.values():
        for release in repository.releases.values():
            if (asset := release.asset(wanted)) is not None:
                return Answer(200, asset.content)
    return Answer(404, b"")


def page(github: GitHubServer, path: str, query: Mapping[str, str]) -> Answer:
    """A release's page, its list of assets, a file of it, or the list of releases; drafts are nobody's business."""
    match = _RELEASE.fullmatch(path)
    repository = github.repositories.get(match["name"]) if match else None
    if match is None or repository is None:
        return Answer(404, b"Not Found")
    releases = [release for release in repository.releases.values() if not release.draft]
    if match["what"] is None:
        return _html(_list(repository, releases, int(query.get("page", "1"))))
    release = next((release for release in releases if release.tag == match["tag"]), None)
    if release is None:
        return Answer(404, b"Not Found")
    if match["what"] == "tag":
        return _html(_shown(repository, release, release.body))
    if match["what"] == "expanded_assets":
        return _html(_assets(repository, release))
    asset = next((a for a in release.assets if a.name == match["file"]), None)
    return Answer(404, b"Not Found") if asset is None else Answer(200, asset.content)


def _html(text: str) -> Answer:
    return Answer(200, text.encode(), {"Content-Type": "text/html; charset=utf-8"})


def _list(repository: Repository, releases: list[Release], number: int) -> str:
    """A page of ``/releases``, the newest first.

    Unproven: whether GitHub shows a long body whole there. With ``cut_bodies``, a number of characters, it does not.
    """
    ordered = sorted(releases, key=lambda release: release.created, reverse=True)
    limit = repository.settings.get("cut_bodies")
    shown = ordered[LISTED * (number - 1) : LISTED * number]
    sections = [f"<section>{_shown(repository, release, release.body[:limit])}</section>" for release in shown]
    return "\n".join([*sections, f'<a rel="next" href="/{repository.name}/releases?page={number + 1}">Next</a>'])


def _shown(repository: Repository, release: Release, body: str) -> str:
    """A release: its body as sanitized GFM. A browser loads the list of assets afterwards; pip, like curl, does not."""
    from markdown_it import MarkdownIt

    tag, base = escape(release.tag), f"/{repository.name}"
    renderer = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    rendered = str(renderer.render(body)).replace("<a href=", '<a rel="nofollow" href=')
    return (
        f'<a href="{base}/releases/tag/{tag}">{escape(release.name)}</a> <a href="{base}/tree/{tag}">{tag}</a>\n'
        '<div data-test-selector="body-content" class="markdown-body my-3">'
        f"{rendered}</div>\n"
        f'<include-fragment loading="lazy" src="{repository.github.url}{base}/releases/expanded_assets/{tag}">'
        "</include-fragment>"
    )


def _assets(repository: Repository, release: Release) -> str:
    """The list of assets, below which GitHub links the archives of the tag."""
    tag, base = escape(release.tag), f"/{repository.name}"
    links = {f"{base}/releases/download/{tag}/{escape(asset.name)}": escape(asset.name) for asset in release.assets}
    links |= {f"{base}/archive/refs/tags/{tag}.{kind}": f"Source code ({kind})" for kind in ("zip", "tar.gz")}
    rows = (
        f'<li class="Box-row"><a href="{url}" rel="nofollow"><span class="text-bold">{text}</span></a></li>'
        for url, text in links.items()
    )
    return "<ul>\n" + "\n".join(rows) + "\n</ul>"
