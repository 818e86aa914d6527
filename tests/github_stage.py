"""A release repository on a GitHub on loopback: what others do there, and the forge as processes see it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mlir_release.ground.git.trees import commit_files
from mlir_release.release.forge.github.forge import GitHubForge
from tests.github_server import GitHubServer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Self

    from tests.github_server.world import Repository

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
REPOSITORY = "llvm/mlir-wheels"
WORKFLOW = ".github/workflows/release.yml"


class GitHubStage:
    """A server with one repository. Use it in a ``with`` statement: the server answers inside it.

    :param files: of the first commit on ``main``
    :param settings: of the repository (:meth:`.GitHubServer.add_repository`)
    """

    now = NOON  #: on the server; tests move it

    def __init__(self, folder: Path, files: Mapping[str, bytes], **settings: Any) -> None:
        self.server = GitHubServer(folder / "github", clock=self.clock)
        self.server.add_repository(REPOSITORY, files, **settings)
        token = self.server.token(scopes=("contents", "actions", "issues"))
        self.environment = self.server.environment(REPOSITORY, token)
        self.merged = 0  #: how often a workflow was changed

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self.server.__exit__(kind, *rest)

    def clock(self) -> datetime:
        """What time it is on the server."""
        return self.now

    @property
    def repository(self) -> Repository:
        """The server's own view of the repository: its git, and the rest in memory."""
        return self.server.repositories[REPOSITORY]

    @property
    def forge(self) -> GitHubForge:
        """As another process sees it."""
        return GitHubForge.open(REPOSITORY, environ=self.environment)

    def merge(self) -> None:
        """Somebody changes a workflow on main. From then on a job may make no ref to a commit that lacks this."""
        self.merged += 1
        git, files = self.repository.git, {WORKFLOW: b"# %d\n" % self.merged}
        made = commit_files(git, git.text("rev-parse", "main"), files, "Merge\n", self.repository.signature("ada"))
        git.run("update-ref", "refs/heads/main", made)
