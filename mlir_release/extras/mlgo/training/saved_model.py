"""A policy that is a saved model of TensorFlow, as ml-compiler-opt makes them: how it answers, and how it is compiled.

It answers compilers by itself: in a process of an interpreter of the user's that has TensorFlow, for as long as it is
open. To embed it, TensorFlow's own compiler makes the class that LLVM's advisor calls, and TensorFlow brings the
sources of XLA's runtime, which that class needs. LLVM's build does the same with ``LLVM_RAEVICT_MODEL_PATH`` and
``TENSORFLOW_AOT_PATH``. Source: llvm/cmake/modules/TensorFlowCompile.cmake.
"""

from __future__ import annotations

import math
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

from mlir_release.builder.model.regalloc_model import MODEL
from mlir_release.builder.tools.build_tools import cmake_and_ninja
from mlir_release.extras.mlgo.documents import Trained
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import MachineError, UsageError, VerificationError
from mlir_release.ground.programs.process import StepFailed, capture, run_logged, running, tail, whole_log
from mlir_release.ground.python.pythons import find_executable
from mlir_release.ground.storage.cache import locked
from mlir_release.ground.storage.files import copy_regular, read_document, remove_folder, replacing
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.extras.mlgo.features import Chooser, Decision, Layout
    from mlir_release.extras.mlgo.toolchain import Toolchain

#: A file that every saved model has.
CONTENT = "saved_model.pb"

#: Inputs of TF-Agents' own, in which a policy sees nothing: zeros, as in a compiler.
_BOOKKEEPING = frozenset({"step_type", "reward", "discount"})

_ANSWER = np.dtype("int64")

#: Names the model to TensorFlow's compiler. Source: llvm/lib/CodeGen/CMakeLists.txt.
_ABOUT = ("--tag_set", "serve", "--signature_def_key", "action", "--cpp_class", f"llvm::{MODEL}")

#: The files of that compiler that are kept.
_WRITTEN = (f"{MODEL}.h", f"{MODEL}.o")

_FIND = "import json, tensorflow as tf; print(json.dumps([tf.__version__, tf.sysconfig.get_include()]))"
_SOURCES, _LIBRARY = "xla_aot_runtime_src", "libtf_xla_runtime.a"


class Input(NamedTuple):
    """A tensor that a model is given."""

    name: str
    type: str  #: NumPy's name of it
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """In all."""
        return math.prod(self.shape)


class SavedModel:
    """A saved model, open. It has the problem, LLVM, corpus and digest that a policy's document has."""

    def __init__(self, folder: Path, trained: Trained, inputs: list[Input], told: IO[bytes], heard: IO[bytes]) -> None:
        """See :func:`opened`.

        :param told: the standard input of TensorFlow's process
        :param heard: its standard output
        """
        self.folder = folder
        self.problem, self.llvm, self.corpus = trained.problem, trained.llvm, trained.corpus
        self._inputs, self._told, self._heard = inputs, told, heard
        self._lock = threading.Lock()  # compilers ask at the same time

    @property
    def digest(self) -> str:
        """SHA-256 of the names and digests of its files, but for the toolkit's own."""
        files = sorted(path for path in self.folder.rglob("*") if path.is_file() and path.name != Trained.FILE)
        lines = [f"{sha256_of(path)}  {path.relative_to(self.folder).as_posix()}\n" for path in files]
        return sha256_of("".join(lines))

    def answering(self, layout: Layout) -> Chooser:
        """Itself, for a compiler that has its features. :raises VerificationError: ``model-unsuitable``"""
        layout.provide([(each.name, each.elements) for each in self._inputs if each.name not in _BOOKKEEPING])
        return self

    def __call__(self, decision: Decision) -> int:
        """The row that is chosen.

        :raises VerificationError: ``model-unsuitable``
        :raises MachineError: ``no-python``
        """
        assert decision.tensors is not None
        told = b"".join(
            bytes(each.elements * np.dtype(each.type).itemsize)
            if each.name in _BOOKKEEPING
            else np.asarray(decision.tensors[each.name]).astype(each.type).tobytes()
            for each in self._inputs
        )
        with self._lock:
            try:
                self._told.write(told)
                self._told.flush()
                answer = self._heard.read(_ANSWER.itemsize)
            except OSError:
                answer = b""
        if len(answer) != _ANSWER.itemsize:
            raise _failed(str(self.folder), "TensorFlow's process has ended")
        position = int(np.frombuffer(answer, _ANSWER)[0])
        (found,) = np.nonzero(decision.positions == position)
        if not len(found):
            raise VerificationError(
                "model-unsuitable",
                f"the model chooses position {position}, which the compiler's mask does not allow",
                where=str(self.folder),
                remedy="train the model with a mask, as ml-compiler-opt's networks have one",
            )
        return int(found[0])


@contextmanager
def opened(folder: Path, python: str) -> Iterator[SavedModel]:
    """A saved model that answers until the end of the block, or of this process.

    :param python: an interpreter that has TensorFlow
    :raises UsageError: ``input-missing``, ``input-invalid``
    :raises MachineError: ``no-python``
    """
    if not (folder / CONTENT).is_file():
        raise UsageError(
            "input-missing",
            "this folder is no saved model of TensorFlow's",
            where=str(folder),
            why=f"it has no {CONTENT}",
            remedy="name a policy.json, or a folder such as RUN/behavioral-cloning/saved_policy",
        )
    try:
        content = read_document(folder / Trained.FILE)
    except OSError:
        raise UsageError(
            "input-invalid",
            f"the saved model does not say what it was trained on: it has no {Trained.FILE}",
            where=str(folder),
            remedy="copy the file from the model that `mlgo clone` wrote, and that this one was trained on from",
        ) from None
    trained = Trained.from_text(content, where=str(folder / Trained.FILE))
    script = Path(__file__).with_name("in_tensorflow.py").read_text(encoding="utf-8")
    with scratch_folder("mlgo") as scratch, (scratch / "errors").open("w+b") as errors, ExitStack() as stack:
        command = [interpreter(python), "-c", script, "serve", str(folder.absolute())]
        try:
            process = stack.enter_context(running(command, errors=errors))
        except OSError as error:
            raise _failed(python, str(error)) from None
        assert process.stdin is not None
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            errors.seek(0)
            said = errors.read().decode(errors="replace").splitlines()
            raise _failed(python, "\n".join(said[-3:]))
        inputs = [Input(*each) for each in parse_json(line)]
        yield SavedModel(folder, trained, inputs, process.stdin, process.stdout)


def interpreter(python: str) -> str:
    """The path of an interpreter that is named by a path, a command or a version: programs run in another folder.

    :raises UsageError: ``python-missing``
    """
    return str(find_executable(python))


def _failed(where: str, why: str) -> MachineError:
    return MachineError(
        "no-python",
        "this CPython can't run the saved model",
        where=where,
        why=why,
        remedy="name by --python a CPython with TensorFlow, of the version that saved the model: docs/mlgo.md has one",
    )


# -- compiled ---------------------------------------------------------------------------------------------------------


class XlaRuntime(NamedTuple):
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
            raise _no_runtime(
                "TensorFlow does not compile the model", str(model), "\n".join(done.complaint.splitlines()[-5:])
            )
        for name in _WRITTEN:
            with replacing(output / name) as temporary:
                copy_regular(folder / name, temporary)


def provide_runtime(python: str, toolchain: Toolchain, cache: Path) -> XlaRuntime:
    """The runtime of the interpreter's TensorFlow, compiled once: about 8 minutes of CPU.

    :raises MachineError: ``program-failed``
    """
    done = capture([interpreter(python), "-c", _FIND])
    if not done.ok:
        raise _no_runtime("this CPython has no TensorFlow", python, "\n".join(done.complaint.splitlines()[-3:]))
    version, include = parse_json(done.stdout.splitlines()[-1])
    folder = cache / "xla" / f"tensorflow-{version}"
    archive = folder / _LIBRARY
    with locked(folder.with_name(f"{folder.name}.lock"), waiting="another process compiles TensorFlow's runtime"):
        if not archive.is_file():
            with console.step(f"compiling the runtime of TensorFlow {version}, once"):
                # Or it goes on where that was interrupted.
                source, build, log = Path(include).with_name(_SOURCES), folder / "build", folder / "build.log"
                folder.mkdir(parents=True, exist_ok=True)
                cmake, ninja = cmake_and_ninja(cache)
                options = [f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DCMAKE_CXX_COMPILER={toolchain.program('clang++')}"]
                options += ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_POSITION_INDEPENDENT_CODE=ON"]
                try:
                    run_logged([cmake, "-G", "Ninja", "-S", source, "-B", build, *options], log=log)
                    run_logged([ninja, "-C", build], log=log)
                except StepFailed:
                    remedy = f"see docs/mlgo.md; {whole_log(log)}"
                    what = "TensorFlow's runtime can't be compiled"
                    raise _no_runtime(what, str(source), tail(log, 5), remedy) from None
                with replacing(archive) as temporary:
                    copy_regular(build / _LIBRARY, temporary)
                remove_folder(build)
    return XlaRuntime(Path(include), archive)


def _no_runtime(what: str, where: str, why: str, remedy: str = "") -> MachineError:
    versions = "name by --python a CPython with the TensorFlow that docs/mlgo.md names, which saved the model"
    return MachineError("program-failed", what, where=where, why=why, remedy=remedy or versions)
