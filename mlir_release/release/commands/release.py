"""``mlir-release release``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.options import (
    FOLDER,
    branch_option,
    build_only_option,
    dry_run_option,
    force_option,
    forge_option,
    json_option,
    limit_option,
    output_option,
    request_id_option,
    signed_by_options,
)
from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.foreign import markdown
from mlir_release.release.commands.find import release_diff, release_find, release_reverts

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.forge.base import Forge, ReleaseRow
    from mlir_release.release.judging.signed import SignedBy
    from mlir_release.release.judging.status import PlatformLine, ReleaseLine
    from mlir_release.release.model.release_tags import Kind


reason_option = click.option("--reason", required=True, help="Shown in the manifest, the notes and the pages.")


@click.group()
def release() -> None:
    """Start numbered releases; look at all; sweep, waive, abandon or yank."""


release.add_command(release_diff)
release.add_command(release_find)
release.add_command(release_reverts)


@release.command("start")
@click.option("--version", required=True, help="LLVM's version.")
@forge_option
@click.option(
    "--revision", "policy", metavar="REV", help="Upstream sha, tag or branch.  [default: tag llvmorg-VERSION]"
)
@force_option
@build_only_option
@request_id_option
@branch_option
@dry_run_option
@json_option
def release_start(
    version: str,
    forge: Forge,
    policy: str | None,
    branch: str,
    **asked: Any,
) -> None:
    """Make the numbered release llvm-VERSION.NN, on its own branch."""
    from mlir_release.ground.llvm.llvm_version import upstream_tag
    from mlir_release.release.forge.files import matrix_of_branch
    from mlir_release.release.model.release_tags import line_of
    from mlir_release.release.pinning.green import select
    from mlir_release.release.transaction.start import start

    matrix = matrix_of_branch(forge, branch, line_of(version))
    revision = select(matrix.release, policy or upstream_tag(version))
    outcome = start(forge, revision, matrix, version=version, **asked)
    console.outcome(outcome, title=outcome.tag)
    for name in ("tag", "revision", "action"):
        console.output(name, getattr(outcome, name))


@release.command("list")
@limit_option("newest")
@forge_option
@json_option
def release_list(limit: int, forge: Forge) -> None:
    """List drafts and published releases, oldest first; `release show` has their assets."""
    found = forge.recent(limit or None)[::-1]
    console.result("", [_row_json(entry) for entry in found])
    console.table(
        ["tag", "state", "created", "published"],
        [
            [
                entry.tag,
                "draft" if entry.draft else "published",
                f"{entry.created_at:%Y-%m-%d %H:%M}",
                f"{entry.published_at:%Y-%m-%d %H:%M}" if entry.published_at else "",
            ]
            for entry in found
        ],
    )


def _row_json(entry: ReleaseRow) -> dict[str, object]:
    return {
        "tag": entry.tag,
        "id": entry.id,
        "draft": entry.draft,
        "published_at": entry.published_at.isoformat() if entry.published_at else None,
    }


@release.command("show")
@click.argument("tag")
@forge_option
@json_option
def release_show(tag: str, forge: Forge) -> None:
    """Show a release: its assets and, while it is a draft, what it still lacks."""
    from mlir_release.release.transaction.draft import Draft

    draft = Draft.load(forge, tag)
    found, wheels, tests = draft.release, tuple[str, ...](), tuple[str, ...]()
    if found.draft:
        card = draft.card()
        wheels, tests = card.lacking_wheels, card.lacking_tests
    assets = [{"name": asset.name, "size": asset.size, "sha256": asset.sha256} for asset in found.assets]
    console.result("", {**_row_json(found), "assets": assets, "missing": {"wheels": wheels, "tests": tests}})
    console.show(f"{tag}: {'draft' if found.draft else f'published, {forge.page_url(tag)}'}")
    console.table(
        ["asset", ">size", "sha256"],
        [[asset.name, format_bytes(asset.size), asset.sha256 or "incomplete"] for asset in found.assets],
    )
    for name in (*wheels, *tests):
        console.show(f"missing: {name}")


@release.command("fetch")
@click.argument("tag")
@click.argument("targets", metavar="TARGET...", nargs=-1, required=True)
@output_option("the wheels")
@forge_option
@json_option
def release_fetch(tag: str, targets: tuple[str, ...], output: Path, forge: Forge) -> None:
    """Download each TARGET's wheel of TAG, also from a draft, into a folder of its name, and check the digests."""
    from mlir_release.release.transaction.draft import Draft

    draft = Draft.load(forge, tag)
    paths, errors = [], []
    for target in targets:
        try:
            paths.append(str(draft.fetch_wheel(target, output / target)))
        except ReleaseError as error:  # of this target alone
            errors.append(error)
    if errors:
        raise errors[0]
    console.result("\n".join(paths), {"files": paths})


@release.command("dispatch")
@click.argument("workflow")
@click.option("--ref", required=True, help="The branch or tag to run it on.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=VALUE", help="May be repeated.")
@forge_option
@json_option
def release_dispatch(workflow: str, ref: str, inputs: tuple[str, ...], forge: Forge) -> None:
    """Start a WORKFLOW of the release repository."""
    run = forge.dispatch(workflow, ref=ref, inputs=dict(entry.partition("=")[::2] for entry in inputs))
    url = run.url if run is not None else ""
    console.result(
        f"dispatched {workflow} on {ref}" + (f": {url}" if url else ""),
        {"workflow": workflow, "ref": ref, "run": run.id if run is not None else None, "url": url},
    )


@release.command("check-run")
@click.argument("run")
@click.argument("tag")
@forge_option
@branch_option
@json_option
def release_check_run(run: str, tag: str, forge: Forge, branch: str) -> None:
    """Check that RUN built the snapshot TAG, before anything that it made is taken over."""
    from mlir_release.release.forge.files import matrix_of_branch
    from mlir_release.release.pinning.pinned import check_run

    found = check_run(forge, run, tag, workflow=matrix_of_branch(forge, branch).release.workflow)
    console.result(f"run {run} built {tag} at {found.commit}", {"run": run, "tag": tag, "commit": found.commit})


@release.command("tidy-caches")
@forge_option
@branch_option
@json_option
def release_tidy_caches(forge: Forge, branch: str) -> None:
    """Delete the compiler caches of a branch that newer ones supersede."""
    deleted = forge.services.tidy_caches(branch)
    console.result("\n".join(["deleted:", *deleted]) if deleted else "no cache is superseded", {"deleted": deleted})


@release.command("sweep")
@forge_option
@branch_option
@dry_run_option
@json_option
@click.pass_context
def release_sweep(ctx: click.Context, forge: Forge, branch: str, dry_run: bool) -> None:
    """Publish pending snapshots that are complete, abandon superseded ones, start builds that were not started.

    A step that fails does not stop the others; the exit code is that of the first failure. Numbered releases are only
    listed.
    """
    from mlir_release.release.transaction.sweep import sweep

    swept = sweep(forge, branch=branch, dry_run=dry_run)
    console.outcome(swept, title="Sweep")
    if swept.failures:
        ctx.exit(int(swept.failures[0].exit_code))


@release.command("latest")
@click.option(
    "--sign",
    type=FOLDER,
    help="Sign it and the index of all releases, as the workflow run that this is, into a folder.",
)
@click.option("--store", type=FOLDER, help="Commit what is in that folder to the branch `latest`.")
@forge_option
@signed_by_options
@json_option
def release_latest(sign: Path | None, store: Path | None, forge: Forge, signed_by: SignedBy) -> None:
    """Show which snapshot is signed as the newest, until when; or renew that, as latest.yml does."""
    from mlir_release.release.latest import latest_branch

    if sign is not None:
        console.outcome(latest_branch.sign_pointer(forge, sign, branch=signed_by.branch))
    elif store is not None:
        console.outcome(latest_branch.store_pointer(forge, store, branch=signed_by.branch))
    else:
        console.outcome(latest_branch.show_pointer(forge, signed_by))


@release.command("waive")
@click.argument("tag")
@click.argument("target", required=False)
@click.option("--only", metavar="FILTER", help="Instead of a TARGET: all that are missing or fail, like 'os=windows'.")
@reason_option
@forge_option
@dry_run_option
@json_option
def release_waive(tag: str, target: str | None, only: str | None, reason: str, forge: Forge, dry_run: bool) -> None:
    """Allow TAG to be published although TARGET is missing or fails."""
    from mlir_release.release.transaction import decisions

    console.outcome(decisions.waive_either(forge, tag, target=target, only=only, reason=reason, dry_run=dry_run))


@release.command("abandon")
@click.argument("tag")
@reason_option
@forge_option
@dry_run_option
@json_option
def release_abandon(tag: str, reason: str, forge: Forge, dry_run: bool) -> None:
    """Abandon a pending TAG permanently: this is recorded, and its draft is deleted."""
    from mlir_release.release.transaction import decisions

    console.outcome(decisions.abandon(forge, tag, reason, dry_run=dry_run))


@release.command("yank")
@click.argument("tag")
@click.argument("file", required=False, default="")
@reason_option
@forge_option
@branch_option
@dry_run_option
@json_option
def release_yank(tag: str, file: str, reason: str, forge: Forge, branch: str, dry_run: bool) -> None:
    """Hide a published TAG (or one FILE of it) from everyone who did not pin it; run `index` afterwards."""
    from mlir_release.release.transaction import decisions

    console.outcome(decisions.yank(forge, tag, reason, branch=branch, file=file, dry_run=dry_run))


@release.command("track")
@click.argument("tag")
@forge_option
@click.option("--log-url", help="Linked in the issues.  [default: the workflow run]")
@dry_run_option
@json_option
def release_track(tag: str, forge: Forge, log_url: str | None, dry_run: bool) -> None:
    """Open, update or close an issue for each target, by its state in TAG.

    An issue of an experimental target says that nothing waits for it. A platform whose SDK fails has one issue for
    everything that depends on it. A local forge has no issues: there, the command prints what they would be about.
    """
    from mlir_release.operate.issues import track_release

    found = track_release(forge, tag, log_url=log_url, dry_run=dry_run)
    console.outcome(found, title=markdown(tag))


@release.command("canaries")
@click.argument("tag")
@click.option("--only", multiple=True, metavar="NAME", help="Only this canary of the matrix. May be repeated.")
@click.option("--github", is_flag=True, help="The jobs, as GitHub's strategy.matrix (step output 'matrix').")
@click.option("--run", metavar="ID", help="Record how the jobs of a run ended, on the branch `latest`.")
@forge_option
@branch_option
@json_option
def release_canaries(tag: str, only: tuple[str, ...], github: bool, run: str | None, forge: Forge, branch: str) -> None:
    """Show or record other projects' tests, the [[canary]] of TAG's matrix, which canary.yml runs with TAG's wheels.

    Without an option, it prints what each of them runs.
    """
    import json

    from mlir_release.release.forge.files import matrix_of_branch
    from mlir_release.release.latest import canary_records
    from mlir_release.release.model.release_tags import parse_tag
    from mlir_release.release.pinning.state import find_state

    parsed = parse_tag(tag)
    matrix = matrix_of_branch(forge, branch, parsed.line if parsed is not None else None)
    planned = canary_records.chosen(matrix, only)
    version = find_state(forge, tag).llvm_version
    if run is not None:
        results = canary_records.results_of_run(forge, run, tag, planned, version)
        console.outcome(canary_records.record(forge, tag, results, branch=branch), title=f"Canaries of {tag}")
        return
    left_out = {canary.name: why for canary in planned if (why := canary.misfit(version))}
    rows = canary_records.jobs([canary for canary in planned if canary.name not in left_out], tag)
    if github:
        console.output("matrix", json.dumps({"include": rows}, separators=(",", ":")))
        console.output("empty", "false" if rows else "true")
        console.output("to_record", "true" if planned else "false")
        builds = forge.runs(matrix.release.workflow, ref=tag)
        console.output("build", builds[0].id if builds else "")
    shown = "{name}: {repository} at {ref}, CPython {python}\n{commands}"
    lines = [shown.format_map(row) for row in rows]
    lines += [f"{name} is not run: {why}. To do: move its ref, then its llvm" for name, why in left_out.items()]
    console.result(
        "\n".join(lines) or f"the matrix of {tag} has no [[canary]]", {"include": rows, "left_out": left_out}
    )


_TITLES: dict[Kind, tuple[str, str]] = {
    "snapshot": ("Snapshots", "Platforms, in snapshots"),
    "numbered": ("Numbered releases", "Platforms, in numbered releases"),
}
_STYLES = {
    **dict.fromkeys(("passed", "published"), "green"),
    **dict.fromkeys(("failed", "waived", "waiting"), "red"),
    **dict.fromkeys(("partial", "not started"), "yellow"),
    **dict.fromkeys(("abandoned", "missing", "unknown"), "dim"),
    "building": "cyan",
}


@release.command("status")
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="How many releases of each kind.")
@forge_option
@branch_option
@json_option
def release_status(limit: int, forge: Forge, branch: str) -> None:
    """Show what is building, what passed, and what fails since which release, for each platform.

    A release that is "waiting for waiver" lacks something that is required, and nothing is building it. A platform is
    "partial" where only something experimental fails. Times are by the forge's clock.
    """
    from mlir_release.ground.documents.times import format_age
    from mlir_release.release.forge.files import matrix_of_branch
    from mlir_release.release.judging.status import make_status, short_tag
    from mlir_release.release.judging.status_facts import observe_status
    from mlir_release.release.model.measures import moved
    from mlir_release.release.transaction.ledger import Ledger

    status = make_status(observe_status(Ledger(forge), matrix_of_branch(forge, branch), limit=limit, branch=branch))
    for note in status.notes:
        console.warn(note)
    console.result("", status)
    from rich.text import Text

    for kind, (heading, platforms_heading) in _TITLES.items():
        releases, platforms = status.of_kind(kind)
        if not releases:
            continue
        rows: list[list[object]] = []
        for line in releases:
            age = format_age(status.now - line.since) if line.since else ""
            fails = line.red[0] + (f" +{len(line.red) - 1}" if len(line.red) > 1 else "") if line.red else ""
            wheels = f"{line.done}/{line.total}" if line.total else ""
            state = Text(line.shown_state, style=_STYLES[line.state])
            rows.append([line.tag, state, age, wheels, Text(fails, style=_STYLES["failed"])])
        console.table(["release", "state", ">age", ">wheels", "fails"], rows, title=heading)
        rows = []
        for each in platforms:
            issues = " ".join(link.text for link in each.issues[:2]) + (" …" if len(each.issues) > 2 else "")
            now = Text(each.verdict, style=_STYLES[each.verdict])
            red = Text(short_tag(each.red_since), style=_STYLES["failed"])
            rows.append([each.name, now, short_tag(each.building), short_tag(each.passed), red, issues])
        headings = ["platform", "now", "building", "passed in", "fails since", "issues"]
        console.table(headings, rows, title=platforms_heading)
        for text in _links(releases, platforms):
            console.show(text)
        for release in releases:  # measures beyond the noise
            for text in moved(status.measures[kind], release.tag):
                console.show(f"{release.tag}: {text}")
    if not status.releases:
        console.show("no release was begun yet")


def _links(releases: tuple[ReleaseLine, ...], platforms: tuple[PlatformLine, ...]) -> list[str]:
    """Where to look: runs of what is pending, jobs that failed, issues; and why something was abandoned."""
    lines = [f"{line.tag} was abandoned: {line.reason}" for line in releases if line.state == "abandoned"]
    pending = [line for line in releases if line.run and line.state in ("building", "waiting")]
    lines += [f"{line.tag}, {line.shown_state}: {line.run}" for line in pending]
    failed = dict.fromkeys(link for line in platforms for link in line.failed)
    issues = dict.fromkeys(link for line in platforms for link in line.issues)
    return lines + [f"{link.text}: {link.url}".removesuffix(": ") for link in (*failed, *issues)]
