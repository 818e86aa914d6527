"""The toolkit's unit tests, run by a CPython for Windows under wine: paths, streams, processes as they are there.

wine is not Windows: what fails here may be wine's, and what passes here may fail there. It has found what no test on
Linux did.
"""

from __future__ import annotations

import re

import pytest

from tests.platforms import wine

pytestmark = pytest.mark.slow  # minutes: each program starts slowly there

GIT = "there is no git for Windows here"

#: What is run below ``tests``, each with the files that are left out, and why. Not run: ``integrate`` and
#: ``rehearsal``, which need git; ``sdk``, because Debian 12's wine lacks ``CopyFile2``; ``mlgo``, which needs POSIX;
#: ``projects`` and the files about workflows, which skip themselves or read the repository only.
SUITES: dict[str, dict[str, str]] = {
    "builder/unit/commands": {},
    "builder/unit/model": {},
    "builder/unit/testing": {},
    "builder/unit/tools": {},
    "builder/unit/wheels": {},
    "extras/unit/cost": {},
    "ground/unit/documents": {},
    "ground/unit/llvm": {},
    "ground/unit/programs": {},
    "ground/unit/python": {},
    "ground/unit/storage": {},
    "ground/unit/test_console.py": {},
    "ground/unit/test_errors.py": {},
    "operate/unit": {},
    "release/unit/forge": {"test_checkout.py": GIT},
    "release/unit/index": {},
    "release/unit/instructions": {},
    "release/unit/judging": {},
    "release/unit/latest": {},
    "release/unit/model": {},
    "release/unit/provenance": {},
    "release/unit/pypi": {},
    "release/unit/transaction": {},
    "seams/unit/cli": {},
}


@pytest.fixture(scope="module")
def windows() -> wine.Windows:
    wine.skip_without()
    return wine.provide()


def test_it_is_a_python_for_windows(windows: wine.Windows) -> None:
    code = "import os, psutil, sys; print(sys.platform, os.sep, psutil.Process().cpu_times().user > 0)"
    assert windows.run("-c", code).stdout.split() == ["win32", "\\", "True"]


@pytest.mark.parametrize("suite", SUITES)
def test_unit_tests(windows: wine.Windows, suite: str) -> None:
    hangs = ["-o", "faulthandler_timeout=300", "-o", "faulthandler_exit_on_timeout=true"]
    left_out = [f"--ignore=tests/{suite}/{name}" for name in SUITES[suite]]
    options = ["-q", "-p", "no:cacheprovider", "--tb=short", *hangs, *left_out]
    done = windows.run("-m", "pytest", *options, f"tests/{suite}")
    assert done.returncode == 0, done.stdout[-12_000:] + done.stderr[-3000:]
    print(f"\n{suite}: {done.stdout.splitlines()[-1]}")
    assert re.search(r"\d+ passed", done.stdout)
