"""One look at a forge: which tag comes next, and which is the newest."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mlir_release.release.model.release_tags import parse_tag
from mlir_release.release.pinning.state import abandon_tag, tag_message
from mlir_release.release.transaction.ledger import Ledger
from tests.memory_forge import MemoryForge
from tests.refusals import refused

if TYPE_CHECKING:
    from mlir_release.release.forge.base import Forge


def forge_with(*ours: str, by_hand: tuple[str, ...] = ()) -> Forge:
    forge = MemoryForge({})
    for name in ours:
        tag = parse_tag(name)
        assert tag is not None
        message = tag_message(tag, revision="a" * 40, request_id="x", wheel_version="1")
        forge.create_tag(name, forge.branches["main"], message)
    for name in by_hand:
        forge.create_tag(name, forge.branches["main"], "by hand\n")
    return cast("Forge", forge)


def test_the_next_snapshot_is_above_ours_and_skips_names_that_are_taken() -> None:
    assert str(Ledger(forge_with()).next_tag()) == "snapshot-20261120.01"
    assert str(Ledger(forge_with("snapshot-20261120.01")).next_tag()) == "snapshot-20261120.02"
    skipping = forge_with("snapshot-20261120.01", by_hand=("snapshot-20261120.02", "snapshot-20301120.01"))
    assert str(Ledger(skipping).next_tag()) == "snapshot-20261120.03"


def test_the_next_numbered_release_counts_each_llvm_version_by_itself() -> None:
    forge = forge_with("llvm-22.1.8.01", "llvm-22.1.8.02", "snapshot-20261120.01")
    assert str(Ledger(forge).next_tag("22.1.8")) == "llvm-22.1.8.03"
    assert str(Ledger(forge).next_tag("22.1.9")) == "llvm-22.1.9.01"


def test_a_version_that_is_none_and_a_date_ahead_of_the_clock_are_refused() -> None:
    refused(lambda: Ledger(forge_with()).next_tag("twenty-two"), "option-invalid")
    refused(Ledger(forge_with("snapshot-20301120.01")).next_tag, "numbers-exhausted")


def test_the_newest_snapshot_that_was_not_given_up() -> None:
    forge = forge_with("snapshot-20261119.01", "snapshot-20261119.02", "snapshot-20261120.01", "llvm-22.1.8.01")
    assert Ledger(forge).latest_snapshot().name == "snapshot-20261120.01"
    assert Ledger(forge).latest_snapshot().state == "pending"
    abandon_tag(forge, Ledger(forge).latest_snapshot(), reason="r", by="b")
    forge.publish(forge.create_draft("snapshot-20261119.02", title="", body="", prerelease=True))
    assert (Ledger(forge).latest_snapshot().name, Ledger(forge).latest_snapshot().state) == (
        "snapshot-20261119.02",
        "published",
    )
    refused(Ledger(forge_with("llvm-22.1.8.01", by_hand=("snapshot-20261119.01",))).latest_snapshot, "tag-missing")
