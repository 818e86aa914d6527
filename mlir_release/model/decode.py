"""Reading JSON and TOML that others wrote: each wrong value is named by its path (``wheels[3].sha256``)."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

_REQUIRED: Any = object()


class MalformedError(ValueError):
    """The value at ``path`` is not what it should be; ``problem`` continues the sentence that the path begins."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path} {problem}")
        self.path = path
        self.problem = problem


class Record:
    """A mapping read from a file, with its path in that file."""

    def __init__(self, data: object, path: str = "") -> None:
        if not isinstance(data, dict):
            raise MalformedError(path, "is not an object")
        self.data: dict[str, Any] = data
        self.path = path

    def at(self, key: str) -> str:
        """The path of a key."""
        return f"{self.path}.{key}" if self.path else key

    def get(self, key: str, check: Callable[[object], T], default: T = _REQUIRED) -> T:
        """The checked value of a key. :raises MalformedError: if it is wrong, or absent without a default"""
        value = self.data.get(key)
        if value is None:
            if default is _REQUIRED:
                raise MalformedError(self.at(key), "is missing")
            return default
        try:
            return check(value)
        except ValueError as error:
            raise MalformedError(self.at(key), str(error)) from None

    def _items(self, key: str) -> list[Any]:
        value = self.data.get(key, [])
        if not isinstance(value, (list, tuple)):
            raise MalformedError(self.at(key), "is not a list")
        return list(value)

    def rows(self, key: str) -> Iterator[Record]:
        """The objects of a list; an absent list is empty."""
        for number, value in enumerate(self._items(key)):
            yield Record(value, f"{self.at(key)}[{number}]")

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; an absent list is empty."""
        items = self._items(key)
        for number, value in enumerate(items):
            if not isinstance(value, str):
                raise MalformedError(f"{self.at(key)}[{number}]", "is not a string")
        return tuple(items)

    def numbers(self, key: str) -> dict[str, int]:
        """A mapping of names to whole numbers; an absent one is empty."""
        row = Record(self.data.get(key, {}), self.at(key))
        return {name: row.get(name, whole) for name in sorted(row.data)}


def known(row: Record, keys: set[str]) -> None:
    """Refuse keys that nothing reads: they are typing mistakes. :raises MalformedError:"""
    for key in row.data:
        if key not in keys:
            raise MalformedError(row.at(key), f"is not known; known are {', '.join(sorted(keys))}")


def text(value: object) -> str:
    """A string."""
    if not isinstance(value, str):
        raise ValueError("is not a string")
    return value


def whole(value: object) -> int:
    """A whole number, not negative."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("is not a whole number")
    return value


def flag(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("is neither true nor false")
    return value


def matching(pattern: str, meaning: str) -> Callable[[object], str]:
    """A string that ``pattern`` matches whole; ``meaning`` says what it should be."""
    compiled = re.compile(pattern)

    def check(value: object) -> str:
        if not isinstance(value, str) or compiled.fullmatch(value) is None:
            raise ValueError(f"is {value!r}, not {meaning}")
        return value

    return check


digest = matching("[0-9a-f]{64}", "a SHA-256 of 64 hex digits")
sha1 = matching("[0-9a-f]{40}", "a commit of 40 hex digits")


def instant(value: object) -> str:
    """A UTC time like ``2026-11-20T12:00:00Z``."""
    string = text(value)
    try:
        datetime.strptime(string, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        raise ValueError(f"is {value!r}, not a UTC time like 2026-11-20T12:00:00Z") from None
    return string


def file_name(suffix: str) -> Callable[[object], str]:
    """The plain name of a file that ends in ``suffix``: no folders, nothing that a URL would need quoted but ``+``."""
    return matching(r"[A-Za-z0-9_][A-Za-z0-9_.+!-]*" + re.escape(suffix), f"a plain file name that ends in {suffix}")
