"""Projects of the matrix: whether their jobs could import them, whose they are, and which ones no release waits for."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from mlir_release.operate.doctor.files import read_files
from mlir_release.release.model.matrix import Matrix
from tests.healthy import asked
from tests.made_up_project import made_up_targets, registered
from tests.targets_factory import make_row, make_targets


def test_our_own_project_is_well() -> None:
    (finding,) = asked("projects", Matrix.parse(make_targets(make_row(), make_row("mlir-core", required=False))), None)
    assert (finding.check, finding.level, finding.text) == ("projects", "ok", "mlir makes mlir, mlir-core")


def test_a_project_whose_modules_are_missing_is_a_problem() -> None:
    with registered("plain"):
        found = asked("projects", Matrix.parse(made_up_targets(mlir=True)), None)
        assert [finding.level for finding in found] == ["ok", "problem"]
        assert "plain of made-up 1.0 can't be used" in found[1].text
        assert "for_sdk" in found[1].text
        assert found[1].remedy


def test_a_project_of_another_distribution_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for room in ("sdk", "wheels", "testing"):
        name = f"tests.made_up_project.for_{room}"
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with registered("plain"):
        (finding,) = asked("projects", Matrix.parse(made_up_targets(gates=False)), None)
        assert finding.text == (
            "plain makes plain-library; no release waits for it; it comes from made-up 1.0, which jobs have if "
            "requirements/toolkit.txt names it"
        )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('project = "plain"', 'project = "plian"', "did you mean 'plain'"),
        ("[project.plain]", "[project.plian]", "did you mean 'plain'"),
        ("gates = false", "gate = false", "gates"),
        ("gates = false", 'gates = "no"', "gates"),
    ],
)
def test_a_mistake_about_projects_is_found_in_the_file(old: str, new: str, said: str) -> None:
    with registered("plain"):
        text = made_up_targets(gates=False)
        assert old in text
        found = read_files({"targets.toml": text.replace(old, new).encode()}, branch="main", github=False).found
        (finding,) = (each for each in found if each.text.startswith("targets.toml:"))
        assert finding.level == "problem"
        assert said in finding.text + finding.remedy


def test_a_project_that_nobody_has_installed_is_named() -> None:
    with registered("plain"):
        text = made_up_targets()
    found = read_files({"targets.toml": text.encode()}, branch="main", github=False).found
    assert any("project is 'plain', which is not known" in finding.text for finding in found)
