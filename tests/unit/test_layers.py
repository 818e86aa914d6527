"""The rooms of ``mlir_release`` are floors: a module imports only from its own room and from rooms below it.

The floors are declared here and nowhere else. Imports inside functions and under ``TYPE_CHECKING`` count, too: they tie
modules together for the reader as much as the others do.
"""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "mlir_release"

#: Top to bottom.
FLOORS = (
    "extras",
    "projects",
    "__main__",
    "cli",
    "rehearsal",
    "doctor",
    "bisect",
    "integrate",
    "pypi",
    "index",
    "release",
    "testing",
    "wheels",
    "sdk",
    "pinning",
    "provenance",
    "forge",
    "git",
    "host",
    "model",
    "plugins",
    "console",
    "tables",
    "foreign",
    "errors",
)

#: Tables of what each room may not use although it is below: none of these rooms knows of releases.
APART = {
    "integrate": {"pypi", "index", "release", "testing", "wheels", "sdk"},
    "wheels": {"pinning", "forge"},
    "sdk": {"forge"},
    "testing": {"pinning", "forge"},
}

#: Extras are above the trunk. What one knows of another is declared here: nothing.
BESIDE: dict[str, set[str]] = {}

#: What an extra may not use although it is below. Its command may, as those of the trunk.
EXTRAS_APART = {
    "mlgo": {"pypi", "index", "release", "testing", "wheels", "sdk", "pinning", "provenance", "forge"},
}


def modules() -> dict[str, Path]:
    """Every module of the toolkit by its name below ``mlir_release``, without what is copied into wheels."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] == "projects" and len(parts) > 3:
            continue
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the toolkit that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith("mlir_release."):
                below = name.removeprefix("mlir_release.")
                found.add(below if below in known else below.rpartition(".")[0])
    return found & known.keys()


MODULES = modules()
IMPORTS = {name: imports(path, MODULES) - {name} for name, path in MODULES.items() if name != "__init__"}


def room(module: str) -> str:
    return module.partition(".")[0]


def test_every_room_has_a_floor() -> None:
    assert {room(module) for module in IMPORTS} == set(FLOORS)


@pytest.mark.parametrize("floor", FLOORS)
def test_no_import_goes_upward(floor: str) -> None:
    below = set(FLOORS[FLOORS.index(floor) :]) - APART.get(floor, set())
    upward = sorted(
        f"{module} imports {other}"
        for module, others in IMPORTS.items()
        for other in others
        if room(module) == floor and room(other) not in below
    )
    assert upward == []


def extra(module: str) -> str:
    return module.split(".")[1] if module.startswith("extras.") else ""


def test_extras_are_apart_from_each_other() -> None:
    crossing = sorted(
        f"{module} imports {other}"
        for module, others in IMPORTS.items()
        for other in others
        if extra(module) and extra(other) not in {"", extra(module), *BESIDE.get(extra(module), set())}
    )
    assert crossing == []


@pytest.mark.parametrize("name", EXTRAS_APART)
def test_an_extra_keeps_away_from_what_it_need_not_know(name: str) -> None:
    mine = {module for module in IMPORTS if extra(module) == name and module != f"extras.{name}.command"}
    known = {
        f"{module} imports {other}" for module in mine for other in IMPORTS[module] if room(other) in EXTRAS_APART[name]
    }
    assert len(mine) > 5
    assert sorted(known) == []


def test_no_module_is_in_a_circle() -> None:
    try:
        TopologicalSorter(IMPORTS).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_an_upward_import_and_a_circle_would_be_seen(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def f():\n    from mlir_release.cli.app import main\n    import mlir_release.console\n")
    assert imports(module, MODULES) == {"cli.app", "console"}
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()
