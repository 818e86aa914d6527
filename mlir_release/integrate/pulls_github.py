"""Pull requests on GitHub, through PyGithub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.errors import ForgeError, MachineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from github.PullRequest import PullRequest


class GitHubPullRequests:
    """Adapter for :class:`~mlir_release.integrate.pulls.PullRequests`.

    :param repository: ``owner/name``
    :param token: of an App or a job, with pull requests (and, for ``dispatch``, actions) writable
    """

    def __init__(self, repository: str, token: str, *, api: str) -> None:
        try:
            from github import Auth, Github
        except ImportError as error:
            raise MachineError(
                "pygithub-missing",
                "pull requests need PyGithub, which is not installed",
                remedy="pip install 'mlir-release[integrate]'",
            ) from error
        self._repository = Github(base_url=api, auth=Auth.Token(token)).get_repo(repository, lazy=True)
        self._owner = repository.partition("/")[0]
        self._name = repository

    def _open(self, branch: str) -> PullRequest | None:
        found: Iterator[PullRequest] = iter(self._repository.get_pulls(state="open", head=f"{self._owner}:{branch}"))
        return next((pull for pull in found if pull.head.ref == branch), None)

    def _required(self, branch: str) -> PullRequest:
        pull = self._open(branch)
        if pull is None:
            raise ForgeError(
                "pull-request-missing",
                f"there is no open pull request for {branch}",
                where=self._name,
                remedy="mlir-release integrate start --push opens one; a closed one can be opened again",
            )
        return pull

    def ensure_draft(self, *, branch: str, base: str, title: str, body: str) -> str:
        """See :class:`~mlir_release.integrate.pulls.PullRequests`."""
        with _translated(self._name):
            pull = self._open(branch)
            if pull is None:
                pull = self._repository.create_pull(base=base, head=branch, title=title, body=body, draft=True)
            elif (pull.title, pull.body) != (title, body):
                pull.edit(title=title, body=body)
            return pull.html_url

    def comment(self, *, branch: str, key: str, body: str) -> None:
        """See :class:`~mlir_release.integrate.pulls.PullRequests`."""
        marker = f"<!-- mlir-release:{key} -->"
        text = f"{marker}\n{body}"[:65000]  # GitHub's limit is 65536 characters
        with _translated(self._name):
            pull = self._required(branch)
            for comment in pull.get_issue_comments():
                if comment.body.startswith(marker):
                    comment.edit(text)
                    return
            pull.create_issue_comment(text)

    def mark_ready(self, *, branch: str) -> None:
        """See :class:`~mlir_release.integrate.pulls.PullRequests`. (GitHub offers this in GraphQL only.)"""
        with _translated(self._name):
            pull = self._required(branch)
            if pull.draft:
                pull.mark_ready_for_review()

    def dispatch(self, *, workflow: str, branch: str) -> None:
        """See :class:`~mlir_release.integrate.pulls.PullRequests`."""
        with _translated(self._name):
            self._repository.get_workflow(workflow).create_dispatch(branch)


class _translated:
    """PyGithub's exceptions as ours."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from github import GithubException

        if isinstance(error, GithubException):
            raise ForgeError(
                "github-refused",
                "GitHub refused a request about the pull request",
                where=self.where,
                why=f"{error.status}: {error.data}",
                remedy="check the token's rights (pull requests: write) and that the branch is pushed",
            ) from error
