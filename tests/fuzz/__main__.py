"""``python -m tests.fuzz``: see ``make fuzz``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz import campaign


def main() -> int:
    """Run what is asked for; 1 if anything was found."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Malformed input for readers and commands."
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="commands, readers, coverage; all of them by default")
    parser.add_argument("--seed", type=int, default=1, help="of all random numbers but those of coverage")
    parser.add_argument("--number", type=int, default=3_000, help="how many commands, and how many files are read")
    parser.add_argument("--minutes", type=float, default=10.0, help="for coverage, in all")
    parser.add_argument("--only", default="", help="the first words of the commands, or of a reader's name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz"), help="the folder for what is found")
    parser.add_argument("--part", metavar="FOLDER:N/M", help=argparse.SUPPRESS)
    given = parser.parse_args()
    kinds = given.kinds or ["commands", "readers", *(["coverage"] if find_spec("atheris") else [])]
    if unknown := set(kinds) - campaign.KINDS.keys():
        parser.error(f"{', '.join(sorted(unknown))} is not one of {', '.join(campaign.KINDS)}")
    plan = campaign.Plan(given.seed, given.number, given.minutes, given.only, given.findings.absolute())
    if given.part:
        folder, _, share = given.part.rpartition(":")
        part, _, parts = share.partition("/")
        with redirect_stdout(sys.stderr):
            found = campaign.KINDS[kinds[0]](Path(folder), plan, int(part), int(parts))
        print(campaign.write_part(found))
        return 0
    found_any = False
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
            report = campaign.run(kind, Path(scratch), plan, jobs=given.jobs)
        print(f"{kind}: {report.text()}", flush=True)
        report.write(plan.findings)
        found_any = found_any or bool(report.findings)
    return int(found_any)


if __name__ == "__main__":
    sys.exit(main())
