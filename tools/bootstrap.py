#!/usr/bin/env python3
"""Make a fresh Debian or Ubuntu machine ready for ``make rehearsal`` and ``make test``; a few seconds when it is.

Installs missing distribution packages (through sudo where not root), makes ``.venv`` beside this repository, and
installs the toolkit into it with its extras. Standard library only, and nothing
newer than Python 3.6, because it runs first.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
OLDEST = (3, 11)

#: What building a wheel needs of the machine; LLVM itself is unpacked into the cache, never installed.
PACKAGES = (
    "g++",
    "cmake",
    "ninja-build",
    "ccache",
    "libzstd-dev",
    "zlib1g-dev",
    "xz-utils",
    "python3-venv",
    "python3-dev",
)
#: What the tests need besides: a container engine for cibuildwheel, and a root file system to run in it.
TEST_PACKAGES = ("podman", "crun", "debootstrap")


def main() -> None:
    """Parse arguments, then set up what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", action="store_true", help="also what the tests need")
    arguments = parser.parse_args()
    if sys.version_info[:2] < OLDEST:
        wanted, found = ".".join(map(str, OLDEST)), ".".join(map(str, sys.version_info[:2]))
        sys.exit(
            f"error[python-too-old]: Python {wanted} or newer is needed; {sys.executable} is {found}\n"
            "  to do: install a newer Python and run: make PYTHON=python3.12 ..."
        )
    packages = PACKAGES + (TEST_PACKAGES if arguments.tests else ())
    install_packages(packages, optional=TEST_PACKAGES)
    install_toolkit()


def install_packages(packages: "tuple[str, ...]", optional: "tuple[str, ...]" = ()) -> None:
    """Install the packages that are missing; say what to do where that is impossible."""
    if not shutil.which("dpkg-query") or not shutil.which("apt-get"):
        print(
            "not a Debian or Ubuntu machine: make sure that these are installed: " + " ".join(packages), file=sys.stderr
        )
        return
    missing = [name for name in packages if not is_installed(name)]
    if not missing:
        return
    print("==> installing packages: " + " ".join(missing), file=sys.stderr, flush=True)
    apt = ["apt-get"] if os.geteuid() == 0 else ["sudo", "apt-get"]
    if os.geteuid() != 0 and not shutil.which("sudo"):
        sys.exit(
            "error[packages-missing]: these packages are missing, and neither root nor sudo is at hand\n"
            "  to do: as root, run: apt-get install " + " ".join(missing)
        )
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    # One broken third-party source must not keep the distribution's own lists from being used.
    subprocess.run([*apt, "update", "-qq"], env=environment, check=False)
    command = [*apt, "install", "-y", "-qq", "--no-install-recommends"]
    if subprocess.run([*command, *missing], env=environment, stdout=subprocess.DEVNULL, check=False).returncode == 0:
        return
    needed = [name for name in missing if name not in optional]
    if needed and subprocess.run([*command, *needed], env=environment, check=False).returncode != 0:
        sys.exit(
            "error[packages-failed]: apt-get could not install what is needed (see above)\n"
            "  to do: mend apt, then run the same make command again"
        )
    print("warning: not installed: " + " ".join(name for name in missing if name in optional), file=sys.stderr)


def is_installed(package: str) -> bool:
    """Whether dpkg has the package, or a program of that name is there anyway (cmake from elsewhere, say)."""
    program = {"ninja-build": "ninja", "xz-utils": "xz"}.get(package, package)
    if package not in ("python3-venv", "python3-dev") and shutil.which(program):
        return True
    if package == "python3-venv" and can_make_environments():
        return True
    if package == "python3-dev":
        import sysconfig

        return (Path(sysconfig.get_path("include")) / "Python.h").exists()
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Status}", package], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    return done.stdout.endswith(b" installed")


def can_make_environments() -> bool:
    """Debian splits ensurepip off its Python; without it ``venv`` fails half-way."""
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return False
    return True


def install_toolkit() -> None:
    """Make the virtual environment; install the toolkit, editable, when pyproject.toml or the Python changed."""
    python = VENV / "bin" / "python"
    wanted = hashlib.sha256(
        (ROOT / "pyproject.toml").read_bytes() + sys.version.encode() + str(ROOT).encode()
    ).hexdigest()
    stamp = VENV / "bootstrap.stamp"
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    print("==> making .venv and installing the toolkit with its extras", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--upgrade", "pip"], check=True)
    subprocess.run([*pip, "--editable", f"{ROOT}[wheels,github,integrate,dev]"], check=True)
    stamp.write_text(wanted)


if __name__ == "__main__":
    main()
