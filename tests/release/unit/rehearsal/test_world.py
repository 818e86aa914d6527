"""What a rehearsal chooses, and the upstream that it makes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.sources.releases import LlvmRelease, read_catalogue
from mlir_release.builder.sdk.sources.upstream import UpstreamSource, read_source
from mlir_release.extras.downstream import rehearsal
from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.git.repository import Git
from mlir_release.ground.llvm.llvm_facts import TRAILER_VERSION
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.pythons import Python, describe
from mlir_release.ground.python.resolver import Resolution, WantedPlace
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.rehearsal.run import Options
from mlir_release.release.rehearsal.world import TRAILER_COMMIT, choose, make_targets, make_upstream
from tests.made_up_project import registered
from tests.prefix_factory import make_source
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Sequence

CURRENT = describe(Path(sys.executable))
Available = list[tuple[LlvmRelease, UpstreamSource]]


class Index:
    """A package index: for which CPythons NumPy has wheels, by whether upstream's cap is kept."""

    def __init__(self) -> None:
        self.capped: set[str] = set()
        self.newest: set[str] = set()

    def resolve(self, requirements: Sequence[str], wanted: WantedPlace) -> Resolution:
        (numpy,) = (line for line in requirements if line.startswith("numpy"))
        fits = wanted.python.tag in (self.capped if "<=" in numpy else self.newest)
        return Resolution(installable=fits, why="" if fits else f"{numpy} has no wheel for {wanted.python}")


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Index:
    """On a machine with CPython 3.14, 3.13, 3.12 and the one that runs this."""
    others = [
        Python(executable=Path(f"/opt/{minor}"), cpython=CPython.parse(f"3.{minor}"), version=f"3.{minor}.0")
        for minor in (14, 13, 12, 9)
        if f"cp3{minor}" != CURRENT.tag
    ]
    found = sorted([*others, CURRENT], key=lambda python: python.order, reverse=True)
    monkeypatch.setattr("mlir_release.ground.python.pythons.installed", lambda: found)
    made = Index()
    monkeypatch.setattr("mlir_release.ground.python.resolver.resolve", made.resolve)
    return made


@pytest.fixture
def available(tmp_path: Path) -> Available:
    versions = ("97.1.4", "22.1.8")
    return [(LlvmRelease(version=v), read_source(make_source(tmp_path / v, version=v))) for v in versions]


def tags(pythons: list[Python]) -> list[str]:
    return [python.tag for python in pythons]


def test_the_running_cpython_and_the_newest_other_one_that_upstream_allows(index: Index, available: Available) -> None:
    other = next(tag for tag in ("cp313", "cp312") if tag != CURRENT.tag)
    index.capped = {CURRENT.tag, "cp313", "cp312"}
    index.newest = {*index.capped, "cp314"}
    release, pythons = choose(available)
    assert (release.version, tags(pythons)) == ("97.1.4", [CURRENT.tag, other])


def test_the_shipped_overrides_count_where_upstreams_own_caps_leave_no_cpython(
    index: Index, available: Available
) -> None:
    index.newest = {"cp314"}
    release, pythons = choose(available)
    assert (release.version, tags(pythons)) == ("97.1.4", ["cp314"])


def test_the_next_release_is_taken_where_no_cpython_meets_the_requirements(
    index: Index, available: Available, capsys: pytest.CaptureFixture[str]
) -> None:
    file = available[0][1].root / "mlir" / "python" / "requirements.txt"
    file.write_text(file.read_text().replace("numpy>=1.19.5, <=2.1.2", "numpy>=9"))
    available[0] = (available[0][0], read_source(available[0][1].root))
    index.capped = {"cp313"}
    release, pythons = choose(available)
    assert (release.version, tags(pythons)) == ("22.1.8", ["cp313"])
    assert "not LLVM 97.1.4: its requirements have wheels for no CPython here" in capsys.readouterr().err


def test_where_no_cpython_fits_any_release_each_reason_is_given(index: Index, available: Available) -> None:
    error = refused(lambda: choose(available), "python-missing")
    assert "has no wheel for cp314" in error.why
    assert "cp39" not in error.why  # older than the bindings' minimum
    assert "[requires]" in error.remedy


def test_a_cpython_that_was_asked_for_is_taken_as_it_is(index: Index, available: Available) -> None:
    release, pythons = choose(available, [sys.executable])
    assert (release.version, tags(pythons)) == ("97.1.4", [CURRENT.tag])


def test_upstream_has_a_commit_for_a_release_that_the_catalogue_does_not_know(tmp_path: Path) -> None:
    newest = read_catalogue()[-1]
    tree = make_source(tmp_path / "llvm-project")
    release = LlvmRelease(version="97.1.4", epoch=1790000000)
    assert make_upstream(tmp_path / "upstream.git", release, {"mlir": tree}) == newest
    git = Git(tmp_path / "upstream.git")
    trailers = parse_trailers(git.message("refs/tags/llvmorg-97.1.4"))
    # Nothing told its commit in llvm-project, so none is named.
    assert trailers[TRAILER_VERSION] == "97.1.4"
    assert TRAILER_COMMIT not in trailers
    assert git.resolve("refs/heads/main") == git.resolve("refs/tags/llvmorg-97.1.4")
    known = parse_trailers(git.message(f"refs/tags/llvmorg-{newest.version}"))
    assert known[TRAILER_COMMIT] == newest.commit


def test_upstream_ends_at_the_chosen_release_and_is_the_same_every_time(tmp_path: Path) -> None:
    *_, older, chosen = read_catalogue()[:-1]
    tree = make_source(tmp_path / "llvm-project")
    heads = set()
    for name in ("one.git", "two.git", "two.git"):
        assert make_upstream(tmp_path / name, chosen, {"mlir": tree}) == older
        heads.add(Git(tmp_path / name).resolve("refs/heads/main"))
        # From here on it is a whole tree.
        (tree / "llvm").mkdir(exist_ok=True)
        (tree / "llvm" / "CMakeLists.txt").write_text("set(LLVM_MINIMUM_PYTHON_VERSION 3.8)\n")
    assert len(heads) == 1


def test_the_facts_of_the_release_are_read_in_its_commit(tmp_path: Path) -> None:
    tree, folder = make_source(tmp_path / "llvm-project"), tmp_path / "upstream.git"
    make_upstream(folder, read_catalogue()[-1], {"mlir": tree})
    revision = Upstream(str(folder), cache=tmp_path / "cache").resolve("head")
    assert revision.facts() == read_source(tree).facts


@pytest.mark.parametrize("downstream", [False, True])
def test_the_wheels_of_the_sdk_are_targets_where_projects_are_built_on_the_release(
    tmp_path: Path, downstream: bool
) -> None:
    options = Options(workspace=tmp_path, profiles=("core",), given={"downstream": downstream})
    text = make_targets("upstream.git", [CURRENT], options.released([rehearsal])).decode()
    found = {wheel.distribution: wheel.suites for wheel in Matrix.parse(text).wheels}
    bindings, sdk = ("smoke", "bindings"), ("sdk",)
    needed = {"mlir": bindings, "mlir-sdk": sdk, "mlir-sdk-tools": sdk} if downstream else {}
    assert found == {"mlir-core": bindings, **needed}


def test_each_project_has_its_rows_and_its_profiles(tmp_path: Path) -> None:
    with registered("plain", "each"):
        options = Options(workspace=tmp_path, projects=("plain", "mlir", "each"), profiles=("core", "host"))
        released = options.released([])
        assert released == {"plain": ("library",), "mlir": ("core", "host"), "each": ("host",)}
        matrix = Matrix.parse(make_targets("upstream.git", [CURRENT], released).decode())
        found = {wheel.distribution: (wheel.configuration.project, wheel.suites) for wheel in matrix.wheels}
        both = ("smoke", "bindings")
        assert found == {
            "plain-library": ("plain", both), "mlir-core": ("mlir", both), "mlir": ("mlir", both),
            "each": ("each", ("smoke",)),
        }  # fmt: skip
        options = Options(workspace=tmp_path, projects=("plain",), profiles=("core",))
        error = refused(lambda: options.released([]), "option-invalid", "no profile of plain is called 'core'")
        assert "library" in error.remedy
        matrix = Matrix.parse(make_targets("upstream.git", [CURRENT], {"plain": ("library",)}).decode())
        assert matrix.overrides == ()
    options = Options(workspace=tmp_path, projects=("clagn",))
    refused(lambda: options.released([]), "option-invalid", "there is no project 'clagn'")
