"""The production way, for real: cibuildwheel builds, repairs and tests a wheel of the real MLIR in a container."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.wheels.inspect import inspect
from mlir_release.ground.python.pythons import describe
from tests import outside
from tests.processes import run

if TYPE_CHECKING:
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.ground.python.pythons import Python
    from tests.podman import image as podman

ROOT = Path(__file__).parents[2]


def test_a_real_wheel_is_built_repaired_and_tested_in_a_container(
    container: podman.Image, contained: Python, sdk: Sdk, tmp_path: Path
) -> None:
    """``mlir-core``: all of MLIR but the code generators, the profile that is quickest to link."""
    output = tmp_path / "dist"
    before = containers(container)  # of runs that were killed
    command: list[str | Path] = [
        *(sys.executable, "-m", "mlir_release", "wheels", "build", "--json", "--sdk", sdk.root, "--llvm", "mlir-core"),
        *("--python", contained.executable, "--backend", "cibuildwheel", "--output", output),
    ]
    (row,) = json.loads(run(*container.command(command), variables=os.environ | container.environment, cwd=ROOT))
    assert row["cpu_seconds"] > 5  # the container's own time was counted, not cibuildwheel's alone
    (path,) = output.glob("*.whl")
    assert str(path) == row["file"]
    report = inspect(path)
    assert report.problems == ()
    assert report.external == ()
    assert report.distribution == "mlir-core"
    (tag,) = report.tags
    assert tag == f"{contained.tag}-{contained.tag}-{report.true_platform_tag}"
    assert report.true_platform_tag.startswith("manylinux_2_")
    # The floor that the matrix asks for is older than packed relocations, so none may be there.
    assert not any(facts.packed_relocations for facts in report.elf.values())
    assert not containers(container) - before


def test_a_wheel_for_all_cpythons_is_built_once_in_a_container(
    container: podman.Image, contained: Python, tmp_path: Path
) -> None:
    """Of the made-up project, whose smoke test runs in the container, too."""
    if contained.tag != describe(Path(sys.executable)).tag:
        pytest.skip(f"the container has CPython {contained.version} alone, not the toolkit's own")
    outside.install(tmp_path)
    with outside.found(tmp_path):
        sdk = outside.make_sdk(tmp_path / "llvm")
    order = {"target": "sums-linux-x86_64-py3", "runtime": "linux-x86_64_sums", "distribution": "sums"}
    order |= {"project": "sums", "profile": "library", "floor": f"manylinux_2_28_{sdk.info.platform.arch}"}
    command: list[str | Path] = [
        *(sys.executable, "-m", "mlir_release", "wheels", "build", "--sdk", sdk.root, "--orders", json.dumps([order])),
        *("--backend", "cibuildwheel", "--output", tmp_path / "dist"),
    ]
    environment = os.environ | container.environment | {"PYTHONPATH": str(tmp_path / "installed")}
    run(*container.command(command), variables=environment, cwd=ROOT)
    (path,) = (tmp_path / "dist" / order["target"]).glob("*.whl")
    report = inspect(path)
    assert (report.problems, report.external) == ((), ())
    assert {tag.rpartition("-")[0] for tag in report.tags} == {"py3-none"}


def containers(container: podman.Image) -> set[str]:
    done = container.run(["podman", "ps", "--all", "--format", "{{.Names}}"])
    assert done.returncode == 0, done.stderr
    return {name for name in done.stdout.split() if name.startswith("cibuildwheel-")}
