"""What decides that a cached SDK is used again."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from mlir_release.builder.projects.mlir import PYTHON_SOURCES, for_sdk
from mlir_release.builder.sdk import provision
from mlir_release.builder.sdk.port import recipe_of
from mlir_release.builder.sdk.provision import WITHOUT_INFLUENCE, code_digest, normalised

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
def room(tmp_path: Path) -> Path:
    """A copy of the room, whose digest is taken."""
    folder = tmp_path / "sdk"
    shutil.copytree(Path(provision.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_every_module_counts_but_those_that_are_listed(room: Path) -> None:
    assert {path.name for path in room.rglob("*.py")} >= WITHOUT_INFLUENCE
    before = code_digest(room=room)
    for path in room.rglob("*.py"):
        original = path.read_text()
        path.write_text(original + "\n# a comment\n")
        assert code_digest(room=room) == before, path.name
        path.write_text(original + "\nchanged = True\n")
        assert (code_digest(room=room) == before) == (path.name in WITHOUT_INFLUENCE), path.name
        path.write_text(original)


def test_a_new_module_counts(room: Path) -> None:
    before = code_digest(room=room)
    (room / "new.py").write_text("changed = True\n")
    assert code_digest(room=room) != before


def test_files_of_the_project_count(tmp_path: Path) -> None:
    for path in (PYTHON_SOURCES, Path(for_sdk.__file__)):
        copied = tmp_path / path.name
        shutil.copytree(path, copied) if path.is_dir() else shutil.copy(path, copied)
    code = tuple(tmp_path / path.name if (tmp_path / path.name).exists() else path for path in for_sdk.RECIPE.code)
    before = code_digest()
    assert code_digest(code=code) == before
    digests = {before}
    for path, text in ((tmp_path / PYTHON_SOURCES.name / "CMakeLists.txt", "# none\n"), (copied, "x = 1\n")):
        path.write_text(text)
        digests.add(code_digest(code=code))
    assert len(digests) == 3


@pytest.mark.parametrize("project", ["mlir", "clang"])
def test_every_module_of_the_project_that_its_recipe_uses_counts(project: str) -> None:
    recipe = recipe_of(project)
    listed = {path.stem for path in recipe.code if path.suffix == ".py"}
    used, waiting = {"__init__"}, ["for_sdk"]
    while waiting:
        used.add(name := waiting.pop())
        text = (recipe.project.folder / f"{name}.py").read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            module = getattr(node, "module", None) or ""
            if not isinstance(node, ast.ImportFrom) or not module.startswith(recipe.project.package):
                continue
            parts = module.split(".")
            names = parts[4:] or [alias.name for alias in node.names if alias.name.islower()]
            waiting += [found for found in names if found not in used]
    assert used == listed
