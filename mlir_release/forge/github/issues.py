"""Issues that the toolkit keeps by itself, on GitHub."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlir_release.forge.github.refusals import NotFound, Refused, forbidden
from mlir_release.forge.services import Issue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.forge.github.client import GitHubClient

#: Only those who may triage can set a label, so an outsider's issue is never taken for one of ours.
LABEL = "release-target"
_DESCRIPTION = "A target fails; mlir-release opens and closes these issues"

_KEY = re.compile(r"\n*<!-- mlir-release: (?P<key>[^\s>]+) -->\s*$")


class GitHubTracker:
    """Adapter of :class:`~mlir_release.forge.services.Tracker`."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client

    def open_issues(self) -> Sequence[Issue]:
        """See :class:`Tracker`."""
        pages = self._client.pages("/issues", state="open", labels=LABEL)
        rows = [row for page in pages for row in page if "pull_request" not in row]
        return sorted(filter(None, map(_record, rows)), key=lambda issue: issue.number)

    def open(self, key: str, title: str, body: str) -> Issue:
        """See :class:`Tracker`. One that appeared although the answer was lost is taken for this one.

        :raises ForgeError: ``token-lacks-right``, also if GitHub drops the label, without which nobody finds the issue
        """
        self._make_label()
        before = {issue.number for issue in self.open_issues()}
        given = {"title": title, "body": _marked(key, body), "labels": [LABEL]}

        def create() -> Issue:
            row = self._client.request("POST", "/issues", input=given)[1]
            issue = _record(row)
            assert issue is not None
            if not any(label["name"] == LABEL for label in row["labels"]):
                self._patch(issue, {"state": "closed"})
                raise forbidden(where=issue.url, why=f"GitHub dropped the label {LABEL}", needed="issues: write")
            return issue

        def created() -> Issue | None:
            return next((i for i in self.open_issues() if i.key == key and i.number not in before), None)

        return self._client.write(create, done=created, about=title)

    def _make_label(self) -> None:
        """Make sure that the label exists: of an App's issue, as a job's is, GitHub drops one that does not."""
        given = {"name": LABEL, "color": "d93f0b", "description": _DESCRIPTION}
        try:
            self._client.write(lambda: self._client.request("POST", "/labels", input=given), about=LABEL)
        except Refused as error:
            if "already_exists" not in error.why:
                raise

    def update(self, issue: Issue, title: str, body: str) -> Issue:
        """See :class:`Tracker`."""
        given = {"title": title, "body": _marked(issue.key, body)}
        row = self._patch(issue, given)
        return replace(issue, title=row["title"], body=body)

    def close(self, issue: Issue, comment: str) -> None:
        """See :class:`Tracker`. The comment becomes part of the body, so that repeating this adds nothing."""
        given = {"body": _marked(issue.key, f"{comment}\n\n{issue.body}"), "state": "closed"}
        self._patch(issue, given)

    def delete_label(self) -> None:
        """See :class:`Tracker`."""
        with suppress(NotFound):
            self._client.write(lambda: self._client.request("DELETE", f"/labels/{LABEL}"), about=LABEL)

    def _patch(self, issue: Issue, changes: dict[str, str]) -> dict[str, Any]:
        request, path = self._client.request, f"/issues/{issue.number}"
        row: dict[str, Any] = self._client.write(lambda: request("PATCH", path, input=changes), about=issue.url)[1]
        return row


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
