"""``mlir-release verify``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import EXISTING_FILE, forge_address_option, json_option, noted, signed_by_options
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from mlir_release.release.judging.signed import SignedBy


@click.command()
@click.argument("what", metavar="FILE|TAG", callback=noted)
@click.option(
    "--bundle",
    type=EXISTING_FILE,
    help="The bundle of FILE.  [default: FILE.sigstore.json]",
)
@click.option("--tag", default="", help="The release that FILE must be of.  [default: the one that the bundle names]")
@signed_by_options
@forge_address_option()
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    what: str,
    bundle: Path | None,
    tag: str,
    signed_by: SignedBy,
    forge: str | None,
) -> None:
    """Check who made a file of a release, or all files of a published release: of TAG, latest or latest-good.

    A FILE is checked by the bundle beside it, without the forge; with --trusted-root, without any network. The workflow
    that signs must be that of the protected branch, in a run on the release's tag, on a machine of GitHub's.

    A release that nobody signed has digests and no proof: that is exit code 6, unless --provenance skip accepts it.
    """
    from mlir_release.release.forge.open import open_forge
    from mlir_release.release.judging.check import check_file, check_release
    from mlir_release.release.judging.signed import repository_of
    from mlir_release.release.provenance.policy import SignerPolicy
    from mlir_release.release.provenance.trust import load_trust

    if Path(what).is_file():
        if signed_by.skipped:
            raise click.UsageError("--provenance skip leaves nothing to check of a file")
        repository = signed_by.repository or repository_of(open_forge(forge))
        policy = SignerPolicy(repository=repository, tag=tag, branch=signed_by.branch)
        console.outcome(check_file(Path(what), bundle, policy, signed_by.trust or load_trust()))
        return
    checked = check_release(open_forge(forge), what, signed_by)
    console.outcome(checked)
    if checked.unsigned is not None and not console.json_mode:
        console.error(checked.unsigned)
    if checked.refused:
        ctx.exit(int(checked.refused[0].exit_code))
