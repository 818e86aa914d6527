"""Issues that the toolkit keeps by itself, on GitHub."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mlir_release.forge.base import Issue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.forge.github.client import GitHubClient

#: Only those who may triage can set a label, so an outsider's issue is never taken for one of ours.
LABEL = "release-target"

_KEY = re.compile(r"\n*<!-- mlir-release: (?P<key>[^\s>]+) -->\s*$")


class GitHubTracker:
    """Adapter of :class:`~mlir_release.forge.base.Tracker`."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client

    def _json(self, method: str, path: str, **options: Any) -> Any:
        address = f"/repos/{self._client.name}/issues{path}"
        return self._client.repository.requester.requestJsonAndCheck(method, address, **options)[1]

    def open_issues(self) -> Sequence[Issue]:
        """See :class:`Tracker`."""

        def ask() -> list[Issue]:
            rows: list[dict[str, Any]] = []
            for page in range(1, 100):
                given = {"state": "open", "labels": LABEL, "per_page": "100", "page": str(page)}
                found = self._json("GET", "", parameters=given)
                rows += [row for row in found if "pull_request" not in row]
                if len(found) < 100:
                    break
            return [issue for row in rows if (issue := _record(row)) is not None]

        return sorted(self._client.read(ask, about="issues"), key=lambda issue: issue.number)

    def open(self, key: str, title: str, body: str) -> Issue:
        """See :class:`Tracker`. One that appeared although the answer was lost is taken for this one."""
        before = {issue.number for issue in self.open_issues()}
        given = {"title": title, "body": _marked(key, body), "labels": [LABEL]}

        def create() -> Issue:
            issue = _record(self._json("POST", "", input=given))
            assert issue is not None
            return issue

        def created() -> Issue | None:
            return next((i for i in self.open_issues() if i.key == key and i.number not in before), None)

        return self._client.write(create, done=created, about=title)

    def update(self, issue: Issue, title: str, body: str) -> Issue:
        """See :class:`Tracker`."""
        given = {"title": title, "body": _marked(issue.key, body)}
        row = self._client.write(lambda: self._json("PATCH", f"/{issue.number}", input=given), about=issue.url)
        return Issue(number=issue.number, key=issue.key, title=row["title"], body=body, url=issue.url)

    def close(self, issue: Issue, comment: str) -> None:
        """See :class:`Tracker`. The comment becomes part of the body, so that repeating this adds nothing."""
        given = {"body": _marked(issue.key, f"{comment}\n\n{issue.body}"), "state": "closed"}
        self._client.write(lambda: self._json("PATCH", f"/{issue.number}", input=given), about=issue.url)


def _marked(key: str, body: str) -> str:
    return f"{body.rstrip()}\n\n<!-- mlir-release: {key} -->\n"


def _record(row: dict[str, Any]) -> Issue | None:
    body = (row["body"] or "").replace("\r\n", "\n")
    match = _KEY.search(body)
    if match is None:
        return None
    return Issue(
        number=row["number"], key=match["key"], title=row["title"], body=body[: match.start()], url=row["html_url"]
    )
