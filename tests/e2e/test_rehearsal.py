"""The main job, whole, on real MLIR: what the README's first command does."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.model.test_report import TITLES
from mlir_release.builder.sdk.provision import available_releases
from mlir_release.builder.testing.report import TestOutcome
from mlir_release.builder.testing.run import run_suites
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.ground.errors import UsageError
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.rehearsal.run import Options, rehearse
from mlir_release.use.rebuild import rebuild
from tests.processes import run

if TYPE_CHECKING:
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.sdk.sources.releases import LlvmRelease
    from tests.e2e.conftest import Rehearsed


def test_a_stranger_gets_a_working_mlir(rehearsed: Rehearsed) -> None:
    report = rehearsed.report
    assert report.rows[-1][1] == "first.py of MLIR works"
    (command,) = report.commands
    assert command.endswith("snapshots/latest/requirements.txt")  # addresses with hashes
    assert len(report.wheels) == 1
    assert Path(report.links["API"]).is_file()


def test_the_pin_moved_and_the_tag_names_it(rehearsed: Rehearsed) -> None:
    forge = rehearsed.options.workspace / "forge" / "repository.git"

    def git(*args: str) -> str:
        return run("git", "-C", forge, *args).strip()

    assert git("rev-parse", f"{rehearsed.report.tag}^{{commit}}") == git("rev-parse", "snapshots")
    assert git("rev-parse", "snapshots^@").splitlines()[-1] == git("rev-parse", "main")
    assert git("diff", "--name-only", "main", "snapshots") == "llvm-project.version"


def test_upstreams_tests_pass_on_the_wheel_as_the_lists_say(rehearsed: Rehearsed) -> None:
    (path,) = (rehearsed.options.workspace / "dist" / rehearsed.report.tag).glob("bindings-*.tests.json")
    report = json.loads(path.read_text())
    assert report["passed"]
    assert report["counts"]["fail"] == report["counts"]["unexpected_pass"] == 0
    assert report["counts"]["pass"] >= 80


def test_the_wheel_is_what_it_says(rehearsed: Rehearsed) -> None:
    report = inspect(rehearsed.wheel, ask_auditwheel=False)  # its build has asked, and the command line asks, below
    assert report.problems == ()
    assert report.external == ()
    assert report.release is not None
    assert report.release.tag == rehearsed.report.tag
    names = [file.name for file in report.files]
    assert any("/sboms/" in name for name in names)
    assert any("/licenses/" in name for name in names)
    assert not any("Test" in name.rsplit("/", 1)[-1] and name.endswith(".so") for name in names)


def test_a_second_run_makes_nothing_again(rehearsed: Rehearsed) -> None:
    before = sorted(path for path in rehearsed.options.workspace.glob("forge/releases/**/*") if path.is_file())
    again = rehearse(rehearsed.options)
    assert again.tag == rehearsed.report.tag
    assert again.wheels == []
    after = sorted(path for path in rehearsed.options.workspace.glob("forge/releases/**/*") if path.is_file())
    assert after == before


@pytest.mark.slow  # it compiles everything
def test_the_published_wheel_is_made_again_byte_for_byte(
    rehearsed: Rehearsed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another folder, without a compiler cache."""
    monkeypatch.setenv("CCACHE_DISABLE", "1")
    release = inspect(rehearsed.wheel).release
    assert release is not None
    forge = LocalForge(rehearsed.options.workspace / "forge")
    rebuilt = rebuild(forge, release.tag, release.target, output=tmp_path, pythons=rehearsed.options.pythons)
    assert rebuilt.equal, rebuilt.text()
    assert rebuilt.image == release.image


def test_the_full_regression_passes_with_the_sdks_tools(sdk: Sdk, tmp_path: Path) -> None:
    (report,) = run_suites(None, sdk=sdk, suites=["regression"], workdir=tmp_path)
    assert report.passed, report.markdown()
    assert report.counts["pass"] > 1500


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="NOT COUNTED: there is no valgrind")
def test_what_the_wheel_takes_is_counted(rehearsed: Rehearsed, sdk: Sdk, tmp_path: Path) -> None:
    """Every phase of the corpus runs, and each measure has a name for people."""
    (done,) = run_suites(rehearsed.wheel, sdk=sdk, suites=["performance"], workdir=tmp_path)
    assert done.passed, done.markdown()
    assert done.report.measures.keys() == TITLES.keys()
    assert all(value > 1_000_000 for value in done.report.measures.values())


def test_what_people_install_next_to_it_works_before_and_after_it(
    rehearsed: Rehearsed, sdk: Sdk, tmp_path: Path
) -> None:
    """In one process: from PyPI, 0.7 GB where nothing is kept."""
    (report,) = run_suites(rehearsed.wheel, sdk=sdk, suites=["beside"], workdir=tmp_path)
    assert report.passed, report.failures
    passed = {result.name for result in report.results if result.outcome is TestOutcome.PASS}
    assert {"iree-base-compiler/after-ours", "iree-base-compiler/before-ours"} <= passed


def test_the_command_line_inspects_it(rehearsed: Rehearsed) -> None:
    printed = run(sys.executable, "-m", "mlir_release", "wheels", "inspect", "--json", rehearsed.wheel)
    assert json.loads(printed)["problems"] == []


def test_a_release_that_was_made_without_its_sdk_can_not_be_built_on(rehearsed: Rehearsed) -> None:
    """After those that look at the rehearsal's repository, whose build matrix it changes."""
    with pytest.raises(UsageError) as caught:
        rehearse(replace(rehearsed.options, given={"downstream": True}))
    assert caught.value.id == "release-unsuitable"


@pytest.mark.slow  # it compiles everything, once for each
def test_the_other_llvms_that_the_distribution_has_are_released_too(release: LlvmRelease, tmp_path: Path) -> None:
    others = [one for one, _ in available_releases(cache=cache_directory()) if one.version != release.version]
    if not others:
        pytest.skip("this machine has packages of one LLVM only")
    for other in others:
        report = rehearse(Options(workspace=tmp_path / other.version, llvm=other.version))
        assert report.rows[-1][1].startswith(f"MLIR {other.version} of snapshot-")


@pytest.mark.slow  # it packs the SDK, and compiles upstream's bindings once more
def test_projects_are_built_on_what_the_releases_page_links(rehearsed: Rehearsed, tmp_path: Path) -> None:
    report = rehearse(replace(rehearsed.options, workspace=tmp_path, given={"downstream": True}))
    results = {step: result for step, result, _ in report.rows}
    assert "mlir-sdk " in results["pip install mlir mlir-sdk from the release's page alone"]
    assert "two kinds of contexts" in results["run the standalone example"]
    assert results["run the extension"].startswith("operations: ")
