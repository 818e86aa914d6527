"""Repositories of projects that pin an LLVM, in the forms that torch-mlir, stablehlo, IREE and XLA have."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from mlir_release.ground.git.repository import Git, Signature
from mlir_release.ground.git.trees import GitEntry, commit_tree, make_blob, tree_with

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ADA = Signature(name="Ada", email="ada@example.org", when=datetime(2026, 11, 1, 12, tzinfo=UTC))

TORCH_MLIR = "externals/llvm-project"
STABLEHLO = "build_tools/llvm_version.txt"
XLA = "third_party/llvm/workspace.bzl"


class Repository:
    """A bare repository, as a server has it. Each commit is a day younger than the one before."""

    def __init__(self, folder: Path, files: Mapping[str, bytes] | None = None) -> None:
        self.git = Git(folder)
        folder.mkdir(parents=True)
        self.git.run("init", "--quiet", "--bare", "--initial-branch=main")
        for name in ("allowFilter", "allowAnySHA1InWant"):
            self.git.run("config", f"uploadpack.{name}", "true")
        self.days = 0
        self.head = ""
        if files is not None:
            self.commit("Begin", files)

    @property
    def url(self) -> str:
        return str(self.git.directory)

    def commit(
        self, subject: str, files: Mapping[str, bytes | str] | None = None, *, on: str = "", branch: str = "main"
    ) -> str:
        """Add a commit.

        :param files: a string is the commit of a submodule
        :param on: the parent; empty: the last commit
        :param branch: that it becomes the head of; empty: only the object is there
        """
        entries = {
            path: make_blob(self.git, content) if isinstance(content, bytes) else GitEntry("160000", "commit", content)
            for path, content in (files or {}).items()
        }
        parent = on or self.head
        tree = tree_with(self.git, parent or None, entries)
        when = ADA.when + timedelta(days=self.days)
        self.days += 1
        made = commit_tree(self.git, tree, [parent] if parent else [], f"{subject}\n", replace(ADA, when=when))
        if branch:
            self.git.run("update-ref", f"refs/heads/{branch}", made)
        self.head = made
        return made


def gitmodules(urls: Mapping[str, str]) -> bytes:
    """``.gitmodules`` for submodules, by their paths."""
    rows = urls.items()
    return "".join(f'[submodule "{path}"]\n\tpath = {path}\n\turl = {url}\n' for path, url in rows).encode()
