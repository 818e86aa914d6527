"""Options that several commands share, each in one wording, and the types of their values."""

from __future__ import annotations

import errno
import functools
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlir_release.ground import plugins
from mlir_release.ground.console import console
from mlir_release.ground.errors import UsageError
from mlir_release.ground.programs.surroundings import starting
from mlir_release.release.forge.open import FORGE_VARIABLE, open_forge

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.judging.signed import Expectation

#: In the ``meta`` of click's contexts: the places that a command line names, each by its option.
_PLACES = "mlir_release.places"

#: What the system says of a place that can't be used as it is; a full disk, for example, is none of these.
_OF_THE_PLACE = {
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ENOTDIR: "name another one: a part of this path is a file",
    errno.EISDIR: "name a file: a folder has this name",
    errno.EEXIST: "name another one: this name is taken",
    errno.ELOOP: "name another one: its symbolic links go in a circle",
    errno.EROFS: "name another one: nothing can be written there",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "name another one, or change its permissions"),
}


class PlaceParameter(click.Path):
    """A path of the command line, whose option is named by what the system says of it, now or later."""

    def __init__(self, **more: Any) -> None:
        super().__init__(path_type=Path, **more)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As click; a name that no file can have is refused at once."""
        noted(ctx, param, value)
        try:
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                os.lstat(value)
            return super().convert(value, param, ctx)
        except (OSError, ValueError) as error:  # ValueError: a zero byte
            raise _misplaced(_hint(param, ctx), repr(os.fspath(value)), error) from None


def _hint(param: click.Parameter | None, ctx: click.Context | None) -> str:
    return param.get_error_hint(ctx) if param is not None and ctx is not None else "a path"


def noted(ctx: click.Context | None, param: click.Parameter | None, value: Any) -> Any:
    """Keep a place for :func:`of_place`; also the callback of an option that may be a place, or something else."""
    if ctx is not None and value and str(value) != ".":
        ctx.meta.setdefault(_PLACES, {})[_hint(param, ctx)] = Path(value).absolute()
    return value


def of_place(ctx: click.Context, error: OSError) -> UsageError | None:
    """What a command says of a place that its command line names, and that the system refuses; None: another error."""
    for name in (error.filename, error.filename2):
        if error.errno not in _OF_THE_PLACE or not isinstance(name, str | bytes | os.PathLike):
            continue
        found = Path(os.fsdecode(name)).absolute()
        for hint, place in ctx.meta.get(_PLACES, {}).items():
            is_below = place == found or place in found.parents
            # Something beside it is renamed in the end; a suffix makes a name too long.
            if is_below or (place.name in found.name and (found.parent == place.parent or len(place.name) > 100)):
                return _misplaced(hint, str(found), error)
    return None


def _misplaced(hint: str, where: str, error: OSError | ValueError) -> UsageError:
    code = error.errno if isinstance(error, OSError) else None
    return UsageError(
        "option-invalid",
        f"{hint} can't be used",
        where=where,
        why=(error.strerror if isinstance(error, OSError) else str(error)) or "",
        remedy=_OF_THE_PLACE.get(code or 0, "give a name that a file can have"),
    )


PATH = PlaceParameter()
FOLDER = PlaceParameter(file_okay=False)
EXISTING_FOLDER = PlaceParameter(file_okay=False, exists=True)
EXISTING_FILE = PlaceParameter(dir_okay=False, exists=True)


class ForeignCommand(click.Command):
    """A command that declares that it starts foreign programs. Any other command that starts one is stopped.

    ``docs/permissions.md`` lists these commands, and the jobs that run them.

    :param starts: which programs, for people
    :param only_with: options without which it starts none
    :param unless: options with which it starts none
    """

    def __init__(
        self, *given: Any, starts: str, only_with: Sequence[str] = (), unless: Sequence[str] = (), **named: Any
    ) -> None:
        super().__init__(*given, **named)
        self.starts, self.only_with, self.unless = starts, only_with, unless

    def started(self, options: Container[str]) -> str:
        """The programs that it starts if it is given these options; empty: none."""
        needed = not self.only_with or any(option in options for option in self.only_with)
        return self.starts if needed and not any(option in options for option in self.unless) else ""

    def invoke(self, ctx: click.Context) -> object:
        """As any command."""
        given = {option for each in self.params if ctx.params.get(each.name or "") for option in each.opts}
        with starting(self.started(given)):
            return super().invoke(ctx)


def _switch_json(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    console.json_mode = value


def _open_forge(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Forge | None:
    noted(ctx, parameter, (value or "").partition("local:")[2])
    return None if ctx.resilient_parsing else open_forge(value)  # completion, which click parses so, asks no forge


_FORGE_HELP = (
    "The release repository: github:OWNER/NAME or local:PATH.  "
    f"[default: ${FORGE_VARIABLE}; in a workflow its repository]"
)

#: The result, or the error, as JSON on standard output: switches :data:`mlir_release.ground.console.console`.
json_option = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_switch_json,
    is_eager=True,
    help="Print the result, or the error, as JSON.",
)

#: ``dry_run``: whether to print the plan and change nothing.
dry_run_option = click.option("-n", "--dry-run", is_flag=True, help="Show what would be done; change nothing.")

#: ``forge``: an open :class:`~mlir_release.release.forge.base.Forge`.
forge_option = click.option("--forge", metavar="ADDRESS", callback=_open_forge, help=_FORGE_HELP)

#: ``sdk_folder``: the SDK that wheels are made with.
sdk_option = click.option("--sdk", "sdk_folder", type=PATH, required=True, help="Folder of the SDK.")

#: ``branch``: where the release repository's own files are read.
branch_option = click.option(
    "--branch", default="main", show_default=True, help="The branch that holds targets.toml and yanked.toml."
)

#: ``repository``: the folder of a checkout.
repository_option = click.option(
    "-C",
    "--repository",
    type=FOLDER,
    default=Path(),
    show_default="this folder",
    help="Checkout of the release repository.",
)

#: ``jobs``: a number of cores, or None.
jobs_option = click.option("-j", "--jobs", type=int, help="Cores to use.  [default: all]")

#: ``budget``: minutes, or None.
budget_option = click.option("--budget", type=float, help="With --orders: minutes for all targets together.")

#: ``force``: whether to make another release of a revision that has one.
force_option = click.option("--force", is_flag=True, help="Make another release of a revision that has one.")

#: ``only``: a filter of the targets that the dispatched run builds, or None.
build_only_option = click.option(
    "--only",
    metavar="FILTER",
    help="Dispatch a build of these targets only, as for `matrix --only`. The release still needs the others.",
)

#: ``exact``: whether to refuse a project's pin that is not upstream's own.
exact_option = click.option(
    "--exact",
    is_flag=True,
    help="With pin-of: refuse a pin that carries patches; otherwise the commit below them is taken.",
)

#: ``request_id``: see :func:`mlir_release.release.transaction.start.default_request_id`.
request_id_option = click.option(
    "--request-id",
    metavar="ID",
    callback=lambda ctx, parameter, value: value or None,  # a workflow's input may be empty
    help="Tells one forced release from another; the same id resumes.  [default: the workflow run's, else a new one]",
)

_provenance_option = click.option(
    "--provenance",
    type=click.Choice(["auto", "require", "skip"]),
    default="auto",
    show_default="required if the release is signed, on GitHub, and with --signed-by or --trusted-root",
    help="Whether the release process must have signed what is read. Skip: only digests are checked.",
)

_signer_option = click.option(
    "--signed-by",
    metavar="URL",
    help="The repository whose workflow must have signed, https://github.com/OWNER/NAME.  "
    "[default: the release repository; of a mirror, the one that the release names]",
)

_trusted_root_option = click.option(
    "--trusted-root",
    type=EXISTING_FILE,
    help="The Sigstore trusted root to verify with, as `gh attestation trusted-root` prints it: needs no network.  "
    "[default: Sigstore's own]",
)


def signed_by_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``signed_by``: a :class:`~mlir_release.release.judging.signed.SignedBy`.

    Adds the three options above and the branch's: every command that reads a release has all of them.
    """

    @functools.wraps(command)
    def run(
        *arguments: Any,
        provenance: Expectation,
        signed_by: str | None,
        trusted_root: Path | None,
        branch: str,
        **others: Any,
    ) -> Any:
        from mlir_release.release.judging.signed import SignedBy
        from mlir_release.release.provenance.trust import load_trust

        if signed_by == "":  # an unset variable of a script must not switch the check off
            raise click.UsageError("--signed-by names no repository: give its address, or leave the option out")
        if provenance == "skip" and (signed_by or trusted_root is not None):
            raise click.UsageError("--signed-by and --trusted-root ask for a signature, and --provenance skip for none")
        trust = load_trust(trusted_root) if trusted_root is not None else None
        whole = SignedBy(repository=signed_by or "", branch=branch, trust=trust, expectation=provenance)
        return command(*arguments, signed_by=whole, **others)

    return _provenance_option(_signer_option(_trusted_root_option(branch_option(run))))


def options_of_extras(group: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options of all hooks of a group, which are imported here. :raises MachineError: ``plugin-unusable``"""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed([option for hook in plugins.hooks(group).values() for option in hook.options]):
            command = option(command)
        return command

    return add


def forge_address_option(condition: str = "") -> Callable[..., Any]:
    """``forge``: an address or None, for commands that do not always open a forge.

    :param condition: when it is used, for example ``With --tag: ``
    """
    return click.option("--forge", metavar="ADDRESS", help=condition + _FORGE_HELP)


def limit_option(what: str) -> Callable[..., Any]:
    """``limit``: how many of a list to show; 0: all of it."""
    return click.option(
        "--limit", type=click.IntRange(0), default=30, show_default=True, help=f"How many of the {what}; 0: all."
    )


def output_option(what: str, *, default: Path | None = None) -> Callable[..., Any]:
    """``output``: the folder of ``what``; required if there is no default."""
    # click takes ``default=None`` for a value: an option with it would be required and yet never missed.
    needed: dict[str, Any] = {"required": True} if default is None else {"default": default, "show_default": True}
    return click.option("-o", "--output", type=FOLDER, help=f"Folder of {what}.", **needed)


def pythons_option(purpose: str, *, default: str = "") -> Callable[..., Any]:
    """``pythons``: versions or paths of CPythons.

    :param default: which are taken if none is given, in words
    """
    shown = f"  [default: {default}]" if default else ""
    return click.option(
        "--python",
        "pythons",
        multiple=True,
        metavar="PYTHON",
        help=f"Version or path of a CPython {purpose}; may be repeated.{shown}",
    )


def owners_option(default: str = "") -> Callable[..., Any]:
    """``owners``: names of PyPI's users and organizations."""
    shown = f"  [default: {default}]" if default else ""
    return click.option(
        "--owner",
        "owners",
        multiple=True,
        envvar="MLIR_RELEASE_PYPI_OWNER",
        show_envvar=True,
        help=f"A user or organization that must own the project on PyPI; may be repeated.{shown}",
    )


distribution_option = click.option(
    "--distribution", metavar="NAME", help="mlir, mlir-core, ….  [default: the release's main one]"
)
