"""Facts of a revision, from the texts of its files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.ground.documents.trailers import format_message, parse_trailers
from mlir_release.ground.llvm.llvm_facts import (
    BUILD_TOOLS,
    REQUIREMENTS_FILE,
    FactsError,
    LlvmFacts,
    fact_files,
    split_requirements,
)
from mlir_release.ground.llvm.projects import all_projects
from tests.made_up_project import registered
from tests.revision_factory import FACTS, LLVM_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator

#: As in 16.0.6.
LLVM_16 = {
    "llvm/CMakeLists.txt": """\
  set(LLVM_VERSION_MAJOR 16)
  set(LLVM_VERSION_MINOR 0)
  set(LLVM_VERSION_PATCH 6)
  set(LLVM_VERSION_SUFFIX git)
set(LLVM_MINIMUM_PYTHON_VERSION 3.6)
""",
    REQUIREMENTS_FILE: "numpy>=1.19.5, <=1.26\npybind11>=2.8.0, <=2.10.3\nPyYAML==5.3.1\ndataclasses>=0.6, <=0.8\n",
}


def test_what_a_recent_tree_says() -> None:
    facts = LlvmFacts.read(LLVM_FILES.get)
    assert facts == LlvmFacts(
        version="23.1.1",
        minimum_python="3.10",
        binding_requirements=("nanobind>=2.9, <3.0", "PyYAML>=5.4.0, <=6.0.1", "typing_extensions>=4.12.2"),
        runtime_requirements=("numpy>=2.1.0, <=2.1.2", "ml_dtypes>=0.5.0, <=0.6.0"),
        has_stable_abi=True,
        has_python_sources=True,
        build_tools=("CMake>=3.20.0", "Python>=3.8", "GNU>=7.4", "Clang>=5.0", "AppleClang>=10.0", "MSVC>=19.28"),
    )
    assert facts.binding_library == "nanobind"


def test_what_an_old_tree_says() -> None:
    facts = LlvmFacts.read(LLVM_16.get)
    assert facts.version == "16.0.6git"
    assert facts.minimum_python == "3.6"
    assert facts.binding_library == "pybind11"
    assert facts.binding_requirements == ("pybind11>=2.8.0, <=2.10.3",)
    assert facts.runtime_requirements == ("numpy>=1.19.5, <=1.26", "PyYAML==5.3.1", "dataclasses>=0.6, <=0.8")
    assert not facts.has_stable_abi
    assert not facts.has_python_sources


def test_a_mention_of_the_stable_abi_is_no_option() -> None:
    tree = LLVM_FILES | {
        "mlir/CMakeLists.txt": "if(MLIR_ENABLE_PYTHON_STABLE_ABI AND x)\n# set(MLIR_ENABLE_PYTHON_STABLE_ABI\n"
    }
    assert not LlvmFacts.read(tree.get).has_stable_abi


def test_only_known_files_are_asked_for() -> None:
    asked: set[str] = set()

    def text_of(path: str) -> str | None:
        asked.add(path)
        return LLVM_16.get(path)

    LlvmFacts.read(text_of)
    assert asked == set(fact_files())


@pytest.mark.parametrize(
    ("path", "text", "what"),
    [
        (REQUIREMENTS_FILE, "numpy>=1\nnumpy >> 2\n", "requirements"),
        (REQUIREMENTS_FILE, "numpy \\\n>=1\n", "requirements"),
        (REQUIREMENTS_FILE, "-r more.txt\n", "requirements"),
        (REQUIREMENTS_FILE, "<<<<<<< ours\n", "requirements"),
        ("cmake/Modules/LLVMVersion.cmake", "set(LLVM_VERSION_MAJOR 23)\n", "version"),
        ("cmake/Modules/LLVMVersion.cmake", None, "version"),
    ],
)
def test_a_tree_that_does_not_say_it(path: str, text: str | None, what: str) -> None:
    tree: dict[str, str | None] = {**LLVM_FILES, path: text}
    with pytest.raises(FactsError) as caught:
        LlvmFacts.read(tree.get)
    assert caught.value.what == what
    assert path.rpartition("/")[2] in str(caught.value)


@pytest.fixture
def projects() -> Iterator[None]:
    """MLIR, and a project whose file only newer trees have."""
    with registered("plain"):
        yield


@pytest.mark.usefixtures("projects")
def test_a_tree_without_a_project_says_so_in_a_trailer() -> None:
    assert "plain/CMakeLists.txt" in fact_files()
    facts = LlvmFacts.read(LLVM_FILES.get)
    assert facts.lacks == ("plain",)
    assert facts.trailers()["Lacks-Projects"] == "plain"
    assert LlvmFacts.from_trailers(facts.trailers()) == facts
    both = LlvmFacts.read({**LLVM_FILES, "plain/CMakeLists.txt": ""}.get)
    assert both.lacks == ()
    assert "Lacks-Projects" not in both.trailers()


@pytest.mark.usefixtures("projects")
def test_a_tree_without_mlir_is_one_without_requirements() -> None:
    tree = {path: text for path, text in LLVM_FILES.items() if path != REQUIREMENTS_FILE}
    facts = LlvmFacts.read({**tree, "plain/CMakeLists.txt": ""}.get)
    assert (facts.lacks, facts.binding_requirements, facts.runtime_requirements) == (("mlir",), (), ())
    assert LlvmFacts.from_trailers(facts.trailers()) == facts


@pytest.mark.usefixtures("projects")
def test_a_tree_without_any_project_is_refused() -> None:
    needs = [project.needs for project in all_projects()]
    with pytest.raises(FactsError) as caught:
        LlvmFacts.read({path: text for path, text in LLVM_FILES.items() if path not in needs}.get)
    assert caught.value.what == "projects"
    assert str(caught.value) == f"the files of all projects are missing: {', '.join(needs)}"


def test_one_list_without_headings_is_what_runs_but_for_the_binding_library() -> None:
    lines = ["numpy>=1.19.5, <=1.26", "pybind11>=2.9.0, <=2.10.3", "PyYAML>=5.3.1, <=6.0.1"]
    assert split_requirements(lines) == ([lines[1]], [lines[0], lines[2]])


def test_headings_are_followed() -> None:
    lines = ["# BUILD dependencies", "nanobind>=2.9", "PyYAML>=5", "# RUN dependencies", "numpy>=1 # why"]
    assert split_requirements(lines) == (["nanobind>=2.9", "PyYAML>=5"], ["numpy>=1"])


@pytest.mark.parametrize("tree", [LLVM_FILES, LLVM_16])
def test_trailers_are_read_back(tree: dict[str, str]) -> None:
    facts = LlvmFacts.read(tree.get)
    message = format_message("snapshot-20261120.01", "Wheels.", {"LLVM-Revision": "a" * 40} | facts.trailers())
    assert LlvmFacts.from_trailers(parse_trailers(message)) == facts


def test_trailers_are_one_line_a_fact() -> None:
    assert LlvmFacts.read(LLVM_FILES.get).trailers() == {
        "LLVM-Version": "23.1.1",
        "Minimum-Python": "3.10",
        "Binding-Requirements": "nanobind>=2.9, <3.0 | PyYAML>=5.4.0, <=6.0.1 | typing_extensions>=4.12.2",
        "Runtime-Requirements": "numpy>=2.1.0, <=2.1.2 | ml_dtypes>=0.5.0, <=0.6.0",
        "Build-Tools": "CMake>=3.20.0 | Python>=3.8 | GNU>=7.4 | Clang>=5.0 | AppleClang>=10.0 | MSVC>=19.28",
        "Stable-ABI": "yes",
        "Python-Sources": "yes",
    }


BUILD, COMPILERS_FILE = "llvm/CMakeLists.txt", "llvm/cmake/modules/CheckCompilerVersion.cmake"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (BUILD, "cmake_minimum_required(VERSION 4.1)\n", "CMake>=4.1"),
        (BUILD, "cmake_minimum_required(VERSION 3.31.0...4.2 FATAL_ERROR)\n", "CMake>=3.31.0"),
        (BUILD, "CMAKE_MINIMUM_REQUIRED( VERSION\n  3.31 )\n", "CMake>=3.31"),
        (BUILD, "set(OLDEST 4.1)\ncmake_minimum_required(VERSION ${OLDEST})\n", "CMake>=4.1"),
        (BUILD, 'set(A "4.1")\nset(B ${A})\ncmake_minimum_required(VERSION "${B}...${C}")\n', "CMake>=4.1"),
        ("mlir/CMakeLists.txt", "cmake_minimum_required(VERSION 3.31)\n", "CMake>=3.31"),
        (BUILD, "find_package(Python3 3.13 REQUIRED COMPONENTS Interpreter)\n", "Python>=3.13"),
        (COMPILERS_FILE, "set(GCC_MIN 99)\n", "GNU>=99"),
        (COMPILERS_FILE, "set(GCC_MIN 7.4)\nset(GCC_SOFT_ERROR 12)\n", "GNU>=12"),
        (COMPILERS_FILE, "set(LEAST 19.50)\nset(MSVC_MIN ${LEAST})\n", "MSVC>=19.50"),
    ],
)
def test_the_oldest_tools_of_a_build(path: str, text: str, expected: str) -> None:
    assert expected in LlvmFacts.read((LLVM_FILES | {path: text}).get).build_tools


@pytest.mark.parametrize(
    ("path", "text", "tool"),
    [
        (BUILD, "# cmake_minimum_required(VERSION 4.1)\n", "CMake"),
        (BUILD, "cmake_minimum_required(VERSION ${UNSET})\n", "CMake"),
        (BUILD, "set(A ${B})\nset(B ${A})\ncmake_minimum_required(VERSION ${A})\n", "CMake"),
        (BUILD, "cmake_minimum_required(VERSION 3.31-rc1)\n", "CMake"),
        (BUILD, f"cmake_minimum_required(VERSION {'9' * 9000})\n", "CMake"),
        ("mlir/CMakeLists.txt", "cmake_minimum_required(VERSION ${UNSET})\n", "CMake"),
        (BUILD, "find_package(Python3 REQUIRED)\n", "Python"),
        (COMPILERS_FILE, "least_version(GNU 99)\n", "GNU"),
        (COMPILERS_FILE, None, "MSVC"),
    ],
)
def test_what_is_written_in_an_unknown_way_is_no_demand(path: str, text: str | None, tool: str) -> None:
    facts = LlvmFacts.read({**LLVM_FILES, path: text}.get)
    assert tool in facts.unread_tools
    assert facts.unmet(dict.fromkeys(BUILD_TOOLS, "1")) == tuple(f"{line}, not 1" for line in facts.build_tools)


def test_demands_are_compared_as_versions() -> None:
    facts = replace(FACTS, build_tools=("CMake>=3.31.0", "GNU>=9.1"))
    assert facts.unmet({"CMake": "3.31.10", "GNU": "14.2"}) == ()
    assert facts.unmet({"CMake": "3.31", "GNU": "9.1"}) == ()
    assert facts.unmet({"CMake": "3.4", "GNU": "9"}) == ("CMake>=3.31.0, not 3.4", "GNU>=9.1, not 9")
    assert facts.unmet({"Clang": "1"}) == ()


def test_nothing_is_known_from_the_tag_of_an_older_toolkit() -> None:
    assert LlvmFacts.from_trailers({"LLVM-Revision": "a" * 40}) is None
    for key in FACTS.trailers():
        assert LlvmFacts.from_trailers({k: v for k, v in FACTS.trailers().items() if k != key}) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("LLVM-Version", "newest"),
        ("LLVM-Version", ""),
        ("Minimum-Python", "2.7"),
        ("Minimum-Python", "3.x"),
        ("Runtime-Requirements", "numpy>=1 || ml_dtypes"),
        ("Binding-Requirements", "; rm -rf /"),
        ("Build-Tools", "CMake 4.1"),
        ("Stable-ABI", "maybe"),
        ("Python-Sources", "True"),
        ("Lacks-Projects", "mlir; rm -rf /"),
        ("Lacks-Projects", ""),
    ],
)
def test_garbage_in_a_trailer_is_named(key: str, value: str) -> None:
    with pytest.raises(FactsError) as caught:
        LlvmFacts.from_trailers({**FACTS.trailers(), key: value})
    assert key in str(caught.value)
    assert repr(value) in str(caught.value)


@given(st.dictionaries(st.sampled_from([*FACTS.trailers(), "Lacks-Projects"]), st.text()))
def test_whatever_a_tag_says_is_facts_or_one_error(garbage: dict[str, str]) -> None:
    with suppress(FactsError):
        assert LlvmFacts.from_trailers(FACTS.trailers() | garbage) is not None
