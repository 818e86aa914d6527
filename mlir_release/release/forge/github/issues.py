"""Issues that the toolkit keeps by itself, on GitHub."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlir_release.ground.hosting import Issue
from mlir_release.release.forge.github.refusals import Refused, refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.release.forge.github.client import GitHubClient

#: Only those who may triage can set a label, so an outsider's issue is never taken for one of ours.
LABEL = "release-target"
#: Of the issues that tell the state of an integrate.
ROLL_LABEL = "llvm-roller"
_DESCRIPTIONS = {
    LABEL: "A target fails; mlir-release opens and closes these issues",
    ROLL_LABEL: "The state of an integrate; mlir-release maintains this issue",
}

_KEY = re.compile(r"(?<!\n)\n*<!-- mlir-release: (?P<key>[^\s>]+) -->\s*$")


class GitHubTracker:
    """Adapter of :class:`~mlir_release.ground.hosting.Tracker`.

    :param label: that its issues have
    """

    def __init__(self, client: GitHubClient, *, label: str = LABEL) -> None:
        self._client = client
        self._label = label

    def open_issues(self) -> Sequence[Issue]:
        return self._issues("open")

    def _issues(self, state: str) -> Sequence[Issue]:
        pages = self._client.pages("/issues", state=state, labels=self._label)
        rows = [row for page in pages for row in page if "pull_request" not in row]
        return sorted(filter(None, map(_record, rows)), key=lambda issue: issue.number)

    def find(self, key: str) -> Issue | None:
        return next((issue for issue in self._issues("all") if issue.key == key), None)

    def open(self, key: str, title: str, body: str) -> Issue:
        """See :class:`Tracker`. One that appeared although the answer was lost is taken for this one.

        :raises ForgeError: ``token-lacks-right``, also if GitHub drops the label, without which nobody finds the issue
        """
        label = {"name": self._label, "color": "d93f0b", "description": _DESCRIPTIONS[self._label]}
        try:  # of an App's issue, as a job's is, GitHub drops a label that does not exist
            self._client.write(lambda: self._client.request("POST", "/labels", input=label), about=self._label)
        except Refused as error:
            if "already_exists" not in error.why:
                raise
        before = {issue.number for issue in self.open_issues()}
        given = {"title": title, "body": _marked(key, body), "labels": [self._label]}

        def create() -> Issue:
            row = self._client.request("POST", "/issues", input=given)[1]
            issue = _record(row)
            assert issue is not None
            if not any(label["name"] == self._label for label in row["labels"]):
                self._patch(issue, {"state": "closed"})
                why = f"GitHub dropped the label {self._label}"
                raise refused("forbidden", where=issue.url, why=why, needed="issues: write")
            return issue

        def created() -> Issue | None:
            return next((i for i in self.open_issues() if i.key == key and i.number not in before), None)

        return self._client.write(create, done=created, about=title)

    def update(self, issue: Issue, title: str, body: str, *, reopen: bool = False) -> Issue:
        given = {"title": title, "body": _marked(issue.key, body), **({"state": "open"} if reopen else {})}
        row = self._patch(issue, given)
        return replace(issue, title=row["title"], body=body)

    def comment(self, issue: Issue, key: str, body: str) -> None:
        path, text = f"/issues/{issue.number}/comments", _marked(key, body)

        def made() -> bool | None:
            pages = self._client.pages(path)
            found = (_KEY.search(row["body"].replace("\r\n", "\n")) for page in pages for row in page)
            return any(match is not None and match["key"] == key for match in found) or None

        def create() -> bool:
            self._client.request("POST", path, input={"body": text})
            return True

        if not made():
            self._client.write(create, done=made, about=issue.url)

    def close(self, issue: Issue, comment: str) -> None:
        """See :class:`Tracker`. The comment becomes part of the body, so that repeating this adds nothing."""
        given = {"body": _marked(issue.key, f"{comment}\n\n{issue.body}"), "state": "closed"}
        self._patch(issue, given)

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
