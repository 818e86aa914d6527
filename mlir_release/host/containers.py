"""Container engines (docker, podman), and the images that Linux binaries are built in.

What people set for cibuildwheel is honoured: ``CIBW_CONTAINER_ENGINE``, ``CIBW_MANYLINUX_X86_64_IMAGE`` and the like.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.console import console

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The production floor: the oldest manylinux that upstream's C++ still compiles on.
DEFAULT_IMAGE = "manylinux_2_28"
_PROBE_TIMEOUT = 60.0
_PULL_TIMEOUT = 900.0


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A container engine, and how containers are created with it."""

    name: str
    create_args: tuple[str, ...] = ()


def find_engine(environment: Mapping[str, str] = os.environ) -> Engine | None:
    """The engine that ``CIBW_CONTAINER_ENGINE`` names, else Docker, else podman; ``None`` if there is none."""
    setting = environment.get("CIBW_CONTAINER_ENGINE", "")
    if setting:
        from cibuildwheel.oci_container import OCIContainerEngineConfig

        chosen = OCIContainerEngineConfig.from_config_string(setting)
        return Engine(name=chosen.name, create_args=chosen.create_args) if shutil.which(chosen.name) else None
    there = [name for name in ("docker", "podman") if shutil.which(name)]
    # A machine may have Docker's client and no daemon for it to talk to.
    chosen_name = next((name for name in there if _answers(name)), there[0] if there else None)
    return Engine(name=chosen_name) if chosen_name else None


def _answers(engine: str) -> bool:
    try:
        return _call([engine, "version"], _PROBE_TIMEOUT).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def image_name(arch: str, floor: str = "", environment: Mapping[str, str] = os.environ) -> str:
    """The container image for ``arch``: as ``CIBW_MANYLINUX_<ARCH>_IMAGE`` says, or cibuildwheel's pinned one.

    :param floor: the platform tag that the wheels are for (``manylinux_2_28_x86_64``)
    """
    wanted = floor.removesuffix(f"_{arch}") if floor.startswith("manylinux") else DEFAULT_IMAGE
    short = environment.get(f"CIBW_MANYLINUX_{arch.upper()}_IMAGE", wanted)
    if "/" in short:
        return short
    import configparser

    from cibuildwheel.util import resources

    # cibuildwheel writes the image's date behind it, as a comment.
    pinned = configparser.ConfigParser(inline_comment_prefixes=("#",))
    pinned.read(resources.PINNED_DOCKER_IMAGES)
    return pinned[arch].get(short, short) if pinned.has_section(arch) else short


def why_unusable(engine: Engine | None, image: str) -> str | None:
    """Try a container, fetching the image if need be. Why it does not work, or ``None`` if it does."""
    if engine is None:
        return "no container engine is installed (docker or podman)"
    try:
        if _call([engine.name, "image", "inspect", image], _PROBE_TIMEOUT).returncode != 0:
            console.say(f"    fetching the container image {image}")
            pull = _call([engine.name, "pull", "--quiet", image], _PULL_TIMEOUT)
            if pull.returncode != 0:
                return f"{engine.name} cannot fetch {image}: {_last_line(pull.stderr)}"
        run = _call([engine.name, "run", "--rm", *engine.create_args, image, "true"], _PROBE_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{engine.name} does not answer: {error}"
    return None if run.returncode == 0 else f"{engine.name} cannot run a container: {_last_line(run.stderr)}"


def _call(command: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]
