"""``mlir-release pypi``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.options import PATH, dry_run_option, forge_option, json_option, owners_option, signed_by_options
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.judging.signed import SignedBy


@click.command()
@click.argument("tag")
@forge_option
@click.option("--repository-url", metavar="URL", help="Where to upload.  [default: PyPI]")
@click.option("--index-url", metavar="URL", default="", help="The simple index that belongs to it.  [default: derived]")
@owners_option()
@signed_by_options
@click.option("--stage", "folder", type=PATH, help="Upload nothing; write what the index lacks into this folder.")
@click.option("--check", "check_only", is_flag=True, help="Upload nothing; check that the index has every file.")
@dry_run_option
@json_option
def pypi(
    tag: str,
    forge: Forge,
    repository_url: str | None,
    signed_by: SignedBy,
    folder: Path | None,
    check_only: bool,
    dry_run: bool,
    **where: Any,
) -> None:
    """Put the published numbered release TAG on PyPI, after checking everything about it.

    A release candidate goes there only if pypi-candidates is set in [release] of targets.toml, at its tag. Its version
    is a pre-release, which pip and uv take only when they are asked to (--pre).

    Credentials are twine's: a trusted publisher in a workflow, else TWINE_USERNAME and TWINE_PASSWORD. Files that are
    already there with the same digest are skipped, so re-running completes an interrupted upload.

    In release.yml the upload is a job of its own, in which nothing of ours runs: --stage before it, --check after it.
    """
    from mlir_release.ground.programs.needs import need

    need("pypi_simple", "twine")
    from mlir_release.release.pypi import publish
    from mlir_release.release.pypi.project import PYPI_UPLOAD

    to = publish.Destination(repository_url=repository_url or PYPI_UPLOAD, **where)
    if check_only:
        pause = time.sleep if console.in_actions else None  # a person sees when to ask again
        console.outcome(publish.check(forge, tag, to, signed_by=signed_by, pause=pause), title=f"{tag} on PyPI")
    elif folder is not None:
        staged = publish.stage(forge, tag, to, folder, signed_by=signed_by)
        digests = staged.digests if isinstance(staged, publish.Staged) else ()
        console.output("lacking", str(len(digests)))
        console.output("digests", "\n".join(digests))
        console.outcome(staged, title=f"{tag} for PyPI")
    else:
        uploaded = publish.publish_to_index(forge, tag, to, signed_by=signed_by, dry_run=dry_run)
        console.outcome(uploaded, title=f"{tag} on PyPI")
