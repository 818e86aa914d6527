"""One target after another, in one job: what becomes of one is nothing to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.app import unexpected
from mlir_release.ground.console import console
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import ExitCode, ReleaseError
from mlir_release.ground.job_names import heading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


def each(targets: Sequence[str], act: Callable[[str], tuple[Path, bool]]) -> None:
    """Act on each target, hand the files over that came of them, and fail at the end if one failed.

    attest.yml signs no other file for these targets. An output is one line, so that nothing else gets into it.

    :param act: makes a target's file, and says whether all is well
    """
    made, failed = [], []
    for target in targets:
        console.say(heading(target))
        try:
            path, well = act(target)
            made.append(path)
        except Exception as error:
            console.error(error if isinstance(error, ReleaseError) else unexpected(error))
            well = False
        if not well:
            failed.append(target)
    console.output("files", " ".join(f"{sha256_of(path)} {path.name}" for path in made))
    console.result("", [{"file": str(path), "size": path.stat().st_size} for path in made])
    if failed:
        console.say(f"{len(failed)} of {len(targets)} failed: {', '.join(failed)}")
        click.get_current_context().exit(int(ExitCode.VERIFICATION))
