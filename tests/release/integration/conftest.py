"""What tests share that disturb a whole job on the loopback GitHub."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.release.integration.github_job import Undisturbed
from tests.sigstore.services import serve_sigstore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sigstore.services import Services


@pytest.fixture(scope="module")
def sigstore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with serve_sigstore(tmp_path_factory.mktemp("sigstore")) as services:
        yield services


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, sigstore: Services) -> Undisturbed:
    return Undisturbed.run(tmp_path_factory.mktemp("undisturbed"), sigstore)
