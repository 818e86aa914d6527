#!/usr/bin/env python3
"""What each command asks of GitHub as the releases grow in number: requests, bytes, seconds.

    python benchmarks/github.py [--releases 10 --releases 2000] [--from-nothing] [--json FILE]

The repository is on a loopback GitHub, with 150 assets a release. A page of releases takes a millisecond for each of
its assets, and one with more than 10,000 of them ends in a 504, as GitHub's do. Requests are those of REST, of GraphQL,
of git, and of public addresses (pages, downloads), which no limit counts; the first two have a limit of their own each.
CPU seconds are those of command and server together, which are one process: of them, ratios between sizes are worth
something on any machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)  # in place of this folder, in which PyGithub's `github` would be this file

from mlir_release.ground.console import console, format_bytes  # noqa: E402
from tests.scale import KINDS, Veteran  # noqa: E402

if TYPE_CHECKING:
    from tests.scale import Asked

RELEASES = (10, 100, 1000, 2000)


def measure(count: int, *, from_nothing: bool) -> list[Asked]:
    """A day of a repository with so many releases."""
    with tempfile.TemporaryDirectory() as folder:
        veteran = Veteran(Path(folder), count, seconds_of_an_asset=0.001)
        veteran.github.contract = None  # else what it checks would be timed, too
        with veteran.github:
            found = []
            for asked in veteran.a_day(from_nothing=from_nothing):
                found.append(asked)
                print(line(count, asked), flush=True)
    return found


def line(count: int, asked: Asked) -> str:
    """One row."""
    requests = "".join(f"{asked.requests[kind]:>9}" for kind in KINDS)
    return (
        f"{asked.name:<34}{count:>9}{requests}{format_bytes(asked.received):>11}{asked.seconds:>9.1f}{asked.cpu:>9.1f}"
    )


def main() -> None:
    """All sizes, smallest first."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--releases", type=int, action="append", help=f"may be repeated; default: {RELEASES}")
    parser.add_argument("--json", type=Path, help="write the figures into a file, too")
    parser.add_argument("--from-nothing", action="store_true", help="also make the pages without those that are served")
    options = parser.parse_args()
    for name in ("GITHUB_RUN_ID", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GH_TOKEN"):
        os.environ.pop(name, None)
    console.quiet = True
    kinds = "".join(f"{kind:>9}" for kind in KINDS)
    print(f"{'command':<34}{'releases':>9}{kinds}{'received':>11}{'seconds':>9}{'CPU':>9}")
    found = {count: measure(count, from_nothing=options.from_nothing) for count in sorted(options.releases or RELEASES)}
    if options.json:
        rows = [
            {
                "releases": count,
                "command": asked.name,
                **asked.requests,
                "bytes": asked.received,
                "seconds": asked.seconds,
                "cpu": asked.cpu,
            }
            for count, day in found.items()
            for asked in day
        ]
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
