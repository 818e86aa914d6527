"""Many processes at once on one local forge: nothing is lost, nothing is made twice."""

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
from datetime import datetime
from pathlib import Path
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.transaction.start import start
from tests.release.integration.scenarios import MATRIX, WHO
from tests.revision_factory import make_revision

folder, sha, id, force, now = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4] == "force", sys.argv[5]
clock = datetime.fromisoformat(now)
forge = LocalForge(folder / "forge", clock=lambda: clock, identity=WHO)
(folder / f"ready-{sys.argv[6]}").touch()
while not (folder / "go").exists():
    time.sleep(0.001)
print(start(forge, make_revision(sha), MATRIX, request_id=id, force=force).tag)
"""

NOON = "2026-11-20T12:00:00+00:00"


def race(folder: Path, jobs: list[tuple[str, str, str, str]]) -> Counter[str]:
    """Run snapshots ``(sha, request id, "force" or "", time)`` at once; how many ended with which tag."""
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


def report(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        print(f"\n{text}")


def test_many_snapshots_of_one_revision_are_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = race(folder, [(scenarios.NEW, f"run-{number}", "", NOON) for number in range(RACERS)])
    forge = scenarios.open_forge(folder)
    tags = [tag.name for tag in forge.tags()]
    runs = forge.runs("release.yml", ref=scenarios.TAG)
    report(
        capsys,
        f"{RACERS} snapshots of one revision: {pins(folder)} pin commit, {len(tags)} tag, "
        f"{len(forge.releases())} draft, {len(runs)} run(s)",
    )
    assert ended == Counter({scenarios.TAG: RACERS})
    assert tags == [scenarios.TAG]
    assert pins(folder) == 1
    assert [release.tag for release in forge.releases()] == [scenarios.TAG]
    assert runs


def test_many_forced_snapshots_are_consecutive(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = race(folder, [(scenarios.NEW, f"run-{number}", "force", NOON) for number in range(RACERS)])
    found = Ledger(scenarios.open_forge(folder), whole=True).states
    report(
        capsys,
        f"{RACERS} forced snapshots with different ids: {pins(folder)} pin commit, "
        f"{len(found)} tags, {found[0].name} to {found[-1].name}",
    )
    assert [state.name for state in found] == [f"snapshot-20261120.{number:02d}" for number in range(1, RACERS + 1)]
    assert {state.request_id for state in found} == {f"run-{number}" for number in range(RACERS)}
    assert {state.state for state in found} == {"pending"}
    assert ended == Counter(state.name for state in found)
    assert pins(folder) == 1
    drafts = Counter(release.tag for release in scenarios.open_forge(folder).releases())
    assert drafts == ended


def test_the_same_forced_request_many_times_is_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = race(folder, [(scenarios.NEW, "run-1", "force", NOON)] * RACERS)
    tags = [tag.name for tag in scenarios.open_forge(folder).tags()]
    report(capsys, f"{RACERS} forced snapshots with one id: {len(tags)} tag")
    assert tags == [scenarios.TAG]
    assert ended == Counter({scenarios.TAG: RACERS})


def test_clocks_on_both_sides_of_midnight(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = ["2026-11-20T23:59:59+00:00", "2026-11-21T00:00:00+00:00"]
    ended = race(folder, [(scenarios.NEW, f"run-{number}", "", times[number % 2]) for number in range(RACERS)])
    found = Ledger(scenarios.open_forge(folder), whole=True).states
    living = [state.name for state in found if state.state != "abandoned"]
    report(capsys, f"{RACERS} snapshots around midnight: {len(found)} tag(s), of which {len(living)} living")
    # On a machine that is slow enough, somebody may have ended on a tag that its maker gives up after that.
    assert set(ended) <= {state.name for state in found}
    assert len(living) == 1
    assert living[0] in ended
    assert pins(folder) == 1


def test_different_revisions_are_all_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shas = [f"{number:040x}" for number in range(1, 9)]
    race(folder, [(sha, f"run-{sha[-1]}", "", NOON) for sha in shas])
    forge = scenarios.open_forge(folder)
    found = Ledger(forge, whole=True).states
    report(capsys, f"{len(shas)} snapshots of different revisions: {len(found)} tags, {pins(folder)} pin commits")
    assert {state.revision for state in found} == set(shas)
    assert len(found) == len(shas) == pins(folder)
    for state in found:
        assert forge.read("llvm-project.version", commit=state.commit) == f"{state.revision}\n".encode()
