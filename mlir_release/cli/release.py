"""The release side: the transaction, publishing, the index, and what a person decides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_release.cli.common import dry_run_option, forge_option, json_option, open_forge
from mlir_release.cli.operations import release_track
from mlir_release.console import console, format_bytes

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge, Release
    from mlir_release.model.targets import ReleaseConfig
    from mlir_release.snapshot.transaction import Outcome
    from mlir_release.snapshot.upstream import Revision

# -- the transaction -------------------------------------------------------------------------------------------------

BRANCH = click.option("--branch", default="main", show_default=True, help="The branch that holds targets.toml.")
FORCE = click.option("--force", is_flag=True, help="Make another release of a revision that has one.")
REQUEST_ID = click.option(
    "--request-id",
    metavar="ID",
    help="Tells one forced release from another; the same id resumes.  [default: the workflow run's, else a new one]",
)


def _resolve(forge: Forge, branch: str, policy: str) -> tuple[ReleaseConfig, Revision]:
    from mlir_release.forge.files import matrix_of_branch
    from mlir_release.snapshot.green import select
    from mlir_release.snapshot.upstream import Upstream

    config = matrix_of_branch(forge, branch).release
    return config, select(config, policy, Upstream(config.upstream, branch=config.upstream_branch))


def _report(outcome: Outcome) -> None:
    console.result(outcome.text(), outcome.to_json())
    console.output("tag", outcome.tag)
    console.output("revision", outcome.revision)
    console.output("action", outcome.action)
    console.summary(f"### {outcome.tag}\n\n{outcome.text()}")


@click.command()
@forge_option
@click.option(
    "--policy", default="head", show_default=True, help="head, green, a full sha, a tag or a branch of the upstream."
)
@FORCE
@REQUEST_ID
@BRANCH
@dry_run_option
@json_option
def snapshot(forge: Forge, policy: str, force: bool, request_id: str | None, branch: str, dry_run: bool) -> None:
    """Bump the pin, allocate a snapshot tag, open the draft, start the build.

    Nothing to do (exit code 0) if a published release of the selected revision exists; a snapshot that was begun and
    not finished is resumed at the first missing step.
    """
    from mlir_release.snapshot.transaction import default_request_id
    from mlir_release.snapshot.transaction import snapshot as run

    config, revision = _resolve(forge, branch, policy)
    identifier = request_id or default_request_id()
    _report(run(forge, revision, config, request_id=identifier, force=force, dry_run=dry_run))


@click.command()
@click.argument("version")
@forge_option
@click.option(
    "--revision", "policy", metavar="REV", help="Upstream sha, tag or branch.  [default: tag llvmorg-VERSION]"
)
@FORCE
@REQUEST_ID
@BRANCH
@dry_run_option
@json_option
def number(
    version: str, forge: Forge, policy: str | None, force: bool, request_id: str | None, branch: str, dry_run: bool
) -> None:
    """Make the numbered release llvm-VERSION.NN, on its own branch."""
    from mlir_release.model.release_tags import upstream_tag
    from mlir_release.snapshot.transaction import default_request_id
    from mlir_release.snapshot.transaction import number as run

    config, revision = _resolve(forge, branch, policy or upstream_tag(version))
    identifier = request_id or default_request_id()
    _report(run(forge, version, revision, config, request_id=identifier, force=force, dry_run=dry_run))


# -- publishing --------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("tag")
@forge_option
@click.option(
    "--dist",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Upload the wheels and test reports of this folder first.",
)
@click.option("--upload-only", is_flag=True, help="Stop after the upload: more is still to come from elsewhere.")
@click.option("--discard", metavar="TARGET", help="Start one target over: delete its wheel and reports from the draft.")
@click.option("--python", "pythons", multiple=True, help="A CPython to install the wheels with; may be repeated.")
@click.option("--dependencies", help="Where the wheels' dependencies come from: a folder or an index URL.")
@dry_run_option
@json_option
def publish(
    tag: str,
    forge: Forge,
    dist: Path | None,
    upload_only: bool,
    discard: str | None,
    pythons: tuple[str, ...],
    dependencies: str | None,
    dry_run: bool,
) -> None:
    """Upload wheels to TAG's draft, verify it from its own assets, and publish it, once."""
    from mlir_release.forge.files import matrix_at
    from mlir_release.host.pythons import find_pythons
    from mlir_release.release import publish as releases
    from mlir_release.release.draft import origin_of

    matrix = matrix_at(forge, origin_of(forge, tag).commit)
    outcome: releases.DiscardOutcome | releases.UploadOutcome | releases.PublishOutcome
    if discard is not None:
        outcome = releases.discard(forge, tag, discard, matrix, dry_run=dry_run)
        console.result(outcome.text(), outcome.to_json())
        return
    if dist is not None:
        outcome = releases.upload(forge, tag, dist, matrix, dry_run=dry_run)
        if upload_only or dry_run:
            console.result(outcome.text(), outcome.to_json())
            return
        console.say(outcome.text())
    interpreters = [python.executable for python in find_pythons(pythons)]
    options = _dependency_options(dependencies) if dependencies else None
    outcome = releases.publish(forge, tag, matrix, pythons=interpreters, dependencies=options, dry_run=dry_run)
    console.result(outcome.text(), outcome.to_json())
    console.summary(f"### {tag}\n\n{outcome.text()}")


def _dependency_options(place: str) -> list[str]:
    """pip's options for a place that is a folder of wheels, or an index."""
    return ["--index-url", place] if "://" in place else ["--no-index", "--find-links", place]


# -- decisions ---------------------------------------------------------------------------------------------------------


@click.group()
def release() -> None:
    """Look at releases; waive, abandon or yank."""


release.add_command(release_track)


@release.command("list")
@forge_option
@json_option
def release_list(forge: Forge) -> None:
    """Drafts and published releases, oldest first."""
    found = forge.releases()
    if console.json_mode:
        console.result("", [_release_json(entry) for entry in found])
        return
    console.table(
        ["tag", "state", "published", ">assets", ">size"],
        [
            [
                entry.tag,
                "draft" if entry.draft else "published",
                f"{entry.published_at:%Y-%m-%d %H:%M}" if entry.published_at else "",
                len(entry.assets),
                format_bytes(sum(asset.size for asset in entry.assets)),
            ]
            for entry in found
        ],
    )


def _release_json(entry: Release) -> dict[str, object]:
    return {
        "tag": entry.tag,
        "id": entry.id,
        "draft": entry.draft,
        "published_at": entry.published_at.isoformat() if entry.published_at else None,
        "assets": [{"name": asset.name, "size": asset.size, "sha256": asset.sha256} for asset in entry.assets],
    }


@release.command("show")
@click.argument("tag")
@forge_option
@json_option
def release_show(tag: str, forge: Forge) -> None:
    """One release: its assets and, while it is a draft, what it still lacks."""
    from mlir_release.forge.files import matrix_at
    from mlir_release.release.draft import find_release, missing, origin_of

    found = find_release(forge, tag)
    lacking = missing(forge, tag, matrix_at(forge, origin_of(forge, tag).commit))
    if console.json_mode:
        console.result("", {**_release_json(found), "missing": lacking.to_json()})
        return
    click.echo(f"{tag}: {'draft' if found.draft else f'published, {forge.page_url(tag)}'}")
    console.table(
        ["asset", ">size", "sha256"],
        [[asset.name, format_bytes(asset.size), asset.sha256 or "incomplete"] for asset in found.assets],
    )
    for name in (*lacking.wheels, *lacking.tests):
        click.echo(f"missing: {name}")


REASON = click.option("--reason", required=True, help="Shown to everybody who meets the gap that this makes.")


@release.command("fetch")
@click.argument("tag")
@click.argument("target")
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder.")
@forge_option
@json_option
def release_fetch(tag: str, target: str, output: Path, forge: Forge) -> None:
    """Download TARGET's wheel of TAG, from the draft too, and check its digest."""
    from mlir_release.release.draft import fetch_wheel

    path = fetch_wheel(forge, tag, target, output)
    console.result(str(path), {"file": str(path)})


@release.command("dispatch")
@click.argument("workflow")
@click.option("--ref", required=True, help="The branch or tag to run it on.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=VALUE", help="May be repeated.")
@forge_option
def release_dispatch(workflow: str, ref: str, inputs: tuple[str, ...], forge: Forge) -> None:
    """Start a WORKFLOW of the release repository."""
    forge.dispatch(workflow, ref=ref, inputs=dict(entry.partition("=")[::2] for entry in inputs))
    click.echo(f"dispatched {workflow} on {ref}")


@release.command("waive")
@click.argument("tag")
@click.argument("target")
@REASON
@forge_option
@dry_run_option
@json_option
def release_waive(tag: str, target: str, reason: str, forge: Forge, dry_run: bool) -> None:
    """Let TAG be published although TARGET is missing or fails."""
    from mlir_release.release import decisions

    decision = decisions.waive(forge, tag, target, reason, dry_run=dry_run)
    console.result(decision.text(), decision.to_json())


@release.command("abandon")
@click.argument("tag")
@REASON
@forge_option
@dry_run_option
@json_option
def release_abandon(tag: str, reason: str, forge: Forge, dry_run: bool) -> None:
    """Give a pending TAG up for ever: it is recorded as abandoned, and its draft is deleted."""
    from mlir_release.release import decisions

    decision = decisions.abandon(forge, tag, reason, dry_run=dry_run)
    console.result(decision.text(), decision.to_json())


@release.command("yank")
@click.argument("tag")
@click.argument("file", required=False, default="")
@REASON
@forge_option
@BRANCH
@dry_run_option
@json_option
def release_yank(tag: str, file: str, reason: str, forge: Forge, branch: str, dry_run: bool) -> None:
    """Let nobody get a published TAG (or one FILE of it) who did not pin it; run `index` after it."""
    from mlir_release.release import decisions

    decision = decisions.yank(forge, tag, reason, branch=branch, file=file, dry_run=dry_run)
    console.result(decision.text(), decision.to_json())


# -- index -------------------------------------------------------------------------------------------------------------


@click.command()
@forge_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder of the pages."
)
@click.option("--base-url", help="Where the pages will be served.  [default: the folder itself, as a file: URL]")
@click.option(
    "--files-url",
    help="Where a local forge's folder releases/ will be served.  [default: the folder itself, as a file: URL]",
)
@click.option("--probe", "probed", metavar="TAG", help="Then try every command that is documented for TAG.")
@click.option("--python", "pythons", multiple=True, help="With --probe: a CPython to try with; may be repeated.")
@BRANCH
@dry_run_option
@json_option
def index(
    forge: Forge,
    output: Path,
    base_url: str | None,
    files_url: str | None,
    probed: str | None,
    pythons: tuple[str, ...],
    branch: str,
    dry_run: bool,
) -> None:
    """Generate the pages that pip and people read, from the published releases alone."""
    from mlir_release.index.generate import generate

    if files_url is not None:
        forge = _served_at(forge, files_url)
    base = base_url or output.absolute().as_uri()
    outcome = generate(forge, output, base_url=base, branch=branch, dry_run=dry_run)
    console.result(outcome.text(), outcome.to_json())
    if probed is not None and not dry_run:
        from mlir_release.host.pythons import find_pythons
        from mlir_release.index.probe import probe_published

        interpreters = [python.executable for python in find_pythons(pythons)]
        found = probe_published(forge, output, probed, base_url=base, branch=branch, pythons=interpreters)
        console.say(found.text())


def _served_at(forge: Forge, url: str) -> Forge:
    """A local forge whose files have addresses below ``url``. :raises UsageError: ``files-url-not-local``"""
    from mlir_release.errors import UsageError
    from mlir_release.forge.local.forge import LocalForge

    if not isinstance(forge, LocalForge):
        raise UsageError(
            "files-url-not-local",
            "only the files of a local forge can be served somewhere else",
            where=forge.description,
            remedy="leave --files-url out: the pages link to the forge's own addresses",
        )
    return LocalForge(forge.root, base_url=url)


# -- mirror ------------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("source")
@click.argument("destination")
@BRANCH
@dry_run_option
@json_option
def mirror(source: str, destination: str, branch: str, dry_run: bool) -> None:
    """Copy the published releases of SOURCE that DESTINATION lacks (both: github:OWNER/NAME or local:PATH)."""
    from mlir_release.release.mirror import mirror as copy

    outcome = copy(open_forge(source), open_forge(destination), branch=branch, dry_run=dry_run)
    console.result(outcome.text(), outcome.to_json())
