"""Conda packages on their way to a channel: their check, and the upload to a prefix.dev on loopback."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.extras.conda.channel import REPODATA, check_channel, package_release, read_repodata
from mlir_release.extras.conda.publish import publish_packages
from tests.conda_client import make_stand_ins
from tests.extras.integration.conda.test_channel import MINOR, published
from tests.prefix_dev import OF_THE_JOB
from tests.refusals import refused
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import OTHER_PYTHON, PYTHON, TAG, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.release_stage import Stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return published(tmp_path_factory.mktemp("stage"), files={f"mlir-{VERSION}.dist-info/licenses/L.TXT": b"l\n"})


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """Its address and its folder."""
    folder = tmp_path / "prefix.dev"
    folder.mkdir()
    command = [sys.executable, "-m", "tests.prefix_dev", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        for name, value in {
            "GITHUB_ACTIONS": "true",
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{url}/identity?v=1",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": OF_THE_JOB,
        }.items():
            monkeypatch.setenv(name, value)
        yield url, folder
        process.kill()


def test_a_jobs_identity_is_enough_and_what_the_channel_has_is_left_alone(
    server: tuple[str, Path], tmp_path: Path
) -> None:
    """A package that is there does not keep those after it from the channel."""
    url, folder = server
    targets = make_targets(make_row(), pythons=[PYTHON, OTHER_PYTHON])
    stage = published(tmp_path / "stage", targets, pythons=(PYTHON, OTHER_PYTHON))
    packaged = package_release(stage.forge, TAG, tmp_path / "channels")
    made = {path.name: path.read_bytes() for path in (tmp_path / "channels").rglob("*.conda")}
    first = folder / "mlir-snapshots" / sorted(made)[0]
    first.parent.mkdir()
    first.write_bytes(made[first.name])
    sent = publish_packages(stage.forge, TAG, "mlir", server=url)
    assert (sent.channel, sent.packages) == (f"{url}/mlir-snapshots", tuple(row[1] for row in packaged.packages))
    found = {path.name: path.read_bytes() for path in first.parent.iterdir()}
    assert found == made
    assert len(made) == 2
    assert publish_packages(stage.forge, TAG, "mlir", server=url).packages == sent.packages  # again


@pytest.mark.parametrize("build", ["", "py399_0"])
def test_a_channel_with_another_package_of_the_version_gets_nothing(
    stage: Stage, server: tuple[str, Path], tmp_path: Path, build: str
) -> None:
    """Other bytes under the same name, or a build that the release has not: conda would take either."""
    url, folder = server
    packaged = package_release(stage.forge, TAG, tmp_path / "channels")
    name = packaged.packages[0][1]
    there = folder / "mlir-snapshots" / (f"{name.rpartition('-')[0]}-{build}.conda" if build else name)
    there.parent.mkdir()
    there.write_bytes(b"of somebody else")
    error = refused(lambda: publish_packages(stage.forge, TAG, "mlir", server=url), "release-tampered")
    assert there.name in error.why
    assert [path.name for path in there.parent.iterdir()] == [there.name]


def test_a_channel_that_cannot_be_read_is_one_error(stage: Stage) -> None:
    refused(lambda: publish_packages(stage.forge, TAG, "mlir", server="http://127.0.0.1:9"), "network-failed")


def test_a_channel_that_does_not_trust_the_workflow_is_one_error(stage: Stage, server: tuple[str, Path]) -> None:
    url, folder = server
    (folder / "untrusted").touch()
    error = refused(lambda: publish_packages(stage.forge, TAG, "mlir", server=url), "network-failed")
    assert "trusted publisher" in error.remedy
    assert not (folder / "mlir-snapshots").exists()


@pytest.mark.parametrize("name", ["https://prefix.dev/mlir", "", "../mlir", "mlir/x", "Mlir"])
def test_a_channel_is_named_without_its_address(stage: Stage, name: str) -> None:
    refused(lambda: publish_packages(stage.forge, TAG, name), "option-invalid")


def test_a_package_that_lacks_something_fails_the_check(stage: Stage, tmp_path: Path) -> None:
    packaged = package_release(stage.forge, TAG, tmp_path / "channels")
    empty = make_stand_ins(tmp_path / "other", [("nothing", "1", "0")])
    said = f"{packaged.packages[0][1]} can't be installed"
    refused(lambda: check_channel(tmp_path / "channels" / "snapshots", [empty]), "install-failed", said)


def test_a_package_whose_mlir_does_not_import_fails_the_check(stage: Stage, tmp_path: Path) -> None:
    """The stand-ins hold no files: there is not even a Python."""
    package_release(stage.forge, TAG, tmp_path / "channels")
    (record, *_) = read_repodata(tmp_path / "channels" / "snapshots" / "linux-64" / REPODATA)["packages.conda"].values()
    names = {depend.split()[0] for depend in record["depends"]} - {"python", "python_abi", "__glibc"}
    pythons = (("3.10", OTHER_PYTHON), (MINOR, PYTHON))
    stand_ins = [("python", f"{minor}.9", f"0_{tag}") for minor, tag in pythons]
    stand_ins += [("python_abi", minor, f"8_{tag}") for minor, tag in pythons]
    others = make_stand_ins(tmp_path / "other", [*stand_ins, *((name, "2.9", "0") for name in sorted(names))])
    error = refused(lambda: check_channel(tmp_path / "channels" / "snapshots", [others]), "install-failed")
    assert "is installed, but MLIR can't be imported" in error.what, error.why


@pytest.mark.parametrize(
    "content", [None, "{}", "no JSON", '{"info": {}, "packages.conda": {"a.conda": {"name": "a", "version": "1"}}}']
)
def test_a_folder_without_packages_for_this_platform_is_refused(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "linux-64").mkdir()
        (tmp_path / "linux-64" / "repodata.json").write_text(content)
    error = refused(lambda: check_channel(tmp_path), "input-invalid")
    assert str(tmp_path) in error.where
