"""Entry points of installed distributions; and projects that these bring: refused with a reason, or in the matrix."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import tomli_w

from mlir_release.builder.model.names import WheelKey
from mlir_release.ground import plugins
from mlir_release.ground.errors import MachineError
from mlir_release.ground.llvm.projects import all_projects, find_project
from mlir_release.ground.python.platforms import Platform
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.matrix_jobs import job_rows
from tests.refusals import refused
from tests.revision_factory import FACTS
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Bring = Callable[..., Path]

#: The module of a made-up project, whose folder has all files that a project needs.
MODULE = """
from pathlib import Path
from mlir_release.builder.projects.api import Profile, Project

PROJECT = Project(
    name="circt",
    title="CIRCT's Python bindings",
    package=__name__,
    folder=Path(__file__).parent,
    module="circt",
    profiles={
        "host": Profile(distribution="circt", makes="each-python", summary="CIRCT", code_generators=()),
        "plain": Profile(distribution="circt-plain", makes="any-python", summary="CIRCT's library"),
    },
    subprojects=("mlir",),
    needs="circt/CMakeLists.txt",
    paths=("circt",),
    suites=("smoke", "bindings"),
)
"""


CACHES = (plugins.plugins.cache_clear, find_project.cache_clear)

#: Entry points that no distribution installed here has.
GROUP = "acme.commands"


@pytest.fixture(autouse=True)
def read_anew() -> Iterator[None]:
    """What is installed is looked for in each test, and again after it."""
    for clear in CACHES:
        clear()
    yield
    for clear in CACHES:
        clear()


def describe(folder: Path, name: str, version: str, entry_points: bytes) -> None:
    """What pip writes of an installed distribution."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_bytes(entry_points)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bring]:
    """Installs a distribution that brings the project ``circt``."""

    def install(distribution: str = "circt_release", module: str = "a_circt", text: str = MODULE) -> Path:
        package = tmp_path / module
        (package / "tests").mkdir(parents=True)
        (package / "__init__.py").write_text(text)
        (package / "tests" / "smoke.py").touch()
        (package / "known_failures.toml").touch()
        describe(tmp_path, distribution, "1.0", f"[mlir_release.projects]\ncirct = {module}:PROJECT\n".encode())
        for clear in CACHES:
            clear()
        return package

    monkeypatch.syspath_prepend(tmp_path)
    yield install
    for name in [name for name in sys.modules if name.startswith("a_circt")]:
        del sys.modules[name]


def targets(**keys: Any) -> str:
    """A file with a configuration of ``mlir``, and ``circt`` and ``circt-plain`` of the other project."""
    document = tomllib.loads(make_targets(make_row(), pythons=["cp312", "cp313", "cp314"]))
    for name, profile in (("circt", "host"), ("circt-plain", "plain")):
        document["llvm"][name] = {"distribution": name, "profile": profile, "project": "circt"}
        document["target"].append(make_row(name, suites=["smoke", "bindings"]))
    return tomli_w.dumps(document | keys)


def test_a_project_of_another_distribution_has_targets_jobs_and_an_sdk_of_its_own(bring: Bring) -> None:
    bring()
    matrix = Matrix.parse(targets())
    assert [wheel.name for wheel in matrix.only("project=circt").wheels] == [
        "circt-linux-x86_64-cp312", "circt-linux-x86_64-cp313", "circt-linux-x86_64-cp314",
        "circt-plain-linux-x86_64-py3",
    ]  # fmt: skip
    assert [runtime.name for runtime in matrix.runtimes] == ["linux-x86_64", "linux-x86_64_circt"]
    first, second = job_rows(matrix, "platforms", release={"tag": "t", "version": "1", "revision": "0" * 40})
    assert '"project"' not in first["order"]
    assert '"project":"circt"' in second["order"]
    assert "circt" not in first["wheels"] + first["tests"]
    assert matrix.only("runtime=linux-x86_64").wheels == matrix.wheels
    here = Platform.of("linux", "x86_64")
    assert matrix.runtime(here).project == "mlir"
    assert matrix.runtime(here, "linux-x86_64_circt").project == "circt"
    assert matrix.only("project=circt").runtime(here).project == "circt"  # as where it is the only one


def test_one_wheel_for_every_cpython_is_tested_by_the_oldest_and_the_newest(bring: Bring) -> None:
    bring()
    matrix = Matrix.parse(targets())
    wheel = matrix.wheel("circt-plain-linux-x86_64-py3")
    assert [test.name for test in wheel.tests] == [
        f"{suite}-circt-plain-linux-x86_64-{python}" for suite in ("smoke", "bindings") for python in ("cp312", "cp314")
    ]
    assert {test.wheels for test in wheel.tests} == {(wheel.name,)}
    name = "circt_plain-1-py3-none-manylinux_2_28_x86_64.whl"
    assert wheel.slot == WheelKey.of_file(name)
    assert wheel.makes(name, "1")


def test_a_project_holds_releases_back_unless_the_file_says_that_it_does_not(bring: Bring) -> None:
    bring()
    assert all(wheel.required for wheel in Matrix.parse(targets()).wheels)
    matrix = Matrix.parse(targets(project={"circt": {"gates": False}}))
    assert {wheel.configuration.project: wheel.required for wheel in matrix.wheels} == {"mlir": True, "circt": False}
    assert not any(test.required for wheel in matrix.only("project=circt").wheels for test in wheel.tests)


def test_a_revision_that_lacks_a_project_has_the_wheels_of_the_others(bring: Bring) -> None:
    bring()
    due = Matrix.parse(targets()).of_revision(replace(FACTS, lacks=("circt",), version="23.1.0"))
    assert {wheel.configuration.project for wheel in due.wheels} == {"mlir"}
    assert due.excluded[0].reason == (
        "LLVM 23.1.0 has no circt/CMakeLists.txt, which CIRCT's Python bindings are made of"
    )


def test_only_the_wheels_of_a_project_that_can_share_the_stable_abi(bring: Bring) -> None:
    bring()
    shared = Matrix.parse(targets()).with_abi3(replace(FACTS, has_stable_abi=True))
    assert [wheel.name for wheel in shared.wheels if wheel.abi3_members] == ["mlir-linux-x86_64-cp312-abi3"]


def test_an_unknown_project_is_named_with_those_that_there_are() -> None:
    text = targets()
    error = refused(lambda: Matrix.parse(text), "config-invalid", "has a mistake in llvm.circt")
    assert "project is 'circt', which is not known" in str(error.why)
    assert "mlir" in error.remedy
    table = make_targets(make_row()) + "[project.mlri]\ngates = false\n"
    error = refused(lambda: Matrix.parse(table), "config-invalid", "has a mistake in project")
    assert "did you mean 'mlir'" in error.remedy


@pytest.mark.parametrize(("line", "why"), [("gate = false", "gate is an unknown"), ('gates = "no"', "gates is not a")])
def test_a_mistake_in_the_table_of_a_project_is_named(line: str, why: str) -> None:
    text = make_targets(make_row()) + f"[project.mlir]\n{line}\n"
    error = refused(lambda: Matrix.parse(text), "config-invalid", "has a mistake in project.mlir")
    assert why in str(error.why)


def test_two_projects_with_one_distribution_name_are_refused(bring: Bring) -> None:
    bring()
    text = targets().replace('distribution = "circt-plain"', 'distribution = "MLIR"'.lower())
    error = refused(lambda: Matrix.parse(text), "config-invalid", "has a mistake in llvm.circt-plain")
    assert error.why == "distribution is 'mlir', as wheels of the project mlir are called"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('profile = "plain"', 'profile = "core"', "profile is 'core', which is not known"),
        (
            'suites = [\n    "smoke",\n    "bindings",\n]',
            'suites = ["smoke", "regression"]',
            "suites[1] is 'regression'",
        ),
        ('suites = [\n    "smoke",\n    "bindings",\n]', 'suites = ["bindings"]', "suites lacks 'smoke'"),
    ],
)
def test_profiles_and_suites_are_those_of_the_project(bring: Bring, old: str, new: str, why: str) -> None:
    bring()
    text = targets()
    assert old in text
    error = refused(lambda: Matrix.parse(text.replace(old, new)), "config-invalid", "has a mistake in")
    assert why in str(error.why)


def broken(text: str) -> Callable[[Bring], Any]:
    return lambda bring: bring(text=text)


def without(name: str) -> Callable[[Bring], Any]:
    return lambda bring: (bring() / name).unlink()


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (broken("import no_such_module"), "ModuleNotFoundError: No module named 'no_such_module'"),
        (broken("raise SystemExit(3)"), "SystemExit: 3"),
        (broken("PROJECT = 'circt'"), "it is str '', not the project 'circt'"),
        (broken(MODULE.replace('name="circt"', 'name="mlir"')), "it is Project 'mlir', not the project 'circt'"),
        (without("tests/smoke.py"), "the project has no tests/smoke.py"),
        (without("known_failures.toml"), "the project has no known_failures.toml"),
    ],
)
def test_a_project_that_cannot_be_used_is_an_error_only_for_who_asks_for_it(
    bring: Bring, damage: Callable[[Bring], Any], why: str
) -> None:
    damage(bring)
    error = refused(lambda: Matrix.parse(targets()), "plugin-unusable", "circt of circt-release 1.0 can't be used")
    assert isinstance(error, MachineError)
    assert error.why == why
    assert Matrix.parse(make_targets(make_row())).wheels
    assert "circt" not in {project.name for project in all_projects()}


def test_two_distributions_that_bring_one_project_clash(bring: Bring) -> None:
    bring()
    bring("other", "a_circt_too")
    error = refused(lambda: Matrix.parse(targets()), "plugin-unusable", "can't be used")
    assert error.why == "circt-release 1.0 and other 1.0 have the same name"


def test_what_a_project_does_in_a_room_is_imported_when_the_room_asks(bring: Bring) -> None:
    package = bring()
    project = find_project("circt")
    error = refused(lambda: project.room("wheels"), "plugin-unusable", "can't be used")
    assert "No module named 'a_circt.for_wheels'" in error.why
    (package / "for_sdk.py").write_text("KEPT = ('circt',)\n")
    assert project.room("sdk").KEPT == ("circt",)


# -- entry points of any group -----------------------------------------------------------------------------------------


def test_the_first_on_the_path_counts_and_two_of_one_name_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe(tmp_path / "a", "Acme_tools", "2.0", b"[console_scripts]\nx = y:z\n\n[acme.commands]\nacme = acme:run\n")
    describe(tmp_path / "b", "acme.tools", "1.0", b"[acme.commands]\nold = acme:run\n")
    describe(tmp_path / "b", "other", "1.0", b"[acme.commands]\n# a comment = here\nacme=other:run [all]\n")
    for name in ("b", "a", "nothing"):
        monkeypatch.syspath_prepend(tmp_path / name)
    found = {name: [(row.distribution, row.value) for row in rows] for name, rows in plugins.plugins(GROUP).items()}
    assert found == {"acme": [("acme-tools 2.0", "acme:run"), ("other 1.0", "other:run [all]")]}


def test_a_file_that_is_no_text_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    describe(tmp_path, "broken", "1.0", b"[acme.commands]\n\xff = a:b\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert plugins.plugins(GROUP) == {}
