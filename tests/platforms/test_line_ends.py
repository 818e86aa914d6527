"""Every file format that the toolkit reads may come with Windows' line ends: from an editor, from a checkout of git's
there, from a program's output. It then means the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.builder.model.test_report import TestReport
from mlir_release.builder.model.wheel_info import WheelInfo
from mlir_release.builder.projects.mlir import PROJECT, cmake_exports
from mlir_release.builder.sdk.components import components
from mlir_release.builder.sdk.prefix import inspect_prefix
from mlir_release.builder.sdk.progress import failing_step, steps_done
from mlir_release.builder.sdk.sources.releases import CATALOGUE, read_catalogue
from mlir_release.builder.sdk.sources.upstream import read_source
from mlir_release.builder.testing.known_failures import load
from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.llvm.llvm_facts import LlvmFacts
from mlir_release.ground.llvm.pin import parse_pin
from mlir_release.ground.python.locked import LOCK, read_lock
from mlir_release.integrate.config import read_config
from mlir_release.release.model.manifest import Manifest, Waiver
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.yanks import parse_yanks
from tests.installed_factory import make_installed
from tests.platforms.runtimes import ROOT, RUNTIMES
from tests.prefix_factory import make_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DATA = ROOT / "tests" / "release" / "unit" / "model" / "data"
REPORT = "bindings-mlir-linux-x86_64-cp312.tests.json"

INTEGRATE = """
[upstream]
url = "https://example.com/llvm.git"
submodule = "llvm"
[smoke]
command = "./smoke.sh"
"""
MESSAGE = "Snapshot\n\nWhy.\n\nRevision: abc\nLLVM-Version: 22.1.8\n"
NINJA = (
    "[1/3] Building a.o\n[2/3] Building b.o\nFAILED: b.o \nc++ -c b.cpp\nb.cpp:1:1: error: no\nninja: build stopped.\n"
)


def data(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


#: What is read as text, whoever has read the file: its content, and the reader.
TEXTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "targets.toml": ((ROOT / "targets.toml").read_text(encoding="utf-8"), Matrix.parse),
    "integrate.toml": (INTEGRATE, lambda text: read_config(text.encode(), where="x")),
    "yanked.toml": (data("yanked.toml"), parse_yanks),
    "llvm-project.version": (data("llvm-project.version"), lambda text: parse_pin(text.encode(), where="x")),
    "release.json": (data("release.json"), lambda text: Manifest.from_text(text, where="x")),
    "waiver": (data("waiver-bindings-mlir-windows-x64-cp314.json"), lambda text: Waiver.from_text(text, where="x")),
    "tests.json": (data(REPORT), lambda text: TestReport.from_text(text, name=REPORT, where="x")),
    "_release.json": (data("_release.json"), WheelInfo.from_text),
    "a tag's message": (MESSAGE, parse_trailers),
    "Ninja's output": (NINJA, failing_step),
}

#: What is read from a file.
FILES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "known_failures.toml": (PROJECT.known_failures.read_text(encoding="utf-8"), load),
    "catalogue.toml": (CATALOGUE.read_text(encoding="utf-8"), read_catalogue),
    "builds.txt": (LOCK.read_text(encoding="utf-8"), read_lock),
    "toolkit.txt": ((ROOT / "requirements" / "toolkit.txt").read_text(encoding="utf-8"), read_lock),
    "a build's log": (NINJA, steps_done),
}


def crlf(text: str) -> str:
    assert "\r" not in text
    assert "\n" in text
    return text.replace("\n", "\r\n")


def plain(value: Any) -> Any:
    """Without the line ends inside strings, which are whoever wrote them."""
    return json.loads(json.dumps(value, default=repr).replace("\\r\\n", "\\n").replace("\\\\r", ""))


@pytest.mark.parametrize("name", TEXTS)
def test_text(name: str) -> None:
    text, read = TEXTS[name]
    assert plain(read(crlf(text))) == plain(read(text))


@pytest.mark.parametrize("name", FILES)
def test_file(name: str, tmp_path: Path) -> None:
    text, read = FILES[name]
    file = tmp_path / "file"
    file.write_bytes(text.encode())
    expected = read(file)
    assert expected
    (tmp_path / "other").write_bytes(crlf(text).encode())
    assert read(tmp_path / "other") == expected


def with_crlf(root: Path) -> Path:
    """A tree, its text files as Git for Windows checks them out by default."""
    for file in root.rglob("*"):
        if file.suffix.lower() in {".cmake", ".txt", ".in", ".py", ".json"} and file.is_file():
            file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    return root


def test_llvm_projects_tree(tmp_path: Path) -> None:
    one, other = (make_source(tmp_path / name) for name in ("one", "other"))
    assert read_source(with_crlf(other)).facts == read_source(one).facts
    system = RUNTIMES["windows-x64"].platform.system
    assert components(read_source(other), system) == components(read_source(one), system)


def test_llvm_projects_tree_as_git_shows_it(tmp_path: Path) -> None:
    root = make_source(tmp_path / "one")

    def text_of(path: str, change: Callable[[str], str]) -> str | None:
        file = root / path
        return change(file.read_text(encoding="utf-8")) if file.is_file() else None

    assert LlvmFacts.read(lambda path: text_of(path, crlf)) == LlvmFacts.read(lambda path: text_of(path, str))


def test_an_installed_llvm(tmp_path: Path) -> None:
    windows = RUNTIMES["windows-x64"].platform
    one, other = (make_installed(tmp_path / name, windows) for name in ("one", "other"))
    with_crlf(other)
    found, same = inspect_prefix(other), inspect_prefix(one)
    assert found.settings == same.settings
    assert found.platform == windows
    for file in ("llvm/LLVMExports.cmake", "mlir/MLIRTargets.cmake"):
        exports = (cmake_exports.read(prefix / "lib" / "cmake" / file) for prefix in (one, other))
        assert next(exports) == next(exports)
