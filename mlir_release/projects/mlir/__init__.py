"""The MLIR Python bindings: the wheel project, its smoke test, its known failures."""

from pathlib import Path

_HERE = Path(__file__).parent

#: The wheel project (CMake, scikit-build-core) that is staged for each wheel.
WHEEL = _HERE / "wheel"

#: The CMake project that installs and exports upstream's groups of Python sources.
PYTHON_SOURCES = _HERE / "python_sources"

#: The CMake project that compiles a learned eviction policy for LLVM's own build.
REGALLOC_MODEL = _HERE / "regalloc"

#: Run in an environment that has the wheel installed.
SMOKE = _HERE / "tests" / "smoke.py"

#: Tests of upstream's that fail for a reason that is known; compared strictly.
KNOWN_FAILURES = _HERE / "known_failures.toml"

#: What upstream's tests of the bindings import beyond the bindings' requirements: the OpDSL ones read and write YAML.
TEST_REQUIREMENTS = ("PyYAML",)

#: Runs a tool of the SDK with what a wheel cannot reach.
DRIVER = _HERE / "tests" / "driver.py"

#: What wheels of an SDK have beyond the SDK: the package ``mlir_sdk``, and checks for its CMake packages.
SDK_WHEEL = _HERE / "sdk"

#: A CMake project that the wheel ``mlir-sdk`` is tested by.
AGAINST_SDK = _HERE / "against_sdk"
