from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.errors import ConflictError, ExitCode, UsageError

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "list_errors.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    specification = importlib.util.spec_from_file_location("list_errors", TOOL)
    assert specification is not None
    assert specification.loader is not None
    module = sys.modules["list_errors"] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def page_of(tool: ModuleType, package: Path, **modules: str) -> list[str]:
    """The rows of the page for a package with these modules in its ``sdk/``."""
    (package / "sdk").mkdir()
    for name, text in modules.items():
        (package / "sdk" / f"{name}.py").write_text(text)
    page: str = tool.render(tool.Source(package).entries())
    return [line for line in page.splitlines() if line.startswith("| `")]


def test_an_error_says_what_where_why_and_what_to_do() -> None:
    error = UsageError("some-id", "It broke.", where="here", why="because", remedy="mend it")
    assert str(error) == "It broke.\n  where: here\n  why: because\n  to do: mend it"
    assert error.as_json() == {
        "error": "some-id", "what": "It broke.", "where": "here", "why": "because", "remedy": "mend it", "exit_code": 2,
    }  # fmt: skip


def test_empty_parts_are_left_out() -> None:
    assert str(ConflictError("x", "It moved.", remedy="again")) == "It moved.\n  to do: again"


def test_exit_codes_are_distinct_and_leave_gits_untestable_alone() -> None:
    assert int(ExitCode.UNTESTABLE) == 125
    assert len({int(code) for code in ExitCode}) == len(ExitCode)


def test_the_page_of_error_ids_is_true() -> None:
    done = subprocess.run([sys.executable, TOOL], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_id_has_its_cause_and_remedy_beside_it(tool: ModuleType, tmp_path: Path) -> None:
    code = """
LIMIT = 3
def build(path, root):
    raise UsageError(
        "too-many", f"{path.name} has more than {LIMIT} parts" + " | or none", where=str(root), why="a limit",
        remedy=f"remove some of {', '.join(x for x in path.parts)} from <root>",
    )
"""
    row = (
        "| `too-many` | 2 | {name} has more than 3 parts \\| or none: a limit | remove some of {parts} from &lt;root> |"
    )
    assert page_of(tool, tmp_path, build=code) == [row]


def test_texts_are_followed_through_variables_and_callers(tool: ModuleType, tmp_path: Path) -> None:
    code = """
class BuildError(MachineError):
    def __init__(self, what):
        super().__init__("build-failed", what, remedy="read the log")
def build(log, full):
    if full:
        what, remedy = f"no room in {log}", "make room"
        raise MachineError("disk-full", what, remedy=remedy)
    raise BuildError(f"it stopped: {log}")
def check(done):
    _check("not-compiled", done, "it can't be compiled")
    _check("not-linked", done, "it can't be linked")
def _check(id, done, problem):
    raise UsageError(id, f"{done}: {problem}", remedy="see " + ("above" if done else "below"))
"""
    other = "def _check(id, problem): pass\n_check('not-an-error', '')\n"
    assert page_of(tool, tmp_path, build=code, other=other) == [
        "| `build-failed` | 3 | it stopped: {log} | read the log |",
        "| `disk-full` | 3 | no room in {log} | make room |",
        "| `not-compiled` | 2 | {done}: it can't be compiled | see above<br>see below |",
        "| `not-linked` | 2 | {done}: it can't be linked | see above<br>see below |",
    ]


def test_an_id_with_two_exit_codes_is_refused(tool: ModuleType, tmp_path: Path) -> None:
    code = "def f():\n    raise {}('missing', 'it is missing', remedy='look')\n"
    with pytest.raises(SystemExit, match="missing has two exit codes: 2 and 3"):
        page_of(tool, tmp_path, one=code.format("UsageError"), two=code.format("MachineError"))


def test_a_room_without_a_heading_is_refused(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "attic").mkdir()
    (tmp_path / "attic" / "box.py").write_text("def f():\n    raise UsageError('lost', 'it is lost', remedy='look')\n")
    with pytest.raises(SystemExit, match=r"attic/box\.py raises lost, but TOPICS in list_errors\.py has no heading"):
        tool.render(tool.Source(tmp_path).entries())
