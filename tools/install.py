"""Install the toolkit of this checkout as a workflow does: its dependencies locked by hash, nothing else.

Usage: ``python tools/install.py FOLDER [LOCK]``. The folder becomes a virtual environment; inside Actions, its programs
come onto the PATH of later steps. LOCK names a file in ``requirements`` (default: ``toolkit``). Standard library only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """See the module."""
    folder = Path(sys.argv[1])
    lock = ROOT / "requirements" / f"{sys.argv[2] if len(sys.argv) > 2 else 'toolkit'}.txt"
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    if not (scripts / "installed").exists():
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(scripts / "python"), "-m", "pip", "--disable-pip-version-check"]
        # The lock is whole, so nothing is resolved: of a distribution that is locked without the extra that another one
        # asks for, pips before 23.3 take the newest, which isn't locked, and give up. What has no wheel would be built,
        # by packages that nothing locks.
        install = [*pip, "install", "--quiet", "--no-deps"]
        subprocess.run([*install, "--require-hashes", "--only-binary=:all:", "-r", str(lock)], check=True)
        # What builds the toolkit itself is in the lock too, so nothing unlocked is fetched for it.
        subprocess.run([*install, "--no-build-isolation", str(ROOT)], check=True)
        subprocess.run([*pip, "check"], check=True, stdout=sys.stderr)  # that the lock is whole
        (scripts / "installed").touch()
    if path := os.environ.get("GITHUB_PATH"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{scripts}\n")


if __name__ == "__main__":
    main()
