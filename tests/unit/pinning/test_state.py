"""The tag that comes next, from what is on the forge."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, cast

import pytest

from mlir_release.errors import NeedsPersonError, UsageError
from mlir_release.forge.base import Tag
from mlir_release.model.release_tags import SnapshotTag, parse_tag
from mlir_release.pinning.state import TagState, abandon_tag, latest_snapshot, next_tag, read_states, tag_message
from tests.memory_forge import MemoryForge
from tests.revision_factory import FACTS

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge


def forge_with(*ours: str, by_hand: tuple[str, ...] = ()) -> Forge:
    forge = MemoryForge({})
    for name in ours:
        tag = parse_tag(name)
        assert tag is not None
        message = tag_message(tag, revision="a" * 40, request_id="x", wheel_version="1", toolkit_version="0.1")
        forge.create_tag(name, forge.branches["main"], message)
    for name in by_hand:
        forge.create_tag(name, forge.branches["main"], "by hand\n")
    return cast("Forge", forge)


def test_the_next_snapshot_is_above_ours_and_skips_names_that_are_taken() -> None:
    assert str(next_tag(forge_with())) == "snapshot-20261120.01"
    assert str(next_tag(forge_with("snapshot-20261120.01"))) == "snapshot-20261120.02"
    skipping = forge_with("snapshot-20261120.01", by_hand=("snapshot-20261120.02", "snapshot-20301120.01"))
    assert str(next_tag(skipping)) == "snapshot-20261120.03"


def state_of(**trailers: str) -> TagState:
    message = tag_message(
        SnapshotTag(date(2026, 11, 20), 1), revision="a" * 40, request_id="x", wheel_version="1", toolkit_version="0.1"
    )
    lines = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in trailers.items())
    (state,) = read_states([Tag(name="snapshot-20261120.01", commit="b" * 40, message=message + lines)], [])
    return state


def test_the_tag_of_an_older_toolkit_tells_nothing_of_its_revision() -> None:
    assert state_of().facts is None
    assert state_of().to_json()["llvm_version"] == ""


def test_a_tag_with_garbage_is_listed_and_refused_when_it_is_used() -> None:
    garbage = {key.replace("-", "_"): "\x1b[31m" for key in FACTS.trailers()}
    state = state_of(**garbage)
    assert state.to_json()["tag"] == "snapshot-20261120.01"
    with pytest.raises(NeedsPersonError) as caught:
        _ = state.facts
    assert caught.value.id == "tag-foreign"
    assert caught.value.why == "LLVM-Version is '\\x1b[31m'"


def test_the_next_numbered_release_counts_each_llvm_version_by_itself() -> None:
    forge = forge_with("llvm-22.1.8.01", "llvm-22.1.8.02", "snapshot-20261120.01")
    assert str(next_tag(forge, "22.1.8")) == "llvm-22.1.8.03"
    assert str(next_tag(forge, "22.1.9")) == "llvm-22.1.9.01"


def test_a_version_that_is_none_and_a_date_ahead_of_the_clock_are_refused() -> None:
    with pytest.raises(UsageError) as version:
        next_tag(forge_with(), "twenty-two")
    assert version.value.id == "option-invalid"
    with pytest.raises(NeedsPersonError) as ahead:
        next_tag(forge_with("snapshot-20301120.01"))
    assert ahead.value.id == "numbers-exhausted"


def test_the_newest_snapshot_that_was_not_given_up() -> None:
    forge = forge_with("snapshot-20261119.01", "snapshot-20261119.02", "snapshot-20261120.01", "llvm-22.1.8.01")
    assert latest_snapshot(forge).name == "snapshot-20261120.01"
    assert latest_snapshot(forge).state == "pending"
    abandon_tag(forge, latest_snapshot(forge), reason="r", by="b")
    forge.publish(forge.create_draft("snapshot-20261119.02", title="", body="", prerelease=True))
    assert (latest_snapshot(forge).name, latest_snapshot(forge).state) == ("snapshot-20261119.02", "published")
    with pytest.raises(UsageError) as caught:
        latest_snapshot(forge_with("llvm-22.1.8.01", by_hand=("snapshot-20261119.01",)))
    assert caught.value.id == "tag-missing"
