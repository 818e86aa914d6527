"""Checks of a local forge: its branch, its files, and the version of git."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.doctor.pin_branch import examine_newest_pin
from mlir_release.doctor.pythons import examine_newest_snapshot, examine_pythons
from mlir_release.doctor.repository_files import FILES, read_files
from mlir_release.doctor.results import Finding, of_error, verdict
from mlir_release.errors import ReleaseError
from mlir_release.forge.files import head_of
from mlir_release.git.repository import Git

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.forge.base import Forge


#: What the release side needs; integrate needs 2.38 (docs/integrate.md).
OLDEST_GIT = (2, 34)


def examine_local(forge: Forge, branch: str) -> Iterator[Finding]:
    """Every check of a forge without settings."""
    try:
        yield _git(Git(Path()).text("--version"))
        commit = head_of(forge, branch)
    except ReleaseError as error:
        yield of_error("branch" if error.id == "branch-missing" else "git", error)
        return
    yield Finding("branch", "ok", f"{branch} is at {commit[:12]}")
    found = {path: content for path in FILES if (content := forge.read(path, commit=commit)) is not None}
    contents, findings = read_files(found, branch=branch, github=False)
    yield from findings
    if contents.matrix is not None:
        yield examine_newest_pin(forge, contents.matrix.release)
        yield from examine_pythons(contents.matrix, today=forge.now().date())
        yield from examine_newest_snapshot(forge)
    if contents.matrix is not None and contents.matrix.release.branch != branch:
        text = f"targets.toml names {contents.matrix.release.branch} as its branch, but this is {branch}"
        remedy = "correct branch in [release], or examine the other branch with --branch"
        yield Finding("default-branch", "problem", text, remedy)


def _git(shown: str) -> Finding:
    """``shown``: for example ``git version 2.47.1.windows.2``."""
    match = re.search(r"(\d+)\.(\d+)\S*", shown)
    known = match is not None and (int(match[1]), int(match[2])) >= OLDEST_GIT
    oldest = ".".join(map(str, OLDEST_GIT))
    return verdict("git", known, f"{shown.strip()}; {oldest} or newer is needed", f"install git {oldest} or newer")
