"""SDKs of a made-up project, which nothing of the trunk knows: a shared library, without MLIR and CMake packages."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.builder.sdk.build import prepare
from mlir_release.builder.sdk.components import SdkSpec, cmake_settings
from mlir_release.builder.sdk.importer import describe, import_sdk
from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.sdk.parts import BUILD, TOOLS, list_of
from mlir_release.builder.sdk.port import recipe_of
from mlir_release.builder.sdk.provision import adopt_sdk, code_digest
from mlir_release.builder.sdk.sources.debian import DebianPackages
from mlir_release.builder.sdk.sources.releases import LlvmRelease
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.builder.sdk.sources.upstream import read_source, unused_to_build
from mlir_release.cli.app import app
from mlir_release.ground import plugins
from mlir_release.ground.llvm.projects import find_project
from tests.prefix_factory import EPOCH, REVISION, VERSION, make_prefix, make_source
from tests.refusals import check_error, refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

beside_mlir = pytest.mark.skipif(
    find_spec("mlir_release.builder.projects.mlir") is None, reason="compares with MLIR, which this toolkit lacks"
)

PROJECT = """
from pathlib import Path
from mlir_release.builder.projects.api import Profile, Project

PROJECT = Project(
    name="tiny",
    title="Tiny's library",
    package=__name__,
    folder=Path(__file__).parent,
    module="tiny",
    profiles={"host": Profile(distribution="tiny", makes="any-python", summary="Tiny")},
    subprojects=("tiny",),
    needs="tiny/setup.py",
    paths=("tiny",),
    suites=("smoke",),
)
"""

FOR_SDK = """
import re
from pathlib import Path
from a_tiny import PROJECT
from mlir_release.builder.projects.api import Bindings, Recipe

def fill(prefix, source, output):
    (output / "tiny.txt").write_text(f"{prefix.version} {(source / 'tiny' / 'setup.py').read_text()}")
    return []

RECIPE = Recipe(
    project=PROJECT,
    kept_sources=("LICENSE.TXT", "cmake", "tiny"),
    needed_sources=("LICENSE.TXT", "cmake/Modules"),
    needed_to_build=("llvm/CMakeLists.txt",),
    tools={"FileCheck": "llvm/utils/FileCheck"},
    components=lambda source, system: ["libtiny", f"only-{system.name}"],
    settings={"TINY": "ON"},
    packages=("libtiny-{v}-dev", "llvm-{v}-tools"),
    pieces={
        "bin/FileCheck|filecheck": "llvm-{v}-tools",
        "include/tiny": "libtiny-{v}-dev",
        "lib/libtiny.so.1": "libtiny{v}",
    },
    programs=("FileCheck", "lacking"),
    loaded=re.compile(r"libtiny[.]so.*"),
    fill=fill,
    for_builds=("libtiny.so*",),
    for_tests=("tiny/test",),
    bindings=lambda facts: Bindings("3.8"),
    code=(Path(__file__),),
)
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of its package, in an installed distribution."""
    folder = tmp_path / "site-packages"
    package = folder / "a_tiny"
    files = {
        "a_tiny/__init__.py": PROJECT,
        "a_tiny/for_sdk.py": FOR_SDK,
        "a_tiny/known_failures.toml": "",
        "a_tiny/tests/smoke.py": "",
        "tiny_release-1.0.dist-info/entry_points.txt": "[mlir_release.projects]\ntiny = a_tiny:PROJECT\n",
        "tiny_release-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny-release\nVersion: 1.0\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(folder)
    caches = (plugins.plugins.cache_clear, find_project.cache_clear)
    for clear in caches:
        clear()
    yield package
    for module in [name for name in sys.modules if name.partition(".")[0] == "a_tiny"]:
        del sys.modules[module]
    for clear in caches:
        clear()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A tree that has the project and no MLIR."""
    root = make_source(tmp_path / "llvm-project", whole=True)
    shutil.rmtree(root / "mlir")
    for name in ("tiny/setup.py", "tiny/CMakeLists.txt", "tiny/test/test_it.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("its file")
    return root


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """An installed LLVM with the project and without MLIR."""
    if sys.platform != "linux":
        pytest.skip("the miniature prefix is Linux's")
    root = make_prefix(tmp_path / "usr" / "lib" / "llvm-22")
    for name in ("lib/cmake/mlir", "include-22/mlir", "include-22/mlir-c"):
        shutil.rmtree(root / name)
    (root / "include" / "tiny").mkdir()
    (root / "include" / "tiny" / "tiny.h").touch()
    shutil.copy("/bin/true", root / "lib" / "libtiny.so.1")
    (root / "lib" / "libtiny.so").symlink_to("libtiny.so.1")
    return root


TINY = SdkSpec(project="tiny")


def make(prefix: Path, source: Path) -> Sdk:
    output = source.parent / "sdk"
    return import_sdk(prefix, source=source, output=output, revision=REVISION, source_epoch=EPOCH, spec=TINY)


@pytest.fixture
def sdk(source: Path, prefix: Path) -> Sdk:
    return make(prefix, source)


def test_it_has_what_the_recipe_says(sdk: Sdk) -> None:
    sdk.verify()
    assert Sdk.load(sdk.root).info.project == "tiny"
    assert json.loads((sdk.root / "sdk.json").read_text())["project"] == "tiny"
    assert (sdk.root / "tiny.txt").read_text() == f"{VERSION} its file"
    assert {path.name for path in (sdk.root / "include").iterdir()} == {"tiny"}
    assert (sdk.source / "setup.py").read_text() == "its file"
    assert not (sdk.root / "source" / "llvm").exists()
    assert (sdk.info.binding_library, sdk.info.binding_requirements, sdk.info.minimum_python) == ("", (), "3.8")
    shown = dict(describe(sdk))
    assert (shown["project"], shown["bindings"], shown["to run them"]) == ("tiny", "pure Python, CPython ≥ 3.8", "–")


def test_its_files_are_in_the_parts_that_the_recipe_says(sdk: Sdk) -> None:
    build, tools = (list_of(sdk.root, part).read_text() for part in (BUILD, TOOLS))
    assert all(f"lib/libtiny.so{end}\n" in build for end in ("", ".1"))
    assert "tiny/setup.py" in build
    assert "bin/FileCheck" in tools
    assert "source/tiny/test/test_it.py" in tools


def test_what_the_prefix_lacks_is_named_with_its_package(prefix: Path, source: Path) -> None:
    for name in ("bin/FileCheck", "include/tiny/tiny.h", "lib/libtiny.so.1"):
        (prefix / name).unlink()
    (prefix / "include" / "tiny").rmdir()
    assert refused(lambda: make(prefix, source), "tool-missing").why == (
        "the program FileCheck, in the package llvm-22-tools; "
        "the headers include/tiny, in the package libtiny-22-dev; lib/libtiny.so.1, in the package libtiny22"
    )


def test_a_build_has_its_settings_and_components(source: Path) -> None:
    (source / "llvm" / "utils" / "FileCheck").mkdir()
    tree = read_source(source, project="tiny", whole=True)
    settings = cmake_settings(tree, SdkSpec(project="tiny", floor="macosx_13_0"))
    assert (settings["TINY"], settings["LLVM_ENABLE_PROJECTS"]) == ("ON", "tiny")
    assert settings["LLVM_TARGETS_TO_BUILD"] == "host"
    assert settings["LLVM_DISTRIBUTION_COMPONENTS"] == "libtiny;only-macos;FileCheck"
    assert not [name for name in settings if name.startswith("MLIR")]


@beside_mlir
def test_a_build_of_another_project_is_in_another_folder(source: Path, tmp_path: Path) -> None:
    mlir = make_source(tmp_path / "with-mlir", whole=True)
    shutil.copytree(source / "tiny", mlir / "tiny")
    folders = {
        prepare(mlir, SdkSpec(project=name), output=tmp_path / "sdk", source_epoch=1, disk=0).root.name
        for name in ("mlir", "tiny")
    }
    assert len(folders) == 2


@beside_mlir
def test_a_build_reads_the_other_projects_no_more_than_it_must() -> None:
    assert {"mlir", "lld", "clang"} <= set(unused_to_build(recipe_of("tiny")))
    assert not {"mlir", "lld"} & set(unused_to_build(recipe_of("mlir")))


@beside_mlir
def test_cached_trees_and_sdks_are_its_own(source: Path, sdk: Sdk, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    release = LlvmRelease(version=VERSION, commit=REVISION)
    make_source(cache / "sources" / REVISION, whole=True)
    shutil.copytree(source, cache / "sources" / f"tiny-{REVISION}")
    assert fetch_source(release, cache=cache, project="tiny").root.name == f"tiny-{REVISION}"
    assert fetch_source(release, cache=cache).root.name == REVISION
    assert DebianPackages(cache, "tiny").recipe.packages[0] == "libtiny-{v}-dev"
    adopted = adopt_sdk(sdk, revision="b" * 40, source_epoch=2, cache=cache)
    assert adopted.root.name.startswith(f"tiny-llvm-{VERSION}-adopted-")


@beside_mlir
def test_its_own_code_decides_what_a_cached_one_is_worth(project: Path) -> None:
    before, of_mlir = code_digest("tiny"), code_digest()
    (project / "for_sdk.py").write_text(FOR_SDK + "# a comment\n")
    assert code_digest("tiny") == before != of_mlir
    (project / "for_sdk.py").write_text(FOR_SDK + "x = 1\n")
    assert code_digest("tiny") != before
    assert code_digest() == of_mlir


class TestBadInput:
    def test_a_tree_without_the_project(self, tmp_path: Path) -> None:
        root = make_source(tmp_path / "llvm-project", whole=True)
        error = refused(lambda: read_source(root, project="tiny"), "input-missing")
        assert error.what == "there are no sources of Tiny's library in this folder"
        assert error.why == "tiny/setup.py is missing"

    @pytest.mark.parametrize("words", [["import", "."], ["build", "-C", "."]])
    def test_an_unknown_project(self, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        words = [*words, "--project", "tyni", "--revision", REVISION, "-o", str(tmp_path / "sdk")]
        done = CliRunner().invoke(app, ["sdk", *words], standalone_mode=False)
        assert "tiny" in check_error(done.exception, "option-invalid", "there is no project 'tyni'").remedy

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("import a_module_that_is_nowhere\n", "ModuleNotFoundError"),
            (FOR_SDK.replace("    programs=", "    progams="), "TypeError"),
            ("RECIPE = None\n", "a_tiny.for_sdk has no RECIPE"),
        ],
    )
    def test_a_project_that_cannot_be_used(self, project: Path, text: str, why: str) -> None:
        (project / "for_sdk.py").write_text(text)
        error = refused(lambda: recipe_of("tiny"), "plugin-unusable")
        assert why in error.why
        assert "tiny = a_tiny:PROJECT" in error.where

    @beside_mlir
    def test_a_project_that_cannot_be_used_matters_to_no_other(self, project: Path) -> None:
        (project / "__init__.py").write_text("raise RuntimeError\n")
        assert recipe_of("mlir").project.name == "mlir"
