"""llvm-project, a project's fork of it with carried patches on an export branch, and a release repository of that."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import tomli_w

from mlir_release.ground.documents.trailers import format_message
from mlir_release.ground.git.patch import T_KIND, T_OF, T_WHY
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import commit_files, commit_tree, tree_of
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.release.forge.files import matrix_of_branch
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.pinning.green import select
from mlir_release.release.pinning.reachable import need_upstream
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.start import start
from mlir_release.release.transaction.upload import upload
from tests.attacks.selected_stage import ADA, NOW
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import OTHER_PYTHON, PYTHON, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.release.model.stack import CarriedStack
    from mlir_release.release.transaction.start import TransactionOutcome

EXPORT, NAME = "acme-carried", "acme-mlir"
REVERT = {T_KIND: "revert", T_OF: "#7", T_WHY: "it breaks @acme's loops"}
PICK = {T_KIND: "cherry-pick", T_OF: "a" * 40, T_WHY: "wanted before upstream has it"}
TEST = "mlir/test/python/loops.py"


def bare(folder: Path) -> Git:
    """An empty repository, as a server has it."""
    folder.mkdir()
    git = Git(folder)
    git.run("init", "--quiet", "--bare", "--initial-branch=main")
    for name in ("allowFilter", "allowAnySHA1InWant"):
        git.run("config", f"uploadpack.{name}", "true")
    return git


@dataclass
class Carrying:
    """Where a project acts, and where whoever may push to its fork does. ``fork`` has all objects of ``upstream``."""

    folder: Path
    upstream: Git
    fork: Git
    addresses: tuple[str, str]  #: of upstream, of the fork
    forge: LocalForge = field(init=False)
    made: int = 0

    def __post_init__(self) -> None:
        self.forge = LocalForge.create(
            self.folder / "forge",
            {PIN_FILE: b"b" * 40 + b"\n", "targets.toml": self.targets().encode()},
            clock=lambda: NOW,
            identity="Ada <ada@example.org>",
        )
        self.base = self.upstream.text("rev-parse", "refs/heads/main")
        self.take(self.base, "main")
        self.revert = self.commit(self.base, "Revert loops", REVERT, {"mlir/lib/Loops.cpp": b"1", TEST: b"1"})
        self.tip = self.commit(self.revert, "[mlir] Better @loops (#8)", PICK, {"mlir/lib/Better.cpp": b"1"})
        self.export(self.tip)

    def targets(self, *, name: str = NAME, pypi: Sequence[str] = (), **release: object) -> str:
        """The content of ``targets.toml``."""
        upstream, fork = self.addresses
        made = tomllib.loads(make_targets(make_row(), pythons=[OTHER_PYTHON, PYTHON], upstream=fork))
        made["release"] |= {"base": upstream, "upstream-branch": EXPORT, **release}
        made["llvm"] = {NAME: {**made["llvm"]["mlir"], "distribution": name}}
        made["target"][0]["llvm"] = NAME
        made |= {"project": {"mlir": {"pypi": list(pypi)}}} if pypi else {}
        return tomli_w.dumps(made)

    def commit(
        self,
        parent: str,
        subject: str,
        ledger: Mapping[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> str:
        """A commit of the fork that no branch leads to."""
        self.made += 1
        who = replace(ADA, when=ADA.when + timedelta(minutes=self.made))
        content = files or {f"mlir/lib/{self.made}.cpp": b"1"}
        made = commit_files(self.fork, parent, content, format_message(subject, "Why not.", ledger), who)
        return self.shared(made)

    def merge(self, *parents: str, of: str = "") -> str:
        """A merge with the tree of a commit; empty: of the first parent, as a splice has it."""
        return self.shared(commit_tree(self.fork, tree_of(self.fork, of or parents[0]), [*parents], "Merge\n", ADA))

    def shared(self, commit: str) -> str:
        """Upstream's server gives a fork's objects, too, as GitHub does."""
        self.upstream.run(
            "fetch",
            "--quiet",
            "--no-write-fetch-head",
            str(self.fork.directory),
            commit,
            remote=str(self.fork.directory),
        )
        return commit

    def take(self, commit: str, branch: str) -> None:
        """Have a commit of upstream's in the fork, on a branch."""
        place = str(self.upstream.directory)
        self.fork.run("fetch", "--quiet", place, f"+{commit}:refs/heads/{branch}", remote=place)

    def export(self, commit: str) -> None:
        """Move the export branch."""
        self.fork.run("update-ref", f"refs/heads/{EXPORT}", commit)

    def land(self, subject: str = "[mlir] Another (#9)") -> str:
        """A commit that upstream has on its branch."""
        made = self.commit(self.base, subject)
        self.upstream.run("update-ref", "refs/heads/main", made)
        return made

    def configure(self, **settings: object) -> None:
        """Change ``[release]`` on the protected branch."""
        files = {"targets.toml": self.targets(**settings).encode()}  # type: ignore[arg-type]
        self.forge.commit("main", expected=self.forge.head("main"), files=files, message="Configure\n")

    def stack(self, sha: str) -> CarriedStack | None:
        """What a commit carries."""
        return need_upstream(Upstream.of(matrix_of_branch(self.forge, "main").release), sha)

    def select(self, policy: str = "head") -> str:
        """The commit that a policy names."""
        return select(matrix_of_branch(self.forge, "main").release, policy).sha

    def snapshot(self, policy: str = "head", *, version: str | None = None) -> TransactionOutcome:
        """Begin a release. ``version``: of a numbered one"""
        matrix = matrix_of_branch(self.forge, "main")
        return start(self.forge, select(matrix.release, policy), matrix, request_id="asked", version=version)

    def fill(self, tag: str, version: str, revision: str) -> Draft:
        """Put wheels and passing reports into a draft."""
        folder = self.folder / tag
        for python in (OTHER_PYTHON, PYTHON):
            wheel = make_wheel(
                folder,
                tag=tag,
                version=version,
                revision=revision,
                python=python,
                distribution=NAME,
                profile="host",
            )
            make_report(folder, wheel, target=f"smoke-{NAME}-linux-x86_64-{python}")
        upload(Draft.load(self.forge, tag), folder)
        return Draft.load(self.forge, tag)
