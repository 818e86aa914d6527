#!/usr/bin/env python3
"""Write ``docs/errors.md`` from the table of ids in ``mlir_release/ground/errors.py``.

``--write`` rewrites the page; without it, the exit code says whether it is up to date.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "errors.md"

sys.path.insert(0, str(ROOT))

from mlir_release.ground.errors import ERRORS, ExitCode  # noqa: E402

HEADER = """# Errors

Every expected failure ends with one message: what happened, where, why, and what to do. The message carries one of the
ids below, in `--json` as the key `error`. Scripts can rely on ids and exit codes, but not on the message's words. Each
id stands for one reaction, and always has the same exit code. [Operating](operating.md) has more by situation. Until
1.0, [error-ids.md](error-ids.md) maps the ids of earlier versions.

This page is generated from `mlir_release/ground/errors.py`: `python tools/list_errors.py --write`.
"""

TITLES = {
    ExitCode.INTERNAL: "a bug",
    ExitCode.USAGE: "arguments, configuration or an input are wrong",
    ExitCode.ENVIRONMENT: "the machine lacks something",
    ExitCode.CONFLICT: "another process or person changed the same thing",
    ExitCode.FORGE: "the forge refused, or could not be reached",
    ExitCode.VERIFICATION: "a wheel, SDK, release or index is not what it must be",
    ExitCode.NEEDS_PERSON: "only a person can decide how to go on",
}


def page() -> str:
    """The page: a table for each exit code."""
    lines = [HEADER]
    for code, ids in ERRORS.items():
        lines.append(f"## {code.value}: {TITLES[code]}\n| id | what happened | what to do |\n|---|---|---|")
        lines += [f"| `{id}` | {meaning.what} | {meaning.remedy} |" for id, meaning in sorted(ids.items())]
        lines.append("")
    lines.append(f"{ExitCode.UNTESTABLE.value} stands for a commit that can't be tested, as in `git bisect run`.\n")
    return "\n".join(lines)


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="rewrite the page")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        print("docs/errors.md is out of date: python tools/list_errors.py --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
