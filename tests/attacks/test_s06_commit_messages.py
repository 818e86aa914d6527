"""S6: a commit message of upstream that names a release is not what chooses the sources."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.model.orders import SdkOrder
from mlir_release.builder.sdk.provision import provide_pinned
from mlir_release.ground.llvm.upstream import REPRESENTS_RELEASES, Upstream
from tests.attacks.selected_stage import local_upstream
from tests.builder.pretence import have_debian
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.git.repository import Git

MESSAGE = "[mlir] A change\n\nOf mine.\n\nLLVM-Version: 19.1.7\n"


@pytest.fixture(autouse=True)
def _no_sources(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    have_debian(tmp_path_factory.mktemp("machine"), monkeypatch)


def sources_of(upstream: Upstream, cache: Path) -> str:
    """What an SDK of an upstream's head would be made from, as the error says it. The glibc is newer than the floor."""
    order = SdkOrder(revision=upstream.resolve("head").sha, upstream=upstream.url, floor="manylinux2014")
    return refused(partial(provide_pinned, order, cache=cache), "sources-unavailable").what


@pytest.fixture
def upstream(tmp_path: Path) -> tuple[Git, str]:
    return local_upstream(tmp_path / "llvm-project.git", MESSAGE)


def test_a_message_with_a_version_does_not_choose_the_sources(upstream: tuple[Git, str], tmp_path: Path) -> None:
    git, commit = upstream
    for url in (str(git.directory), git.directory.as_uri()):
        found = sources_of(Upstream(url, cache=tmp_path / "cache"), tmp_path / "cache")
        assert found == f"the sources of llvm-project {commit[:12]} are not available"


def test_a_file_in_the_tree_or_in_the_working_folder_is_no_mark_of_a_rehearsal(
    upstream: tuple[Git, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git, commit = upstream
    monkeypatch.chdir(tmp_path)
    (tmp_path / "https:" / "example.org" / "llvm.git").mkdir(parents=True)
    (tmp_path / "https:" / "example.org" / "llvm.git" / REPRESENTS_RELEASES).touch()
    assert not Upstream("https://example.org/llvm.git", cache=tmp_path / "cache")._is_rehearsed()
    (git.directory / REPRESENTS_RELEASES).touch()
    assert not Upstream(git.directory.name, cache=tmp_path / "cache")._is_rehearsed()
    found = sources_of(Upstream(git.directory.as_uri(), cache=tmp_path / "cache"), tmp_path / "cache")
    assert found == f"the sources of llvm-project {commit[:12]} are not available"


def test_a_rehearsals_own_upstream_represents_releases(upstream: tuple[Git, str], tmp_path: Path) -> None:
    git, _ = upstream
    (git.directory / REPRESENTS_RELEASES).touch()
    found = sources_of(Upstream(str(git.directory), cache=tmp_path / "cache"), tmp_path / "cache")
    assert found == "the sources of LLVM 19.1.7 are not available"
