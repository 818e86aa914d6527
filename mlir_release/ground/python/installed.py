"""Whether a distribution's installed files are those that it came with, and which other distribution has them, too.

Each of our wheels has a copy of this file, and ``install`` runs it in a foreign environment. So it imports nothing of
the toolkit, and runs on the oldest Python that bindings support: ``installed.py [DISTRIBUTION]``.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from base64 import urlsafe_b64encode
from importlib.metadata import Distribution, FileHash, PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from pathlib import Path


def complaint(name: str) -> str:
    """Say what is wrong with the installed files of a distribution by its RECORD; empty: nothing is.

    Pip notices neither a distribution that overwrites another's files, nor one that takes them along when it is
    removed.
    """
    try:
        mine = distribution(name)
    except PackageNotFoundError:  # it was not installed from a wheel
        return ""
    files = {os.path.normpath(str(file.locate())): file for file in mine.files or () if file.hash is not None}
    names = {path: str(file) for path, file in files.items()}
    damaged = {names[path] for path, file in files.items() if not _is_whole(path, file.hash)}
    others = {}
    for other in distributions():
        claimed = {names.get(os.path.normpath(str(file.locate())), "") for file in other.files or ()} - {""}
        if claimed and _title(other) != _title(mine):
            others[_title(other)] = claimed
    lines = [f"{_title(mine)} is damaged: {_listed(damaged)} changed or missing"] if damaged else []
    lines += [f"{other} installs {_listed(claimed)} of {_title(mine)}, too" for other, claimed in others.items()]
    unclaimed = damaged.difference(*others.values())
    if unclaimed and others:
        lines.append(f"no installed distribution but {_title(mine)} has {_listed(unclaimed)}")
    elif unclaimed:
        lines.append("no other distribution has them now: one that was removed may have")
    first = _shadowing(mine, set(names.values()))
    if lines:
        wrong = " ".join(title.partition(" ")[0] for title in [*others, _title(mine)])
        pip = f"{sys.executable} -m pip uninstall" if find_spec("pip") else f"uv pip uninstall -p {sys.executable}"
        lines.append(f"to do: {pip} {wrong}; then install {name} again, alone")
    lines += [f"{folder} has {_listed(own)} of its own, which are imported instead" for folder, own in first.items()]
    lines += ["to do: take that folder out of PYTHONPATH, or run Python elsewhere"] if first else []
    return "\n".join(lines)


def _shadowing(mine: Distribution, files: set[str]) -> dict[str, set[str]]:
    """The folders before a distribution's own on Python's path that have files of the same names: a build of LLVM's."""
    found: dict[str, set[str]] = {}
    for folder in sys.path:
        if os.path.realpath(folder) == os.path.realpath(str(mine.locate_file(""))):
            break
        if own := {file for file in files if file.endswith(".py") and Path(folder, file).is_file()}:
            found[str(Path(folder).resolve())] = own
    return found


def _title(found: Distribution) -> str:
    return f"{found.metadata['Name']} {found.version}"


def _is_whole(path: str, digest: FileHash | None) -> bool:
    """Whether a file has the digest of a RECORD."""
    try:
        if digest is None or not Path(path).is_file():  # nobody waits for a named pipe
            return digest is None
        found = hashlib.new(digest.mode, Path(path).read_bytes()).digest()
    except (OSError, ValueError):
        return False
    return urlsafe_b64encode(found).decode().rstrip("=") == digest.value


def _listed(files: set[str]) -> str:
    first = sorted(files)[:5]
    return f"{len(files)} files ({', '.join(first)}{', …' if len(files) > len(first) else ''})"


if __name__ == "__main__":
    # Without a name: the package's that this copy is in, also where another's __init__.py lets nobody import it.
    (asked,) = sys.argv[1:] or [json.loads(Path(__file__).with_name("_release.json").read_text())["distribution"]]
    sys.exit(complaint(asked) or None)
