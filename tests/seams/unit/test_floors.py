"""The rooms of ``mlir_release`` are floors: a module imports from its own room and from the floors below it.

tools/rooms.py declares the floors, and nothing else does. Imports inside functions and under ``TYPE_CHECKING`` count,
too: they tie modules together for the reader as much as the others do.

Somebody else's extra or project comes in by a door, one module whose names stay. The map in README.md names every room.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects import api as for_projects
from mlir_release.extras import api as for_extras
from mlir_release.ground.errors import MachineError
from mlir_release.ground.plugins import DOORS as NAMED
from mlir_release.ground.plugins import Plugin, load
from tools import moves
from tools.rooms import BELOW

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "mlir_release"

#: The most modules of a folder.
MOST = 15

#: Words that no module of the ground has in its name: it knows nothing of them.
ABOVE_GROUND = ("release", "snapshot", "integrate")

#: Folders of projects that are data: what is copied into wheels and SDKs, and what their suites run.
CARRIED = ("getting_started", "performance", "python_sources", "sdk", "tests", "types", "wheel")


def modules() -> dict[str, Path]:
    """Every module of the toolkit by its name below ``mlir_release``, without what projects carry into wheels."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[:2] == ("builder", "projects") and parts[3:4] and parts[3] in CARRIED:
            continue
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the toolkit that a module imports, wherever in it."""
    found = set()
    named = imported(path.read_text(encoding="utf-8"))
    assert "" not in named, f"{path}: relative import"
    for module, names in named.items():
        for name in names:
            below = f"{module}.{name}".removeprefix("mlir_release.").removesuffix(".")
            found.add(below if below in known else below.rpartition(".")[0])
    return found & known.keys()


def imported(code: str) -> dict[str, set[str]]:
    """What code imports of the toolkit: names by module. A whole module has the name "", a relative one is ""."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            found.setdefault("" if node.level else str(node.module), set()).update(alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found.setdefault(alias.name, set()).add("")
    return {module: names for module, names in found.items() if module.partition(".")[0] in ("", "mlir_release")}


MODULES = modules()


@cache
def all_imports() -> dict[str, set[str]]:
    """What each module imports."""
    return {name: imports(path, MODULES) - {name} for name, path in MODULES.items() if name != "__init__"}


def room(module: str) -> str:
    return module.partition(".")[0]


def extra(module: str) -> str:
    return module.split(".")[1] if module.startswith("extras.") else ""


def is_on_top(module: str) -> bool:
    """Whether it is of the top floor: the command line, and the commands of each room and of each extra."""
    parts = module.split(".")
    return (
        parts[0] in ("cli", "__main__")
        or parts[1:2] == ["commands"]
        or (bool(extra(module)) and parts[-1] == "command")
    )


def crosses(module: str, other: str) -> bool:
    """Whether a module must not import another one."""
    if is_on_top(module):
        return False
    return is_on_top(other) or (room(other) != room(module) and room(other) not in BELOW[room(module)])


def wrong(is_wrong: Callable[[str, str], bool]) -> list[str]:
    """The imports between two modules that are not as they should be."""
    return sorted(
        f"{module} imports {other}"
        for module, others in all_imports().items()
        for other in others
        if is_wrong(module, other)
    )


def test_every_room_has_a_floor() -> None:
    assert {room(module) for module in all_imports()} == {*BELOW, "cli", "__main__"}
    assert len(all_imports()) > 250


@pytest.mark.parametrize("name", BELOW)
def test_no_import_goes_upward(name: str) -> None:
    assert wrong(lambda module, other: room(module) == name and crosses(module, other)) == []


def test_extras_are_apart_from_each_other() -> None:
    assert wrong(lambda module, other: bool(extra(module)) and extra(other) not in {"", extra(module)}) == []


def test_mlgo_knows_no_release() -> None:
    """It learns on any LLVM, and is of use to whoever releases nothing."""
    mine = {module for module in all_imports() if extra(module) == "mlgo" and not is_on_top(module)}
    apart = ("builder.sdk.", "builder.testing.", "builder.wheels.", "integrate.", "release.", "use.")
    assert len(mine) > 5
    assert wrong(lambda module, other: module in mine and f"{other}.".startswith(apart)) == []


def test_no_module_is_in_a_circle() -> None:
    try:
        TopologicalSorter(all_imports()).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_no_folder_is_too_full_to_look_through() -> None:
    folders = Counter(path.parent.relative_to(PACKAGE) for path in MODULES.values() if path.name != "__init__.py")
    assert len(folders) > 30
    assert {str(folder): count for folder, count in folders.items() if count > MOST} == {}


def test_the_ground_names_nothing_that_stands_on_it() -> None:
    ground = [module for module in all_imports() if room(module) == "ground"]
    assert len(ground) > 40
    assert [module for module in ground if any(word in module for word in ABOVE_GROUND)] == []


@pytest.mark.parametrize("name", BELOW)
def test_a_room_says_what_it_is_for_and_where_to_begin(name: str) -> None:
    text = ast.get_docstring(ast.parse((PACKAGE / name / "__init__.py").read_text(encoding="utf-8"))) or ""
    first, _, rest = text.partition("\n\n")
    assert first
    assert "import" in rest
    assert "Begin with ``" in rest
    for path in rest.partition("Begin with ")[2].split("``")[1::2]:
        assert (PACKAGE / name / path).exists() or (PACKAGE / name / f"{path}.py").exists(), path


def test_an_upward_import_and_a_circle_would_be_seen(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def f():\n    from mlir_release.cli.app import main\n    import mlir_release.ground.console\n")
    assert imports(module, MODULES) == {"cli.app", "ground.console"}
    assert crosses("ground.console", "builder.sdk.info")
    assert crosses("integrate.loop", "release.model.pin_commit")
    assert crosses("release.transaction.tend", "release.commands.release")
    assert not crosses("release.commands.release", "use.find")
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()


# -- the map, and where files are --------------------------------------------------------------------------------------


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


# -- doors -------------------------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("where", OUTSIDE)
def test_code_from_outside_comes_in_by_a_door(where: str) -> None:
    for module, names in imported(OUTSIDE[where]).items():
        assert module == "" or names <= set(dir(DOORS.get(module))), f"{where} imports {module}"


def test_another_way_in_would_be_seen() -> None:
    assert imported(
        "import mlir_release.ground.console\nfrom mlir_release.ground.errors import UsageError as U\nimport re\n"
    ) == {
        "mlir_release.ground.console": {""},
        "mlir_release.ground.errors": {"UsageError"},
    }
    assert sum(bool({*imported(code)} - {""}) for code in OUTSIDE.values()) >= 4


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
