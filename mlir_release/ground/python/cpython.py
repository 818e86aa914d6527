"""A CPython that wheels are made for: ``cp312`` in the names of wheels and targets, ``3.12`` for people and markers."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Both spellings; ``python3.12`` and ``312`` as well.
_CPYTHON = re.compile(r"(?:cp|python)?(?P<major>3)\.?(?P<minor>[0-9]|[1-9][0-9])(?P<threads>t?)")
#: What CPythons with the GIL share from this version on: nanobind, and so MLIR's bindings, can keep to it since then
#: (nanobind's documentation, "Building extensions using CMake": STABLE_ABI).
STABLE_ABI_SINCE = (3, 12)

#: The ABI tag of a wheel that is for CPython's stable ABI, and the end of its target's name.
STABLE_ABI = "abi3"

#: The interpreter tag of wheels for every CPython.
ANY_PYTHON = "py3"

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

    @property
    def has_stable_abi(self) -> bool:
        """Whether a wheel for the stable ABI can serve it. Free-threaded ones have no such ABI before 3.15."""
        return self.release >= STABLE_ABI_SINCE and not self.free_threaded

    @property
    def next(self) -> CPython:
        """The minor version after it."""
        return CPython(self.major, self.minor + 1, self.free_threaded)

    def __str__(self) -> str:
        return self.tag


def split_target(name: str) -> tuple[str, CPython | None]:
    """A target's name without its CPython, and that: ``mlir-linux-x86_64``, CPython 3.12 of ``…-x86_64-cp312``.

    ``…-cp312-abi3`` gives the same: the CPython that the wheel is built with.
    """
    before, _, last = name.removesuffix(f"-{STABLE_ABI}").rpartition("-")
    try:
        return before, CPython.of_tag(last)
    except ValueError:
        return name, None


def python_order(tag: str) -> tuple[CPython, str]:
    """Sorts ``cp39`` before ``cp310`` before ``cp310t``; other interpreters first."""
    try:
        return CPython.of_tag(tag), tag
    except ValueError:
        return CPython(0, 0), tag


#: The CPython of jobs that need just any: what the toolkit itself runs with.
DEFAULT_PYTHON = CPython(3, 12)
