"""A project that another distribution brings: its wheels are staged, built, inspected and tested as ours are."""

from __future__ import annotations

import json
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from msgspec import structs

from mlir_release.builder.model.orders import WheelOrder
from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.testing.run import run_suites
from mlir_release.builder.wheels.backends import BuildBackend, BuildJob
from mlir_release.builder.wheels.build import build_wheels
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.builder.wheels.source import pack, read_members, release_info
from mlir_release.builder.wheels.stage import stage
from mlir_release.cli.app import app
from mlir_release.ground.errors import MachineError
from mlir_release.ground.llvm.projects import find_project
from mlir_release.ground.programs.process import Usage
from mlir_release.ground.python.pythons import describe
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.ground.storage.files import write_atomically
from mlir_release.release.transaction.assets import read_wheel
from tests import outside
from tests.refusals import check_error, refused
from tests.wheel_factory import make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.ground.llvm.projects import Project

TAG, VERSION, TARGET = "snapshot-20261120.02", "20261120.2", "sums-linux-x86_64-py3"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("another")
    outside.install(folder)
    return folder


@pytest.fixture(scope="module")
def project(root: Path) -> Iterator[Project]:
    with outside.found(root) as found:
        yield found


@pytest.fixture(scope="module")
def sdk(project: Project, root: Path) -> Sdk:
    return outside.make_sdk(root / "llvm")


def request(sdk: Sdk, profile: str = "library") -> WheelRequest:
    order = WheelOrder(
        tag=TAG, version=VERSION, target=TARGET, runtime="linux-x86_64_sums", distribution="sums", project="sums",
        profile=profile,
    )  # fmt: skip
    return WheelRequest.of_order(order, sdk)


@pytest.fixture(scope="module")
def wheel(project: Project, sdk: Sdk, root: Path) -> Path:
    """The one wheel, which no CPython was named for."""
    (built,) = build_wheels(request(sdk), [], output=root / "dist", backend="build", cache=cache_directory())
    return built.path


def test_the_project_is_the_one_that_the_installed_package_brings(project: Project, root: Path) -> None:
    assert project.folder == root / "installed" / "sums_release"
    assert (project.name, project.wheel_info) == ("sums", "sums/_release.json")
    with pytest.raises(MachineError):  # whatever else is tried here knows nothing of it
        find_project("mlir")


def test_what_is_staged_is_the_projects_own(project: Project, sdk: Sdk, tmp_path: Path) -> None:
    folder = stage(request(sdk), tmp_path)
    table = tomllib.loads((folder / "pyproject.toml").read_text())
    assert table["build-system"]["requires"] == ["scikit-build-core>=1.1,<2"]
    assert table["project"]["description"] == "A library that adds"
    assert (table["project"]["requires-python"], table["project"]["dependencies"]) == (">=3.9", [])
    assert table["tool"]["scikit-build"]["wheel"]["py-api"] == "py3"
    assert table["tool"]["scikit-build"]["cmake"]["define"]["SUMS_PROFILE"] == "library"
    release = json.loads((folder / "sums" / "_release.json").read_text())
    assert (release["project"], release["profile"], release["target"]) == ("sums", "library", TARGET)
    parts = json.loads((folder / "sboms" / "sums.cdx.json").read_text())["components"]
    assert [(part["name"], part.get("version")) for part in parts] == [("abacus", "2"), ("llvm-project", "22.1.8")]
    assert {path.name for path in (folder / "upstream" / "sums").iterdir()} == {"lib", "python"}


def test_one_wheel_is_built_for_every_cpython(wheel: Path, sdk: Sdk) -> None:
    report = inspect(wheel)
    assert report.problems == ()
    assert (report.release, report.external) == (read_wheel(wheel).info, ())
    assert report.release is not None
    assert (report.release.project, report.release.target, report.release.serves) == ("sums", TARGET, ())
    assert wheel.name.startswith(f"sums-{VERSION}-py3-none-manylinux")
    assert f"py3-none-{report.true_platform_tag}" in report.tags
    assert {tag.split("-")[1] for tag in report.tags} == {"none"}
    assert {"sums/__init__.py", "sums/libsums.so"} <= {file.name for file in report.files}


def test_it_is_built_once_whatever_cpythons_are_named(wheel: Path, sdk: Sdk, tmp_path: Path) -> None:
    seen = []

    class Recording(BuildBackend):
        def build(self, job: BuildJob) -> tuple[Path, Usage]:
            seen.append(job.python)
            return wheel, Usage(wall=1.0, cpu=1.0)

    python = describe(Path(sys.executable))
    for pythons in ([], [python, replace(python, version="3.99.1")]):
        build_wheels(request(sdk), pythons, output=tmp_path, backend=Recording(), cache=tmp_path)
    assert seen == [python, python]


def test_its_suites_run_on_it_and_its_known_failures_are_known(wheel: Path, sdk: Sdk, tmp_path: Path) -> None:
    python = describe(Path(sys.executable))
    smoke, bindings = run_suites(wheel, sdk=sdk, python=str(python.executable), workdir=tmp_path)
    assert [result.name for result in smoke.results] == ["adds", "release"]
    assert (smoke.target, bindings.target) == tuple(
        f"{suite}-sums-linux-x86_64-{python.tag}" for suite in ("smoke", "bindings")
    )
    assert {result.name: result.outcome.value for result in bindings.results} == {
        "negative.py": "pass", "overflows.py": "expected_fail",
    }  # fmt: skip
    assert smoke.passed
    assert bindings.passed


def test_a_smoke_test_that_fails_is_a_result(project: Project, sdk: Sdk, tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path, distribution="sums", profile="library", python="py3", target=TARGET,
        release_info={"project": "sums"}, files={"sums/__init__.py": b"def add(one, other): return 0"},
    )  # fmt: skip
    (run,) = run_suites(wheel, sdk=sdk, python=sys.executable, suites=["smoke"], workdir=tmp_path / "work")
    assert {result.name: result.outcome.value for result in run.results} == {"adds": "fail", "release": "pass"}


def test_its_source_distribution_says_which_release_it_is_of(project: Project, sdk: Sdk, tmp_path: Path) -> None:
    (made,) = pack([request(sdk, "source")], output=tmp_path)
    assert made.name == f"source-sums-{VERSION}.tar.gz"
    metadata, content = read_members(made)
    assert b"Name: sums" in metadata
    assert (release_info(made, content).project, release_info(made, content).profile) == ("sums", "source")


def test_another_projects_sdk_is_refused(sdk: Sdk, tmp_path: Path) -> None:
    of_mlir = Sdk(root=sdk.root, info=structs.replace(sdk.info, project="mlir"))
    refused(lambda: request(of_mlir), "sdk-mismatch", "the SDK is of the project mlir, and sums is of sums")
    wheel = make_wheel(tmp_path, revision=sdk.info.revision)
    error = refused(lambda: run_suites(wheel, sdk=sdk, workdir=tmp_path), "wheel-unsuitable")
    assert error.why == "the wheel is of the project mlir, the SDK of sums"


def test_suites_need_the_parts_of_the_sdk_that_the_project_says(wheel: Path, sdk: Sdk, tmp_path: Path) -> None:
    half = sdk.copy_to(tmp_path / "half")
    (half.root / "parts" / "tools.txt").unlink()
    error = refused(lambda: run_suites(wheel, sdk=half, workdir=tmp_path / "work"), "input-missing")
    assert "the suite bindings needs it" in error.what


def test_suites_and_profiles_are_those_of_the_project(project: Project, sdk: Sdk, wheel: Path, tmp_path: Path) -> None:
    error = refused(lambda: run_suites(wheel, sdk=sdk, suites=["sdk"], workdir=tmp_path), "option-invalid")
    assert (error.what, error.remedy) == ("sums has no test suite sdk", "suites: smoke, bindings")
    for file, what in ((None, "an SDK"), (tmp_path / "sums-1.0.tar.gz", "sums-1.0.tar.gz")):
        lacking = refused(lambda: run_suites(file, sdk=sdk, workdir=tmp_path), "option-invalid")  # noqa: B023
        assert lacking.what == f"sums has no test suite for {what}"
    refused(lambda: WheelRequest.of_profile("host", sdk=sdk), "option-invalid", "has no profile 'host'")
    addon = replace(request(sdk), test_addon=True)
    refused(lambda: stage(addon, tmp_path / "project"), "option-invalid", "sums has no add-on for tests")
    assert not (tmp_path / "project").exists()


@pytest.mark.parametrize(
    ("module", "text", "why"),
    [
        ("wheels", "import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("wheels", "", "sums_release.for_wheels.WHEELS is NoneType, not ProjectWheels"),
        ("testing", "SUITES = ['bindings']", "sums_release.for_testing.SUITES is list, not dict"),
    ],
)
def test_a_project_whose_module_is_broken_is_named(
    project: Project, sdk: Sdk, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    module: str, text: str, why: str,
) -> None:  # fmt: skip
    path = project.folder / f"for_{module}.py"
    before = path.read_text()
    monkeypatch.delitem(sys.modules, f"sums_release.for_{module}", raising=False)
    write_atomically(path, text)
    try:
        run = {
            "wheels": lambda: stage(request(sdk), tmp_path),
            "testing": lambda: run_suites(wheel, sdk=sdk, workdir=tmp_path),
        }
        error = refused(run[module], "plugin-unusable", "sums of sums-release 1.0 can't be used")
        assert error.why == why
    finally:
        write_atomically(path, before)
        sys.modules.pop(f"sums_release.for_{module}", None)


def test_an_sdk_without_wheels_of_its_own_is_refused(project: Project, sdk: Sdk, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["sdk", "wheel", str(sdk.root), "-o", str(tmp_path)])
    check_error(done.exception, "option-invalid", "the project sums has no wheels of its SDK")
    assert not any(tmp_path.iterdir())


def test_the_first_profile_is_staged_by_default(project: Project, sdk: Sdk, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["wheels", "stage", "--sdk", str(sdk.root), "-o", str(tmp_path / "project")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "project" / "sums" / "_release.json").is_file()
