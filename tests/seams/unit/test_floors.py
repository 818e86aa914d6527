"""The rooms of ``mlir_release`` are floors: a module imports from its own room and from the floors below it.

tools/rooms.py declares the floors, and nothing else does. Imports inside functions and under ``TYPE_CHECKING`` count,
too: they tie modules together for the reader as much as the others do.
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.rooms import BELOW

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = Path(__file__).parents[3] / "mlir_release"

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
