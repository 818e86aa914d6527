"""Times, as all our files write them."""

from __future__ import annotations

from datetime import UTC, datetime


def format_time(when: datetime) -> str:
    """``when`` as all our files write times: UTC, to the second, ``2026-11-20T12:00:00Z``."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(value: str) -> datetime:
    """Read :func:`format_time`'s text. :raises ValueError:"""
    return datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
