"""The wheel project of clang, built with CMake of a miniature of upstream and of an SDK."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.clang import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads an ELF file"),
    pytest.mark.skipif(not all(map(shutil.which, ("c++", "cmake", "ninja", "nm"))), reason="needs CMake and its tools"),
]

CINDEX = """from __future__ import annotations
import os
from typing import Any, Sequence
class Config:
    library_path: str | None = None
    def get_filename(self) -> str:
        file = "libclang.so"

        if Config.library_path:
            file = Config.library_path + "/" + file

        return file

class Index:
    @staticmethod
    def create(excludeDecls=False):
        return Index()
    def parse(self, path, args=None, unsaved_files=None, options=0):
        return TranslationUnit()

class TranslationUnit:
    @property
    def cursor(self):
        return Cursor()

class Token:
    @property
    def cursor(self):
        \"\"\"The Cursor this Token corresponds to.\"\"\"
        return None

class Cursor:
    spelling: str = ""
"""

#: As upstream's, where the project changes it.
CINDEX_CPP = """
#include "CIndexer.h"
#include "clang/AST.h"
#include "llvm/Config/Targets.def"
#include <string>
struct Path { std::string text; std::string str() { return text; } };
struct CIndexer { std::string place = "/site/clang"; std::string getClangToolchainPath() { return place; } };
static Path operator+(std::string a, const char *b);
struct Arguments { std::string last; void push_back(const char *one) { last = one; } };
static std::string said;
extern "C" const char *clang_program(void *CIdx) {
  Arguments Args;
  Args.push_back("clang");
  said = Args.last;
  initialize();
  return said.c_str();
}
extern "C" void *clang_index(void) { return new CIndexer; }
extern "C" int clang_answer(void) { return clang::answer(); }
extern "C" int not_of_the_c_api(void) { return 1; }
static Path operator+(std::string a, const char *b) { return {a.append(b)}; }
"""

MAP = "LLVM_13 { global: clang_program; clang_answer; clang_index; clang_only_on_macos; local: *; };\n"

TARGETS = "// LLVM_TARGET(Wrong)\nLLVM_TARGET(X86)\nLLVM_TARGET(ARM)"

PARTS = ("TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser")


def compile_archive(archive: Path, sources: dict[str, str]) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    objects = []
    for name, text in sources.items():
        source = archive.parent / f"{name}.cpp"
        source.write_text(text)
        objects.append(source.with_suffix(".o"))
        subprocess.run(["c++", "-c", "-fPIC", source, "-o", objects[-1]], check=True)
    subprocess.run(["ar", "rcs", archive, *objects], check=True)


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sdk")
    compile_archive(root / "lib/libclangAST.a", {"ast": "namespace clang { int answer() { return 42; } }"})
    initializers = [f"{target}{part}" for target in ("X86", "ARM") for part in PARTS]
    members = {
        name: f'extern "C" void LLVMInitialize{name}() {{ extern int real_{name}; ++real_{name}; }} int real_{name};'
        for name in initializers
    }
    compile_archive(root / "lib/libLLVMTargets.a", members)
    declared = "\n".join(f'extern "C" void LLVMInitialize{name}();' for name in initializers)
    called = "".join(f"LLVMInitialize{name}();" for name in initializers)
    targets = f"{declared}\nstatic void initialize() {{{called}}}\n#if 0\n{TARGETS}\n#endif\n"
    files = {
        "include/clang/AST.h": "namespace clang { int answer(); }\n",
        "include/llvm/Config/Targets.def": targets,
        "lib/clang/22/include/stddef.h": "// stddef\n",
        "lib/clang/22/include/ppc_wrappers/mmintrin.h": "// wrapper\n",
    }
    return write(root, files)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def stage(root: Path) -> Path:
    shutil.copytree(PROJECT.folder / "wheel", root)
    files = {
        "upstream/clang/bindings/python/clang/__init__.py": "",
        "upstream/clang/bindings/python/clang/cindex.py": CINDEX,
        "upstream/clang/tools/libclang/CIndex.cpp": CINDEX_CPP,
        "upstream/clang/tools/libclang/CIndexer.h": "",
        "upstream/clang/tools/libclang/libclang.map": MAP,
        "clang/_release.json": "{}",
    }
    return write(root, files)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return stage(tmp_path / "project")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, sdk: Path) -> Path:
    """The package that a wheel would have."""
    project = stage(tmp_path_factory.mktemp("built") / "project")
    done = configure(project, sdk)
    assert done.returncode == 0, done.stderr
    done = subprocess.run(["ninja", "-C", project / "build"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return install(project)


def configure(project: Path, sdk: Path) -> subprocess.CompletedProcess[str]:
    folders = ("-S", project, "-B", project / "build")
    command: list[str | Path] = ["cmake", "-G", "Ninja", *folders, f"-DMLIR_RELEASE_SDK={sdk}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def install(project: Path) -> Path:
    words = ["--component", "clang_package", "--prefix", str(project / "out")]
    subprocess.run(["cmake", "--install", project / "build", *words], check=True, capture_output=True)
    return project / "out" / "clang"


def call(library: Path, *lines: str) -> str:
    script = "\n".join(["import ctypes, sys", "lib = ctypes.CDLL(sys.argv[1])", *lines])
    done = subprocess.run([sys.executable, "-c", script, library], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_library_lies_where_it_finds_the_compilers_own_headers(package: Path) -> None:
    assert {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()} == {
        "__init__.py", "_release.json", "_release.py", "cindex.py", "py.typed", "lib/libclang.so",
        "lib/clang/22/include/stddef.h", "lib/clang/22/include/ppc_wrappers/mmintrin.h",
    }  # fmt: skip
    assert call(package / "lib/libclang.so", "print(lib.clang_answer())") == "42"


def test_type_checkers_know_what_programs_begin_with(package: Path, tmp_path: Path) -> None:
    """Upstream's functions there have no annotations: all that follows was Any."""
    lines = "from clang.cindex import Index, Token\nToken().cursor.spelling\n"
    lines += "name: int = Index.create().parse('a.c', args=['-O1']).cursor.spelling\n"
    (tmp_path / "program.py").write_text(lines)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "program.py"]
    environment = {**os.environ, "MYPYPATH": str(package.parent)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    token, whole = [line for line in done.stdout.splitlines() if "program.py:" in line]
    assert 'expression has type "str", variable has type "int"' in whole
    assert 'Item "None" of "Cursor | None"' in token  # upstream gives none where a token belongs to no cursor


def test_the_bindings_load_the_library_beside_them_unless_told_otherwise(package: Path) -> None:
    namespace: dict[str, object] = {"__file__": str(package / "cindex.py")}
    exec(compile(ast.parse((package / "cindex.py").read_text()), "cindex", "exec"), namespace)
    config = namespace["Config"]
    assert config().get_filename() == str(package / "lib" / "libclang.so")  # type: ignore[operator]
    config.library_path = "/elsewhere"  # type: ignore[attr-defined]
    assert config().get_filename() == "/elsewhere/libclang.so"  # type: ignore[operator]


def test_the_driver_is_told_the_place_of_the_library(package: Path) -> None:
    said = call(
        package / "lib/libclang.so",
        "lib.clang_program.restype = ctypes.c_char_p",
        "lib.clang_index.restype = ctypes.c_void_p",
        "print(lib.clang_program(ctypes.c_void_p(lib.clang_index())), lib.clang_program(None))",
    )
    assert said == "b'/site/clang/bin/clang' b'clang'"


def test_only_the_c_api_is_exported_and_no_code_generator_is_linked(package: Path) -> None:
    library = package / "lib/libclang.so"
    names = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r" T (\w+)", names)) == {"clang_program", "clang_answer", "clang_index"}
    symbols = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    linked = set(re.findall(r" real_(\w+)", symbols))
    assert linked == {"ARMTargetInfo", "X86TargetInfo", "X86TargetMC", "X86AsmParser"}


def test_unannotated_bindings_are_not_called_typed(project: Path, sdk: Path) -> None:
    file = project / "upstream/clang/bindings/python/clang/cindex.py"
    file.write_text(CINDEX.replace("from __future__ import annotations\n", ""))
    assert configure(project, sdk).returncode == 0
    assert not (project / "build/py.typed").exists()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("bindings/python/clang/cindex.py", "Config.library_path +", "self.path +"),
        ("tools/libclang/CIndex.cpp", 'push_back("clang")', 'emplace_back("clang")'),
        ("tools/libclang/CIndex.cpp", '  Args.push_back("clang");\n', '  Args.push_back("clang");\n' * 2),
    ],
)
def test_a_place_that_upstream_changed_is_named(project: Path, sdk: Path, name: str, old: str, new: str) -> None:
    file = project / "upstream/clang" / name
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    done = configure(project, sdk)
    assert done.returncode != 0
    assert f"{name} no longer has exactly one" in " ".join(done.stderr.split())


@pytest.mark.parametrize("lacking", ["lib/libclangAST.a", "lib/libLLVMTargets.a", "lib/clang/22"])
def test_an_incomplete_sdk_is_named_before_anything_is_compiled(project: Path, sdk: Path, lacking: str) -> None:
    copy = project.parent / "sdk"
    shutil.copytree(sdk, copy)
    (copy / lacking).rename(copy / "elsewhere")
    done = configure(project, copy)
    assert done.returncode != 0
    assert "Set MLIR_RELEASE_SDK to its folder" in " ".join(done.stderr.split())  # CMake wraps lines
