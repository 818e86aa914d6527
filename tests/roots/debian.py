"""Fresh machines of a distribution: roots made by debootstrap, for what must work where it was never run before.

:func:`prepare` makes a suite's root once and keeps it in the cache; :func:`fresh` copies it for one use, with this
machine's network (:mod:`tests.roots.network`). What runs in a root has namespaces of its own for mounts and processes:
when it ends, or is killed, nothing of it is left.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.storage.cache import locked
from tests.processes import run
from tests.roots import network

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import IO

SOURCES = Path(__file__).parents[2]
TOOLS = ("debootstrap", "unshare", "mount", "chroot", "apt-config")
#: What the README asks of a new user's machine. Certificates are part of every installed Debian.
PACKAGES = ("ca-certificates", "git", "make", "python3")
#: Where the clone is.
CLONE = "/root/mlir-release"
#: Folders that hold nothing but downloads; kept for the next root of the suite.
DOWNLOADS = ("var/cache/apt/archives", "root/.cache/pip", "root/.cache/uv", "root/.cache/mlir-release/archives")

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: ``$0`` is the root, ``$1`` where downloads are kept or nothing, ``$2`` the folder, ``$3`` what the kernel is told of
#: an emulator, or nothing; then the command.
#: The shell stays: as a namespace's first process, the command would ignore signals (make spins for ever on one).
_ENTER = f"""
set -e
if [ -n "$3" ]; then
  mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
  printf %s "$3" > /proc/sys/fs/binfmt_misc/register
fi
mount -t proc proc "$0/proc"
mount --rbind /sys "$0/sys"
mount --rbind /dev "$0/dev"
for folder in {" ".join(DOWNLOADS)}; do
  [ -n "$1" ] || break
  mkdir -p "$1/$folder" "$0/$folder"
  mount --bind "$1/$folder" "$0/$folder"
done
folder=$2; root=$0; shift 3
chroot "$root" sh -c 'cd "$0" && exec "$@"' "$folder" "$@"
"""


@dataclass(frozen=True, kw_only=True)
class Root:
    """A root that commands run in, as its root user, with an environment that has nothing of ours but the network."""

    path: Path
    downloads: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)
    #: For a root of another architecture: a line for ``binfmt_misc``, which is then one of a user namespace's own.
    emulator: str = ""

    def run(
        self,
        command: Sequence[str],
        *,
        folder: str = "/root",
        log: IO[str] | None = None,
        offline: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``command`` in ``folder``; what it prints goes to ``log``, or is returned as its ``stdout``."""
        options = ["--mount", "--propagation=private", "--pid", "--fork", "--kill-child", *["--net"] * offline]
        options += ["--user", "--map-root-user"] if self.emulator else []
        plain = {"HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb", "PATH": _PATH}
        enter = [
            "unshare",
            *options,
            "sh",
            "-c",
            _ENTER,
            str(self.path),
            str(self.downloads or ""),
            folder,
            self.emulator,
        ]
        return subprocess.run(
            [*enter, *command],
            env={**plain, **self.environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=log or subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )

    def clone(self) -> None:
        """Clone this repository to :data:`CLONE`, with what the working tree has and no commit has yet."""
        target = self.path / CLONE.lstrip("/")
        subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{SOURCES}", target], check=True)
        for name in _git("ls-files", "-z", "--deleted"):
            (target / name).unlink(missing_ok=True)
        for name in _git("ls-files", "-z", "--modified", "--others", "--exclude-standard"):
            if (SOURCES / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(SOURCES / name, target / name)


def _git(*arguments: str) -> list[str]:
    return [name for name in run("git", "-C", SOURCES, *arguments).split("\0") if name]


def unusable() -> str | None:
    """Why no root can be made here, or ``None`` if nothing speaks against it."""
    if sys.platform != "linux":
        return f"roots are made on Linux, this is {sys.platform}"
    if missing := [tool for tool in TOOLS if shutil.which(tool, path=_path()) is None]:
        return f"not installed: {', '.join(missing)} (apt install debootstrap util-linux)"
    if os.geteuid() != 0:
        return "making a root needs root (debootstrap, chroot, mount namespaces)"
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], check=False, capture_output=True).returncode:
        return "this machine gives no mount namespaces"
    return None


def prepare(suite: str, cache: Path) -> Path:
    """The root of a suite as debootstrap made it, from the cache if it is there. Nothing may be changed in it.

    :raises RuntimeError: debootstrap failed; the message ends with what it printed
    """
    key = hashlib.sha256("\n".join([suite, *PACKAGES, *_sources(suite, "")]).encode()).hexdigest()[:8]
    root = cache / "roots" / f"{suite}-{key}"
    with locked(root.with_name(f".{root.name}.lock")):
        if not root.is_dir():
            making = root.with_name(f"{root.name}.tmp")
            shutil.rmtree(making, ignore_errors=True)  # of a run that was killed
            with console.step(f"make a root of Debian {suite}"):
                _debootstrap(suite, making)
            making.rename(root)
    return root


def _debootstrap(suite: str, root: Path) -> None:
    root.parent.mkdir(parents=True, exist_ok=True)
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(root)]
    done = subprocess.run(command, env=os.environ | {"PATH": _path()}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise RuntimeError(f"debootstrap failed for {suite}:\n{said}")
    sources = root / "etc/apt/sources.list"
    sources.write_text("".join(_sources(suite, sources.read_text(encoding="utf-8").split()[1])), encoding="utf-8")


def _sources(suite: str, archive: str) -> list[str]:
    """apt's sources as Debian's installer writes them: a stable release has updates and security fixes.

    :param archive: the archive that debootstrap took, which it writes there itself
    """
    lines = [f"deb {archive} {suite} main\n"]
    if suite != "sid":
        security = f"{archive.rstrip('/')}-security"
        lines += [f"deb {archive} {suite}-updates main\n", f"deb {security} {suite}-security main\n"]
    return lines


@contextmanager
def fresh(suite: str, cache: Path) -> Iterator[Root]:
    """A copy of the suite's root, connected to this machine's network; removed at the end."""
    template = prepare(suite, cache)
    with tempfile.TemporaryDirectory(prefix=f"{suite}-", dir=template.parent, ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "root"
        subprocess.run(["cp", "--archive", "--reflink=auto", template, path], check=True)
        yield Root(path=path, downloads=template.parent / f"{suite}-downloads", environment=network.connect(path))


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
