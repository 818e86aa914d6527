"""The command line in a world, without a process of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.errors import ReleaseError

if TYPE_CHECKING:
    from click.testing import Result

    from tests.integrate.integration.miniature import World


def integrate(world: World, *arguments: str) -> dict[str, Any]:
    """The document that ``mlir-release integrate … --json`` prints, or its error's data; ``code``, the exit code.

    Also ``said``, what went to standard error.
    """
    line = ["integrate", "-C", str(world.checkout), *arguments, "--json"]
    done = CliRunner().invoke(app, line, standalone_mode=False)
    error = done.exception
    if isinstance(error, ReleaseError):
        fields = {name: getattr(error, name) for name in ("what", "where", "why", "remedy")}
        return {**error.details, **fields, "error": error.id, "code": int(error.exit_code), "said": done.stderr}
    if error is not None:
        raise error
    return {**json.loads(done.stdout), "code": 0, "said": done.stderr}


class Pulls:
    """Remembers what was asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, kind: str) -> Any:
        return lambda **call: self.calls.append((kind, call))


def invoke(where: Any, *words: str) -> Result:
    """``mlir-release integrate …`` as people call it, in a world or a folder."""
    return CliRunner().invoke(app, ["integrate", "-C", str(getattr(where, "checkout", where)), *words])


def succeed(where: Any, *words: str) -> Result:
    """The same, of a command that has to end well."""
    done = invoke(where, *words)
    assert done.exit_code == 0, done.output
    return done
