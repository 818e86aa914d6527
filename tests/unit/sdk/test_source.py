"""Which commit an LLVM was made from, and its time."""

from __future__ import annotations

import pytest

from mlir_release.errors import UsageError
from mlir_release.sdk.source import identify_revision, read_catalogue

KNOWN = read_catalogue()[-1]
UNKNOWN = "a" * 40


def test_the_catalogue_identifies_a_release_by_its_version_or_its_commit() -> None:
    assert identify_revision(KNOWN.version) == (KNOWN.commit, KNOWN.epoch)
    assert identify_revision("", KNOWN.commit) == (KNOWN.commit, KNOWN.epoch)


def test_what_is_given_wins_over_the_catalogue() -> None:
    assert identify_revision(KNOWN.version, source_epoch=7) == (KNOWN.commit, 7)
    assert identify_revision(KNOWN.version, UNKNOWN, 7) == (UNKNOWN, 7)
    assert identify_revision("99.9.9", UNKNOWN, 0) == (UNKNOWN, 0)


def test_an_unknown_version_and_an_unknown_commit_without_a_time_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        identify_revision("99.9.9")
    assert caught.value.id == "llvm-not-in-catalogue"
    with pytest.raises(UsageError) as caught:
        identify_revision(KNOWN.version, UNKNOWN)
    assert caught.value.id == "source-epoch-missing"
