"""An honest mirror of a signed release, for tests to spoil, and a program of the attacker's for git to start."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.use.mirror import mirror
from tests.attacks.hostile_mirror import FILES, Mirror
from tests.attacks.hostile_repository import SECRETS, Program, make_program
from tests.release.integration.signed_stage import signed_stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    """An honest mirror, made once a file."""
    folder = tmp_path_factory.mktemp("original")
    with pytest.MonkeyPatch.context() as patch, signed_stage(folder, patch) as stage:
        stage.whole()
        copy = LocalForge.create(folder / "mirror", FILES)
        mirror(stage.forge, copy)
        root = folder / "root.json"
        root.write_text(json.dumps(stage.made.trusted_root()))
        yield Mirror(copy.root, stage.url, root, stage)


@pytest.fixture
def honest(original: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    """A copy of the honest mirror that a test may spoil; the made Sigstore is the one that the machine trusts."""
    for name in ("GITHUB_ACTIONS", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "MLIR_RELEASE_FORGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLIR_RELEASE_TRUST_CONFIG", str(original.trusted_root))
    shutil.copytree(original.root, tmp_path / "mirror", symlinks=True)
    return Mirror(tmp_path / "mirror", original.signer, original.trusted_root, original.stage)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The attacker's program, and secrets that it would like to see."""
    settings = {"GIT_CONFIG_NOSYSTEM": "1", "MLIR_RELEASE_CACHE": str(tmp_path / "cache")}
    for name, value in (SECRETS | settings).items():
        monkeypatch.setenv(name, value)
    return make_program(tmp_path)
