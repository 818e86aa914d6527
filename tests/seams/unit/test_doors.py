"""Somebody else's extra or project imports one module of the toolkit, whose names stay."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects import api as for_projects
from mlir_release.extras import api as for_extras
from mlir_release.ground.errors import MachineError
from mlir_release.ground.plugins import DOORS as NAMED
from mlir_release.ground.plugins import Plugin, load

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[3]

DOORS = {door.__name__: door for door in (for_extras, for_projects)}

#: Code as outsiders would write it.
OUTSIDE = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "tests" / "made_up" / "sums_release").rglob("*.py"))
} | {
    f"{page}, block {number}": block
    for page in ("docs/extras.md", "docs/projects.md")
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    )
}


def imports(code: str) -> dict[str, set[str]]:
    """What code imports of the toolkit: names by module; a whole module has the name ""."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            found.setdefault(node.module or "", set()).update(alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            found |= {alias.name: {""} for alias in node.names}
    return {module: names for module, names in found.items() if module.partition(".")[0] == "mlir_release"}


@pytest.mark.parametrize("where", OUTSIDE)
def test_code_from_outside_comes_in_by_a_door(where: str) -> None:
    for module, names in imports(OUTSIDE[where]).items():
        assert names <= set(dir(DOORS.get(module))), f"{where} imports {module}"


def test_another_way_in_would_be_seen() -> None:
    assert imports(
        "import mlir_release.ground.console\nfrom mlir_release.ground.errors import UsageError as U\nimport re\n"
    ) == {
        "mlir_release.ground.console": {""},
        "mlir_release.ground.errors": {"UsageError"},
    }
    assert sum(bool(imports(code)) for code in OUTSIDE.values()) >= 4


@pytest.mark.parametrize("name", DOORS)
def test_a_door_has_what_type_checkers_see(name: str) -> None:
    door = DOORS[name]
    text = Path(str(door.__file__)).read_text(encoding="utf-8")
    seen = re.findall(r"^    from (\S+) import (\w+) as \2$", text, re.MULTILINE)
    assert dir(door) == sorted(each for _, each in seen)
    for module, each in seen:
        assert getattr(door, each) is getattr(__import__(module, fromlist=[each]), each)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = door.nothing


@pytest.mark.parametrize(
    ("line", "door"),
    [
        ("from mlir_release.index.site import Shown", for_extras),
        ("from mlir_release.console import console", for_extras),
        ("from mlir_release.model.projects import Profile, Project", for_projects),
        ("import mlir_release.sdk.port", for_projects),
    ],
)
def test_an_import_by_an_old_path_says_where_the_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, door: ModuleType
) -> None:
    (tmp_path / "an_older_one.py").write_text(f"{line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MachineError) as caught:
        load([Plugin("older", "acme 1.0", "an_older_one", "mlir_release.pages")])
    assert caught.value.id == "plugin-unusable"
    assert caught.value.why.endswith(f"promise from {door.__name__}")


def test_the_doors_are_named_as_they_are() -> None:
    assert sorted(NAMED.values()) == sorted(DOORS)
