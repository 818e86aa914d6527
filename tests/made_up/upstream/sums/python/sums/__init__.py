"""Sums."""

import ctypes
from pathlib import Path

(_LIBRARY,) = (ctypes.CDLL(str(path)) for path in Path(__file__).parent.glob("*sums.*") if path.suffix != ".py")


def add(one: int, other: int) -> int:
    """The sum."""
    return int(_LIBRARY.sums_add(one, other))
