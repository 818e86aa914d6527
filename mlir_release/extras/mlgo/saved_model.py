"""A policy that is a saved model of TensorFlow's, as ml-compiler-opt makes them. It answers compilers by itself: in a
process of an interpreter of the user's that has TensorFlow, for as long as it is open.
"""

from __future__ import annotations

import math
import shutil
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

from mlir_release.errors import MachineError, UsageError, VerificationError
from mlir_release.extras.mlgo.documents import Trained
from mlir_release.host.files import read_document
from mlir_release.host.process import running
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.decode import parse_json
from mlir_release.model.digests import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.extras.mlgo.documents import ProblemName
    from mlir_release.extras.mlgo.features import Chooser, Decision, Layout
    from mlir_release.host.process import Running

#: What every saved model has.
CONTENT = "saved_model.pb"

#: Inputs of TF-Agents' own, in which a policy sees nothing: zeros, as in a compiler.
_BOOKKEEPING = frozenset({"step_type", "reward", "discount"})

_ANSWER = np.dtype("int64")


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
    """A saved model, open. It is a :class:`~mlir_release.extras.mlgo.documents.Policy` to those who ask what it is."""

    def __init__(self, folder: Path, trained: Trained, process: Running, inputs: list[Input]) -> None:
        self.folder = folder
        self._trained, self._inputs = trained, inputs
        self._told, self._heard = _both(process)
        self._lock = threading.Lock()  # compilers ask at the same time

    @property
    def problem(self) -> ProblemName:
        """That it decides."""
        return self._trained.problem

    @property
    def llvm(self) -> str:
        """That it was trained with."""
        return self._trained.llvm

    @property
    def corpus(self) -> str:
        """That it was trained on."""
        return self._trained.corpus

    @property
    def digest(self) -> str:
        """SHA-256 of the names and digests of its files, but for what the toolkit adds."""
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
        told = b"".join(self._bytes(each, decision) for each in self._inputs)
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

    @staticmethod
    def _bytes(each: Input, decision: Decision) -> bytes:
        assert decision.tensors is not None
        if each.name in _BOOKKEEPING:
            return bytes(each.elements * np.dtype(each.type).itemsize)
        return np.asarray(decision.tensors[each.name]).astype(each.type).tobytes()


@contextmanager
def opened(folder: Path, python: str) -> Iterator[SavedModel]:
    """A saved model that answers until the end of the block, or of this process.

    :param python: an interpreter that has TensorFlow
    :raises UsageError: ``input-missing``, ``input-invalid``
    :raises MachineError: ``no-python``
    """
    trained = _trained(folder)
    script = Path(__file__).with_name("in_tensorflow.py").read_text(encoding="utf-8")
    with scratch_folder("mlgo") as scratch, (scratch / "errors").open("w+b") as errors, ExitStack() as stack:
        command = [interpreter(python), "-c", script, "serve", str(folder.absolute())]
        try:
            process = stack.enter_context(running(command, errors=errors))
        except OSError as error:
            raise _failed(python, str(error)) from None
        line = _both(process)[1].readline()
        if not line:
            errors.seek(0)
            said = errors.read().decode(errors="replace").splitlines()
            raise _failed(python, "\n".join(said[-3:]))
        yield SavedModel(folder, trained, process, [Input(*each) for each in parse_json(line)])


def interpreter(python: str) -> str:
    """The path of an interpreter, because programs run in another folder."""
    found = shutil.which(python)
    return python if found is None else str(Path(found).absolute())


def _both(process: Running) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _trained(folder: Path) -> Trained:
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
            remedy="copy the file from the model that `mlgo train --trainer ml-compiler-opt` wrote, and that this one "
            "was trained on from",
        ) from None
    return Trained.from_text(content, where=str(folder / Trained.FILE))


def _failed(where: str, why: str) -> MachineError:
    return MachineError(
        "no-python",
        "this CPython can't run the saved model",
        where=where,
        why=why,
        remedy="name by --python a CPython with TensorFlow, of the version that saved the model: docs/mlgo.md has one",
    )
