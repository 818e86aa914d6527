"""What installed distributions add to the toolkit: entry points, which docs/extras.md describes.

An object is imported when it is called for, and not before. The commands of the trunk never depend on one.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from mlir_release.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint

#: Groups: commands, sections of the pages, and steps of a rehearsal.
COMMANDS = "mlir_release.commands"
PAGES = "mlir_release.pages"
REHEARSAL = "mlir_release.rehearsal"


def plugins(group: str) -> Mapping[str, list[EntryPoint]]:
    """The entry points of a group by their names, sorted; several of one name clash."""
    from importlib.metadata import entry_points  # 20 ms

    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, distribution(point))):
        found.setdefault(point.name, []).append(point)
    return found


def distribution(point: EntryPoint) -> str:
    """Whose entry point it is: ``mlir-release 0.1.0``."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown distribution"


def clash(points: list[EntryPoint], *, trunk: bool = False) -> str:
    """Why a name that several want is nobody's; empty if only one does.

    :param trunk: whether the toolkit itself has the name
    """
    owners = ["the toolkit itself"] * trunk + [distribution(point) for point in points]
    return f"{' and '.join(owners)} have the same name" if points and len(owners) > 1 else ""


def load(points: list[EntryPoint], *, trunk: bool = False) -> Any:
    """Import what the entry points of one name stand for.

    :param trunk: whether the toolkit itself has the name
    :raises MachineError: ``plugin-unusable``: a clash, or it can't be imported
    """
    if why := clash(points, trunk=trunk):
        raise unusable(points[0], why)
    try:
        return points[0].load()
    except (Exception, SystemExit) as error:  # whatever another's code does when it is imported
        raise unusable(points[0], f"{type(error).__name__}: {error}") from error


def hooks(group: str) -> dict[str, Any]:
    """All objects of a group, by name. :raises MachineError: ``plugin-unusable``"""
    return {name: load(points) for name, points in plugins(group).items()}


def unusable(point: EntryPoint, why: str) -> MachineError:
    """The error of a plug-in that can't be used."""
    return MachineError(
        "plugin-unusable",
        f"{point.name} of {distribution(point)} can't be used",
        where=f"entry point {point.name} = {point.value} of the group {point.group}",
        why=why,
        remedy="uninstall that distribution with pip, or update it",
    )


def summary(point: EntryPoint) -> str:
    """The first line of its module's docstring, which is read without importing anything; empty if that can't be."""
    import io
    import tokenize
    from ast import literal_eval

    path, spec = None, None
    try:
        parts = point.module.split(".")
        for count in range(1, len(parts) + 1):  # find_spec of importlib.util would import the packages
            name = ".".join(parts[:count])
            spec = next(filter(None, (finder.find_spec(name, path) for finder in sys.meta_path)))
            path = spec.submodule_search_locations
        source = spec.loader.get_source(spec.name)  # type: ignore[union-attr]
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        first = next(token for token in tokens if token.type not in (tokenize.COMMENT, tokenize.NL))
        return str(literal_eval(first.string)).strip().splitlines()[0] if first.type == tokenize.STRING else ""
    except Exception:  # help must be shown, whatever is installed
        return ""
