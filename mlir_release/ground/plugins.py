"""What installed distributions add to the toolkit: entry points, which docs/extras.md describes.

An object is imported when it is called for, and not before. The commands of the trunk never depend on one.
"""

from __future__ import annotations

import ast
import re
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mlir_release.ground.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Groups: projects, commands, sections of the pages, steps of a rehearsal, and comparisons of releases.
PROJECTS = "mlir_release.projects"
COMMANDS = "mlir_release.commands"
PAGES = "mlir_release.pages"
REHEARSAL = "mlir_release.rehearsal"
COMPARISONS = "mlir_release.comparisons"


#: What code from outside imports, and the folders of before 1.0 whose names the second of them has.
DOORS = {"extras": "mlir_release.extras.api", "projects": "mlir_release.builder.projects.api"}
BUILT = ("host", "model", "projects", "sdk", "testing", "wheels")

#: The toolkit's own distribution.
TOOLKIT = "mlir-release"


class Plugin(NamedTuple):
    """An entry point of an installed distribution."""

    name: str
    distribution: str  #: whose it is: ``mlir-release 1.0.0``
    value: str  #: ``package.module:object``
    group: str

    @property
    def is_ours(self) -> bool:
        """Whether the toolkit itself brings it, of whatever version: an editable installation may tell an older one."""
        return self.distribution.partition(" ")[0] == TOOLKIT


@cache
def plugins(group: str) -> Mapping[str, list[Plugin]]:
    """The entry points of a group by their names, sorted; several of one name clash.

    Where a distribution is installed twice, the first on the path counts. One whose files are no text is passed over,
    so that it can't stop a command that needs nothing of it.
    """
    from importlib.metadata import distributions

    found: list[Plugin] = []
    seen: set[str] = set()
    for distribution in distributions():
        with suppress(OSError, ValueError, TypeError):
            points = distribution.entry_points
            if any(point.group in (group, PROJECTS, COMMANDS) for point in points):  # names of all take 40 ms
                project = re.sub(r"[-_.]+", "-", distribution.name).lower()
                owner = f"{project} {distribution.version or ''}".rstrip()
                if project not in seen:
                    found += [Plugin(point.name, owner, point.value, group) for point in points.select(group=group)]
                seen.add(project)
    named: dict[str, list[Plugin]] = {}
    for plugin in sorted(found):
        named.setdefault(plugin.name, []).append(plugin)
    return named


def clash(points: list[Plugin], *, trunk: bool = False) -> str:
    """Why a name that several want is nobody's; empty if only one does.

    :param trunk: whether the toolkit itself has the name
    """
    owners = ["the toolkit itself"] * trunk + [point.distribution for point in points]
    return f"{' and '.join(owners)} have the same name" if points and len(owners) > 1 else ""


def load(points: list[Plugin], *, trunk: bool = False) -> Any:
    """Import what the entry points of one name stand for.

    :param trunk: whether the toolkit itself has the name
    :raises MachineError: ``plugin-unusable``: a clash, or it can't be imported
    """
    if why := clash(points, trunk=trunk):
        raise unusable(points[0], why)
    from importlib.metadata import EntryPoint

    try:
        return EntryPoint(points[0].name, points[0].value, group=points[0].group).load()
    except (Exception, SystemExit) as error:  # whatever another's code does when it is imported
        raise unusable(points[0], why_not(error)) from error


def door(name: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a door (PEP 562), which imports a name when it is asked for.

    Its names are those that its source exports to type checkers, ``X as X``. All of them at once would take seconds.
    """
    tree = ast.parse(Path(str(sys.modules[name].__file__)).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    places = {alias.name: str(node.module) for node in imports for alias in node.names if alias.asname}

    def find(wanted: str) -> Any:
        if wanted not in places:
            raise AttributeError(f"module {name!r} has no attribute {wanted!r}")
        return getattr(import_module(places[wanted]), wanted)

    return find, lambda: sorted(places)


def why_not(error: BaseException) -> str:
    """Why another's module can't be imported; and where the toolkit's own modules are that moved."""
    said = f"{type(error).__name__}: {error}"
    top, _, below = (getattr(error, "name", None) or "").partition(".")
    if not isinstance(error, ImportError) or top != __name__.partition(".")[0] or not below:
        return said
    door = DOORS["projects" if below.partition(".")[0] in BUILT else "extras"]
    return f"{said}. That has moved: import what docs/extras.md and docs/projects.md promise from {door}"


def hooks(group: str) -> dict[str, Any]:
    """All objects of a group, by name. :raises MachineError: ``plugin-unusable``"""
    return {name: load(points) for name, points in plugins(group).items()}


def unusable(point: Plugin, why: str) -> MachineError:
    """The error of a plug-in that can't be used."""
    return MachineError(
        "plugin-unusable",
        f"{point.name} of {point.distribution} can't be used",
        where=f"entry point {point.name} = {point.value} of the group {point.group}",
        why=why,
    )


def summary(point: Plugin) -> str:
    """The first line of its module's docstring, which is read without importing anything; empty if that can't be."""
    import io
    import tokenize

    path, spec = None, None
    try:
        parts = point.value.partition(":")[0].strip().split(".")
        for count in range(1, len(parts) + 1):  # find_spec of importlib.util would import the packages
            name = ".".join(parts[:count])
            spec = next(filter(None, (finder.find_spec(name, path) for finder in sys.meta_path)))
            path = spec.submodule_search_locations
        source = spec.loader.get_source(spec.name)  # type: ignore[union-attr]
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        first = next(token for token in tokens if token.type not in (tokenize.COMMENT, tokenize.NL))
        return str(ast.literal_eval(first.string)).strip().splitlines()[0] if first.type == tokenize.STRING else ""
    except Exception:  # help must be shown, whatever is installed
        return ""
