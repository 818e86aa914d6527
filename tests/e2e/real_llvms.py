"""Wheels of several real LLVMs for one CPython: of all that the distribution has packages of, or given in a folder.

Debian 12 has two that can be built here; Debian sid has three, and needs the root that ``tests.roots.debian`` makes.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from mlir_release.builder.sdk.provision import available_releases, provide_sdk
from mlir_release.builder.wheels.build import build_wheels, key, project_digest
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.ground.storage.cache import locked
from mlir_release.release.rehearsal.world import shipped_overrides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.builder.sdk.sources.releases import LlvmRelease
    from mlir_release.ground.python.pythons import Python

#: A folder with a folder for each LLVM, ``22.1.8``, that has a wheel of it. Then nothing is built.
WHEELS_VARIABLE = "MLIR_RELEASE_TEST_WHEELS"


def real_wheels(python: Python, cache: Path) -> dict[str, Path]:
    """A wheel of each LLVM by its version, the oldest first. Those that are built stay in the cache."""
    if given := os.environ.get(WHEELS_VARIABLE):
        found = {path.parent.name: path for path in Path(given).glob(f"*/*-{python.tag}-*.whl")}
    else:
        found = {release.version: real_wheel(release, python, cache) for release, _ in available_releases(cache=cache)}
    return dict(sorted(found.items(), key=lambda row: Version(row[0])))


def real_wheel(release: LlvmRelease, python: Python, cache: Path) -> Path:
    """A wheel of one LLVM."""
    sdk = provide_sdk(release, release, cache=cache)
    request = replace(WheelRequest.of_profile("host", sdk=sdk), overrides=shipped_overrides())
    return built_once(request, [python], cache)


def built_once(request: WheelRequest, pythons: Sequence[Python], cache: Path) -> Path:
    """The wheel of a request, from the cache if it was built before."""
    name = "-".join([key(request), *(python.tag for python in pythons), project_digest(request)[:12]])
    output = cache / "real-wheels" / name
    with locked(output.with_name(f".{output.name}.lock")):
        if not list(output.glob("*.whl")):
            build_wheels(request, pythons, output=output, backend="build")
        (wheel,) = output.glob("*.whl")
    return wheel
