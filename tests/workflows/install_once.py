"""Takes the place of ``tools/install.py`` in the jobs that act runs: the environment is made once, then shared.

GitHub gives each job a new machine, which installs the toolkit anew. The first job here installs it by the script
that this one replaces (``install_for_real.py``, beside it); later jobs get a link to what that made.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """See the module."""
    folder, *lock = sys.argv[1:]
    shared = Path(os.environ["INSTALLED"]) / (lock[0] if lock else "toolkit")
    shared.parent.mkdir(parents=True, exist_ok=True)
    with shared.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two jobs may run at once
        subprocess.run([sys.executable, Path(__file__).with_name("install_for_real.py"), shared, *lock], check=True)
    if not Path(folder).exists():
        Path(folder).symlink_to(shared)


if __name__ == "__main__":
    main()
