"""A saved model of TensorFlow's, compiled: the class that LLVM's advisor calls, and XLA's runtime, which that needs.

TensorFlow's own compiler makes the class, and TensorFlow brings the runtime's sources. This is what LLVM's build does
with ``LLVM_RAEVICT_MODEL_PATH`` and ``TENSORFLOW_AOT_PATH``. Source: llvm/cmake/modules/TensorFlowCompile.cmake.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mlir_release.console import console
from mlir_release.errors import MachineError
from mlir_release.extras.mlgo.saved_model import interpreter
from mlir_release.host.build_tools import cmake_and_ninja
from mlir_release.host.cache import locked
from mlir_release.host.files import remove_folder, replacing
from mlir_release.host.process import StepFailed, capture, run_logged, tail, whole_log
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.decode import parse_json
from mlir_release.model.regalloc_model import MODEL

if TYPE_CHECKING:
    from mlir_release.extras.mlgo.toolchain import Toolchain

#: Of the model, for TensorFlow's compiler. Source: llvm/lib/CodeGen/CMakeLists.txt.
_ABOUT = ("--tag_set", "serve", "--signature_def_key", "action", "--cpp_class", f"llvm::{MODEL}")

#: What the compiler writes, and what of it is kept.
_WRITTEN = (f"{MODEL}.h", f"{MODEL}.o")

_FIND = "import json, tensorflow as tf; print(json.dumps([tf.__version__, tf.sysconfig.get_include()]))"
_SOURCES, _LIBRARY = "xla_aot_runtime_src", "libtf_xla_runtime.a"


class Runtime(NamedTuple):
    """XLA's runtime."""

    include: Path
    archive: Path


def compile_model(model: Path, python: str, triple: str, output: Path) -> None:
    """Write ``RegAllocEvictModel.h`` and ``.o``.

    :param python: an interpreter that has TensorFlow
    :param triple: of LLVM's host
    :raises MachineError: ``program-failed``
    """
    program = [interpreter(python), "-m", "tensorflow.python.tools.saved_model_cli", "aot_compile_cpu"]
    with scratch_folder("mlgo") as folder:
        where = ("--dir", model.absolute(), "--output_prefix", folder / MODEL)
        done = capture([*program, "--multithreading", "false", *_ABOUT, *where, "--target_triple", triple])
        if not done.ok or not all((folder / name).is_file() for name in _WRITTEN):
            raise _failed(
                "TensorFlow does not compile the model", str(model), "\n".join(done.complaint.splitlines()[-5:])
            )
        for name in _WRITTEN:
            with replacing(output / name) as temporary:
                shutil.copyfile(folder / name, temporary)


def provide_runtime(python: str, toolchain: Toolchain, cache: Path) -> Runtime:
    """The runtime of the interpreter's TensorFlow, compiled once: about 8 minutes of CPU.

    :raises MachineError: ``program-failed``
    """
    done = capture([interpreter(python), "-c", _FIND])
    if not done.ok:
        raise _failed("this CPython has no TensorFlow", python, "\n".join(done.complaint.splitlines()[-3:]))
    version, include = parse_json(done.stdout.splitlines()[-1])
    archive = cache / "xla" / f"tensorflow-{version}" / _LIBRARY
    with locked(
        archive.parent.with_name(f"{archive.parent.name}.lock"), waiting="another process compiles TensorFlow's runtime"
    ):
        if not archive.is_file():
            with console.step(f"compiling the runtime of TensorFlow {version}, once"):
                _compile_runtime(Path(include).with_name(_SOURCES), toolchain.program("clang++"), archive, cache)
    return Runtime(Path(include), archive)


def _compile_runtime(source: Path, cxx: Path, archive: Path, cache: Path) -> None:
    """Resumes what was interrupted."""
    build, log = archive.parent / "build", archive.parent / "build.log"
    archive.parent.mkdir(parents=True, exist_ok=True)
    cmake, ninja = cmake_and_ninja(cache)
    options = (f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DCMAKE_CXX_COMPILER={cxx}", "-DCMAKE_BUILD_TYPE=Release")
    flags = "-DCMAKE_POSITION_INDEPENDENT_CODE=ON"
    try:
        run_logged([cmake, "-G", "Ninja", "-S", source, "-B", build, flags, *options], log=log)
        run_logged([ninja, "-C", build], log=log)
    except StepFailed:
        raise _failed(
            "TensorFlow's runtime can't be compiled", str(source), tail(log, 5), f"see docs/mlgo.md; {whole_log(log)}"
        ) from None
    with replacing(archive) as temporary:
        shutil.copyfile(build / _LIBRARY, temporary)
    remove_folder(build)


def _failed(what: str, where: str, why: str, remedy: str = "") -> MachineError:
    versions = "name by --python a CPython with the TensorFlow that docs/mlgo.md names, which saved the model"
    return MachineError("program-failed", what, where=where, why=why, remedy=remedy or versions)
