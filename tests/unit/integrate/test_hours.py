"""The hours in which a roller begins something: over midnight, on some days only, and mistyped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mlir_release.integrate.hours import Hours

THURSDAY = datetime(2026, 11, 26, tzinfo=UTC)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    """``day``: after that Thursday."""
    return THURSDAY + timedelta(days=day, hours=hour, minutes=minute)


def test_without_hours_it_is_always_time() -> None:
    assert all(Hours("", "").contain(at(0, 0, minute)) for minute in range(0, 7 * 24 * 60, 61))


def test_hours_over_midnight_belong_to_the_day_on_which_they_begin() -> None:
    hours = Hours("22:00-06:00", "mon-fri")
    assert hours.contain(at(0, 22))
    assert not hours.contain(at(0, 21, 59))
    assert hours.contain(at(2, 5, 59))  # Saturday morning, since Friday evening
    assert not hours.contain(at(2, 6))
    assert not hours.contain(at(2, 23))
    assert not hours.contain(at(4, 1))  # Monday morning, since Sunday evening
    assert hours.next_after(at(2, 7)) == at(4, 22)


def test_several_spans_and_days_are_joined_by_commas() -> None:
    hours = Hours("00:00-06:00, 18:30-24:00", "sat,SUN, wed")
    assert [hours.contain(at(2, hour)) for hour in (0, 5, 6, 18, 19, 23)] == [True, True, False, False, True, True]
    assert hours.contain(at(6, 19))
    assert not hours.contain(at(0, 19))
    assert hours.next_after(at(2, 0)) == at(2, 18, 30)


def test_days_may_go_round_the_end_of_the_week() -> None:
    assert Hours("", "fri-mon").days == {4, 5, 6, 0}


def test_the_hours_are_utc_whatever_the_clock_shows() -> None:
    there = timezone(timedelta(hours=9))
    assert Hours("22:00-23:00", "").contain(at(0, 22, 30).astimezone(there))


@pytest.mark.parametrize(
    ("hours", "days"),
    [
        ("22-06", ""),
        ("22:00", ""),
        ("24:00-25:00", ""),
        ("10:00-24:30", ""),
        ("10:00-10:00", ""),
        ("10:00-11:60", ""),
        ("at night", ""),
        ("10:00-11:00,", ""),
        ("", "monday"),
        ("", "mon-"),
        ("", "mon-fri-sun"),
        ("", ","),
    ],
)
def test_what_is_mistyped_is_named(hours: str, days: str) -> None:
    with pytest.raises(ValueError, match=r"is no (span of hours|day)"):
        Hours(hours, days)
