"""Properties of tags and wheel versions."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from mlir_release.ground.errors import NeedsPersonError, UsageError
from mlir_release.ground.llvm.llvm_version import base_version, canonical_version, upstream_tag
from mlir_release.release.model.release_tags import (
    MAX_NUMBER,
    NumberedTag,
    SnapshotTag,
    next_numbered,
    next_snapshot,
    numbered_wheel_version,
    parse_numbered,
    parse_snapshot,
    parse_tag,
)
from tests.refusals import refused

numbers = st.integers(1, MAX_NUMBER)
snapshots = st.builds(SnapshotTag, st.dates(date(1, 1, 1), date(9999, 12, 31)), numbers)
components = st.integers(0, 40)
finals = st.builds(lambda x, y, z: f"{x}.{y}.{z}", components, components, components)
candidates = st.builds(
    lambda release, number: canonical_version(".".join(map(str, release)) + f"rc{number}"),
    st.lists(components, min_size=1, max_size=3),
    components,
)
versions = finals | candidates
numbered = st.builds(NumberedTag, versions, numbers)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@given(snapshots)
def test_snapshot_round_trip(tag: SnapshotTag) -> None:
    assert parse_snapshot(str(tag)) == tag == parse_tag(str(tag))


@given(numbered)
def test_numbered_round_trip(tag: NumberedTag) -> None:
    assert parse_numbered(str(tag)) == tag == parse_tag(str(tag))


@given(snapshots, snapshots)
def test_snapshot_order_and_wheel_versions_agree_with_packaging(a: SnapshotTag, b: SnapshotTag) -> None:
    assert (a < b) == (a.version < b.version)
    assert (a == b) == (a.version == b.version) == (str(a) == str(b))


@given(numbered, numbered)
def test_numbered_order_agrees_with_packaging(a: NumberedTag, b: NumberedTag) -> None:
    if Version(a.version) != Version(b.version):
        assert (a < b) == (Version(a.version) < Version(b.version))
    else:
        assert a.version == b.version, "one PEP 440 version has one spelling"
        assert (a < b) == (a.number < b.number)


@given(versions, st.integers(0, 98), versions, st.integers(0, 98))
def test_numbered_wheel_versions_are_injective(v: str, n: int, w: str, m: int) -> None:
    same = numbered_wheel_version(v, n) == numbered_wheel_version(w, m)
    assert same == ((v, n) == (w, m))
    if v == w and n < m:
        assert numbered_wheel_version(v, n) < numbered_wheel_version(w, m)


def test_documented_examples() -> None:
    assert str(parse_snapshot("snapshot-20261120.02").version) == "20261120.2"
    assert parse_numbered("llvm-12.0rc1.02") == NumberedTag("12.0rc1", 2)
    assert str(numbered_wheel_version("12.0.0", 2)) == "12.0.0.post2"
    assert canonical_version("12.0.0-rc1") == canonical_version("llvmorg-12.0.0-rc1") == "12.0rc1"
    assert canonical_version("22.1.8rc2") == "22.1.8rc2"
    assert parse_tag("v1.2.3") is None
    assert parse_tag("llvmorg-22.1.8") is None


@given(st.lists(snapshots), st.datetimes(datetime(2020, 1, 1), datetime(2090, 1, 1)), st.integers(-14, 14))
def test_next_snapshot_is_monotonic_whatever_exists(ours: list[SnapshotTag], now: datetime, offset: int) -> None:
    aware = now.replace(tzinfo=timezone(timedelta(hours=offset)))
    today = aware.astimezone(UTC).date()
    try:
        tag = next_snapshot(ours, aware)
    except NeedsPersonError as error:
        newest = max(ours)
        if "is dated more than one day ahead" in error.what:
            assert newest.date > today + timedelta(days=1)
        else:
            assert newest.number == MAX_NUMBER
            assert newest.date >= today
    else:
        assert all(tag > existing for existing in ours)
        assert today <= tag.date <= today + timedelta(days=1)


def test_clock_going_back_stays_on_the_newest_date() -> None:
    ahead = SnapshotTag(date(2026, 11, 21), 4)
    assert next_snapshot([ahead], NOON) == SnapshotTag(date(2026, 11, 21), 5)


def test_tag_from_2099_stops_with_a_remedy() -> None:
    said = "snapshot-20990101.01, is dated more than one day ahead of the forge's clock ("
    error = refused(lambda: next_snapshot([SnapshotTag(date(2099, 1, 1), 1)], NOON), "numbers-exhausted", said)
    assert "delete" in error.remedy


def test_ninety_nine_snapshots_in_a_day() -> None:
    day = date(2026, 11, 20)
    assert next_snapshot([SnapshotTag(day, 98)], NOON).number == 99
    refused(lambda: next_snapshot([SnapshotTag(day, 99)], NOON), "numbers-exhausted", "snapshot numbers of")


def test_upstream_tags() -> None:
    assert upstream_tag("22.1.8") == "llvmorg-22.1.8"
    assert upstream_tag("12.0rc1") == "llvmorg-12.0.0-rc1"
    assert upstream_tag("23.1.0-rc2") == "llvmorg-23.1.0-rc2"


def test_next_numbered() -> None:
    assert str(next_numbered("12.0.0rc1", {"llvm-12.0rc1.01", "llvm-12.0.0.07", "snapshot-20261120.01"})) == (
        "llvm-12.0rc1.02"
    )
    refused(lambda: next_numbered("12.0.0", {"llvm-12.0.0.99"}), "numbers-exhausted")


def test_forgotten_number_is_refused_with_both_readings() -> None:
    error = refused(lambda: parse_numbered("llvm-22.1.10"), kind=UsageError)
    assert "version 22.1 with NN=10" in error.why
    assert "version 22.1.10 with NN forgotten" in error.why


@pytest.mark.parametrize(
    "name",
    [
        "snapshot-20261120.2", "snapshot-20261120.00", "snapshot-20261131.01", "snapshot-2026112.01",
        "snapshot-20261120.100", "snapshot-20261120", "llvm-22.1.8", "llvm-22.1.8.1", "llvm-22.1.8.00",
        "llvm-22.1.01", "llvm-12.0.0rc1.01", "llvm-12rc1.01", "llvm-12.0.0a1.01", "llvm-12.0.0.post1.01",
        "llvm-1!12.0.0.01", "llvm-12.0.0-rc1.01", "llvm-.01", "llvm-٢٢.1.8.01", "snapshot-２０２６1120.01",
        "llvm-22.01.8.01", "llvm-1.2.3.4.05", "",
    ],
)  # fmt: skip
def test_other_names_are_not_release_tags(name: str) -> None:
    assert parse_tag(name) is None
    refused(lambda: (parse_snapshot if name.startswith("s") else parse_numbered)(name), said="tag", kind=UsageError)


@given(st.text())
def test_parse_tag_never_raises(name: str) -> None:
    tag = parse_tag(name)
    assert tag is None or str(tag) == name


@pytest.mark.parametrize("text", ["22.1", "22", "22.1.8.1", "1!2.3.4", "22.1.8.dev1", "22.1.8+x", "22.1.8b1", "x", ""])
def test_versions_that_llvm_does_not_have(text: str) -> None:
    refused(lambda: canonical_version(text), "option-invalid", "is not a version that a numbered release can have")


@pytest.mark.parametrize("text", ["23.1rc2", "23.1.0rc2", "23.1.0-rc2", "23.1.0git", "23.1.0", "23.1"])
def test_the_base_of_a_version_is_without_its_suffix(text: str) -> None:
    assert base_version(text) == (23, 1, 0)
