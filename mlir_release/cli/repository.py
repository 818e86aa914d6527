"""The release repository: its pin, its matrix, its tags; and a new one in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_release.cli.common import dry_run_option, forge_option, json_option, resolve_forge
from mlir_release.console import console

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge
    from mlir_release.model.matrix_jobs import Kind
    from mlir_release.model.targets import Matrix

REPOSITORY = click.option(
    "-C",
    "--repository",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    show_default="this folder",
    help="Checkout of the release repository.",
)


def read_matrix(repository: Path) -> Matrix:
    """The matrix of a checkout. :raises UsageError: if it is missing or malformed"""
    from mlir_release.errors import UsageError
    from mlir_release.model.targets import TARGETS_FILE, Matrix

    path = repository / TARGETS_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "targets-missing",
            f"there is no readable {TARGETS_FILE}",
            where=str(path),
            why=str(error),
            remedy="run this in a checkout of the release repository, or name one with --repository",
        ) from None
    return Matrix.parse(text, where=str(path))


# -- pin -------------------------------------------------------------------------------------------------------------


@click.group()
def pin() -> None:
    """Show, set or check the pinned llvm-project revision of a checkout."""


@pin.command("show")
@REPOSITORY
@json_option
def pin_show(repository: Path) -> None:
    """Print the pin."""
    from mlir_release.model.pin import read_pin

    sha = read_pin(repository)
    console.result(sha, {"revision": sha})


@pin.command("set")
@click.argument("selector")
@REPOSITORY
@dry_run_option
@json_option
def pin_set(selector: str, repository: Path, dry_run: bool) -> None:
    """Pin SELECTOR: head, green, a full sha, a tag or a branch of the upstream. Commits nothing."""
    from mlir_release.model.pin import write_pin
    from mlir_release.snapshot.green import select
    from mlir_release.snapshot.upstream import Upstream

    config = read_matrix(repository).release
    revision = select(config, selector, Upstream(config.upstream, branch=config.upstream_branch))
    if not dry_run:
        write_pin(repository, revision.sha)
    verb = "would pin" if dry_run else "pinned"
    console.result(
        f"{verb} {revision.sha}  {revision.subject}",
        {"revision": revision.sha, "subject": revision.subject, "written": not dry_run},
    )


@pin.command("check")
@REPOSITORY
@json_option
def pin_check(repository: Path) -> None:
    """Check that the pin is well-formed and that its commit exists upstream."""
    from mlir_release.model.pin import read_pin
    from mlir_release.snapshot.upstream import Upstream

    config = read_matrix(repository).release
    revision = Upstream(config.upstream, branch=config.upstream_branch).resolve(read_pin(repository))
    console.result(f"{revision.sha} is upstream: {revision.subject}", {"revision": revision.sha, "ok": True})


# -- matrix ----------------------------------------------------------------------------------------------------------


@click.command()
@click.option("--only", metavar="FILTER", help="For example: os=linux and (python=cp312 or required).")
@click.option(
    "--kind",
    type=click.Choice(["sdk", "wheels", "tests"]),
    default="wheels",
    show_default=True,
    help="What the rows are: jobs that make SDKs, wheels, or test results.",
)
@click.option("--github", is_flag=True, help="GitHub's strategy.matrix on one line (and as step output 'matrix').")
@click.option("--missing", metavar="TAG", help="Only what the release of TAG still lacks (looks at the forge).")
@click.option("--forge", metavar="ADDRESS", help="With --missing: the release repository.")
@REPOSITORY
@json_option
def matrix(
    only: str | None, kind: Kind, github: bool, missing: str | None, forge: str | None, repository: Path
) -> None:
    """Show the build matrix as a table, as JSON, or as GitHub's matrix."""
    import json

    from mlir_release.model.matrix_jobs import github_matrix, job_rows, missing_rows

    if missing is None:
        found = read_matrix(repository)
        rows = job_rows(found.only(only) if only else found, kind)
    else:
        from mlir_release.forge.files import matrix_at
        from mlir_release.release.draft import origin_of
        from mlir_release.release.publish import missing as find_missing

        place = resolve_forge(forge)
        origin = origin_of(place, missing)
        found = matrix_at(place, origin.commit).due(origin.tag)
        found = found.only(only) if only else found
        lacking = find_missing(place, missing, found)
        rows = missing_rows(found, kind, wheels=lacking.wheels, tests=lacking.tests)
    if github:
        text = json.dumps(github_matrix(rows), separators=(",", ":"))
        console.output("matrix", text)
        console.output("empty", "false" if rows else "true")
        click.echo(text)
    elif console.json_mode:
        console.result("", rows)
    elif not rows:
        click.echo("nothing is missing" if missing else "no targets")
    else:
        columns = list(rows[0])
        console.table(columns, [[row[column] for column in columns] for row in rows])


# -- tags ------------------------------------------------------------------------------------------------------------


@click.group()
def tag() -> None:
    """List the release tags, or say which one comes next."""


@tag.command("list")
@forge_option
@click.option("--state", type=click.Choice(["published", "pending", "abandoned"]), help="Only these.")
@json_option
def tag_list(forge: Forge, state: str | None) -> None:
    """All release tags that this toolkit made, with their states, oldest first."""
    from mlir_release.snapshot.state import states

    found = [entry for entry in states(forge) if state in (None, entry.state)]
    if console.json_mode:
        console.result("", [entry.to_json() for entry in found])
        return
    console.table(
        ["tag", "state", "revision", "wheels", "request", "reason"],
        [[e.name, e.state, e.revision[:12], e.wheel_version, e.request_id, e.reason] for e in found],
    )


@tag.command("next")
@click.argument("version", required=False)
@forge_option
@json_option
def tag_next(version: str | None, forge: Forge) -> None:
    """The tag that the next snapshot would get; with VERSION, the next numbered release of that LLVM version."""
    from mlir_release.model.release_tags import SnapshotTag, next_numbered, next_snapshot
    from mlir_release.snapshot.state import states

    names = frozenset(entry.name for entry in forge.tags())
    if version is not None:
        name = str(next_numbered(version, names))
    else:
        ours = [entry.tag for entry in states(forge) if isinstance(entry.tag, SnapshotTag)]
        name = str(next_snapshot(ours, forge.now(), taken=names))
    console.result(name, {"tag": name})


# -- forge -----------------------------------------------------------------------------------------------------------


@click.group()
def forge() -> None:
    """A local forge: a release repository, with its releases, in a folder that any web server can serve."""


@forge.command("init")
@click.argument("folder", type=click.Path(path_type=Path))
@REPOSITORY
@json_option
def forge_init(folder: Path, repository: Path) -> None:
    """Make a local forge in FOLDER from a checkout's pin and targets."""
    from mlir_release.forge.local.forge import LocalForge
    from mlir_release.model.pin import PIN_FILE, format_pin, read_pin
    from mlir_release.model.targets import TARGETS_FILE

    read_matrix(repository)
    files = {
        PIN_FILE: format_pin(read_pin(repository)),
        TARGETS_FILE: (repository / TARGETS_FILE).read_bytes(),
    }
    made = LocalForge.create(folder, files)
    console.result(f"made {made.description}", {"forge": f"local:{folder}"})
