"""``mlir-release verify``."""

from __future__ import annotations

from pathlib import Path

import click

from mlir_release.cli.options import (
    branch_option,
    forge_address_option,
    json_option,
    signer_option,
    trusted_root_option,
)
from mlir_release.console import console


@click.command()
@click.argument("what", metavar="FILE|TAG")
@click.option(
    "--bundle",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The bundle of FILE.  [default: FILE.sigstore.json]",
)
@click.option("--tag", default="", help="The release that FILE must be of.  [default: the one that the bundle names]")
@trusted_root_option
@signer_option
@forge_address_option()
@branch_option
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    what: str,
    bundle: Path | None,
    tag: str,
    trusted_root: Path | None,
    signed_by: str,
    forge: str | None,
    branch: str,
) -> None:
    """Check who made a file of a release, or all files of a published release.

    A FILE is checked by the bundle beside it, without the forge; with --trusted-root, without any network. The workflow
    that signs must be that of the protected branch, in a run on the release's tag, on a machine of GitHub's.
    """
    from mlir_release.forge.open import open_forge
    from mlir_release.provenance.policy import Policy
    from mlir_release.provenance.trust import load_trust
    from mlir_release.release.check import check_file, check_release
    from mlir_release.release.signed import repository_of

    trust = load_trust(trusted_root)
    if Path(what).is_file():
        repository = signed_by or repository_of(open_forge(forge))
        console.outcome(check_file(Path(what), bundle, Policy(repository=repository, tag=tag, branch=branch), trust))
        return
    checked = check_release(open_forge(forge), what, repository=signed_by, branch=branch, trust=trust)
    if not console.json_mode:
        console.table(checked.COLUMNS, [row.cells() for row in checked.rows])
    console.outcome(checked)
    if checked.refused:
        ctx.exit(int(checked.refused[0].exit_code))
