"""Issues that the toolkit keeps by itself, and pull requests, on GitHub."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlir_release.ground.errors import ForgeError
from mlir_release.ground.hosting import Issue, Pull
from mlir_release.release.forge.github.refusals import Refused, refused
from mlir_release.release.forge.github.runs import GitHubRuns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from github.IssueComment import IssueComment
    from github.PullRequest import PullRequest

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


class GitHubPullRequests:
    """Adapter for :class:`~mlir_release.ground.hosting.PullRequests`.

    :param client: with the token of an App or a job, pull requests (and, for ``dispatch``, actions) writable
    """

    def __init__(self, client: GitHubClient) -> None:
        self._client = client
        self._owner = client.name.partition("/")[0]

    def _open(self, branch: str) -> PullRequest | None:
        return next(iter(self._of(branch, "open")), None)

    def _of(self, branch: str, state: str) -> list[PullRequest]:
        """Newest first."""
        pulls = self._client.repository.get_pulls
        found = self._client.read(lambda: list(pulls(state=state, head=f"{self._owner}:{branch}")), about=branch)
        return [pull for pull in found if pull.head.ref == branch]

    def newest(self, *, branch: str) -> Pull | None:
        found = self._of(branch, "all")
        if not found:
            return None
        pull = next((pull for pull in found if pull.state == "open"), found[0])
        state = "closed" if pull.merged_at is None else "merged"
        if pull.state == "open":
            state = "draft" if pull.draft else "ready"
        return Pull(url=pull.html_url, state=state)

    def _required(self, branch: str) -> PullRequest:
        pull = self._open(branch)
        if pull is None:
            raise ForgeError(
                "not-on-forge",
                f"there is no open pull request for {branch}",
                where=self._client.where,
                remedy="mlir-release integrate start --push opens one; a closed one can be opened again",
            )
        return pull

    def ensure_draft(self, *, branch: str, base: str, title: str, body: str) -> str:
        pull = self._open(branch)
        if pull is None:
            create = self._client.repository.create_pull
            pull = self._client.write(
                lambda: create(base=base, head=branch, title=title, body=body, draft=True),
                done=lambda: self._open(branch),
                about=branch,
            )
        if (pull.title, pull.body) != (title, body):
            self._client.write(lambda: pull.edit(title=title, body=body), about=branch)
        return pull.html_url

    def comment(self, *, branch: str, key: str, body: str) -> None:
        marker = f"<!-- mlir-release:{key} -->"
        text = f"{marker}\n{body}"[:65000]  # GitHub's limit is 65536 characters
        pull = self._required(branch)

        def existing() -> IssueComment | None:
            comments = self._client.read(lambda: list(pull.get_issue_comments()), about=branch)
            return next((comment for comment in comments if comment.body.startswith(marker)), None)

        old = existing()
        if old is None:
            self._client.write(lambda: pull.create_issue_comment(text), done=existing, about=branch)
        elif old.body != text:
            self._client.write(lambda: old.edit(text), about=branch)

    def mark_ready(self, *, branch: str) -> None:
        """See :class:`~mlir_release.ground.hosting.PullRequests`. (GitHub offers this in GraphQL only.)"""
        pull = self._required(branch)
        if pull.draft:
            self._client.write(pull.mark_ready_for_review, about=branch)

    def ensure_ci(self, *, workflow: str, branch: str, head: str) -> None:
        runs = self._client.repository.get_workflow_runs
        found = self._client.read(lambda: list(runs(head_sha=head)), about=branch)
        wanted = (branch, f".github/workflows/{workflow}")
        if not any((run.head_branch, run.path.partition("@")[0]) == wanted for run in found):
            self.dispatch(workflow=workflow, branch=branch)

    def dispatch(self, *, workflow: str, branch: str, inputs: Mapping[str, str] | None = None) -> None:
        GitHubRuns(self._client).start(workflow, ref=branch, inputs=inputs or {})
