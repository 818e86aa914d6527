"""Copies files into ``ARTIFACTS/NAME`` as they come out of an artifact.

What actions/upload-artifact 7 does (its README and sources): only files travel, so that folders without any are lost;
hidden ones are left out, with all that is below them; links become what they point to; modes and times are lost. The
names are those below the folder that a pattern begins with, or that all patterns have in common.
"""

from __future__ import annotations

import glob
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What actions/upload-artifact says where an account's storage is used up.
QUOTA = (
    "Artifact storage quota has been hit. Unable to upload any new artifacts. Usage is recalculated every 6-12 hours."
)
CONFLICT = "(409) Conflict: an artifact with this name already exists on the workflow run"


def main() -> None:
    """See the module."""
    name, lines = os.environ["NAME"], os.environ["FILES"].split("\n")
    if not name or set(name) & set('":<>|*?\r\n\\/'):
        sys.exit(f"::error::The artifact name is not valid: {name}. Contains a character that is not allowed")
    given = [line.strip() for line in lines if line.strip()]
    files = find([line for line in given if not line.startswith("!")], hidden=os.environ["HIDDEN"] == "true")
    excluded = {path for line in given if line.startswith("!") for path in expand(line[1:])}
    chosen = {inner: path for inner, path in files.items() if path not in excluded}
    if not chosen:
        text = f"No files were found with the provided path: {' '.join(given)}. No artifacts will be uploaded."
        if os.environ["NONE"] == "error":
            sys.exit(f"::error::{text}")
        print(text if os.environ["NONE"] == "ignore" else f"::warning::{text}")
        return
    target = Path(os.environ["ARTIFACTS"], name)
    if target.exists():
        if os.environ["OVERWRITE"] != "true":
            sys.exit(f"::error::Failed to CreateArtifact: Received non-retryable error: Failed request: {CONFLICT}")
        shutil.rmtree(target)
    if os.environ.get("QUOTA_IS_FULL"):
        sys.exit(f"::error::Failed to CreateArtifact: {QUOTA}")
    for inner, path in chosen.items():
        copy = target / inner
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)  # follows links; neither mode nor time
    print(f"Artifact {name} has been successfully uploaded! {len(chosen)} files")


def find(patterns: list[str], *, hidden: bool) -> dict[Path, Path]:
    """The files of all patterns, by their names in the artifact."""
    starts = [start_of(pattern) for pattern in patterns]
    root = Path(os.path.commonpath(starts)) if starts else Path.cwd()
    if root.is_file():
        root = root.parent
    found = {}
    for pattern, start in zip(patterns, starts, strict=True):
        for path in expand(pattern):
            if hidden or not any(part.startswith(".") for part in path.relative_to(start).parts):
                found[path.relative_to(root)] = path
    return found


def start_of(pattern: str) -> Path:
    """The part of a pattern before its first wildcard."""
    parts = Path.cwd().joinpath(Path(pattern).expanduser()).parts
    plain = next((number for number, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return Path(*parts[:plain])


def expand(pattern: str) -> list[Path]:
    """The files that a pattern names, with all that is below the folders."""
    start = start_of(pattern)
    rest = Path.cwd().joinpath(Path(pattern).expanduser()).relative_to(start)
    return [file for found in ([start] if rest == Path() else start.glob(str(rest))) for file in below(found)]


def below(path: Path) -> Iterator[Path]:
    """All files; a link is what it points to, and nothing if that is not there."""
    if path.is_dir():
        for inner in sorted(path.iterdir()):
            yield from below(inner)
    elif path.is_file():
        yield path


if __name__ == "__main__":
    main()
