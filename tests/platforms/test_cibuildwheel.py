"""Every wheel of the build matrix, as cibuildwheel itself reads its configuration: on each platform, from here."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.wheels.cibuildwheel import identifier
from tests.build_job import make_job
from tests.platforms.runtimes import MATRIX, read_options

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.python.cpython import CPython
    from mlir_release.release.model.wheel_target import WheelTarget

WHEELS = [(wheel, wheel.python) for wheel in MATRIX.wheels if wheel.python is not None]


@pytest.mark.parametrize(("wheel", "python"), WHEELS, ids=[wheel.name for wheel, _ in WHEELS])
def test_each_wheel_is_one_build_with_what_it_needs(wheel: WheelTarget, python: CPython, tmp_path: Path) -> None:
    job = make_job(tmp_path, platform=str(wheel.runtime.platform), python=python)
    options, build = read_options(job, wheel.runtime)
    assert options.globals.build_selector(identifier(job))
    # The build is not isolated, so what it requires is installed before it: on every platform, in locked versions.
    assert list(build.build_frontend.args) == ["--no-isolation"]
    assert build.before_build is not None
    assert ("nanobind==" if wheel.runtime.os == "linux" else "--require-hashes") in build.before_build
    assert build.test_command is not None
    assert "smoke.py" in build.test_command
    if wheel.runtime.os == "windows":
        assert build.repair_command == ""
    else:
        assert ("delocate" if wheel.runtime.os == "macos" else "auditwheel") in build.repair_command


def test_cibuildwheel_knows_every_build_and_no_two_wheels_of_a_distribution_share_one(tmp_path: Path) -> None:
    builds = tomllib.loads((resources.files("cibuildwheel") / "resources" / "build-platforms.toml").read_text("utf-8"))
    known = {row["identifier"] for table in builds.values() for row in table["python_configurations"]}
    found = [
        (wheel.distribution, identifier(make_job(tmp_path, platform=str(wheel.runtime.platform), python=python)))
        for wheel, python in WHEELS
    ]
    assert {build for _, build in found} <= known
    assert len(set(found)) == len(found)
