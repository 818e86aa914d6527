"""What anybody sees without the API: release pages, downloads, and the storage that the API redirects to."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from tests.github_server.records import Answer

if TYPE_CHECKING:
    from tests.github_server.server import GitHubServer

_RELEASE = re.compile(
    r"/(?P<name>[^/]+/[^/]+)/releases/(?P<what>tag|download|expanded_assets)/(?P<tag>[^/]+)(?:/(?P<file>.+))?"
)


def storage(github: GitHubServer, path: str, authorization: str | None) -> Answer:
    """An asset's bytes, or a job's log. Signed addresses refuse a second kind of authorization, as GitHub's do."""
    if authorization:
        return Answer(400, b"Only one auth mechanism allowed")
    wanted = int(path.rpartition("/")[2])
    for repository in github.repositories.values():
        for release in repository.releases.values():
            if (asset := release.asset(wanted)) is not None:
                return Answer(200, asset.content)
        for job in (job for jobs in repository.jobs.values() for job in jobs):
            if job["id"] == wanted and job["log"] is not None:
                return Answer(200, job["log"].encode())
    return Answer(404, b"")


def page(github: GitHubServer, path: str) -> Answer:
    """A release's page, its list of assets, or a file of it; drafts are nobody's business."""
    match = _RELEASE.fullmatch(path)
    repository = github.repositories.get(match["name"]) if match else None
    if match is None or repository is None:
        return Answer(404, b"Not Found")
    release = next((r for r in repository.releases.values() if r.tag == match["tag"] and not r.draft), None)
    if release is None:
        return Answer(404, b"Not Found")
    headers = {"Content-Type": "text/html; charset=utf-8"}
    base = f"/{match['name']}/releases/download/{release.tag}"
    if match["what"] == "tag":
        from markdown_it import MarkdownIt

        return Answer(200, MarkdownIt("commonmark", {"html": False}).render(release.body).encode(), headers)
    if match["what"] == "expanded_assets":
        links = [
            f'<a href="{base}/{html.escape(asset.name)}">{html.escape(asset.name)}</a>' for asset in release.assets
        ]
        return Answer(200, "\n".join(links).encode(), headers)
    asset = next((a for a in release.assets if a.name == match["file"]), None)
    return Answer(404, b"Not Found") if asset is None else Answer(200, asset.content)
