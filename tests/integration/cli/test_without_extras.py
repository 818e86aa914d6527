"""The trunk without extras: a copy of the package that has neither their folder nor their entry points."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mlir_release

ROOT = Path(__file__).parents[3]

#: Tests of extras; and of what covers the trunk and its extras: the map, the guides, the table of error ids.
ABOUT_EXTRAS = (
    "--ignore=tests/unit/extras",
    "--ignore=tests/unit/test_map.py",
    "--ignore=tests/unit/test_layers.py",
    "--ignore=tests/unit/test_readers.py",
    "--deselect=tests/unit/test_pages.py::test_commands_and_options_exist",
    "--deselect=tests/unit/test_errors.py::test_every_error_of_ours_has_an_id_of_the_table_and_every_id_an_error",
)


class Trunk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        unwanted = shutil.ignore_patterns("__pycache__", "extras")
        shutil.copytree(ROOT / "mlir_release", folder / "mlir_release", ignore=unwanted)
        info = folder / f"mlir_release-{mlir_release.__version__}.dist-info"  # hides the installed one's entry points
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: mlir-release\nVersion: {mlir_release.__version__}\n"
        )
        # Projects are no extras: the shipped targets.toml names them.
        group = "mlir_release.projects"
        points = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"][group]
        lines = [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
        (info / "entry_points.txt").write_text("\n".join([*lines, ""]))

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def trunk(tmp_path_factory: pytest.TempPathFactory) -> Trunk:
    return Trunk(tmp_path_factory.mktemp("trunk"))


def test_every_module_of_the_trunk_is_imported_without_extras(trunk: Trunk) -> None:
    code = """
import importlib, pkgutil, mlir_release
found = [module.name for module in pkgutil.walk_packages(mlir_release.__path__, "mlir_release.")]
for name in found:
    if not name.startswith("mlir_release.projects.mlir.") and not name.endswith("__main__"):
        importlib.import_module(name)
print(mlir_release.__file__, len(found))
"""
    done = trunk.run("-c", code)
    assert done.returncode == 0, done.stderr
    where, count = done.stdout.split()
    assert Path(where).is_relative_to(trunk.folder)
    assert int(count) > 200


def test_commands_work_and_hooks_are_left_out(trunk: Trunk) -> None:
    done = trunk.run("-m", "mlir_release", "--help")
    assert done.returncode == 0, done.stderr
    assert "snapshot" in done.stdout
    assert "Extras" not in done.stdout
    assert "No such command 'conda'" in trunk.run("-m", "mlir_release", "conda").stderr
    for command, option in (("index", "--api"), ("rehearsal", "--downstream")):
        done = trunk.run("-m", "mlir_release", command, "--help")
        assert done.returncode == 0, done.stderr
        assert option not in done.stdout
    assert trunk.run("-m", "mlir_release", "matrix", "-C", ROOT).returncode == 0


@pytest.mark.slow  # a minute and a half
def test_the_trunks_unit_tests_pass_without_extras(tmp_path: Path) -> None:
    trunk = Trunk(tmp_path)
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    for name in listed.rstrip("\0").split("\0"):
        if not name.startswith("mlir_release/"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name, follow_symlinks=False)
    done = trunk.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "auto", "tests/unit", *ABOUT_EXTRAS)
    assert done.returncode == 0, done.stdout[-5000:]
