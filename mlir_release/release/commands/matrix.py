"""``mlir-release matrix``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import forge_address_option, json_option, repository_option
from mlir_release.ground.console import console
from mlir_release.release.forge.open import open_forge
from mlir_release.release.model.filters import FILTER_KEYS

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.model.matrix_jobs import Kind


_EXAMPLES = "\n".join(f"  {example:<24} {meaning}" for meaning, example in FILTER_KEYS.values())


@click.command(
    epilog="Terms of a FILTER: key=value, key!=value, or a tag alone. A value is a glob; all terms have to hold. "
    f"The keys:\n\n\b\n{_EXAMPLES}"
)
@click.option("--only", metavar="FILTER", help="For example: os=linux and python=cp31[12] and required.")
@click.option(
    "--kind",
    type=click.Choice(["platforms", "sdk", "wheels", "tests"]),
    default="wheels",
    show_default=True,
    help="What the rows are: jobs that make SDKs, wheels, or test results; or platforms, each with all of its jobs.",
)
@click.option("--github", is_flag=True, help="GitHub's strategy.matrix on one line (and as step output 'matrix').")
@click.option("--line", metavar="X.Y", help="That of the numbered releases of LLVM X.Y, like 22.1.")
@click.option("--tag", metavar="TAG", help="What the release of TAG is to have (looks at the forge).")
@click.option("--missing", metavar="TAG", help="Only what the release of TAG still lacks (looks at the forge).")
@forge_address_option("With --tag or --missing: ")
@repository_option
@json_option
def matrix(
    only: str | None,
    kind: Kind,
    github: bool,
    line: str | None,
    tag: str | None,
    missing: str | None,
    forge: str | None,
    repository: Path,
) -> None:
    """Show the build matrix as a table, as JSON, or as GitHub's matrix.

    It is targets.toml; for numbered releases of LLVM X.Y it is matrices/X.Y.toml, if there is such a file. In a folder
    that is no checkout, it is the matrix that the toolkit ships.

    That of a tag leaves out the targets that its llvm-project revision can't be made into, and says why.
    """
    import json

    from mlir_release.release.forge.checkout import checkout_or_shipped, matrix_of_checkout
    from mlir_release.release.model.matrix_jobs import NO_RELEASE, github_matrix, job_rows

    if line is not None and (tag or missing):
        raise click.UsageError("--line is for a checkout; a tag has its line by its name")
    provenance, left_to_build = "", 0
    if missing is not None:
        from mlir_release.release.transaction.draft import Draft  # a plain `matrix` does not wait for this

        draft = Draft.load(open_forge(forge), missing)
        rows = draft.missing_rows(kind, only=only or "")
        found, left_to_build = draft.due.only(only) if only else draft.due, len(draft.left_out)
        provenance = "none" if draft.signatures is None else "required"
    else:
        release = NO_RELEASE
        if tag is None:
            found = matrix_of_checkout(checkout_or_shipped(repository), line)
            if line is not None:
                console.say(f"the numbered releases of LLVM {line} are made by {found.file}")
        else:
            from mlir_release.release.pinning.state import find_state, matrix_of

            place = open_forge(forge)
            state = find_state(place, tag)
            found, release = matrix_of(place, state).for_tag(state.tag), state.of_release
        found = found.only(only) if only else found
        rows = job_rows(found, kind, release=release)
    excluded = found.excluded
    if not console.json_mode:
        for row in excluded:
            console.say(f"left out: {row}")
        if left_to_build:
            console.say(f"not asked for by --only, and missing, too: {left_to_build} wheels and tests")
    if github:
        text = json.dumps(github_matrix(rows), separators=(",", ":"))
        console.output("matrix", text)
        console.output("empty", "false" if rows else "true")
        console.output("candidates", "true" if found.release.pypi_candidates else "false")
        if provenance:
            console.output("provenance", provenance)
            console.output("left-out", str(left_to_build))
        console.result(text, github_matrix(rows))
    elif console.json_mode:
        left_out = [{"target": row.name, "reason": row.reason} for row in excluded]
        console.result("", {"rows": rows, "excluded": left_out})
    elif not rows:
        console.show("nothing is missing" if missing else "no targets")
    else:
        from mlir_release.ground.documents.decode import parse_json

        def cell(name: str, value: str) -> str:
            is_jobs = name in ("wheels", "tests") and value.startswith("{")
            return " ".join(job["targets"] for job in parse_json(value)["include"]) if is_jobs else value

        # Orders are for jobs alone; of the jobs, only the targets are shown.
        shown = [{name: cell(name, value) for name, value in row.items() if name != "order"} for row in rows]
        console.table(list(shown[0]), [list(row.values()) for row in shown])
