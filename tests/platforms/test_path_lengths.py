"""No path that a job makes on Windows is too long for Microsoft's tools, whose limit is 260 characters.

The paths are computed from real lists of files: LLVM's whole tree, and the commands with which a wheel of LLVM 22.1.8
was built. The folders are those of GitHub's runners. What LLVM's build makes is in the files that CMake generates
(``configure/test_llvm.py``).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest

from mlir_release.builder.sdk.build_environment import fixed_root
from mlir_release.builder.sdk.port import recipe_of
from mlir_release.builder.sdk.sources.releases import find_release
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.builder.sdk.sources.upstream import unused_to_build
from mlir_release.ground.storage.cache import build_folder, cache_directory
from tests.platforms.runtimes import MATRIX

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="LLVM's tree is that of Debian's sources")

#: With room for what tools append: ``.tmp``, ``.d``, a process's number.
LIMIT = 240

CACHE = PureWindowsPath("C:\\Users\\runneradmin\\AppData\\Local\\mlir-release\\Cache")
WORKSPACE = PureWindowsPath("D:\\a\\mlir-wheels\\mlir-wheels")  # of llvm/mlir-wheels, the release repository
RUNNER_TEMP = PureWindowsPath("D:\\a\\_temp")

#: The longest objects of wheels and of the add-on for tests, relative to CMake's build folder: from builds' logs.
OBJECTS = (
    "CMakeFiles/mlir_test_addon.extension._mlirPythonTestNanobind.dso.dir/upstream/mlir/test/python/lib/"
    "PythonTestModuleNanobind.cpp.obj",
    "CMakeFiles/mlir_package.extension._mlirTransformInterpreter.dso.dir/upstream/mlir/lib/Bindings/Python/"
    "TransformInterpreter.cpp.obj",
    "CMakeFiles/mlir_package.extension._mlirDialectsSparseTensor.dso.dir/upstream/mlir/lib/Bindings/Python/"
    "DialectSparseTensor.cpp.obj",
)


@pytest.fixture(scope="module")
def tree() -> list[str]:
    """Every file of llvm-project that is checked out to build LLVM."""
    root = fetch_source(find_release("22.1.8"), cache=cache_directory(), whole=True).root
    unused = {root / name for name in unused_to_build(recipe_of("mlir"))}
    found = []
    for parent, folders, names in os.walk(root):
        folders[:] = [name for name in folders if Path(parent, name) not in unused]
        found += [Path(parent, name).relative_to(root).as_posix() for name in names]
    return found


def too_long(folder: PureWindowsPath, files: list[str] | tuple[str, ...]) -> list[str]:
    return [path for path in (str(folder / file) for file in files) if len(path) > LIMIT]


def sdk_build() -> PureWindowsPath:
    root = fixed_root("windows", CACHE, {})
    assert isinstance(root, PureWindowsPath)
    return root


def test_the_list_is_real(tree: list[str]) -> None:
    assert len(tree) > 50_000


def test_the_sources_of_llvm(tree: list[str]) -> None:
    assert not too_long(CACHE / "sources" / f"{'0' * 40}.tmp", tree), "as they are fetched"
    assert not too_long(sdk_build() / "source", tree), "as they are compiled"


def test_the_sdk(tree: list[str]) -> None:
    kept = [path for path in tree if path.startswith(tuple(f"{name}/" for name in recipe_of("mlir").kept_sources))]
    headers = [path for path in tree if "/include/" in path and path.startswith(("llvm/", "mlir/"))]
    assert kept
    for root in (WORKSPACE / ".sdk.tmp", RUNNER_TEMP / "sdk", RUNNER_TEMP / ".sdk.build.tmp", sdk_build() / "prefix"):
        assert not too_long(root / "source", kept)
        assert not too_long(root, [path.partition("/")[2] for path in headers])


@pytest.mark.parametrize(
    "wheel",
    [wheel for wheel in MATRIX.wheels if wheel.runtime.os == "windows" and wheel.python],
    ids=lambda wheel: wheel.name,
)
def test_the_build_of_a_wheel(wheel: object, tree: list[str]) -> None:
    python, distribution = wheel.python.tag, wheel.distribution  # type: ignore[attr-defined]
    workdir = build_folder(CACHE, "windows") / "builds" / f"{distribution}-test-addon-{'0' * 10}-{python}"
    tag = f"{python.removesuffix('t')}-{python}-win_amd64"
    assert not too_long(workdir / "project" / "build" / tag, OBJECTS), "by cibuildwheel"
    assert not too_long(workdir / "tree", OBJECTS), "by pypa/build"
    staged = [path for path in tree if path.startswith(("mlir/include/", "mlir/lib/Bindings/", "mlir/python/"))]
    assert not too_long(workdir / "project" / "upstream", staged)
    old = CACHE / "builds" / f"{distribution}-test-addon-{'0' * 10}-{python}"
    assert too_long(old / "project" / "build" / tag, OBJECTS), "where it was"


def test_upstreams_tests(tree: list[str]) -> None:
    """lit writes beside each test's name, in folders named Output."""
    tests = [path.removeprefix("mlir/test/") for path in tree if path.startswith("mlir/test/")]
    written = [str(PurePosixPath(path).parent / "Output" / f"{PurePosixPath(path).name}.tmp.script") for path in tests]
    assert len(written) > 1_000
    folder = PureWindowsPath("C:\\Users\\RUNNER~1\\AppData\\Local\\Temp\\mlir-release-test-abcdefgh\\files")
    assert not too_long(folder / "regression" / "test", written)
