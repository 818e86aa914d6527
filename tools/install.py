"""Install the toolkit of this checkout as a workflow does: its dependencies locked by hash, nothing else.

Usage: ``python tools/install.py FOLDER [LOCK]``. The folder becomes a virtual environment; inside Actions, its programs
come onto the PATH of later steps. LOCK names a file in ``requirements`` (default: ``toolkit``). Standard library only.
It installs for the CPython that runs it. In a workflow, that is the one of actions/setup-python, else the runner's own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.bootstrap import SCRIPTS, SetupError, make_environment  # noqa: E402

#: The CPython of all workflows: ``DEFAULT_PYTHON`` of ``mlir_release/ground/python/cpython.py``.
PYTHON = "3.12"
#: The oldest and the newest that the locks have wheels for on every platform (``tests/platforms/test_locks.py``).
SUPPORTED = ((3, 11), (3, 14))


def main() -> None:
    """See the module."""
    check_python(sys.version_info[:2])
    folder = Path(sys.argv[1])
    lock = ROOT / "requirements" / f"{sys.argv[2] if len(sys.argv) > 2 else 'toolkit'}.txt"
    scripts = folder / SCRIPTS
    if not (scripts / "installed").exists():
        # What has no wheel would be built, by packages that nothing locks.
        make_environment(folder, lock, str(ROOT), only=("--only-binary=:all:",))
        (scripts / "installed").touch()
    path = os.environ.get("GITHUB_PATH")
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{scripts}\n")


def check_python(found: tuple[int, int]) -> None:
    """Refuse a CPython that the locks have no wheels for: pip would only say that it finds no distribution."""
    if not SUPPORTED[0] <= found <= SUPPORTED[1]:
        here, oldest, newest = (".".join(map(str, version)) for version in (found, *SUPPORTED))
        raise SetupError(
            "no-python",
            f"mlir-release can't be installed for CPython {here} ({sys.executable})",
            why=f"its locked dependencies have wheels for CPython {oldest} to {newest}",
            remedy=f"install CPython {PYTHON}, and make it the runner's python3; or use a runner that "
            f"actions/setup-python has CPython {PYTHON} for, such as GitHub's own",
        )


if __name__ == "__main__":
    try:
        main()
    except SetupError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
