"""Times, as all our files write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def format_time(when: datetime) -> str:
    """``when`` as all our files write times: UTC, to the second, ``2026-11-20T12:00:00Z``."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(value: str) -> datetime:
    """Read :func:`format_time`'s text. :raises ValueError:"""
    return datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def format_age(age: timedelta) -> str:
    """An age in one unit: ``5 min``, ``3 h``, ``2 d``."""
    minutes = max(0, int(age.total_seconds()) // 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // (24 * 60)} d"
