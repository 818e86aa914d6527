"""The MLIR Python bindings: the wheel project, its smoke test, its known failures."""

from pathlib import Path

from mlir_release.ground.llvm.projects import Profile, Project

_HERE = Path(__file__).parent

_HOST = "MLIR's Python bindings, with the execution engine and the host's code generator"

#: Sizes of files are LLVM 22.1.8's, made of Debian's packages on Linux x86_64 for CPython 3.11; mlir-sdk of an LLVM
#: from source is smaller.
PROJECT = Project(
    name="mlir",
    title="MLIR's Python bindings",
    package=__name__,
    folder=_HERE,
    module="mlir",
    profiles={
        "host": Profile(
            distribution="mlir",
            makes="each-python",
            summary=_HOST,
            code_generators=(),
            meaning="everything, with the execution engine and the host's code generator",
            size=28_100_000,
        ),
        "core": Profile(
            distribution="mlir-core",
            makes="each-python",
            summary="MLIR's Python bindings, without code generators",
            meaning="no code generators: for tools that only transform IR",
            size=15_200_000,
        ),
        "full": Profile(
            distribution="mlir-full",
            makes="each-python",
            summary=(
                "MLIR's Python bindings, with the execution engine and code generators for the host, NVPTX and AMDGPU"
            ),
            code_generators=("NVPTX", "AMDGPU"),
            meaning="host, plus the NVPTX and AMDGPU code generators",
            size=33_100_000,
        ),
        "all": Profile(
            distribution="mlir-all",
            makes="each-python",
            summary="MLIR's Python bindings, with the execution engine and all of LLVM's code generators",
            code_generators=("all",),
            meaning="all of LLVM's code generators, for any processor",
            size=44_100_000,
        ),
        "sdk": Profile(
            distribution="mlir-sdk",
            makes="sdk",
            summary=(
                "LLVM and MLIR of one revision to build against: headers, static libraries, CMake packages, "
                "code generators"
            ),
            meaning="to build against: headers, static libraries, CMake packages, code generators; "
            "one wheel for all CPythons",
            command="python -m mlir_sdk --cmakedir",
            size=203_100_000,
        ),
        "sdk-tools": Profile(
            distribution="mlir-sdk-tools",
            makes="sdk",
            summary=(
                "MLIR's and LLVM's programs of one revision: mlir-opt, mlir-translate, mlir-lsp-server, FileCheck, …"
            ),
            meaning="mlir-opt, mlir-translate, FileCheck and other programs; one wheel for all CPythons",
            command="mlir-opt --version",
            size=141_800_000,
        ),
        "test-tools": Profile(
            distribution="mlir-test-tools",
            makes="sdk",
            summary=(
                "FileCheck, count, not and split-file of one revision, for tests by lit; mlir-sdk-tools has them, too"
            ),
            meaning="FileCheck, count, not and split-file alone, for tests by lit; one wheel for all CPythons",
            command="FileCheck --version",
            size=500_000,
        ),
        "source": Profile(
            distribution="mlir", makes="source", summary=f"{_HOST}, as sources", code_generators=(), size=2_300_000
        ),
    },
    subprojects=("mlir", "lld"),
    needs="mlir/python/requirements.txt",
    paths=("mlir", "llvm", "cmake", "third-party"),
    pypi=("mlir",),
    suites=("smoke", "bindings", "regression", "sdk", "source", "performance", "beside"),
    test_requirements=("PyYAML",),  # OpDSL's tests read and write YAML
    has_requirements=True,
    has_stable_abi=True,
    # Source: LLVM 23's mlir/lib/Bindings/Python/IRCore.cpp, tracebackToLocation: the functions of CPython that it needs
    # are not part of the stable ABI.
    stable_abi_loss=(
        "One wheel for several CPythons keeps to CPython's stable ABI. In it, MLIR can't make locations from Python's "
        "tracebacks by itself (loc_tracebacks)."
    ),
    short="MLIR",
    homepage="https://mlir.llvm.org/",
    lead="From an empty folder to a compiled function that works on NumPy arrays, in five minutes.",
    tells="python -m mlir._release",
    entry="mlir.ir",
    check="with mlir.ir.Context(): mlir.ir.Module.parse('module {}').operation.verify()",
    conda_packages=("mlir-python-bindings",),
    sdk_core_minutes=360,
    measured="an SDK of LLVM 19.1.7, nothing cached: about 90 min on 4 cores, ±30 %; a wheel of 22.1.8: 197 s of CPU "
    "and 16 s of repair on a cold compiler cache; its bindings: 42 to 78 s on 4 cores; regression: assumed",
)

#: The wheel project (CMake, scikit-build-core) that is staged for each wheel.
WHEEL = _HERE / "wheel"

#: The CMake project that installs and exports upstream's groups of Python sources.
PYTHON_SOURCES = _HERE / "python_sources"

#: Programs that type checkers read with the wheel installed: right ones, which are run, too, and a wrong one.
TYPES = _HERE / "types"

#: Runs one thing with the installed ``mlir``, in the interpreter under test.
DRIVER = _HERE / "tests" / "driver.py"

#: What people install next to a wheel, and how each shows that it works beside ours.
NEIGHBOURS = _HERE / "tests" / "beside.toml"

#: Does a fixed amount of work with the installed ``mlir``, whose instructions are counted.
MEASURE = _HERE / "performance" / "measure.py"

#: The additions of an SDK's wheels: the package ``mlir_sdk``, and checks for its CMake packages.
SDK_WHEEL = _HERE / "sdk"

#: A CMake project that the wheel ``mlir-sdk`` is tested by.
AGAINST_SDK = _HERE / "against_sdk"

#: ``bin/llvm-config`` of an SDK: a program of Python's standard library alone.
LLVM_CONFIG = SDK_WHEEL / "llvm_config.py"
