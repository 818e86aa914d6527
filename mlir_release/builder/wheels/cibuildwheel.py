"""Build wheels by cibuildwheel: in a manylinux container on Linux, natively on macOS and Windows.

One run of cibuildwheel a CPython, several side by side, each with a container of its own, so that one CPython's failure
does not affect the others. The containers see the SDK read-only, the compiler cache, and a folder of the wheels that
the build requires, downloaded beforehand: they need no network, and no proxy or certificate of this machine.

Two of the user's own settings of cibuildwheel apply: ``CIBW_CONTAINER_ENGINE`` (its volumes are added to ours) and
``CIBW_MANYLINUX_X86_64_IMAGE`` (or another architecture's).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlir_release.builder.tools.compiler import find_compiler
from mlir_release.builder.tools.containers import DEFAULT_IMAGE, image_digest
from mlir_release.builder.wheels.backends import LINKS, REPAIR, BuildJob, build_variables
from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.programs.process import Usage, capture, run_logged
from mlir_release.ground.programs.surroundings import foreign_environment
from mlir_release.ground.python.locked import choose
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.python.requirements import applicable
from mlir_release.ground.python.resolver import wheel_options
from mlir_release.ground.python.venv import pip_failed
from mlir_release.ground.storage.cache import locked

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlir_release.builder.tools.containers import Engine


#: Where things are in the container. Fixed, so that neither caches nor bytes depend on the machine.
SDK, CCACHE, LIBRARIES, WHEELHOUSE, PROJECT = "/sdk", "/ccache", "/links", "/wheelhouse", "/project"
_SLOTS = "/slots"
#: In a build's folder: the tools that it is built with, by hash.
LOCKED = "builds.txt"
#: cibuildwheel installs these to test a wheel.
_TEST_TOOLS = ("virtualenv", "pip")
#: Prints the CPU seconds of the container's first process's children. Source: proc(5), stat, cutime and cstime.
_PRINT_CPU = (
    'import os; fields = open("/proc/1/stat").read().rpartition(")")[2].split(); '
    'print("mlir-release-cpu-seconds:", sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK"))'
)
_CPU = re.compile(r"^mlir-release-cpu-seconds: (\d+(?:\.\d+)?)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class CibuildwheelBackend:
    """cibuildwheel.

    :param engine: the container engine; ``None`` on macOS and Windows
    :param image: the container image
    :param run: runs the program that builds
    """

    engine: Engine | None
    image: str = ""
    name: str = "cibuildwheel"
    run: Callable[..., Usage] = run_logged

    def check(self) -> None:
        if self.engine is None:
            find_compiler()

    def floor(self, wanted: str) -> str:
        """As wanted: the image is made for it."""
        return wanted

    def image_digest(self) -> str:
        return image_digest(self.engine, self.image) if self.engine is not None else ""

    def build(self, job: BuildJob) -> tuple[Path, Usage]:
        output = job.fresh("built")
        wheelhouse = job.cache / "wheelhouse" / job.python.tag
        if job.sdk.info.platform.os == "linux":
            fetch_wheelhouse(job, wheelhouse)
        shutil.copyfile(job.smoke, job.project / job.smoke.name)
        # A requirements file, for the systems on which a build sees this machine.
        (job.workdir / LOCKED).write_text("\n".join([*choose(job.requirements).lines, ""]), encoding="utf-8")
        config = job.workdir / "cibuildwheel.toml"
        config.write_text(configuration(job, self.engine, self.image, wheelhouse), encoding="utf-8")
        environment = foreign_environment() | {"SOURCE_DATE_EPOCH": str(job.sdk.info.source_epoch)}
        if self.engine is None:
            environment |= build_variables(job)
        usage = self.run(
            [
                *(sys.executable, "-m", "cibuildwheel", "--only", identifier(job), "--config-file", config),
                *("--output-dir", output, job.project),
            ],
            log=job.log,
            environment=environment,
            cwd=job.project,
        )
        return next(output.glob("*.whl")), Usage(wall=usage.wall, cpu=usage.cpu + container_cpu(job.log))


def identifier(job: BuildJob) -> str:
    """cibuildwheel's name of the build: ``cp312-manylinux_x86_64``, ``cp312-macosx_arm64``, ``cp312-win_amd64``."""
    platform = job.sdk.info.platform
    return f"{job.python.tag}-{platform.system.families[0]}_{platform.tag_arch}"


def configuration(job: BuildJob, engine: Engine | None, image: str, wheelhouse: Path) -> str:
    """The configuration file of one run. Source: cibuildwheel's "Options" documentation."""
    import tomli_w

    arch = job.sdk.info.platform.arch
    known = "".join(f' "{name}"' for name in job.known)  # quoted as every system's shell takes it
    common: dict[str, Any] = {
        "build-frontend": {"name": "build", "args": ["--no-isolation"]},
        "test-command": f"python -I {{project}}/{job.smoke.name} {job.profile} {{}}{known}",
        "audit-command": "",
        # cibuildwheel's own tools, which are not fetched beforehand, come from the wheelhouse in any version.
        "dependency-versions": "latest",
    }
    tools = choose(job.requirements)
    locked = [f"{pin.name}=={pin.version}" for pin in tools.on(job.python.cpython, job.sdk.info.platform)]
    requirements = " ".join(f'"{requirement}"' for requirement in (*locked, *tools.unlocked))
    linux: dict[str, Any] = {
        f"manylinux-{arch}-image": image,
        "before-build": f"pip install {requirements}",
        "environment": {
            "MLIR_RELEASE_SDK": SDK,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": WHEELHOUSE,
            "PYTHONHASHSEED": "0",
            "CCACHE_DIR": CCACHE,
            "MLIR_RELEASE_LINKS": LIBRARIES,
            # Empty, and so without effect, where the image has no ccache.
            "CMAKE_C_COMPILER_LAUNCHER": "$(sh -c 'command -v ccache || true')",
            "CMAKE_CXX_COMPILER_LAUNCHER": "$(sh -c 'command -v ccache || true')",
            **{name: re.sub(r"fifo:\S+/", f"fifo:{_SLOTS}/", value) for name, value in job.slots.items()},
        },
        "repair-wheel-command": f"auditwheel {' '.join(REPAIR)} --wheel-dir {{dest_dir}} {{wheel}}",
        # The container's first process is the shell that ran every step: its children's time is what the build took.
        "test-command": common["test-command"] + f" && python -c '{_PRINT_CPU}'",
    }
    if engine is not None:
        linux["container-engine"] = {
            "name": engine.name,
            "create-args": [*engine.create_args, *volumes(job, wheelhouse)],
            "disable-host-mount": True,
        }
    native: dict[str, Any] = {
        # In the versions that cibuildwheel itself was tested with, but not by hash.
        "dependency-versions": "pinned",
        "before-build": [
            f'pip install --require-hashes --no-deps -r "{(job.workdir / LOCKED).as_posix()}"',
            *(f'pip install "{requirement}"' for requirement in tools.unlocked),
        ],
    }
    # Nothing to repair: all links are static. delvewheel would not see which libraries the wheel has already, and
    # would make mlir/__init__.py, while mlir is a namespace package everywhere.
    windows = {**native, "repair-wheel-command": ""}
    return tomli_w.dumps({"tool": {"cibuildwheel": {**common, "linux": linux, "macos": native, "windows": windows}}})


def volumes(job: BuildJob, wheelhouse: Path) -> list[str]:
    """The folders of this machine that the container sees."""
    ccache = Path(os.environ.get("CCACHE_DIR", job.cache / "ccache-container"))
    links = job.cache / LINKS
    for folder in (ccache, links):
        folder.mkdir(parents=True, exist_ok=True)
    mounts = [f"{job.sdk.root}:{SDK}:ro", f"{wheelhouse}:{WHEELHOUSE}:ro", f"{ccache}:{CCACHE}", f"{links}:{LIBRARIES}"]
    if pipe := re.search(r"fifo:(\S+)", job.slots.get("MAKEFLAGS", "")):
        mounts.append(f"{Path(pipe[1]).parent}:{_SLOTS}")
    return [f"--volume={mount}" for mount in mounts]


def container_cpu(log: Path) -> float:
    """CPU seconds that the build took in its container, from the log; 0 without a container."""
    found = _CPU.findall(log.read_text(encoding="utf-8", errors="replace"))
    return float(found[-1]) if found else 0.0


def fetch_wheelhouse(job: BuildJob, wheelhouse: Path) -> None:
    """Fetch the wheels that building and testing need in the container, once for each set of requirements.

    The build's requirements are verified by hash here; the container has no index. The wheel's own requirements are not
    locked: any version that they admit will do for the test.

    :raises MachineError: ``network-failed``
    """
    tools = choose([*job.requirements, *_TEST_TOOLS])
    pins = tools.on(job.python.cpython, job.sdk.info.platform)
    rest = applicable([*tools.unlocked, *job.dependencies], job.python.cpython, job.sdk.info.platform)
    wanted = [*(pin.line for pin in pins), *rest]
    marker = wheelhouse / "requirements.json"
    wheelhouse.mkdir(parents=True, exist_ok=True)
    with locked(wheelhouse.with_suffix(".lock")):
        if marker.is_file() and parse_json(marker.read_text(encoding="utf-8")) == wanted:
            return
        image = PlatformTag.parse(f"{DEFAULT_IMAGE}_{job.sdk.info.platform.arch}")
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", f"--dest={wheelhouse}"),
            *wheel_options(job.python.cpython, image.accepted),
        ]
        locked_file = wheelhouse / LOCKED
        locked_file.write_text(
            "\n".join(" ".join([f"{pin.name}=={pin.version}", *pin.hash_options]) for pin in pins) + "\n",
            encoding="utf-8",
        )
        for words in (["--require-hashes", "--no-deps", "-r", locked_file], rest):
            done = capture([*command, *words]) if words else None
            if done is not None and not done.ok:
                action = f"fetch what building for CPython {job.python.short_version} needs"
                raise pip_failed(action, where=wheelhouse, why=done.complaint)
        marker.write_text(json.dumps(wanted), encoding="utf-8")
