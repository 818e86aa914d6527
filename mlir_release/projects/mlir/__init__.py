"""The MLIR Python bindings: the wheel project, its smoke test, its known failures."""

from pathlib import Path

from mlir_release.model.projects import Profile, Project

_HERE = Path(__file__).parent

_HOST = "MLIR's Python bindings, with the execution engine and the host's code generator"

PROJECT = Project(
    name="mlir",
    title="MLIR's Python bindings",
    package=__name__,
    folder=_HERE,
    module="mlir",
    profiles={
        "host": Profile(distribution="mlir", makes="each-python", summary=_HOST, code_generators=()),
        "core": Profile(
            distribution="mlir-core",
            makes="each-python",
            summary="MLIR's Python bindings, without code generators",
        ),
        "full": Profile(
            distribution="mlir-full",
            makes="each-python",
            summary=(
                "MLIR's Python bindings, with the execution engine and code generators for the host, NVPTX and AMDGPU"
            ),
            code_generators=("NVPTX", "AMDGPU"),
        ),
        "all": Profile(
            distribution="mlir-all",
            makes="each-python",
            summary="MLIR's Python bindings, with the execution engine and all of LLVM's code generators",
            code_generators=("all",),
        ),
        "sdk": Profile(
            distribution="mlir-sdk",
            makes="sdk",
            summary=(
                "LLVM and MLIR of one revision to build against: headers, static libraries, CMake packages, "
                "code generators"
            ),
        ),
        "sdk-tools": Profile(
            distribution="mlir-sdk-tools",
            makes="sdk",
            summary=(
                "MLIR's and LLVM's programs of one revision: mlir-opt, mlir-translate, mlir-lsp-server, FileCheck, …"
            ),
        ),
        "test-tools": Profile(
            distribution="mlir-test-tools",
            makes="sdk",
            summary=(
                "FileCheck, count, not and split-file of one revision, for tests by lit; mlir-sdk-tools has them, too"
            ),
        ),
        "source": Profile(distribution="mlir", makes="source", summary=f"{_HOST}, as sources", code_generators=()),
    },
    subprojects=("mlir", "lld"),
    needs="mlir/python/requirements.txt",
    paths=("mlir", "llvm", "cmake", "third-party"),
    pypi=("mlir",),
    suites=("smoke", "bindings", "regression", "sdk", "source", "performance"),
    has_requirements=True,
    has_stable_abi=True,
)

#: The wheel project (CMake, scikit-build-core) that is staged for each wheel.
WHEEL = _HERE / "wheel"

#: The CMake project that installs and exports upstream's groups of Python sources.
PYTHON_SOURCES = _HERE / "python_sources"

#: The CMake project that compiles a learned eviction policy for LLVM's own build.
REGALLOC_MODEL = _HERE / "regalloc"

#: Run in an environment that has the wheel installed.
SMOKE = _HERE / "tests" / "smoke.py"

#: Programs that type checkers read with the wheel installed: right ones, which are run, too, and a wrong one.
TYPES = _HERE / "types"

#: Programs that the documentation shows, each with what it prints: ``first.py`` and ``first.txt``, …
GETTING_STARTED = _HERE / "getting_started"

#: Upstream's tests that fail for a known reason; compared strictly.
KNOWN_FAILURES = _HERE / "known_failures.toml"

#: Requirements of upstream's tests beyond those of the bindings: the OpDSL tests read and write YAML.
TEST_REQUIREMENTS = ("PyYAML",)

#: Runs one thing with the installed ``mlir``, in the interpreter under test.
DRIVER = _HERE / "tests" / "driver.py"

#: Does a fixed amount of work with the installed ``mlir``, whose instructions are counted.
MEASURE = _HERE / "performance" / "measure.py"

#: The additions of an SDK's wheels: the package ``mlir_sdk``, and checks for its CMake packages.
SDK_WHEEL = _HERE / "sdk"

#: A CMake project that the wheel ``mlir-sdk`` is tested by.
AGAINST_SDK = _HERE / "against_sdk"

#: ``bin/llvm-config`` of an SDK: a program of Python's standard library alone.
LLVM_CONFIG = SDK_WHEEL / "llvm_config.py"
