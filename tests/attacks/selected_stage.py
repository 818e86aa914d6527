"""A release repository and its upstream, both on a GitHub on loopback, and tags that someone made by hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.git.repository import Git, Signature
from mlir_release.ground.git.trees import commit_files, commit_tree, tree_of
from mlir_release.ground.llvm.llvm_facts import LlvmFacts
from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.release.model.release_tags import parse_release_tag
from mlir_release.release.pinning.state import tag_message
from tests.pin_factory import make_pin
from tests.refusals import refused
from tests.revision_factory import LLVM_FILES, UPSTREAM
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import OTHER_PYTHON, PYTHON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pytest

    from mlir_release.ground.errors import ReleaseError
    from tests.github_server import GitHubServer

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ADA = Signature(name="Ada", email="ada@example.org", when=NOW)
REPOSITORY = "octo/releases"
TAG, VERSION = "snapshot-20261120.01", "20261120.1"
#: An upstream's tree whose wheels need nothing that an index is asked about, and that are not for the stable ABI.
TREE = {path: text.partition("# RUN")[0].encode() for path, text in LLVM_FILES.items() if path != "mlir/CMakeLists.txt"}
FACTS = LlvmFacts.read({path: content.decode() for path, content in TREE.items()}.get)


@dataclass
class Selected:
    """Where someone acts who may write to the release repository, but not to its protected branch."""

    folder: Path
    server: GitHubServer
    forge: GitHubForge
    upstream: Git

    @property
    def head(self) -> str:
        """Upstream's newest commit."""
        return self.upstream.text("rev-parse", "refs/heads/main")

    def fork(self) -> str:
        """A commit of a fork, which shares its objects with upstream: any of them can be fetched by its id."""
        return commit_tree(self.upstream, tree_of(self.upstream, self.head), [self.head], "[mlir] Of a fork\n", ADA)

    def tag(
        self,
        revision: str,
        *,
        facts: LlvmFacts | None = FACTS,
        excluded: Mapping[str, str] | None = None,
        date: str = "",
    ) -> None:
        """Pin a revision, tag the pin, and open a draft: all by hand, as whoever may push can."""
        message = tag_message(
            parse_release_tag(TAG),
            revision=revision,
            request_id="by-hand",
            wheel_version=VERSION,
            revision_date=date,
            facts=facts,
            excluded=excluded,
        )
        self.forge.create_tag(TAG, make_pin(self.forge, revision), message)
        self.forge.create_draft(TAG, title=TAG, body="", prerelease=True)

    def error_of(self, *arguments: str, id: str = "") -> ReleaseError:
        """The error that a command ends with."""
        return refused(lambda: self.run(*arguments), id)

    def run(self, *arguments: str) -> str:
        """What a command prints."""
        done = CliRunner().invoke(app, arguments, standalone_mode=False, catch_exceptions=False)
        return done.output

    def nothing_was_done(self) -> bool:
        """Nothing is published, signed, built or begun."""
        repository = self.server.repositories[REPOSITORY]
        done = [*repository.dispatches, *repository.attestations]
        done += [release for release in repository.releases.values() if not release.draft or release.assets]
        return not done and not (self.folder / "out").exists() and not (self.folder / "cache" / "sdks").exists()


def selected_stage(
    folder: Path, server: GitHubServer, patch: pytest.MonkeyPatch, *, pythons: Sequence[str] = (OTHER_PYTHON, PYTHON)
) -> Selected:
    """Make it in a folder, from now on the current one; commands that are run find it by their environment."""
    patch.chdir(folder)
    upstream = Git(server.add_repository(UPSTREAM, TREE))
    targets = make_targets(
        make_row(), pythons=list(pythons), upstream=f"{server.url}/{UPSTREAM}.git", provenance="none"
    )
    server.add_repository(REPOSITORY, {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": targets.encode()})
    environment = server.environment(REPOSITORY, server.token())
    for name, value in environment.items():
        patch.setenv(name, value)
    patch.setenv("MLIR_RELEASE_FORGE", f"github:{REPOSITORY}")
    patch.setenv("MLIR_RELEASE_CACHE", str(folder / "cache"))
    return Selected(folder, server, GitHubForge.open(REPOSITORY, environ=environment), upstream)


def local_upstream(folder: Path, message: str = "[mlir] A change\n") -> tuple[Git, str]:
    """An upstream on this machine, and its one commit."""
    git = Git(folder)
    folder.mkdir()
    git.run("init", "--quiet", "--bare", "--initial-branch=main")
    git.run("config", "uploadpack.allowAnySHA1InWant", "true")
    commit = commit_files(git, None, TREE, message, ADA)
    git.run("update-ref", "refs/heads/main", commit)
    return git, commit
