"""A release repository after years: every command on it, and what each asks of GitHub.

The past is published without a request; then a snapshot is made, published and installed by the command line alone.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.git.repository import Git, Signature
from mlir_release.git.trees import commit_files
from tests.github_server import GitHubServer
from tests.github_server.stock import ASSETS, add_past
from tests.release_stage import TARGETS
from tests.revision_factory import LLVM_TREE
from tests.wheel_factory import OTHER_PYTHON, PYTHON, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.github_server import Record

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
REPOSITORY = "llvm/mlir-wheels"
TAG = "snapshot-20261120.02"
REQUIREMENTS = "mlir/python/requirements.txt"


@dataclass(frozen=True)
class Asked:
    """What a command asked of GitHub."""

    command: str
    requests: Counter[str]  #: by kind: rest, graphql, git, pages (and what else is public)
    received: int  #: bytes
    seconds: float
    records: tuple[Record, ...] = field(compare=False)

    @property
    def operations(self) -> Counter[str]:
        """The API's requests by GitHub's names for them."""
        return Counter(record.operation for record in self.records if record.operation)


def kind_of(record: Record) -> str:
    """Which of GitHub's limits a request counts against, if any."""
    if record.operation.endswith("/graphql"):
        return "graphql"
    if record.operation == "GET /rate_limit":
        return "free"
    return "rest" if record.operation else "git" if ".git/" in record.path else "public"


class Veteran:
    """A repository with ``count`` published releases, whose pages show them, and a new llvm-project commit."""

    def __init__(self, folder: Path, count: int, *, assets: int = ASSETS, seconds_of_an_asset: float = 0.0) -> None:
        self.folder = folder
        self.now = NOW - timedelta(hours=1)
        self.github = GitHubServer(folder / "github", clock=lambda: self.now)
        self.github.seconds_of_an_asset = seconds_of_an_asset
        upstream = Git(folder / "upstream.git")
        upstream.directory.mkdir(parents=True)
        upstream.run("init", "--quiet", "--bare", "--initial-branch=main")
        ada = Signature(name="Ada", email="ada@example.org", when=NOW)
        requirements = LLVM_TREE[REQUIREMENTS].partition(b"# RUN")[0]  # without any that an index is asked about
        change = commit_files(upstream, None, LLVM_TREE | {REQUIREMENTS: requirements}, "[mlir] A change\n", ada)
        upstream.run("update-ref", "refs/heads/main", change)
        self.revision = change
        targets = TARGETS.replace("https://github.com/llvm/llvm-project.git", str(upstream.directory))
        self.github.add_repository(
            REPOSITORY, {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": targets.encode()}
        )
        add_past(self.github, REPOSITORY, count, until=NOW - timedelta(hours=12), assets=assets)
        self.token = self.github.token(scopes=("contents", "actions", "issues"))
        self.environment = {
            **self.github.environment(REPOSITORY, self.token),
            "MLIR_RELEASE_FORGE": f"github:{REPOSITORY}",
            "MLIR_RELEASE_CACHE": str(folder / "cache"),
        }

    def ask(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Asked:
        """Run a command of the command line."""
        before, began = len(self.github.requests), time.monotonic()
        env = self.environment | dict(environment or {})
        done = CliRunner(env=env).invoke(app, arguments, standalone_mode=False, catch_exceptions=False)
        assert done.return_value in (None, 0, 7), done.output  # 7: the doctor has found problems
        records = tuple(self.github.requests[before:])
        return Asked(
            command=" ".join(argument for argument in arguments if not argument.startswith("/")),
            requests=Counter(map(kind_of, records)),
            received=sum(record.sent for record in records),
            seconds=time.monotonic() - began,
            records=records,
        )

    def deploy(self) -> str:
        """Serve the pages as they are in the folder; returns their address."""
        return self.github.deploy_pages(REPOSITORY, self.folder / "site")

    def index(self, *options: str, folder: str = "") -> Asked:
        """Generate the pages, in an empty folder as a job does, or in ``folder``."""
        output = self.folder / (folder or f"site-{len(self.github.requests)}")
        address = f"{self.github.url}/pages/{REPOSITORY}/"
        return self.ask("index", "--output", str(output), "--base-url", address, *options)

    def a_day(self) -> Iterator[Asked]:
        """From the pin to the pages, and the questions that people ask meanwhile."""
        self.index(folder="site")
        self.deploy()
        self.now = NOW  # the pages' cache has forgotten that there was nothing
        yield self.ask("tag", "next")
        yield self.ask("snapshot")
        yield self.ask("snapshot", "--dry-run")
        yield self.ask("tag", "list")
        yield self.ask("release", "list")
        yield self.ask("release", "show", TAG)
        yield self.ask("matrix", "--missing", TAG, "--kind", "wheels")
        yield self.ask("publish", TAG, "--dist", str(self.dist()))
        yield self.index()
        yield self.ask("install", "latest", *self.installing)
        yield self.ask("install", TAG, *self.installing)
        yield self.ask("doctor", "--no-pypi", environment={"MLIR_RELEASE_PYPI_OWNER": "llvm"})

    @property
    def installing(self) -> tuple[str, ...]:
        return "--dry-run", "--provenance", "skip", "--python", sys.executable

    def dist(self) -> Path:
        """The wheels and reports of the new snapshot."""
        for python in (OTHER_PYTHON, PYTHON):
            wheel = make_wheel(
                self.folder / "dist", tag=TAG, version="20261120.2", revision=self.revision, python=python
            )
            make_report(self.folder / "dist", wheel, target=f"smoke-mlir-linux-x86_64-{python}")
        return self.folder / "dist"
