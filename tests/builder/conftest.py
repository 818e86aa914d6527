"""What several files of this room begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.prefix_factory import make_prefix, make_sdk, make_source

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Sdk:
    """An SDK of a miniature LLVM. A test that changes something of it takes a copy."""
    return make_sdk(tmp_path_factory.mktemp("imported"))


@pytest.fixture(scope="session")
def sdk(imported: Sdk) -> Sdk:
    return imported


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return make_prefix(tmp_path / "usr" / "lib" / "llvm-22")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_source(tmp_path / "llvm-project")
