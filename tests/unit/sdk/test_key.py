"""What decides that a cached SDK is used again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mlir_release.projects.mlir import PYTHON_SOURCES
from mlir_release.sdk import provision
from mlir_release.sdk.provision import WITHOUT_INFLUENCE, code_digest, normalised

CODE = '''"""A module."""

def library(name: str) -> str:
    """Its file."""
    return f"lib{name}.a"
'''


@pytest.mark.parametrize(
    "other",
    [
        CODE.replace("A module.", "Another description."),
        CODE.replace('    """Its file."""\n', ""),
        CODE.replace("    return", "    # as on Linux\n    return"),
        CODE.replace("def library(name: str) -> str:", "def library(\n    name: str,\n) -> str:"),
    ],
)
def test_descriptions_and_layout_do_not_count(other: str) -> None:
    assert other != CODE
    assert normalised(other) == normalised(CODE)


@pytest.mark.parametrize("other", [CODE.replace(".a", ".so"), CODE.replace("name", "title"), CODE + "library('x')\n"])
def test_code_counts(other: str) -> None:
    assert normalised(other) != normalised(CODE)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the room, whose digest is taken."""
    folder = tmp_path / "sdk"
    shutil.copytree(Path(provision.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(provision, "__file__", str(folder / "provision.py"))
    return folder


def test_every_module_counts_but_those_that_are_listed(room: Path) -> None:
    assert {path.name for path in room.glob("*.py")} >= WITHOUT_INFLUENCE
    before = code_digest()
    for path in room.glob("*.py"):
        original = path.read_text()
        path.write_text(original + "\n# a comment\n")
        assert code_digest() == before, path.name
        path.write_text(original + "\nchanged = True\n")
        assert (code_digest() == before) == (path.name in WITHOUT_INFLUENCE), path.name
        path.write_text(original)


def test_a_new_module_counts(room: Path) -> None:
    before = code_digest()
    (room / "new.py").write_text("changed = True\n")
    assert code_digest() != before


def test_files_of_the_python_sources_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = code_digest()
    shutil.copytree(PYTHON_SOURCES, tmp_path / "sources")
    monkeypatch.setattr("mlir_release.sdk.provision.PYTHON_SOURCES", tmp_path / "sources")
    assert code_digest() == before
    (tmp_path / "sources" / "CMakeLists.txt").write_text("# none\n")
    assert code_digest() != before
