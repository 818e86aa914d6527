"""Options that commands of ``mlir-release mlgo`` share, and what they name."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mlir_release.cli.options import EXISTING_FOLDER, FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mlir_release.extras.mlgo.documents import Policy
    from mlir_release.extras.mlgo.saved_model import SavedModel

#: ``llvm``: the prefix of an installed LLVM.
llvm_option = click.option(
    "--llvm",
    type=EXISTING_FOLDER,
    required=True,
    help="Prefix of the LLVM to train for, for example /usr/lib/llvm-22; stock packages will do.",
)

#: ``python``: who answers for a saved model.
tensorflow_option = click.option(
    "--python", default="python3", show_default=True, help="With a saved model: a CPython that has its TensorFlow."
)

#: Parameters of ``mlgo train`` that only one trainer has.
_EVOLUTION = frozenset(
    {"kind", "hidden", "start", "generations", "minutes", "batch", "pairs", "sigma", "rate", "seed", "jobs"}
)
_ELSEWHERE = frozenset({"checkout", "python", "iterations"})


def trainer_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``trainer``, and what ml-compiler-opt needs: ``checkout``, ``python``, ``iterations`` (by default its own)."""
    only = "With --trainer ml-compiler-opt: "
    for option in (
        click.option("--iterations", type=click.IntRange(1), default=10_000, show_default=True, help=f"{only}steps."),
        click.option("--python", default="python3", show_default=True, help=f"{only}a CPython that has TensorFlow."),
        click.option(
            "--ml-compiler-opt", "checkout", type=FOLDER, default=Path("ml-compiler-opt"), show_default=True,
            metavar="DIRECTORY", help=f"{only}its checkout.",
        ),
        click.option(
            "--trainer", type=click.Choice(["evolution", "ml-compiler-opt"]), default="evolution", show_default=True,
            help="The toolkit's own, or google/ml-compiler-opt, which clones the heuristic with TensorFlow.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def check_trainer(trainer: str) -> None:
    """Refuse options that only the other trainer has."""
    other = _EVOLUTION if trainer == "ml-compiler-opt" else _ELSEWHERE
    context = click.get_current_context()
    given = {name for name in other if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    options = [parameter.opts[-1] for parameter in context.command.params if parameter.name in given]
    if options:
        raise click.UsageError(f"--trainer {trainer} takes no {', '.join(options)}")


@contextmanager
def loaded(path: Path, python: str) -> Iterator[Policy | SavedModel]:
    """A policy, by its file or by the folder of a saved model, which answers until the end of the block."""
    if not path.is_dir():
        from mlir_release.extras.mlgo.evaluate import load_policy

        yield load_policy(path)
        return
    from mlir_release.extras.mlgo.saved_model import opened

    with opened(path, python) as model:
        yield model
