"""Facts of a revision, from the texts of its files."""

from __future__ import annotations

import pytest

from mlir_release.model.llvm_facts import FACT_FILES, REQUIREMENTS_FILE, FactsError, LlvmFacts, split_requirements

#: As in 23.1.1, cut down to the lines that count.
LLVM_23 = {
    "cmake/Modules/LLVMVersion.cmake": """\
if(NOT DEFINED LLVM_VERSION_MAJOR)
  set(LLVM_VERSION_MAJOR 23)
endif()
if(NOT DEFINED LLVM_VERSION_MINOR)
  set(LLVM_VERSION_MINOR 1)
endif()
if(NOT DEFINED LLVM_VERSION_PATCH)
  set(LLVM_VERSION_PATCH 1)
endif()
if(NOT DEFINED LLVM_VERSION_SUFFIX)
  set(LLVM_VERSION_SUFFIX)
endif()
""",
    "mlir/cmake/modules/MLIRDetectPythonEnv.cmake": "set(MLIR_MINIMUM_PYTHON_VERSION 3.10)\n",
    "mlir/CMakeLists.txt": "set(MLIR_ENABLE_PYTHON_STABLE_ABI 0 CACHE BOOL\n",
    "llvm/CMakeLists.txt": "  set(LLVM_MINIMUM_PYTHON_VERSION 3.8)\n",
    "mlir/python/CMakeLists.txt": 'add_custom_target("mlir-python-sources" DEPENDS ${mlir_python_sources_deps})\n',
    REQUIREMENTS_FILE: """\
# BUILD dependencies
nanobind>=2.9, <3.0
PyYAML>=5.4.0, <=6.0.1
typing_extensions>=4.12.2
# RUN dependencies
numpy>=2.1.0, <=2.1.2
ml_dtypes>=0.5.0, <=0.6.0   # provides several NumPy dtype extensions, including the bf16
""",
}

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
    facts = LlvmFacts.read(LLVM_23.get)
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
    later = LLVM_23 | {
        "cmake/Modules/LLVMVersion.cmake": LLVM_23["cmake/Modules/LLVMVersion.cmake"].replace("23", "41")
    }
    assert LlvmFacts.read(later.get).version == "41.1.1"


def test_a_mention_of_the_stable_abi_is_no_option() -> None:
    tree = LLVM_23 | {
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
    tree: dict[str, str | None] = {**LLVM_23, path: text}
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
