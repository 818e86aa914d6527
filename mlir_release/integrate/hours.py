"""The hours of a week in which a roller begins something: ``22:00-06:00`` on ``mon-fri``, in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SPAN = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)")
_MINUTES = 24 * 60


class Hours:
    """When something may begin.

    :param hours: ``22:00-06:00``, or several with commas between them; those over midnight end on the next day. Empty:
        whole days
    :param days: on which these hours begin, ``mon-fri`` or ``sat,sun``; empty: all
    :raises ValueError: naming the part that is wrong
    """

    def __init__(self, hours: str, days: str) -> None:
        self.days = frozenset(day for part in _parts(days) for day in _weekdays(part)) or frozenset(range(7))
        self.spans = tuple(map(_span, _parts(hours))) or ((0, _MINUTES),)

    def contain(self, when: datetime) -> bool:
        """Whether something may begin at ``when``."""
        when = when.astimezone(UTC)
        minute = when.hour * 60 + when.minute
        today, before = when.weekday() in self.days, (when.weekday() - 1) % 7 in self.days
        return any(
            (today and start <= minute < end) or (before and start <= minute + _MINUTES < end)
            for start, end in self.spans
        )

    def next_after(self, when: datetime) -> datetime:
        """The first beginning of such hours after ``when``."""
        when = when.astimezone(UTC)
        midnight = when.replace(hour=0, minute=0, second=0, microsecond=0)
        found = (
            midnight + timedelta(days=ahead, minutes=start)
            for ahead in range(8)
            if (when.weekday() + ahead) % 7 in self.days
            for start, _ in self.spans
        )
        return min(beginning for beginning in found if beginning > when)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []


def _span(part: str) -> tuple[int, int]:
    """Minutes after midnight; the end is after the start, on the next day if need be."""
    match = _SPAN.fullmatch(part)
    start, end = (int(match[1]) * 60 + int(match[2]), int(match[3]) * 60 + int(match[4])) if match else (0, 0)
    if match is None or end > _MINUTES or start == end:
        raise ValueError(f"{part!r} is no span of hours, such as 22:00-06:00")
    return start, end if end > start else end + _MINUTES


def _weekdays(part: str) -> list[int]:
    first, dash, last = part.lower().partition("-")
    if first not in _DAYS or (dash and last not in _DAYS):
        raise ValueError(f"{part!r} is no day, such as mon, and no days, such as mon-fri")
    start, count = _DAYS.index(first), ((_DAYS.index(last) - _DAYS.index(first)) % 7 + 1) if dash else 1
    return [(start + ahead) % 7 for ahead in range(count)]
