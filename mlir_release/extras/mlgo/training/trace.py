"""Watch the compiler decide on the training modules, answered as its own heuristic would.

In inlining, the compiler tells its default's choice. In eviction, only one in development mode does
(:mod:`.development`). A stock compiler doesn't, so its order is imitated (:class:`.policies.Heuristic`); the number of
equal objects says how well. The decisions are kept for a warm start, and the features' scales for standardizing them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlir_release.extras.mlgo.compiling import Compiled, Compiler, in_parallel
from mlir_release.extras.mlgo.documents import Corpus, Default, Module, Trace
from mlir_release.extras.mlgo.features import Decision, Layout
from mlir_release.extras.mlgo.policies import observed
from mlir_release.extras.mlgo.problems import problem_of
from mlir_release.extras.mlgo.training.development import compile_observed
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import UsageError
from mlir_release.ground.storage.files import replacing, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.features import Chooser
    from mlir_release.extras.mlgo.policies import Floats

#: Decisions of a module that are kept, at most.
KEPT = 300

_DECISIONS = "decisions.npz"

Recorded = list[tuple[Decision, int]]


class Recorder:
    """Notes the choices of a teacher: sums of all features, and an even sample of the decisions."""

    def __init__(self, teacher: Callable[[Sequence[str]], Chooser], kept: int = KEPT) -> None:
        self.features: tuple[str, ...] = ()
        self.sample: Recorded = []
        self.rows = 0
        self.sums: Floats = np.zeros(0)
        self.squares: Floats = np.zeros(0)
        self._teacher = teacher
        self._kept, self._every, self._seen = kept, 1, 0

    def around(self, layout: Layout) -> Chooser:
        """Record the teacher."""
        self.features = layout.features
        self.sums, self.squares = np.zeros(len(self.features)), np.zeros(len(self.features))
        inner = self._teacher(self.features)

        def choose(decision: Decision) -> int:
            chosen = inner(decision)
            self.add(decision, chosen)
            return chosen

        return choose

    def add(self, decision: Decision, chosen: int) -> None:
        """Note one decision. When the sample is full, every other one is dropped, and only half as many are added."""
        self.rows += len(decision.rows)
        self.sums = self.sums + decision.rows.sum(axis=0)
        self.squares = self.squares + (decision.rows**2).sum(axis=0)
        if self._seen % self._every == 0:
            self.sample.append((decision, chosen))
            if len(self.sample) > self._kept:
                self.sample, self._every = self.sample[::2], 2 * self._every
        self._seen += 1


def make_trace(
    compiler: Compiler, *, observer: Compiler | None = None, rate: float = 1.0, jobs: int | None = None
) -> Trace:
    """Compile the training modules twice, and write ``trace.json`` and the decisions beside it into the corpus' folder.

    :param observer: in development mode, to tell the default's own choices; None: the problem's teacher answers
    :param rate: the share of the modules that are compiled the second time, above 0
    :raises UsageError: ``input-invalid``
    :raises VerificationError: ``model-unsuitable``, ``file-damaged``
    """
    corpus, folder = compiler.corpus, compiler.folder
    chosen = sample(corpus.training, rate)

    def watch(module: Module) -> tuple[Compiled, Compiled | None, Recorder]:
        default = compiler.compile(module, emit=True)
        recorder = Recorder(problem_of(corpus.problem).teacher if observer is None else lambda features: observed)
        if module.name not in chosen:
            return default, None, recorder
        if observer is not None:
            return default, compile_observed(observer, module, recorder.around), recorder
        return default, compiler.compile(module, recorder.around, emit=True), recorder

    watched = in_parallel(watch, corpus.training, jobs)
    recorders = [recorder for _, _, recorder in watched if recorder.rows]
    if not recorders:
        raise UsageError(
            "input-invalid",
            f"the compiler asked for no decision in any of {len(chosen)} training modules: there is nothing to learn",
            where=str(folder),
            remedy="take larger modules, more of them, or modules that are optimized more",
        )
    mean, deviation = scales(recorders)
    trace = Trace(
        problem=corpus.problem,
        llvm=corpus.llvm,
        corpus=corpus.digest,
        features=recorders[0].features,
        mean=tuple(mean.tolist()),
        deviation=tuple(deviation.tolist()),
        decisions=sum(again.decisions for _, again, _ in watched if again),
        identical=sum(default.sha256 == again.sha256 for default, again, _ in watched if again),
        defaults=tuple(
            Default(name=module.name, cost=default.cost, text=default.text)
            for module, (default, _, _) in zip(corpus.training, watched, strict=True)
        ),
        observed=observer is not None,
        sampled=len(chosen) if len(chosen) < len(watched) else 0,
    )
    save_decisions(folder, [pair for recorder in recorders for pair in recorder.sample])
    write_atomically(folder / Trace.FILE, trace.to_text())
    return trace


def sample(modules: Sequence[Module], rate: float) -> frozenset[str]:
    """The names of a share of the modules, at least one; which are taken depends on the names alone."""
    names = sorted((module.name for module in modules), key=sha256_of)
    return frozenset(names[: max(round(rate * len(names)), 1)])


def scales(recorders: Sequence[Recorder]) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each feature over all positions of all decisions; 1 where nothing varies."""
    rows = sum(recorder.rows for recorder in recorders)
    mean = sum((recorder.sums for recorder in recorders[1:]), recorders[0].sums) / rows
    square = sum((recorder.squares for recorder in recorders[1:]), recorders[0].squares) / rows
    deviation = np.sqrt(np.maximum(square - mean**2, 0))
    return mean, np.where(deviation > 1e-9, deviation, 1.0)


def load_trace(folder: Path, corpus: Corpus) -> Trace:
    """The trace of a corpus.

    :raises UsageError: ``input-missing``, ``input-invalid``
    """
    path, missing, remedy = folder / Trace.FILE, "the corpus has not been traced", "mlir-release mlgo trace FOLDER"
    if not (folder / _DECISIONS).is_file():
        raise UsageError("input-missing", missing, where=str(path), remedy=remedy)
    trace = Trace.load(path, missing=missing, remedy=remedy)
    if trace.corpus != corpus.digest:
        raise UsageError(
            "input-invalid",
            "the trace is of another corpus than the one in this folder",
            where=str(path),
            remedy="trace it again: mlir-release mlgo trace FOLDER",
        )
    return trace


def save_decisions(folder: Path, recorded: Recorded) -> None:
    """Write decisions beside the trace. Features keep single precision, which they come in."""
    counts = [len(decision.rows) for decision, _ in recorded]
    rows = np.concatenate([decision.rows for decision, _ in recorded]).astype(np.float32)
    with replacing(folder / _DECISIONS) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, rows=rows, counts=np.array(counts), chosen=np.array([c for _, c in recorded]))


def load_decisions(folder: Path, trace: Trace) -> Recorded:
    """Read :func:`save_decisions`' file. Positions are not kept: indices into the rows are enough.

    :raises UsageError: ``input-invalid``
    """
    try:
        with np.load(folder / _DECISIONS) as stored:
            rows, counts, chosen = stored["rows"].astype(float), stored["counts"], stored["chosen"]
        if rows.shape != (counts.sum(), len(trace.features)) or np.any(chosen < 0) or np.any(chosen >= counts):
            raise ValueError("its arrays do not fit each other, or the trace")
        pieces = np.split(rows, np.cumsum(counts)[:-1])
        return [(Decision(np.arange(len(piece)), piece), int(one)) for piece, one in zip(pieces, chosen, strict=True)]
    except Exception as error:  # whatever a damaged file makes numpy raise
        raise UsageError(
            "input-invalid",
            "the recorded decisions of the trace can't be read",
            where=str(folder / _DECISIONS),
            why=str(error) or type(error).__name__,
            remedy="trace it again: mlir-release mlgo trace FOLDER",
        ) from error
