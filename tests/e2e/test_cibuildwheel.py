"""The production way, for real: cibuildwheel builds, repairs and tests a wheel of the real MLIR in a container."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.wheels.inspect import inspect

if TYPE_CHECKING:
    from mlir_release.host.pythons import Python
    from mlir_release.sdk.info import Sdk
    from tests.podman import image as podman

ROOT = Path(__file__).parents[2]


def test_a_real_wheel_is_built_repaired_and_tested_in_a_container(
    container: podman.Image, contained: Python, sdk: Sdk, tmp_path: Path
) -> None:
    """``mlir-core``: all of MLIR but the code generators, the profile that is quickest to link."""
    output, log = tmp_path / "dist", tmp_path / "log"
    before = containers(container)  # of runs that were killed
    command: list[str | Path] = [
        *(sys.executable, "-m", "mlir_release", "wheels", "build", "--json", "--sdk", sdk.root, "--llvm", "mlir-core"),
        *("--python", contained.executable, "--backend", "cibuildwheel", "--output", output),
    ]
    with log.open("w") as file:
        done = subprocess.run(
            container.command(command), env=os.environ | container.environment, cwd=ROOT, stdout=subprocess.PIPE,
            stderr=file, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, log.read_text()[-5000:]
    (row,) = json.loads(done.stdout)
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


def containers(container: podman.Image) -> set[str]:
    done = container.run(["podman", "ps", "--all", "--format", "{{.Names}}"])
    assert done.returncode == 0, done.stderr
    return {name for name in done.stdout.split() if name.startswith("cibuildwheel-")}
