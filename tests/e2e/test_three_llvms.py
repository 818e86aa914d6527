"""Which snapshot? Asked of a repository with 60 snapshots of all real LLVMs at hand.

What a script should say of a snapshot is asked of the wheels themselves, each in an environment of its own.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise, takewhile
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from mlir_release.ground.python.pythons import describe
from mlir_release.ground.python.venv import create
from mlir_release.ground.storage.cache import cache_directory
from tests.e2e.real_llvms import real_wheels
from tests.processes import run
from tests.snapshot_years import Era, Snapshot, Years, make_years

pytestmark = pytest.mark.slow

SNAPSHOTS = 60

#: Scripts that upstream's changes broke, as its users have them.
SCRIPTS = {
    # Python's own isinstance() took the place of these methods between LLVM 20 and 22.
    "integers.py": """
from mlir.ir import Context, IntegerType, Type
with Context():
    assert IntegerType.isinstance(Type.parse("i32"))
""",
    # Since LLVM 23, locations have classes of their own instead.
    "locations.py": """
from mlir.ir import Context, Location
with Context():
    location = Location.file("model.mlir", 3, 7)
    assert location.is_a_file()
""",
    # The class was there for years; LLVM 23 has no such class.
    "regions.py": """
from mlir.ir import RegionIterator
""",
}
#: What the API difference of the two LLVMs says of it.
NAMED = {"integers.py": "isinstance", "locations.py": "is_a_file", "regions.py": "RegionIterator"}


@pytest.fixture(scope="module")
def wheels() -> dict[str, Path]:
    found = real_wheels(describe(Path(sys.executable)), cache_directory())
    if len(found) < 2:
        pytest.skip(f"this machine has packages of {len(found)} LLVM: there is no change between two")
    return found


@pytest.fixture(scope="module")
def years(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Years:
    eras = [Era(llvm, wheel, SNAPSHOTS // len(wheels)) for llvm, wheel in wheels.items()]
    return make_years(tmp_path_factory.mktemp("years"), eras)


@pytest.fixture(scope="module")
def answers(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bool]]:
    """Whether each script works with each LLVM: script -> LLVM -> answer."""
    folder = tmp_path_factory.mktemp("answers")
    found: dict[str, dict[str, bool]] = {name: {} for name in SCRIPTS}
    for llvm, wheel in wheels.items():
        environment = create(folder / llvm, Path(sys.executable))
        environment.install(wheel)
        for name, text in SCRIPTS.items():
            done = subprocess.run([environment.python, "-c", text], capture_output=True, text=True, check=False)
            found[name][llvm] = done.returncode == 0
    return found


@dataclass(frozen=True)
class Break:
    """Where a script ceased to work: between two LLVMs at hand, of which all before and after answer alike."""

    script: str
    years: Years
    good: Snapshot  #: the oldest with which it works
    last: Snapshot  #: the newest with which it works
    first: Snapshot  #: the oldest with which it fails
    bad: Snapshot  #: the newest with which it fails

    @property
    def between(self) -> int:
        """How many snapshots there are from the good one to the bad one, without the good one."""
        return self.years.snapshots.index(self.bad) - self.years.snapshots.index(self.good)


@pytest.fixture(params=SCRIPTS)
def broken(request: pytest.FixtureRequest, years: Years, answers: dict[str, dict[str, bool]]) -> Break:
    works = answers[request.param]
    row = [(snapshot, works[snapshot.llvm]) for snapshot in years.snapshots]
    for (last, was), (first, now) in pairwise(row):
        if was and not now:
            place = years.snapshots.index(first)
            good = [one for one, _ in takewhile(itemgetter(1), reversed(row[:place]))]
            bad = [one for one, _ in takewhile(lambda one: not one[1], row[place:])]
            return Break(request.param, years, good[-1], last, first, bad[-1])
    pytest.skip(f"the LLVMs at hand do not break {request.param}: {works}")


class Bench:
    """Where a script is bisected, with a cache of its own."""

    def __init__(self, folder: Path, broken: Break) -> None:
        folder.mkdir()
        (folder / broken.script).write_text(SCRIPTS[broken.script])
        ends = f"--good={broken.good.tag}", f"--bad={broken.bad.tag}", f"--forge=local:{broken.years.forge.root}"
        here = [sys.executable, "-m", "mlir_release"]
        self.command = [*here, "bisect", *ends, f"--python={sys.executable}", "--json", "--", "python", broken.script]
        self.folder, self.variables = folder, os.environ | {"MLIR_RELEASE_CACHE": str(folder / "cache")}

    def run(self) -> dict[str, Any]:
        """Bisect to the end."""
        found: dict[str, Any] = json.loads(run(*self.command, variables=self.variables, cwd=self.folder))
        return found


def test_a_bisect_of_what_upstream_broke_ends_at_the_snapshots_around_it(broken: Break, tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench", broken)
    found = bench.run()
    assert found["good"] == {"tag": broken.last.tag, "revision": broken.last.revision}
    assert found["bad"] == {"tag": broken.first.tag, "revision": broken.first.revision}
    tried = {run["tag"] for run in found["runs"]}
    assert len(tried) <= 2 + math.ceil(math.log2(broken.between))  # the two ends, and halves
    assert found["downloaded"] == sum(size_of_wheel(broken.years, tag) for tag in tried)
    assert bench.run()["runs"] == found["runs"]  # nothing is tried again


def test_the_difference_of_the_apis_names_what_broke_the_script(broken: Break) -> None:
    words = ("release", "diff", broken.last.tag, broken.first.tag, f"--forge=local:{broken.years.forge.root}")
    assert NAMED[broken.script] in run(sys.executable, "-m", "mlir_release", *words)


def size_of_wheel(years: Years, tag: str) -> int:
    release = years.forge.published(tag)
    assert release is not None
    (size,) = (asset.size for asset in release.assets if asset.name.endswith(".whl"))
    return size
