"""The port for pull requests, by branch. The adapter is in ``forge/github/pulls.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class PullRequests(Protocol):
    """Pull requests of one repository, by branch. Every method is idempotent."""

    def ensure_draft(self, *, branch: str, base: str, title: str, body: str) -> str:
        """Open a draft for ``branch``, or set title and body of the open one. Returns its address."""

    def comment(self, *, branch: str, key: str, body: str) -> None:
        """Comment on the open pull request; a comment with the same ``key`` is replaced, not repeated."""

    def mark_ready(self, *, branch: str) -> None:
        """Turn the draft into one that asks for review."""

    def ensure_ci(self, *, workflow: str, branch: str, head: str) -> None:
        """Start a workflow on ``branch`` unless it has run, or runs, at its commit ``head``."""

    def dispatch(self, *, workflow: str, branch: str, inputs: Mapping[str, str] | None = None) -> None:
        """Start a workflow as it is on ``branch`` (what a job's own token pushes starts none)."""
