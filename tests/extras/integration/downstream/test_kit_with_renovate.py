"""Renovate finds the next release for the kit's pin, on the pages alone."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests import npm
from tests.wheel_factory import TAG

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.extras.downstream.pin import Kind
    from tests.extras.integration.downstream.conftest import DownstreamStage

pytestmark = pytest.mark.slow  # 620 packages of npm

#: Nothing but the pages can be asked here: neither PyPI nor GitHub.
PAGES_ONLY = {
    "enabledManagers": ["pep621", "custom.regex"],
    "packageRules": [{"matchPackageNames": ["!/^mlir/"], "enabled": False}],
}


def updates(project: Path) -> set[tuple[str, str, str, str]]:
    """Manager, distribution, what is there, and what Renovate would put there."""
    subprocess.run(["git", "init", "--quiet", str(project)], check=True)
    subprocess.run(["git", "-C", str(project), "add", "."], check=True)  # it reads what git tracks
    environment = {**os.environ, "LOG_LEVEL": "debug", "LOG_FORMAT": "json", "RENOVATE_CONFIG": json.dumps(PAGES_ONLY)}
    command = [*npm.renovate("renovate"), "--platform=local", "--dry-run=lookup"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    (found,) = (line["config"] for line in lines if line["msg"] == "packageFiles with updates")
    return {
        (manager, dependency["depName"], dependency["currentValue"], update["newValue"])
        for manager, files in found.items()
        for file in files
        for dependency in file["deps"]
        for update in dependency.get("updates", [])
    }


@pytest.mark.parametrize("kind", ["extension", "bundle"])
def test_it_finds_the_newest_snapshot_that_has_the_wheels_and_is_not_yanked(
    site: DownstreamStage, tmp_path: Path, kind: Kind
) -> None:
    site.publish("snapshot-20261121.09", "20261121.9", sdk=True)
    site.publish("snapshot-20261121.10", "20261121.10", sdk=True)
    site.publish("snapshot-20261122.03", "20261122.3")
    site.publish("snapshot-20261123.01", "20261123.1", sdk=True)
    site.yank("snapshot-20261123.01")
    site.kit(tmp_path / "kit", kind)
    newest = "20261122.03" if kind == "extension" else "20261121.10"
    names = ["mlir"] if kind == "extension" else ["mlir-sdk", "mlir-sdk-tools"]
    assert updates(tmp_path / "kit") == {
        *(("pep621", name, "==20261120.02", f"=={newest}") for name in names),
        ("regex", names[0], "20261120.02", newest),
    }


def test_a_pin_that_the_shared_pages_have_forgotten_is_moved_too(site: DownstreamStage, tmp_path: Path) -> None:
    site.publish("snapshot-20261121.01", "20261121.1")
    site.kit(tmp_path / "kit", "extension")
    index = site.pages / "snapshots" / "simple" / "mlir" / "index.json"
    listed = json.loads(index.read_text())
    listed["files"] = [file for file in listed["files"] if TAG not in file["url"]]
    index.write_text(json.dumps(listed))
    assert ("regex", "mlir", "20261120.02", "20261121.01") in updates(tmp_path / "kit")


def test_it_finds_the_next_numbered_release(site: DownstreamStage, tmp_path: Path) -> None:
    for tag, version in (
        ("llvm-22.1.8.01", "22.1.8"),
        ("llvm-22.1.8.02", "22.1.8.post1"),
        ("llvm-22.1.10.01", "22.1.10"),
    ):
        site.publish(tag, version)
    site.kit(tmp_path / "kit", "extension", tag="llvm-22.1.8.01")
    assert updates(tmp_path / "kit") == {("pep621", "mlir", "==22.1.8", "==22.1.10")}


def test_it_follows_the_channel_and_not_what_is_newer(site: DownstreamStage, tmp_path: Path) -> None:
    site.publish("snapshot-20261121.09", "20261121.9")
    site.publish("snapshot-20261122.01", "20261122.1")
    site.kit(tmp_path / "kit", "extension", tag="latest-good")
    pyproject = tmp_path / "kit" / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("20261122.01", "20261120.02"))  # as when the kit was written
    index = json.dumps({"channels": {"latest": "snapshot-20261122.01", "latest-good": "snapshot-20261121.09"}})
    (site.pages / "index.json").write_text(index)
    assert updates(tmp_path / "kit") == {
        ("pep621", "mlir", "==20261120.02", "==20261121.09"),
        ("regex", "mlir", "20261120.02", "20261121.09"),
    }


@pytest.mark.parametrize("tag", [TAG, "latest-good"])
def test_its_validator_accepts_the_configuration(site: DownstreamStage, tmp_path: Path, tag: str) -> None:
    site.kit(tmp_path / "kit", "bundle", tag=tag)
    command = [*npm.renovate("config-validator"), "--strict", "--no-global", str(tmp_path / "kit" / "renovate.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
