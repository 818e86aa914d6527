#!/usr/bin/env python3
"""Make a fresh Debian or Ubuntu machine ready for ``make rehearsal`` and ``make test``; a few seconds when it is.

Installs missing distribution packages (through sudo where not root), makes ``.venv`` beside this repository, and
installs the toolkit into it with its extras. Standard library only, and nothing newer than Python 3.7, because it runs
first. A failure ends with one message and an id (docs/errors.md), and leaves no half-made environment.
"""

import argparse
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from mlir_release.ground.python.uv_settings import uv_settings  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    Done = subprocess.CompletedProcess[str]

VENV = ROOT / ".venv"
LOCK = ROOT / "requirements" / "dev.txt"
OLDEST = (3, 11)
#: The folder of an environment's programs.
SCRIPTS = "Scripts" if os.name == "nt" else "bin"

#: What building a wheel needs of the machine; LLVM itself is unpacked into the cache, never installed.
PACKAGES = (
    "ca-certificates",
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
#: What the tests need besides: a container engine for cibuildwheel, root file systems, of Debian on Ubuntu as well, and
#: shells that complete commands, and a browser.
TEST_PACKAGES = ("podman", "crun", "debootstrap", "debian-archive-keyring", "zsh", "fish", "chromium")
#: What the slow tests need besides: a Windows and its CPython, and an emulated machine of another architecture.
SLOW_PACKAGES = ("wine", "maven", "qemu-user-static", "g++-aarch64-linux-gnu")
#: What ``make mlgo-demo`` needs besides: callgrind.
MLGO_PACKAGES = ("valgrind",)
#: The programs that stand for a package whose name they don't have, wherever they come from.
PROGRAMS = {
    "maven": ("mvn",),
    "ninja-build": ("ninja",),
    "xz-utils": ("xz",),
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
}
#: What pip and uv print where they do not trust the package index.
UNVERIFIED = ("CERTIFICATE_VERIFY_FAILED", "suitable TLS CA certificate bundle", "invalid peer certificate")


class SetupError(Exception):
    """What the machine lacks, in the form of the toolkit's own errors."""

    def __init__(self, error_id: str, what: str, *, remedy: str, why: str = "") -> None:
        lines = [f"error[{error_id}]: {what}"] + ([f"  why: {why}"] if why else []) + [f"  to do: {remedy}"]
        super().__init__("\n".join(lines))


def main() -> None:
    """Parse arguments, then set up what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", action="store_true", help="also what the tests need")
    parser.add_argument("--slow", action="store_true", help="also what the slow tests need")
    parser.add_argument("--mlgo", action="store_true", help="also what MLGO's demonstration needs")
    arguments = parser.parse_args()
    if sys.version_info[:2] < OLDEST:
        wanted, found = ".".join(map(str, OLDEST)), ".".join(map(str, sys.version_info[:2]))
        raise SetupError(
            "no-python",
            f"Python {wanted} or newer is needed; {sys.executable} is {found}",
            remedy="install a newer Python and run: make PYTHON=python3.12 ...",
        )
    tests, mlgo = arguments.tests or arguments.slow, arguments.mlgo or arguments.slow
    install_packages(
        PACKAGES + (MLGO_PACKAGES if mlgo else ()),
        optional=(TEST_PACKAGES if tests else ()) + (SLOW_PACKAGES if arguments.slow else ()),
    )
    install_toolkit()


def install_packages(packages: "tuple[str, ...]", optional: "tuple[str, ...]" = ()) -> None:
    """Install the packages that are missing; say what to do where that is impossible."""
    wanted = packages + optional
    if not shutil.which("dpkg-query") or not shutil.which("apt-get"):
        print("not a Debian or Ubuntu machine: make sure that it has " + " ".join(wanted), file=sys.stderr)
        return
    missing = [name for name in wanted if not is_installed(name)]
    if not missing:
        return
    print("==> installing packages: " + " ".join(missing), file=sys.stderr, flush=True)
    apt = ["apt-get"] if os.geteuid() == 0 else ["sudo", "apt-get"]
    if os.geteuid() != 0 and not shutil.which("sudo"):
        raise SetupError(
            "tool-missing",
            "packages are missing, and installing them needs root or sudo: " + " ".join(missing),
            remedy="as root, run: apt-get install " + " ".join(missing),
        )
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    # One broken third-party source must not keep the distribution's own lists from being used.
    update = run([*apt, "update", "-qq"], environment)
    command = [*apt, "install", "-y", "-qq", "--no-install-recommends"]
    done = run([*command, *missing], environment)
    if done.returncode == 0:
        return
    needed = [name for name in missing if name not in optional]
    if len(needed) < len(missing):
        done = run([*command, *needed], environment)  # all that is needed, whatever becomes of the rest
    if done.returncode == 0:
        rest = [name for name in missing if name in optional]
        refused = [name for name in rest if run([*command, name], environment).returncode != 0]
        if refused:
            print("warning: not installed: " + " ".join(refused), file=sys.stderr)
    else:
        raise SetupError(
            "network-failed",
            "apt-get could not install " + " ".join(needed),
            why=last_lines(update.stdout + done.stdout),
            remedy="check the network and apt's sources (apt-get update), then run the same make command again",
        )


def is_installed(package: str) -> bool:
    """Whether dpkg has the package, or a program of that name is there anyway (cmake from elsewhere, say)."""
    if package == "python3-dev":
        return (Path(sysconfig.get_path("include")) / "Python.h").exists()
    # Debian splits ensurepip off its Python; without it, venv fails half-way.
    if package == "python3-venv" and importlib.util.find_spec("ensurepip"):
        return True
    if any(shutil.which(program) for program in PROGRAMS.get(package, (package,))):
        return True
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Status}", package], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    return done.stdout.endswith(b" installed")


def install_toolkit() -> None:
    """Install the toolkit, editable, into ``.venv``, when pyproject.toml, lock or Python changed."""
    wanted = hashlib.sha256(
        (ROOT / "pyproject.toml").read_bytes() + LOCK.read_bytes() + sys.version.encode() + str(ROOT).encode()
    ).hexdigest()
    stamp = VENV / "bootstrap.stamp"
    # The environment's interpreter is gone if the one that made it is.
    if shutil.which("python", path=str(VENV / SCRIPTS)) and stamp.exists() and stamp.read_text() == wanted:
        return
    print("==> making .venv and installing the toolkit with its extras", file=sys.stderr, flush=True)
    make_environment(VENV, LOCK, "--editable", str(ROOT))
    stamp.write_text(wanted)


def run(command: "list[str]", environment: "dict[str, str] | None" = None) -> "subprocess.CompletedProcess[str]":
    """Run a command; what it prints is shown only if it fails."""
    return subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )


def make_environment(
    folder: Path, lock: Path, *toolkit: str, only: "tuple[str, ...]" = (), run: "Callable[..., Done]" = run
) -> None:
    """Make a virtual environment with what a lock has, by hash, and with the toolkit; a failure leaves none.

    pip gets uv, in the lock's version, and uv gets everything else that is locked, in a third of the time.

    :param toolkit: what to install of it: its folder, maybe editable
    :param only: options that restrict what is taken of the lock; by default, what has no wheel for this machine (of a
        new CPython, say) is built
    """

    def step(*command: str, environment: "dict[str, str] | None" = None) -> str:
        done = run(list(command), environment)
        if done.returncode != 0:
            shutil.rmtree(str(folder), ignore_errors=True)
            explain(done.stdout, folder)
        return done.stdout

    pip = (str(folder / SCRIPTS / "python"), "-m", "pip", "--disable-pip-version-check")
    step(sys.executable, "-m", "venv", "--clear", str(folder))
    first = folder / "uv.txt"
    first.write_text(re.findall(r"^uv==.*(?:\n    --hash=.*)+", lock.read_text(), re.MULTILINE)[0].rstrip("\\ "))
    # The lock is whole, so nothing is resolved: of a distribution that is locked without the extra that another one
    # asks for, pips before 23.3 take the newest, which isn't locked, and give up.
    step(*pip, "install", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", "-r", str(first))
    options, environment = uv_settings(step(*pip, "config", "list"), dict(os.environ))
    uv = (str(folder / SCRIPTS / "uv"), "pip", "install", "--quiet", "--python", pip[0], "--no-deps", *options)
    step(*uv, "--require-hashes", *only, "-r", str(lock), environment=environment)
    # What builds the toolkit itself is in the lock too, so nothing unlocked is fetched for it. uv would leave an
    # egg-info in the checkout, which counts as another installation of the toolkit.
    step(*pip, "install", "--quiet", "--no-deps", "--no-build-isolation", *toolkit)
    step(*pip, "check")  # that the lock is whole


def explain(output: str, folder: Path) -> None:
    """End with what kept the toolkit from being installed into a folder."""
    if any(sign in output for sign in UNVERIFIED):
        raise SetupError(
            "network-failed",
            "the certificate of the package index can't be verified: this machine does not know its authority",
            why=last_lines(output, 1),
            remedy="as root, put your network's own certificate (.crt) into /usr/local/share/ca-certificates and run "
            "update-ca-certificates; or name it to pip (PIP_CERT)",
        )
    raise SetupError(
        "network-failed",
        f"the toolkit could not be installed into {folder}",
        why=last_lines(output),
        remedy="check the network and pip's configuration (pip config list), then run the same make command again",
    )


def last_lines(output: str, count: int = 5) -> str:
    """The end of what a program printed: of its errors, if it marks them."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith(("E:", "Err:", "ERROR:", "error:", "cause:"))]
    return "; ".join((marked or lines)[-count:])


if __name__ == "__main__":
    try:
        main()
    except SetupError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
