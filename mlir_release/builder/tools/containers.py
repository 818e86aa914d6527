"""Container engines (docker, podman), and the images that Linux binaries are built in.

Settings for cibuildwheel apply here, too: ``CIBW_CONTAINER_ENGINE``, ``CIBW_MANYLINUX_X86_64_IMAGE`` and the like.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.errors import MachineError
from mlir_release.ground.programs.process import Captured, capture

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """The engine that ``CIBW_CONTAINER_ENGINE`` names, else Docker, else podman; ``None`` without any."""
    setting = environment.get("CIBW_CONTAINER_ENGINE", "")
    if setting:
        from cibuildwheel.oci_container import OCIContainerEngineConfig

        chosen = OCIContainerEngineConfig.from_config_string(setting)
        return Engine(name=chosen.name, create_args=chosen.create_args) if shutil.which(chosen.name) else None
    there = [name for name in ("docker", "podman") if shutil.which(name)]
    # A machine may have Docker's client and no daemon for it to talk to.
    answer = (name for name in there if capture([name, "version"], timeout=_PROBE_TIMEOUT).ok)
    chosen_name = next(answer, there[0] if there else None)
    return Engine(name=chosen_name) if chosen_name else None


def image_name(arch: str, floor: str = "", environment: Mapping[str, str] = os.environ) -> str:
    """The container image for ``arch``: ``CIBW_MANYLINUX_<ARCH>_IMAGE``, else cibuildwheel's pinned one.

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


def why_unusable(engine: Engine | None, image: str, *, timeout: float = _PROBE_TIMEOUT) -> str | None:
    """Try a container, fetching the image if need be. Why it does not work, or ``None`` if it does."""
    if engine is None:
        return "no container engine is installed (docker or podman)"
    there = capture([engine.name, "image", "inspect", image], timeout=timeout)
    if there.returncode is None:
        return _reason(engine, there, f"cannot look for {image}")
    if not there.ok:
        console.say(f"    fetching the container image {image}")
        pull = capture([engine.name, "pull", "--quiet", image], timeout=_PULL_TIMEOUT)
        if not pull.ok:
            return _reason(engine, pull, f"cannot fetch {image}")
    run = capture([engine.name, "run", "--rm", *engine.create_args, image, "true"], timeout=timeout)
    return None if run.ok else _reason(engine, run, "cannot run a container")


def image_digest(engine: Engine, image: str) -> str:
    """An image that is here, by its digest: ``quay.io/pypa/manylinux_2_28_x86_64@sha256:…``.

    One that is in no registry has its ID only, by which nobody else can fetch it.

    :raises MachineError: ``machine-unsuitable``
    """
    shown = capture([engine.name, "image", "inspect", image], timeout=_PROBE_TIMEOUT)
    if not shown.ok:
        raise unusable(image, _reason(engine, shown, "does not know the image"), remedy=f"{engine.name} pull {image}")
    (found,) = parse_json(shown.stdout)
    return next(iter(found.get("RepoDigests") or ()), str(found["Id"]))


def unusable(image: str, why: str, *, remedy: str) -> MachineError:
    """The error where only a container will do. ``why``: the result of :func:`why_unusable`."""
    return MachineError("machine-unsuitable", "containers can't be run here", where=image, why=why, remedy=remedy)


def _reason(engine: Engine, failed: Captured, problem: str) -> str:
    if failed.returncode is None:
        return f"{engine.name} does not answer: {failed.ending}"
    printed = failed.stderr.strip().splitlines() or [f"{failed.ending} without an explanation"]
    return f"{engine.name} {problem}: {printed[-1]}"
