"""The map in README.md names every room and only what exists; tests are filed by room; moves lead to files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import moves

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "mlir_release"


def named_paths() -> list[str]:
    """The paths in the first column of the map."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Map of the repository\n")[2]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [path for row in rows for path in re.findall(r"`([^`]+)`", row)]


def test_every_room_is_named_once() -> None:
    rooms = {f"{folder.relative_to(ROOT)}/" for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists()}
    named = [path for path in named_paths() if path.startswith("mlir_release/") and path.endswith("/")]
    assert len(rooms) > 6
    assert sorted(named) == sorted(rooms)


def test_every_extra_is_named_where_the_map_leads() -> None:
    folders = {folder.name for folder in (PACKAGE / "extras").iterdir() if (folder / "__init__.py").exists()}
    text = (ROOT / "docs" / "extras.md").read_text(encoding="utf-8")
    assert len(folders) > 5
    assert {name for name in folders if f"[{name}](" not in text} == set()


def test_every_loose_module_is_named() -> None:
    modules = {str(path.relative_to(ROOT)) for path in PACKAGE.glob("*.py") if not path.name.startswith("__")}
    assert modules <= set(named_paths())


@pytest.mark.parametrize("kind", ["unit", "integration"])
def test_tests_are_filed_by_room(kind: str) -> None:
    tests = (ROOT / "tests").glob(f"*/{kind}/**/test_*.py")
    folders = {path.parent.relative_to(ROOT / "tests").as_posix().replace(f"/{kind}", "") for path in tests}
    assert len(folders) > 10
    rooms = {name for name in folders if not name.startswith("seams")}
    assert [name for name in sorted(rooms) if not (PACKAGE / name).is_dir()] == []


def test_every_path_in_the_map_exists() -> None:
    assert [path for path in named_paths() if not (ROOT / path).exists()] == []
    assert [path for path in named_paths() if path.endswith("/") and not (ROOT / path).is_dir()] == []


def test_every_file_is_where_it_says() -> None:
    table = {**moves.modules(), **moves.RENAMED}
    assert len(table) > 250
    found = {old: moves.find(f"mlir_release/{old}") for old in table}
    assert [f"{old} -> {new}" for old, new in found.items() if not (ROOT / new).exists()] == []
