#!/usr/bin/env python3
"""Print the rooms whose tests a change concerns, as a JSON list: ``ci.yml`` runs each in a job of its own.

The changed files' paths come on standard input, one a line. Standard library only: nothing is installed yet.
"""

from __future__ import annotations

import json
import sys

#: What each room of ``mlir_release`` may import besides itself; tests/seams/unit/test_floors.py holds it to that.
BELOW: dict[str, set[str]] = {
    "ground": set(),
    "builder": {"ground"},
    "integrate": {"ground"},
    "release": {"builder", "ground"},
    "use": {"release", "builder", "ground"},
    "operate": {"use", "integrate", "release", "builder", "ground"},
    "extras": {"use", "integrate", "release", "builder", "ground"},
}
#: The tests that cross rooms, and those with real wheels.
CROSSING = ("seams", "e2e")


def concerned(paths: list[str]) -> list[str]:
    """The rooms to test after files have changed; all, unless each file belongs to one room.

    A room's code concerns also the rooms that import it, and the tests that cross rooms; its tests concern it alone.
    """
    found: set[str] = set()
    for path in paths:
        place, room = (*path.split("/"), "")[:2]
        if place not in ("mlir_release", "tests") or room not in BELOW:
            return [*BELOW, *CROSSING]
        found |= {room} if place == "tests" else {*CROSSING, room, *(name for name in BELOW if room in BELOW[name])}
    return [name for name in (*BELOW, *CROSSING) if name in found or not paths]


if __name__ == "__main__":
    print(json.dumps(concerned(sys.stdin.read().splitlines())))
