"""The suite of source distributions: its steps, with stand-ins for pip's builds, which take the real MLIR."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.builder.model.names import SOURCE_PREFIX
from mlir_release.builder.projects.mlir.suites import builds
from mlir_release.builder.testing.report import TestOutcome, TestResult
from mlir_release.ground.programs.process import Captured
from mlir_release.ground.python import venv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SOURCE = f"{SOURCE_PREFIX}mlir-22.1.8.tar.gz"
REFUSAL = Captured(returncode=1, stdout="", stderr="[source-needs-sdk] install mlir-sdk", ending="exit code 1")
FAILURE = Captured(returncode=1, stdout="", stderr="error: no compiler", ending="exit code 1")
SUCCESS = Captured(returncode=0, stdout="module {\n}", stderr="", ending="exit code 0")


@dataclass
class Environment:
    """A virtual environment that only records."""

    root: Path
    installed: list[str] = field(default_factory=list)

    @property
    def python(self) -> Path:
        return self.root / "python"

    def variables(self) -> dict[str, str]:
        return {"MLIR_RELEASE_SDK": "/of/this/machine"}

    def install(self, *files: object) -> None:
        self.installed += [Path(str(file)).name for file in files]

    def install_locked(self, chosen: object) -> None:
        pass


@dataclass
class PaperPip:
    """pip's answers: ``without`` an SDK, and ``with_sdk``."""

    workdir: Path
    without: Captured = REFUSAL
    with_sdk: Captured = SUCCESS
    environments: dict[str, Environment] = field(default_factory=dict)

    def create(self, root: Path, python: Path, *, pip: bool = False) -> Environment:
        return self.environments.setdefault(root.name, Environment(root))

    def capture(self, command: Sequence[object], *, environment: Mapping[str, str], **_: Any) -> Captured:
        assert "MLIR_RELEASE_SDK" not in environment
        if "pip" not in command:
            return SUCCESS
        done = self.with_sdk if "mlir_sdk.whl" in self.environments["build"].installed else self.without
        if done.ok:
            (self.workdir / "built").mkdir(exist_ok=True)
            (self.workdir / "built" / "mlir.whl").touch()
        return done

    def run(self) -> list[TestResult]:
        sdk: Any = None
        return list(builds.build_from(self.workdir / SOURCE, sdk=sdk, python=Path("python"), workdir=self.workdir))


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PaperPip:
    made = PaperPip(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[build-system]\nrequires = []\n")
    with tarfile.open(tmp_path / SOURCE, "w:gz") as archive:
        archive.add(tmp_path / "pyproject.toml", "mlir-22.1.8/pyproject.toml")
    monkeypatch.setattr(venv, "create", made.create)
    monkeypatch.setattr(builds, "capture", made.capture)
    monkeypatch.setattr(builds, "write_sdk_wheel", lambda sdk, version, *, output: output / "mlir_sdk.whl")
    return made


def outcomes(results: list[TestResult]) -> dict[str, TestOutcome]:
    return {result.name: result.outcome for result in results}


def test_a_source_distribution_is_refused_without_an_sdk_and_built_with_one(pip: PaperPip) -> None:
    found = outcomes(pip.run())
    assert list(found) == ["metadata", "says-what-is-missing", "builds-with-mlir-sdk", "imports"]
    assert set(found.values()) == {TestOutcome.PASS}


def test_a_wheel_of_an_earlier_run_is_not_installed(pip: PaperPip) -> None:
    (pip.workdir / "built").mkdir()
    (pip.workdir / "built" / "earlier.whl").touch()
    assert len(pip.run()) == 4
    assert pip.environments["environment"].installed == ["mlir.whl"]


def test_a_build_without_an_sdk_must_fail(pip: PaperPip) -> None:
    pip.without = SUCCESS
    *_, last = pip.run()
    assert (last.name, last.outcome) == ("says-what-is-missing", TestOutcome.FAIL)


def test_a_build_that_fails_must_say_what_is_missing(pip: PaperPip) -> None:
    pip.without = FAILURE
    found = outcomes(pip.run())
    assert found["says-what-is-missing"] is TestOutcome.FAIL
    assert found["builds-with-mlir-sdk"] is TestOutcome.PASS


def test_what_fails_with_an_sdk_is_shown_and_the_last(pip: PaperPip) -> None:
    pip.with_sdk = FAILURE
    *_, last = pip.run()
    assert (last.name, last.outcome) == ("builds-with-mlir-sdk", TestOutcome.FAIL)
    assert last.message == "exit code 1\nerror: no compiler"
