"""Which release an LLVM is, which commit, and its time: by checkout, catalogue and upstream's tags."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.sources.releases import (
    LlvmRelease,
    find_release,
    identify_revision,
    read_catalogue,
    release_at,
)
from mlir_release.ground.llvm.pin import SHA_PATTERN
from tests.prefix_factory import make_source
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = read_catalogue()[-1]
UNKNOWN = "a" * 40
#: A release that came after this toolkit.
NEW = "97.1.3"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git checkout of the new release, which is also an upstream that has its tag."""
    root = make_source(tmp_path / "llvm-project", version=NEW)
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=Bump version", env={"GIT_COMMITTER_DATE": "1790000000 +0000"})
    git(root, "tag", "-a", f"llvmorg-{NEW}", "--message=a release")
    return root


def git(root: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    person = ("-c", "user.name=x", "-c", "user.email=x@example.invalid")
    command = ["git", "-C", str(root), *person, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | (env or {}))
    return done.stdout.strip()


def test_the_catalogue_is_in_order_and_names_full_commits() -> None:
    releases = read_catalogue()
    assert [release.order for release in releases] == sorted(release.order for release in releases)
    assert all(SHA_PATTERN.fullmatch(release.commit) for release in releases)
    assert all(release.epoch > 1_700_000_000 for release in releases)


def test_the_catalogue_identifies_a_release_by_its_version_or_its_commit() -> None:
    assert identify_revision(KNOWN.version) == KNOWN
    assert release_at(KNOWN.commit) == KNOWN
    assert release_at(UNKNOWN) == LlvmRelease(commit=UNKNOWN)


def test_what_is_given_wins_over_the_catalogue() -> None:
    assert identify_revision(KNOWN.version, source_epoch=7).epoch == 7
    found = identify_revision(KNOWN.version, UNKNOWN, 7)
    assert (found.version, found.commit, found.epoch) == (KNOWN.version, UNKNOWN, 7)
    assert found.sha256 == ""


def test_a_checkout_says_its_commit_whatever_the_catalogue_has(checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    assert find_release(NEW, source=checkout) == LlvmRelease(version=NEW, commit=head, epoch=1790000000)
    assert identify_revision(NEW, source=checkout).commit == head
    assert find_release(KNOWN.version, source=checkout).commit == head


def test_a_release_that_is_newer_than_the_catalogue_is_found_by_upstreams_tag(checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    assert find_release(NEW, upstream=str(checkout)) == LlvmRelease(version=NEW, commit=head, epoch=1790000000)
    assert identify_revision("97.1.4", head, upstream=str(checkout)).epoch == 1790000000


def test_no_commit_is_made_up(checkout: Path, tmp_path: Path) -> None:
    nothing = LlvmRelease(version="97.1.4")
    assert find_release("97.1.4") == nothing
    assert find_release("97.1.4", source=make_source(tmp_path / "unpacked", version="97.1.4")) == nothing
    assert find_release("97.1.4", upstream=str(checkout)) == nothing  # no such tag
    assert find_release("97.1.4", upstream=str(tmp_path / "unreachable")) == nothing


def test_an_unknown_version_and_an_unknown_commit_without_a_time_are_refused() -> None:
    refused(lambda: identify_revision(NEW), "option-invalid", "the llvm-project commit of LLVM")
    refused(lambda: identify_revision(KNOWN.version, UNKNOWN), "option-invalid", "the time of commit")
