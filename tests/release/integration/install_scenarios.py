"""An environment without pip, a forge with a release for it, and ``install`` as the kill tests run it."""

from __future__ import annotations

import os
import subprocess
import sys
from compileall import compile_dir
from importlib.metadata import distribution
from pathlib import Path

import pytest

from mlir_release.ground.programs.surroundings import also_pass
from mlir_release.ground.python import venv
from mlir_release.ground.python.cpython import ANY_PYTHON
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.use.install import install
from tests.release_stage import make_stage
from tests.use.integration.test_install import publish_in
from tests.wheel_factory import TAG, VERSION, make_wheel

#: Where the packages of an environment are.
SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def place_of(folder: Path) -> Path:
    """The interpreter of the environment in ``folder``."""
    return folder / "environment" / "bin" / "python"


def open_forge(folder: Path) -> LocalForge:
    return LocalForge(folder / "forge")


def make_forge(folder: Path, *requires: str) -> None:
    """A forge with a release, and an empty environment."""
    stage = make_stage(folder)
    publish_in(stage.forge, stage.dist, TAG, VERSION, requires=requires)
    venv.create(folder / "environment", Path(sys.executable))


def by_pip(python: Path, wheel: Path) -> None:
    """Install a wheel as anybody may have."""
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", "--force-reinstall", wheel], check=True)


def with_tampered(folder: Path) -> None:
    """The environment has another build of the same version, and an older version of what the release needs."""
    tree = {f"helper/part{number}.py": b"" for number in range(3)}
    for version in ("0.1", "1"):
        helper = make_wheel(
            folder / "packages", distribution="helper", version=version, python=ANY_PYTHON, platform="any", files=tree
        )
        helper.rename(helper.with_name(f"helper-{version}-py3-none-any.whl"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder / "packages"))
        make_forge(folder, "helper>=1")
    by_pip(place_of(folder), folder / "packages" / "helper-0.1-py3-none-any.whl")
    compile_dir(
        str(distribution("pip").locate_file("pip")), quiet=1
    )  # else the first run has more to write than those that are killed
    by_pip(place_of(folder), make_wheel(folder / "tampered", content="raise SystemExit(3)\n", files={"mlir/x.py": b""}))


def run_install(folder: Path) -> None:
    os.environ.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(folder / "packages"))
    also_pass(["KILLPOINTS"])  # pip is killed, too
    install(open_forge(folder), TAG, python=place_of(folder))
