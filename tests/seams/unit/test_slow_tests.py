"""What CI makes its jobs of: the files with slow tests, and the rooms that a change concerns."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import read_yaml
from tools.rooms import BELOW, CROSSING, concerned

ROOT = Path(__file__).parents[3]

SLOW = "import pytest\n\n@pytest.mark.slow\ndef test_slow():\n    assert True\n"
FAST = "def test_fast():\n    assert True\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with the tool, this one's settings of pytest, and two files of tests."""
    for name in ("pyproject.toml", "tools/slow_tests.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_fast.py").write_text(FAST)
    (tmp_path / "tests/test_both.py").write_text(SLOW + FAST)
    return tmp_path


def listed(tree: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/slow_tests.py"]
    return subprocess.run(command, cwd=tree, text=True, capture_output=True, check=False)


def test_it_names_the_files_with_slow_tests_and_prints_nothing_else(tree: Path) -> None:
    assert json.loads(listed(tree).stdout) == ["tests/test_both.py"]


@pytest.mark.parametrize(
    ("name", "text"), [("tests/test_broken.py", "import nothing_of_that_name\n"), ("tests/test_both.py", FAST)]
)
def test_a_file_that_can_not_be_read_and_a_night_without_tests_are_errors(tree: Path, name: str, text: str) -> None:
    (tree / name).write_text(text)
    done = listed(tree)
    assert done.returncode != 0
    assert done.stdout == ""


def test_the_night_s_jobs_are_made_of_that_list_and_run_the_readmes_command() -> None:
    jobs = read_yaml(ROOT / ".github/workflows/ci.yml")["jobs"]
    listing, slow = jobs["slow-files"], jobs["slow"]
    (command,) = [step["run"] for step in listing["steps"] if step.get("id") == "list"]
    assert "tools/slow_tests.py" in command
    assert listing["outputs"] == {"files": "${{ steps.list.outputs.files }}"}
    assert slow["strategy"] == {
        "fail-fast": False, "matrix": {"file": "${{ fromJSON(needs.slow-files.outputs.files) }}"},
    }  # fmt: skip
    assert 'make test-slow ARGS="$FILE"' in slow["steps"][-1]["run"]
    assert slow["steps"][-1]["env"]["FILE"] == "${{ matrix.file }}"


ALL = [*BELOW, *CROSSING]


@pytest.mark.parametrize(
    ("paths", "rooms"),
    [
        ("mlir_release/ground/console.py", ALL),
        ("mlir_release/integrate/walk.py", ["integrate", "operate", "extras", *CROSSING]),
        ("mlir_release/extras/cost/command.py tests/use/unit/test_x.py", ["use", "extras", *CROSSING]),
        ("tests/release/unit/test_x.py", ["release"]),
        ("tests/release/unit/test_x.py tests/conftest.py", ALL),
        ("mlir_release/cli/app.py", ALL),
        ("mlir_release/ground", ALL),
        ("ground", ALL),
        ("docs/design.md", ALL),
        ("", ALL),
    ],
)
def test_a_change_is_tested_in_each_room_that_it_concerns(paths: str, rooms: list[str]) -> None:
    assert concerned(paths.split()) == rooms


def test_a_required_check_says_yes_only_if_each_room_that_should_run_has_passed() -> None:
    jobs = read_yaml(ROOT / ".github/workflows/ci.yml")["jobs"]
    last = jobs["everything"]
    assert set(last["needs"]) == {"changes", "lint", "rooms"}
    assert last["if"] == "${{ always() && github.event_name != 'schedule' }}"
    (step,) = last["steps"]
    script = step["run"].replace("${{ join(needs.*.result, ' ') }}", "$RESULTS")
    for results, passes in (
        ("success success success", True), ("success success failure", False), ("failure success skipped", False),
        ("success cancelled success", False), ("success success skipped", False),
    ):  # fmt: skip
        done = subprocess.run(["bash", "-c", script], env={"RESULTS": results}, check=False)
        assert (done.returncode == 0) == passes, results
