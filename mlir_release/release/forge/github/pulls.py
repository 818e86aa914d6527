"""Pull requests on GitHub, through the session that releases use too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.ground.errors import ForgeError
from mlir_release.ground.hosting import Pull
from mlir_release.release.forge.github.runs import GitHubRuns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from github.IssueComment import IssueComment
    from github.PullRequest import PullRequest

    from mlir_release.release.forge.github.client import GitHubClient


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
