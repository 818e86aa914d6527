"""Facts of a revision, from the texts of its files."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.model.llvm_facts import FACT_FILES, REQUIREMENTS_FILE, FactsError, LlvmFacts, split_requirements
from mlir_release.model.trailers import format_message, parse_trailers
from tests.revision_factory import FACTS, LLVM_FILES

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


def test_a_version_that_was_never_seen_is_only_a_number() -> None:
    later = LLVM_FILES | {
        "cmake/Modules/LLVMVersion.cmake": LLVM_FILES["cmake/Modules/LLVMVersion.cmake"].replace("23", "41")
    }
    assert LlvmFacts.read(later.get).version == "41.1.1"


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
    assert asked == set(FACT_FILES)


@pytest.mark.parametrize(
    ("path", "text", "what"),
    [
        (REQUIREMENTS_FILE, None, "bindings"),
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
        "Stable-ABI": "yes",
        "Python-Sources": "yes",
    }


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
        ("Stable-ABI", "maybe"),
        ("Python-Sources", "True"),
    ],
)
def test_garbage_in_a_trailer_is_named(key: str, value: str) -> None:
    with pytest.raises(FactsError) as caught:
        LlvmFacts.from_trailers({**FACTS.trailers(), key: value})
    assert key in str(caught.value)
    assert repr(value) in str(caught.value)


@given(st.dictionaries(st.sampled_from(sorted(FACTS.trailers())), st.text()))
def test_whatever_a_tag_says_is_facts_or_one_error(garbage: dict[str, str]) -> None:
    with suppress(FactsError):
        assert LlvmFacts.from_trailers(FACTS.trailers() | garbage) is not None
