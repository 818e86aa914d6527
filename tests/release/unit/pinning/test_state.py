"""What a tag says about its release."""

from __future__ import annotations

from datetime import date

from mlir_release.release.forge.base import Tag
from mlir_release.release.model.release_tags import SnapshotTag
from mlir_release.release.pinning.state import TagState, read_states, tag_message
from tests.refusals import refused
from tests.revision_factory import FACTS


def state_of(**trailers: str) -> TagState:
    message = tag_message(SnapshotTag(date(2026, 11, 20), 1), revision="a" * 40, request_id="x", wheel_version="1")
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
    assert refused(lambda: state.facts, "tag-foreign").why == "LLVM-Version is '\\x1b[31m'"


def test_a_tag_says_when_its_revision_was_made() -> None:
    assert state_of().revision_date == ""
    assert state_of(LLVM_Revision_Date="2026-11-20T01:02:03Z").revision_date == "2026-11-20T01:02:03Z"
    error = refused(lambda: state_of(LLVM_Revision_Date="yesterday").revision_date, "tag-foreign")
    assert error.why == "LLVM-Revision-Date is 'yesterday', which is not a UTC time"
