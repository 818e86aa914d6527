from __future__ import annotations

import sys
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.builder.tools.build_tools import BUILD_TOOLS
from mlir_release.builder.tools.containers import Engine, image_name
from mlir_release.builder.wheels.cibuildwheel import LOCKED, configuration, container_cpu, fetch_wheelhouse, identifier
from tests.build_job import make_job
from tests.fake_pip import fake_pip  # noqa: F401
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from cibuildwheel.options import BuildOptions

    from mlir_release.builder.wheels.backends import BuildJob
    from tests.fake_pip import FakePip

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="containers build wheels for Linux")


def linux(text: str) -> dict[str, Any]:
    settings: dict[str, Any] = tomllib.loads(text)["tool"]["cibuildwheel"]["linux"]
    return settings


def test_the_configuration_of_a_container(tmp_path: Path) -> None:
    slots = {"MAKEFLAGS": " -j4 --jobserver-auth=fifo:/tmp/jobs/slots"}
    engine = Engine(name="podman", create_args=("--cgroups=disabled",))
    settings = linux(configuration(make_job(tmp_path, slots=slots), engine, "localhost/own", tmp_path / "house"))
    arguments = settings["container-engine"]["create-args"]
    assert arguments[0] == "--cgroups=disabled"
    assert f"--volume={tmp_path / 'sdk'}:/sdk:ro" in arguments
    assert f"--volume={tmp_path / 'house'}:/wheelhouse:ro" in arguments
    assert "--volume=/tmp/jobs:/slots" in arguments
    assert settings["container-engine"]["disable-host-mount"] is True
    assert settings["environment"]["MLIR_RELEASE_SDK"] == "/sdk"
    assert settings["environment"]["MAKEFLAGS"] == " -j4 --jobserver-auth=fifo:/slots/slots"
    assert settings["environment"]["PIP_NO_INDEX"] == "1"
    assert '"nanobind==2.9.2"' in settings["before-build"]
    assert "--only-plat" in settings["repair-wheel-command"]
    assert "smoke.py core {} && python" in settings["test-command"]


def options_of(job: BuildJob, system: str, engine: Engine | None = None, image: str = "") -> BuildOptions:
    """What cibuildwheel itself makes of the configuration."""
    from cibuildwheel.options import CommandLineArguments, Options

    config = job.workdir / "cibuildwheel.toml"
    config.write_text(configuration(job, engine, image, job.workdir / "house"))
    arguments = CommandLineArguments.defaults()
    arguments.package_dir, arguments.config_file, arguments.only = job.project, str(config), identifier(job)
    options = Options(platform=system, command_line_arguments=arguments, env={})  # type: ignore[arg-type]
    return options.build_options(identifier(job))


@pytest.mark.parametrize("platform", ["macos-arm64", "windows-amd64"])
def test_a_build_without_a_container_installs_its_tools_by_hash(tmp_path: Path, platform: str) -> None:
    made = replace(make_job(tmp_path, platform=platform), requirements=(*BUILD_TOOLS, "nanobind==99.0"))
    build = options_of(made, platform.partition("-")[0])
    assert build.before_build is not None
    assert f'pip install --require-hashes --no-deps -r "{tmp_path.as_posix()}/builds.txt"' in build.before_build
    assert 'pip install "nanobind==99.0"' in build.before_build  # not locked, and so named
    assert build.dependency_constraints.base_file_path is not None  # cibuildwheel's own, pinned


def test_cibuildwheel_itself_accepts_the_configuration(tmp_path: Path) -> None:
    made = replace(make_job(tmp_path), known=("context_left_entered", "dialect*"))
    build = options_of(made, "linux", Engine(name="podman"), image_name("x86_64", environment={}))
    assert build.build_frontend.name == "build"
    assert list(build.build_frontend.args) == ["--no-isolation"]
    assert build.container_engine.name == "podman"
    assert f"--volume={tmp_path / 'sdk'}:/sdk:ro" in build.container_engine.create_args
    assert build.manylinux_images is not None
    assert "manylinux_2_28" in build.manylinux_images["x86_64"]
    assert build.test_command is not None
    smoke = 'python -I {project}/smoke.py core {} "context_left_entered" "dialect*"'
    assert build.test_command.startswith(f"{smoke} && python")


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("linux-aarch64", "cp312-manylinux_aarch64"),
        ("macos-arm64", "cp312-macosx_arm64"),
        ("windows-amd64", "cp312-win_amd64"),
        ("windows-x86_64", "cp312-win_amd64"),
    ],
)
def test_names_of_builds(tmp_path: Path, platform: str, expected: str) -> None:
    assert identifier(make_job(tmp_path, platform=platform)) == expected


def test_the_time_that_a_build_took_in_its_container(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x\nmlir-release-cpu-seconds: 1.5\nmlir-release-cpu-seconds: 12.25\nend\n")
    assert container_cpu(log) == 12.25
    log.write_text("nothing")
    assert container_cpu(log) == 0.0


def test_the_wheelhouse_is_fetched_once_for_each_set_of_requirements(tmp_path: Path, pip: FakePip) -> None:
    made, house = make_job(tmp_path), tmp_path / "house" / "cp312"
    fetch_wheelhouse(made, house)
    fetch_wheelhouse(made, house)
    calls, lock = pip.asked, (house / LOCKED).read_text()
    assert len(calls) == 2
    assert {"--require-hashes", "--no-deps", "-r", str(house / LOCKED)} <= set(calls[0])
    names = {line.partition("==")[0] for line in lock.splitlines()}
    assert names >= {"build", "cmake", "ninja", "nanobind", "virtualenv", "pip"}
    assert all("--hash=sha256:" in line for line in lock.splitlines())
    assert "nanobind==2.9.2 --hash=" in lock
    assert {"numpy<3,>=1.19.5", "ml_dtypes>=0.5"} <= set(calls[1])
    assert not {"ml_dtypes>=0.1", "--require-hashes"} & set(calls[1])
    for call_ in calls:
        assert "--platform=manylinux_2_28_x86_64" in call_
        assert "--platform=manylinux_2_36_x86_64" not in call_
    fetch_wheelhouse(replace(made, requirements=(*BUILD_TOOLS, "nanobind==2.10.1")), house)
    assert len(pip.asked) == 4
    assert "nanobind==2.10.1 --hash=" in (house / LOCKED).read_text()


def test_a_wheelhouse_that_cannot_be_fetched(tmp_path: Path, pip: FakePip) -> None:
    pip.answer(stderr="no matching distribution", code=1)
    house = tmp_path / "house" / "cp312"
    error = refused(lambda: fetch_wheelhouse(make_job(tmp_path), house), "network-failed")
    assert error.why == "no matching distribution"
    assert not (house / "requirements.json").exists()
