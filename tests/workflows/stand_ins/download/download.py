"""Copies artifacts out of ``ARTIFACTS``, as actions/download-artifact 8 does (its README and sources).

A name without an artifact fails; a pattern without one downloads nothing, and all is well. Several artifacts get
folders of their own unless they are merged; a single one, however it was found, does not.
"""

from __future__ import annotations

import os
import shutil
import sys
from fnmatch import fnmatchcase
from pathlib import Path


def main() -> None:
    """See the module."""
    store, name = Path(os.environ["ARTIFACTS"]), os.environ["NAME"]
    if os.environ["RUN"] and os.environ["TOKEN"]:  # without a token, the other input is ignored
        store = store.with_name(f"artifacts-{os.environ['RUN']}")
    there = sorted(path.name for path in store.iterdir()) if store.is_dir() else []
    if name and name not in there:
        sys.exit(f"::error::Unable to download artifact(s): Artifact not found for name: {name}")
    patterns = braces(os.environ["PATTERN"] or "*")
    found = [name] if name else [entry for entry in there if any(fnmatchcase(entry, one) for one in patterns)]
    folder = Path(os.environ["FOLDER"]).expanduser()
    for entry in found:
        into = folder if len(found) == 1 or os.environ["MERGE"] == "true" else folder / entry
        shutil.copytree(store / entry, into, copy_function=shutil.copyfile, dirs_exist_ok=True)
    print(f"Total of {len(found)} artifact(s) downloaded")


def braces(pattern: str) -> list[str]:
    """The patterns that ``{a,b}`` at the ends of one means (minimatch, which the action uses, knows more)."""
    if pattern.startswith("{") and pattern.endswith("}"):
        return pattern[1:-1].split(",")
    return [pattern]


if __name__ == "__main__":
    main()
