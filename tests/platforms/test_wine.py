"""The toolkit's unit tests, run by a CPython for Windows under wine: paths, streams, processes as they are there.

wine is not Windows: what fails here may be wine's, and what passes here may fail there. It has found what no test on
Linux did.
"""

from __future__ import annotations

import re
import sys

import pytest

from tests.platforms import wine

pytestmark = pytest.mark.slow  # minutes: each program starts slowly there

#: Rooms whose unit tests run, each with the tests that are left out, and why. The others need git or PyGithub, or are
#: not run there on Windows either.
ROOMS: dict[str, dict[str, str]] = {
    "cli": {},
    "cost": {},
    "host": {},
    "issues": {},
    "model": {},
    "release": {},
    "snapshot": {},
    "testing": {},
}


@pytest.fixture(scope="module")
def windows() -> wine.Windows:
    if lacks := wine.missing():
        # Loud on purpose: nothing else runs the toolkit by a Python for Windows.
        sys.stderr.write(f"\n*** A PYTHON FOR WINDOWS WAS NOT TRIED: this machine has no {lacks} ***\n")
        pytest.skip(f"NOT TRIED: this machine has no {lacks}")
    return wine.provide()


def test_it_is_a_python_for_windows(windows: wine.Windows) -> None:
    code = "import os, psutil, sys; print(sys.platform, os.sep, psutil.Process().cpu_times().user > 0)"
    assert windows.run("-c", code).stdout.split() == ["win32", "\\", "True"]


@pytest.mark.parametrize("room", ROOMS)
def test_the_unit_tests_of_a_room(windows: wine.Windows, room: str) -> None:
    hangs = ["-o", "faulthandler_timeout=300", "-o", "faulthandler_exit_on_timeout=true"]
    options = ["-q", "-p", "no:cacheprovider", "--tb=short", *hangs]
    left_out = [f"--{'deselect' if '::' in name else 'ignore'}=tests/unit/{room}/{name}" for name in ROOMS[room]]
    done = windows.run("-m", "pytest", *options, *left_out, f"tests/unit/{room}")
    print(done.stdout[-2000:])
    assert done.returncode == 0, done.stdout[-12_000:] + done.stderr[-3000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 10
