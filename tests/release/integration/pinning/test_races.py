"""Many processes at once on one local forge: nothing is lost, nothing is made twice.

Unit tests try every order of what racers do; ``tests/commands/test_at_once.py`` has snapshots of one revision.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mlir_release.ground.git.repository import Git
from mlir_release.release.transaction.ledger import Ledger
from tests.release.integration import scenarios

ROOT = Path(scenarios.__file__).parents[3]

RACERS = 16

#: A process that waits until the folder ``go`` appears, so that all start at the same moment.
RACER = """
import sys, time
from pathlib import Path
from mlir_release.release.transaction.start import start
from tests.release.integration.scenarios import MATRIX, open_forge
from tests.revision_factory import make_revision

folder, sha, id, force = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4] == "force"
(folder / f"ready-{sys.argv[5]}").touch()
while not (folder / "go").exists():
    time.sleep(0.001)
print(start(open_forge(folder), make_revision(sha), MATRIX, request_id=id, force=force).tag)
"""


def race(folder: Path, jobs: list[tuple[str, str, str]]) -> Counter[str]:
    """Run snapshots ``(sha, request id, "force" or "")`` at once; how many ended with which tag."""
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin:/usr/local/bin"}

    def run(number: int, job: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", RACER, str(folder), *job, str(number)]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800, check=False
        )

    with ThreadPoolExecutor(len(jobs)) as pool:
        racers = [pool.submit(run, number, job) for number, job in enumerate(jobs)]
        while len(list(folder.glob("ready-*"))) < len(jobs) and not any(racer.done() for racer in racers):
            time.sleep(0.01)
        (folder / "go").touch()
        done = [racer.result() for racer in racers]
    for process in done:
        assert process.returncode == 0, process.stderr
    return Counter(process.stdout.strip() for process in done)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    scenarios.make_forge(tmp_path)
    return tmp_path


def pins(folder: Path) -> int:
    git = Git(folder / "forge" / "repository.git")
    return int(git.text("rev-list", "--count", "snapshots", "^main"))


def test_many_forced_snapshots_are_consecutive(folder: Path) -> None:
    ended = race(folder, [(scenarios.NEW, f"run-{number}", "force") for number in range(RACERS)])
    found = Ledger(scenarios.open_forge(folder), whole=True).states
    assert [state.name for state in found] == [f"snapshot-20261120.{number:02d}" for number in range(1, RACERS + 1)]
    assert {state.request_id for state in found} == {f"run-{number}" for number in range(RACERS)}
    assert {state.state for state in found} == {"pending"}
    assert ended == Counter(state.name for state in found)
    assert pins(folder) == 1
    drafts = Counter(release.tag for release in scenarios.open_forge(folder).releases())
    assert drafts == ended


def test_different_revisions_are_all_kept(folder: Path) -> None:
    shas = [f"{number:040x}" for number in range(1, 9)]
    race(folder, [(sha, f"run-{sha[-1]}", "") for sha in shas])
    forge = scenarios.open_forge(folder)
    found = Ledger(forge, whole=True).states
    assert {state.revision for state in found} == set(shas)
    assert len(found) == len(shas) == pins(folder)
    for state in found:
        assert forge.read("llvm-project.version", commit=state.commit) == f"{state.revision}\n".encode()
