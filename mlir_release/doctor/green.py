"""Whether the checks that define *green* exist: a misspelt name would never be green."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.doctor.results import Finding, of_error
from mlir_release.errors import ReleaseError
from mlir_release.snapshot.green import checks_of_upstream, names_seen, unseen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mlir_release.doctor.repository_files import Contents

#: How many of the newest upstream commits are looked at, unless every check has been seen before: two requests each.
LOOKED_AT = 20


def examine_green(contents: Contents, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether each check of ``[release.green]`` occurs on recent upstream commits, if there is such a table."""
    if contents.matrix is None or (green := contents.matrix.release.green) is None:
        return
    config, check = contents.matrix.release, "green-checks"
    try:
        checks = checks_of_upstream(config.upstream, environ)
        seen = names_seen(checks, config.upstream_branch, green.checks, count=LOOKED_AT)
    except ReleaseError as error:
        yield of_error(check, error, about="[release.green]", level="unknown")
        return
    where = f"on the last {LOOKED_AT} commits of {config.upstream_branch} upstream"
    if not seen:
        yield Finding(check, "unknown", f"there is no check at all {where}", "run this again when checks have run")
    elif never := unseen(green.checks, seen):
        remedy = "correct [release.green] in targets.toml: policy green waits for these checks for ever"
        yield Finding(check, "problem", f"{', '.join(never)} did not occur {where}", remedy)
    else:
        yield Finding(check, "ok", f"{', '.join(green.checks)}: seen {where}")
