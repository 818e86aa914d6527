"""A CPython that wheels are made for: ``cp312`` in the names of wheels and targets, ``3.12`` for people and markers."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Both spellings; ``python3.12`` and ``312`` as well.
_CPYTHON = re.compile(r"(?:cp|python)?(?P<major>3)\.?(?P<minor>[0-9]|[1-9][0-9])(?P<threads>t?)")
_TAG = re.compile(r"cp(?P<major>3)(?P<minor>[0-9]|[1-9][0-9])(?P<threads>t?)")


@dataclass(frozen=True, order=True)
class CPython:
    """A minor version of CPython, with the GIL or free-threaded. Sorts by version, the free-threaded one last."""

    major: int
    minor: int
    free_threaded: bool = False

    @classmethod
    def parse(cls, text: str) -> CPython:
        """From a tag or a version in any spelling: ``cp312``, ``3.12``, ``3.14t``. :raises ValueError:"""
        return cls._of(_CPYTHON.fullmatch(text), text)

    @classmethod
    def of_tag(cls, text: str) -> CPython:
        """From a tag only: ``cp312``, ``cp314t``. :raises ValueError: also for ``3.12``"""
        return cls._of(_TAG.fullmatch(text), text)

    @classmethod
    def _of(cls, match: re.Match[str] | None, text: str) -> CPython:
        if match is None:
            raise ValueError(f"not a CPython: {text!r}; it is written like cp312, or cp314t for a free-threaded one")
        return cls(int(match["major"]), int(match["minor"]), bool(match["threads"]))

    @property
    def tag(self) -> str:
        """As in the names of wheels: ``cp312``, ``cp314t``."""
        return f"cp{self.major}{self.minor}{'t' if self.free_threaded else ''}"

    @property
    def version(self) -> str:
        """For people and for tools that install one: ``3.12``, ``3.14t``."""
        return self.marker + ("t" if self.free_threaded else "")

    @property
    def marker(self) -> str:
        """The environment marker ``python_version``, which knows nothing of free threading: ``3.12``, ``3.14``."""
        return f"{self.major}.{self.minor}"

    @property
    def release(self) -> tuple[int, int]:
        """To compare with :data:`sys.version_info`."""
        return self.major, self.minor

    def __str__(self) -> str:
        return self.tag


def split_target(name: str) -> tuple[str, CPython | None]:
    """A target's name without its CPython, and that: ``mlir-linux-x86_64``, CPython 3.12 of ``…-x86_64-cp312``."""
    before, _, last = name.rpartition("-")
    try:
        return before, CPython.of_tag(last)
    except ValueError:
        return name, None
