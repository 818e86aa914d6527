"""A release repository after years: every command on it, and what each asks of GitHub.

The past is published without a request; then a snapshot is made, published and installed by the command line alone.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from unittest.mock import patch

from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.git.repository import Git, Signature
from mlir_release.ground.git.trees import commit_files
from mlir_release.release.index.observe import ARCHIVE_NAME
from mlir_release.release.provenance.trust import TRUST_VARIABLE
from tests.github_server import GitHubServer
from tests.github_server.stock import ASSETS, add_past, archive
from tests.revision_factory import LLVM_TREE
from tests.sigstore.instance import branch_claims
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import OTHER_PYTHON, PYTHON, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.github_server import Record
    from tests.sigstore.services import Services

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
REPOSITORY = "llvm/mlir-wheels"
TAG = "snapshot-20261120.02"
FROM_NOTHING = "index, from nothing"  #: the one command that reads every release
REQUIREMENTS = "mlir/python/requirements.txt"


#: Of requests, by the limit that counts them; none counts the last two.
KINDS = ("rest", "graphql", "git", "public")


@dataclass(frozen=True)
class Asked:
    """What a command asked of GitHub."""

    name: str  #: the command, with what tells it from others
    requests: Counter[str]  #: by :data:`KINDS`
    received: int  #: bytes
    seconds: float
    cpu: float  #: seconds of this process (the command's and GitHub's) and of those that it started
    records: tuple[Record, ...] = field(compare=False)

    @property
    def writes(self) -> int:
        """How many of the API's requests create or change something."""
        return sum(kind_of(record) == "rest" and record.method != "GET" for record in self.records)

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

    def __init__(
        self,
        folder: Path,
        count: int,
        *,
        assets: int = ASSETS,
        seconds_of_an_asset: float = 0.0,
        pythons: Sequence[str] = (OTHER_PYTHON, PYTHON),
        suites: Sequence[str] = ("smoke",),
        sigstore: Services | None = None,
    ) -> None:
        """:param sigstore: signs what is released; None: nothing is signed"""
        self.folder = folder
        self.sigstore = sigstore
        self.pythons = pythons
        self.suites = suites
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
        provenance = "none" if sigstore is None else "required"
        targets = make_targets(
            make_row(suites=suites), pythons=list(pythons), upstream=str(upstream.directory), provenance=provenance
        )
        self.github.add_repository(
            REPOSITORY,
            {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": targets.encode()},
            workflows=("release.yml", "pages.yml", "latest.yml"),
        )
        add_past(self.github, REPOSITORY, count, until=NOW - timedelta(hours=12), assets=assets)
        self.token = self.github.token(scopes=("contents", "actions", "issues", "attestations"))
        self.environment = {
            **self.github.environment(REPOSITORY, self.token),
            "MLIR_RELEASE_FORGE": f"github:{REPOSITORY}",
            "MLIR_RELEASE_CACHE": str(folder / "cache"),
            **({TRUST_VARIABLE: str(sigstore.folder / "trust-config.json")} if sigstore is not None else {}),
        }

    def ask(self, *arguments: str, name: str = "", environment: Mapping[str, str] | None = None) -> Asked:
        """Run a command of the command line. ``name``: what it is called; default: as it is"""
        before, began, used = len(self.github.requests), time.monotonic(), sum(os.times()[:4])
        env = self.environment | dict(environment or {})
        done = CliRunner(env=env).invoke(app, arguments, standalone_mode=False, catch_exceptions=False)
        assert done.return_value in (None, 0, 7), done.output  # 7: the doctor has found problems
        records = tuple(self.github.requests[before:])
        return Asked(
            name=name or " ".join(arguments),
            requests=Counter(map(kind_of, records)),
            received=sum(record.sent for record in records),
            seconds=time.monotonic() - began,
            cpu=sum(os.times()[:4]) - used,
            records=records,
        )

    def deploy(self) -> str:
        """Serve the pages as they are in the folder; returns their address."""
        return self.github.deploy_pages(REPOSITORY, self.folder / "site")

    def deploy_archive(self) -> None:
        """Serve of the pages only the file from which the next ones begin."""
        (self.folder / "site").mkdir()
        (self.folder / "site" / ARCHIVE_NAME).write_bytes(archive(self.github, REPOSITORY))
        self.deploy()

    def index(self, *options: str, name: str = "index", folder: str = "") -> Asked:
        """Generate the pages, in an empty folder as a job does, or in ``folder``."""
        output = self.folder / (folder or f"site-{len(self.github.requests)}")
        address = f"{self.github.url}/pages/{REPOSITORY}/"
        return self.ask("index", "--output", str(output), "--base-url", address, *options, name=name)

    def a_day(self, *, from_nothing: bool = False) -> Iterator[Asked]:
        """From the pin to the pages, and the questions that people ask meanwhile.

        :param from_nothing: first of all make the pages from nothing, which reads every manifest
        """
        if from_nothing:
            yield self.index(name=FROM_NOTHING, folder="site")
            self.deploy()
        else:
            self.deploy_archive()
        self.now = NOW  # the pages' cache has forgotten that there was nothing
        yield self.ask("tag", "next")
        yield self.ask("snapshot")
        yield self.ask("snapshot", "--dry-run", name="snapshot, under way")
        yield self.ask("release", "sweep", name="release sweep, under way")
        yield self.ask("tag", "list")
        yield self.ask("release", "list")
        yield self.ask("release", "status")
        yield self.ask("release", "show", TAG, name="release show")
        yield self.ask("matrix", "--missing", TAG, "--kind", "wheels", name="matrix --missing")
        yield self.ask("publish", TAG, "--dist", str(self.dist()), name="publish")
        yield self.index()
        yield self.ask("install", "latest", *self.installing, name="install latest")
        yield self.ask("install", TAG, *self.installing, name="install TAG")
        yield self.ask("doctor", "--no-pypi", name="doctor", environment={"MLIR_RELEASE_PYPI_OWNER": "llvm"})

    def a_release(self) -> Iterator[Asked]:
        """What the workflows run for one snapshot, each command once, but for those that build, which ask nothing.

        What they make is signed.
        """
        self.index(folder="site")
        self.deploy()
        self.now = NOW
        yield self.ask("snapshot", "--track", name="snapshot")
        yield self.ask("release", "sweep", name="release sweep")
        yield self.ask("matrix", "--missing", TAG, "--kind", "platforms", name="matrix --missing")
        dist, reports, manifest = self.dist(), self.folder / "reports", self.folder / "manifest"
        yield self.attest(dist, dist, "wheels", "reports")
        yield self.ask("publish", TAG, "--dist", str(dist), "--upload-only", name="publish --upload-only")
        reports.mkdir()
        for file in (*dist.glob("*.tests.json"), *dist.glob("*.sigstore.json")):
            shutil.copy(file, reports)
        outputs = self.folder / "outputs"
        hands_over = {"GITHUB_OUTPUT": str(outputs)}
        publish = ("publish", TAG, "--dist", str(reports))
        yield self.ask(*publish, "--manifest-to", str(manifest), name="publish", environment=hands_over)
        yield self.attest(manifest, reports, "manifest")
        checked = outputs.read_text().split("checked<<")[1].splitlines()[1]
        yield self.ask(*publish, "--checked", checked, name="publish, signed")
        yield self.ask("release", "dispatch", "pages.yml", "--ref", "main", name="release dispatch")
        yield self.ask("release", "tidy-caches")
        self.latest("--sign")  # the first ever, which finds neither a pointer nor an index
        self.latest("--store")
        self.now += timedelta(minutes=1)
        yield self.latest("--sign")
        yield self.latest("--store")
        yield self.ask("release", "track", TAG, name="release track")
        yield self.index()

    def attest(self, folder: Path, output: Path, *kinds: str) -> Asked:
        """Sign what is in a folder, as the run on the tag that a job belongs to."""
        assert self.sigstore is not None
        commit = self.github.repositories[REPOSITORY].git.resolve(f"refs/tags/{TAG}^{{commit}}")
        assert commit is not None
        identity = self.sigstore.environment(tag=TAG, repository=REPOSITORY, commit=commit, server=self.github.url)
        chosen = [word for kind in kinds for word in ("--kind", kind)]
        arguments = ("attest", TAG, str(folder), *chosen, "--output", str(output))
        return self.ask(*arguments, name=f"attest, {' and '.join(kinds)}", environment=identity)

    def latest(self, option: str) -> Asked:
        """Sign which snapshot is the newest, or store that, as a run on main."""
        assert self.sigstore is not None
        identity = self.sigstore.environment(**branch_claims(repository=REPOSITORY), server=self.github.url) | {
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_SERVER_URL": self.github.url,
        }
        arguments = ("release", "latest", option, str(self.folder / "latest"))
        with patch("mlir_release.release.latest.latest.now", lambda: self.now):
            return self.ask(*arguments, name=f"release latest, {option.strip('-')}", environment=identity)

    @property
    def installing(self) -> tuple[str, ...]:
        return "--dry-run", "--provenance", "skip", "--python", sys.executable

    def dist(self) -> Path:
        """The wheels and reports of the new snapshot."""
        for python in self.pythons:
            wheel = make_wheel(
                self.folder / "dist", tag=TAG, version="20261120.2", revision=self.revision, python=python
            )
            for suite in self.suites:
                make_report(self.folder / "dist", wheel, suite=suite, target=f"{suite}-mlir-linux-x86_64-{python}")
        return self.folder / "dist"
