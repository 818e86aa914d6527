"""The trunk without extras, or without our projects: a copy of the package without their folders and entry points."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import mlir_release

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[4]

#: The unit tests of all rooms but the extras.
UNIT = tuple(f"tests/{room}/unit" for room in ("builder", "ground", "integrate", "operate", "release", "seams", "use"))

#: Tests of what covers the trunk and its extras: the map, the guides and generated pages, the table of
#: error ids.
ABOUT_EXTRAS = (
    "--ignore=tests/seams/unit/test_floors.py",
    "--ignore=tests/seams/unit/test_documentation.py",
    "--deselect=tests/seams/unit/test_one_of_each.py::test_a_file_of_somebody_else_is_opened_in_one_place",
    "--deselect=tests/seams/unit/cli/test_app.py::test_completion_imports_only_the_command_that_is_typed_and_asks_no_forge",
    "--deselect=tests/ground/unit/test_errors.py::test_every_error_of_ours_has_an_id_of_the_table_and_every_id_an_error",
)


#: The rooms whose tests need no project of ours. The others are tried with a real project that is made up: ``sdk`` by
#: builder/unit/sdk/test_another_project.py, ``wheels`` and ``testing`` by
#: builder/integration/wheels/test_another_project.py.
ROOMS = (
    "builder/unit/commands", "builder/unit/model", "builder/unit/tools", "ground/unit", "integrate/unit",
    "operate/unit", "release/unit", "seams/unit/cli", "use/unit",
)  # fmt: skip

#: Tests of what our own projects say of themselves.
ABOUT_PROJECTS = (
    "operate/unit/doctor/test_releases.py::test_our_own_project_is_well",
    "operate/unit/doctor/test_releases.py::test_a_project_whose_modules_are_missing_is_a_problem",
    "builder/unit/tools/test_build_tools.py::test_wheels_ask_for_the_same_cmake_as_the_toolkit",
    "release/unit/index/test_generate.py::test_an_sdks_wheels_have_a_heading_of_their_own_and_how_they_are_used",
    "release/unit/index/test_generate.py::test_the_feed",
    "release/unit/index/test_getting_started.py::test_the_page_shows_the_sdk_where_the_release_has_it",
    "release/unit/index/test_getting_started.py::test_the_tutorial_and_the_page_show_the_programs",
    "release/unit/pinning/test_installable.py::test_a_dry_run_says_it_before_anything_is_pinned",
    "release/unit/pinning/test_installable.py::test_what_upstream_s_tests_import_is_asked_for_where_they_run",
    "use/unit/test_install_target.py::test_conda_forge_s_package_of_the_bindings_is_seen",
    "release/unit/instructions/test_notes.py::test_an_sdks_wheels_are_told_how_to_be_used",
    "release/unit/instructions/test_notes.py::test_one_wheel_for_several_cpythons_says_which_and_what_it_gives_up",
)


class Trunk:
    def __init__(self, folder: Path, projects: Mapping[str, str] | None = None) -> None:
        """Copy the package. ``projects``: entry points of others in the place of ours; None: ours stay."""
        self.folder = folder
        unwanted = shutil.ignore_patterns("__pycache__", "extras", *([] if projects is None else ["projects"]))
        shutil.copytree(ROOT / "mlir_release", folder / "mlir_release", ignore=unwanted)
        info = folder / f"mlir_release-{mlir_release.__version__}.dist-info"  # hides the installed one's entry points
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: mlir-release\nVersion: {mlir_release.__version__}\n"
        )
        # Projects are no extras: the shipped targets.toml names them.
        group = "mlir_release.projects"
        ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"][group]
        lines = [f"[{group}]", *(f"{name} = {value}" for name, value in (projects or ours).items())]
        (info / "entry_points.txt").write_text("\n".join([*lines, ""]))

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def copy_tests(self) -> None:
        """Copy everything else of the checkout, too."""
        listing = ["git", "-C", str(ROOT), "ls-files", "-z"]
        listed = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
        for name in listed.rstrip("\0").split("\0"):
            if not name.startswith("mlir_release/"):
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.folder / name, follow_symlinks=False)


@pytest.fixture(scope="module")
def trunk(tmp_path_factory: pytest.TempPathFactory) -> Trunk:
    return Trunk(tmp_path_factory.mktemp("trunk"))


def test_every_module_of_the_trunk_is_imported_without_extras(trunk: Trunk) -> None:
    code = """
import importlib, pkgutil, mlir_release
found = [module.name for module in pkgutil.walk_packages(mlir_release.__path__, "mlir_release.")]
for name in found:
    if not name.startswith("mlir_release.builder.projects.mlir.") and not name.endswith("__main__"):
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
    trunk.copy_tests()
    done = trunk.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "auto", *UNIT, *ABOUT_EXTRAS)
    assert done.returncode == 0, done.stdout[-5000:]


@pytest.mark.slow  # two minutes
def test_the_trunks_unit_tests_pass_with_made_up_projects_in_the_place_of_ours(tmp_path: Path) -> None:
    stand_ins = {"mlir": "tests.in_place_of_ours:MLIR", "clang": "tests.in_place_of_ours:CLANG"}
    trunk = Trunk(tmp_path, stand_ins)
    trunk.copy_tests()
    assert not (tmp_path / "mlir_release" / "builder" / "projects").exists()
    rooms = [f"tests/{room}" for room in ROOMS]
    left_out = [f"--deselect=tests/{name}" for name in ABOUT_PROJECTS]
    done = trunk.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "auto", *rooms, *left_out, *ABOUT_EXTRAS)
    assert done.returncode == 0, done.stdout[-5000:]
