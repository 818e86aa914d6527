"""Options that the commands of integrates share, each in one wording."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from mlir_release.cli.options import json_option
from mlir_release.ground.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class At(NamedTuple):
    """The options of the group: what the functions that open an integrate take first."""

    directory: Path
    upstream: str  #: empty: what the branch walks


def at_as_json(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command of the group its :class:`At`, and the option ``--json``."""
    return json_option(click.pass_obj(command))


push_option = click.option("--push", is_flag=True, help="Push the branch and the verdicts as they come.")

roll_option = click.option("--roll", is_flag=True, help="Heed the mode of the roller (integrate roll).")

until_option = click.option("--until", metavar="REV", help="Go no farther than this upstream commit.")

align_option = click.option(
    "--align", metavar="TARGET", help="Go to the commit that a submodule, or pin-of:OWNER/REPO[@REF][#PATH], pins."
)

next_round_option = click.option(
    "--next-round", metavar="WORKFLOW", help="Where no probe runs: dispatch it if more probes are needed."
)


def strategy_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command ``--strategy`` and ``--width``, whose defaults are those of ``integrate.toml``."""
    width = click.option("--width", type=click.IntRange(1, 256), help="Probes side by side.")
    return click.option("--strategy", metavar="NAME", help="linear, head, adaptive or parallel.")(width(command))


def goal(at: At, given: str | None, align: str | None, *, option: str = "--until") -> str | None:
    """Where a walk goes to, from ``--align`` and the option that names a commit itself. :raises UsageError:"""
    if align is None:
        return given
    from mlir_release.integrate.open import open_projects
    from mlir_release.integrate.pins.dependency import aligned

    if given is not None:
        raise UsageError(
            "option-invalid", f"{option} and --align both say where to go", where=align, remedy="leave out one of them"
        )
    return aligned(open_projects(*at), align)
