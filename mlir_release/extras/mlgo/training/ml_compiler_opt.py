"""Train with google/ml-compiler-opt, in an interpreter of the user's that has TensorFlow.

A trace becomes its default trace and its vocabulary; its behavioural cloning is run on them. Its reinforcement learning
(PPO) goes on from the clone, and needs a clang in development mode (:mod:`.development`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlir_release.extras.mlgo.corpora.cc1 import generating
from mlir_release.extras.mlgo.documents import Corpus, Module, Trace, Trained
from mlir_release.extras.mlgo.features import MASK
from mlir_release.extras.mlgo.training.saved_model import interpreter
from mlir_release.extras.mlgo.training.trace import Recorded, load_decisions
from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.errors import MachineError, UsageError, VerificationError
from mlir_release.ground.programs.process import StepFailed, capture, run_logged, tail, whole_log
from mlir_release.ground.storage.files import remove_folder, replacing, write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


#: It skips sequences of fewer decisions, and would wait for others for ever. Source: its rl/data_reader.py.
_FEWEST = 3

#: Its configurations, relative to the checkout, as they include each other.
_GIN = "compiler_opt/rl/regalloc/gin_configs"
_VOCABULARY = "regalloc.config.get_observation_processing_layer_creator.quantile_file_dir"
_STEPS = "train_eval.num_iterations"
_WARM_START = "train_eval.warmstart_policy_dir"

#: Of a step of PPO: decisions in a row, and rows at most; of an iteration: steps at most. Source: ppo_nn_agent.gin.
_ROW, _ROWS, _PPO_STEPS = 16, 256, 200

#: Steps that take an iteration's decisions once, at least, and how often they are taken. A step waits for ever for more
#: rows than there are, and a policy may ask for fewer decisions than the default.
_PARTS, _TIMES = 8, 3

#: Seconds of an iteration of PPO after which it is stopped: it collects decisions for 72 at most, but without enough of
#: them it would collect for ever. Source: DEADLINE_IN_SECONDS in its rl/data_collector.py.
_PATIENCE = 600


@dataclass(frozen=True, kw_only=True)
class Cloned:
    """The result of :func:`clone` and of :func:`reinforce`.

    :param model: TensorFlow's saved model, a clone
    :param agreement: the share of the decisions in which it chooses as the trace
    :param reinforced: PPO's saved model
    :param rewards: of each iteration of PPO: the mean, over functions, of 1 minus the policy's cost over the default's
    """

    model: Path
    decisions: int
    iterations: int
    agreement: float
    reinforced: Path | None = None
    rewards: tuple[float, ...] = ()


class ModelSignature(NamedTuple):
    """The inputs and the output of ml-compiler-opt's model.

    :param features: type and shape of each: (positions), or () if it is the same for all
    :param choice: the name of the position that is chosen
    """

    features: Mapping[str, tuple[str, Sequence[int]]]
    choice: str


@dataclass(frozen=True)
class Checkout:
    """A checkout of ml-compiler-opt, and the interpreter that runs it."""

    folder: Path
    python: str
    log: Path

    def __post_init__(self) -> None:
        """:raises UsageError: ``input-missing``"""
        if not (self.folder / "compiler_opt" / "rl" / "train_bc.py").is_file():
            raise UsageError(
                "input-missing",
                "this is no checkout of google/ml-compiler-opt",
                where=str(self.folder),
                remedy="git clone https://github.com/google/ml-compiler-opt, and name the folder by --ml-compiler-opt",
            )

    def ask(self, *words: str | Path) -> Any:
        """Run a function of :mod:`.in_tensorflow`. :raises MachineError: ``no-python``"""
        script = Path(__file__).with_name("in_tensorflow.py").read_text(encoding="utf-8")
        done = capture([interpreter(self.python), "-", *words], cwd=self.folder, text=script, encoding="utf-8")
        if not done.ok:
            raise MachineError(
                "no-python",
                "this CPython can't run ml-compiler-opt",
                where=self.python,
                why="\n".join(done.complaint.splitlines()[-5:]),
                remedy="name by --python a CPython that has the packages of ml-compiler-opt's Pipfile, in its versions",
            )
        return parse_json(done.stdout.splitlines()[-1])

    def command(self, program: str, *options: str) -> tuple[str, ...]:
        """How one of its programs is called, in its folder."""
        return (interpreter(self.python), "-m", f"compiler_opt.{program}", *options)

    def run(self, program: str, *options: str, budget: float | None = None) -> None:
        """Run one of its programs, for so many seconds at most. :raises MachineError: ``program-failed``"""
        try:
            run_logged(self.command(program, *options), log=self.log, cwd=self.folder, budget=budget)
        except StepFailed:
            raise MachineError(
                "program-failed",
                f"ml-compiler-opt's {program} failed",
                where=str(self.log),
                why=tail(self.log, 5),
                remedy=f"the packages must have the versions of ml-compiler-opt's Pipfile; {whole_log(self.log)}",
            ) from None


def clone(trainer: Checkout, folder: Path, corpus: Corpus, trace: Trace, output: Path, *, iterations: int) -> Cloned:
    """Clone the traced heuristic.

    :param folder: of the corpus
    :param output: for everything; the results of an earlier run are replaced
    :raises UsageError: ``input-invalid``
    :raises MachineError: ``no-python``, ``program-failed``
    :raises VerificationError: ``model-unsuitable``
    """
    output = output.absolute()
    decisions, sequences, vocabulary = output / "decisions.npz", output / "default_trace", output / "vocab"
    cloned, cloning = output / "behavioral-cloning", output / "behavioral-cloning.gin"
    recorded = load_decisions(folder, trace)
    arrays = tensors(recorded, trace.features, ModelSignature(**trainer.ask("signature")))
    with replacing(decisions) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    write_atomically(cloning, gin("behavioral_cloning_nn_agent", {_VOCABULARY: vocabulary, _STEPS: iterations}))
    _discard(vocabulary, cloned)
    trainer.ask("write", decisions, sequences)
    words = (f"--input={sequences}", f"--output_dir={vocabulary}", f"--gin_files={_GIN}/common.gin")
    trainer.run("tools.generate_vocab", *words)
    trainer.run("rl.train_bc", *_options(cloning, sequences, cloned))
    return Cloned(
        model=_saved(cloned, corpus),
        decisions=len(recorded),
        iterations=iterations,
        agreement=trainer.ask("agreement", decisions, cloned / "saved_policy"),
    )


def reinforce(
    trainer: Checkout,
    cloned: Cloned,
    folder: Path,
    corpus: Corpus,
    trace: Trace,
    clang: Path,
    output: Path,
    *,
    iterations: int,
) -> Cloned:
    """Go on from a clone by PPO.

    In each iteration, the training modules are compiled by a policy that explores, and it is changed by what they cost.

    :param folder: of the corpus
    :param clang: in development mode
    :param output: of :func:`clone`; the results of an earlier PPO are replaced
    :param iterations: the number of policies
    :raises UsageError: ``input-invalid``
    :raises MachineError: ``no-python``, ``program-failed``
    """
    output = output.absolute()
    modules, configuration, reinforced = output / "corpus", output / "ppo.gin", output / "ppo"
    rows = min(trace.decisions // (_PARTS * _ROW), _ROWS)
    if rows == 0:
        raise UsageError(
            "input-invalid",
            f"the trace has {trace.decisions} decisions, and PPO needs {_PARTS * _ROW}",
            remedy="make a corpus of more or larger modules",
        )
    steps = min(_TIMES * trace.decisions // (rows * _ROW), _PPO_STEPS)
    write_corpus(modules, corpus.training, folder)
    bindings = {
        _VOCABULARY: output / "vocab",
        "clang_path": clang,
        _WARM_START: cloned.model,
        _STEPS: steps,
        "train_eval.num_policy_iterations": iterations,
        "train_eval.num_modules": len(corpus.training),
        "train_eval.batch_size": rows,
        "Trainer.summary_export_interval": steps,  # so it notes the rewards of each iteration
    }
    write_atomically(configuration, gin("ppo_nn_agent", bindings))
    _discard(reinforced)
    trainer.run("rl.train_locally", *_options(configuration, modules, reinforced), budget=_PATIENCE * iterations)
    rewards = tuple(trainer.ask("rewards", reinforced))
    return replace(cloned, reinforced=_saved(reinforced, corpus), rewards=rewards)


def _discard(*folders: Path) -> None:
    """Remove results of an earlier run: its programs go on with what they find there."""
    for folder in folders:
        if folder.exists():
            remove_folder(folder)


def _saved(root: Path, corpus: Corpus) -> Path:
    """The saved model that a program wrote, which is told the corpus that it was trained on."""
    model = root / "saved_policy"
    trained = Trained(problem=corpus.problem, llvm=corpus.llvm, corpus=corpus.digest)
    write_atomically(model / trained.FILE, trained.to_text())
    return model


def _options(configuration: Path, data: Path, root: Path) -> tuple[str, ...]:
    return (f"--gin_files={configuration}", f"--data_path={data}", f"--root_dir={root}")


def gin(name: str, bindings: Mapping[str, object]) -> str:
    """A configuration: ml-compiler-opt's own of that name, with other bindings. Paths are written as text."""
    lines = [f"{key} = {value if isinstance(value, int) else str(value)!r}" for key, value in bindings.items()]
    return "\n".join([f"include '{_GIN}/{name}.gin'", *lines, ""])


def write_corpus(target: Path, modules: Sequence[Module], folder: Path) -> None:
    """Write modules as ml-compiler-opt reads a corpus: links to the bitcode, and beside each a command.

    :param folder: of the corpus
    """
    _discard(target)
    for module in modules:
        bitcode = target / f"{module.name}.bc"
        bitcode.parent.mkdir(parents=True, exist_ok=True)
        bitcode.symlink_to((folder / module.bitcode).absolute())
        (target / f"{module.name}.cmd").write_text("\0".join(generating(module.flags)), encoding="utf-8")
    description = {"modules": [module.name for module in modules], "has_thinlto": False}
    (target / "corpus_description.json").write_text(json.dumps(description, indent=1), encoding="utf-8")


def tensors(recorded: Recorded, features: Sequence[str], signature: ModelSignature) -> dict[str, NDArray[Any]]:
    """Decisions as the compiler sends them: for each feature (decisions, positions), or (decisions).

    Which register a position was is not recorded: those that may be chosen come first. The model scores each by its own
    features, so their order is nothing to it. The last one stays that of evicting nothing.

    :param features: columns of the rows
    :raises UsageError: ``input-invalid``
    :raises VerificationError: ``model-unsuitable``
    """
    if len(recorded) < _FEWEST:
        raise UsageError(
            "input-invalid",
            f"the trace has {len(recorded)} decisions, and ml-compiler-opt takes no sequence of fewer than {_FEWEST}",
            remedy="make a corpus of more or larger modules",
        )
    inputs, wanted = features[:-1], signature.features
    widest = max(len(decision.rows) for decision, _ in recorded)
    if {MASK, *inputs} != wanted.keys() or widest > wanted[MASK][1][0]:
        odd = {MASK, *inputs} ^ wanted.keys()
        raise VerificationError(
            "model-unsuitable",
            "ml-compiler-opt's model is asked something else than this compiler's policies",
            why=f"only one of both has {', '.join(sorted(odd))}" if odd else f"it has no {widest} positions",
            remedy="take a commit of ml-compiler-opt of the time of this LLVM's release",
        )
    positions = wanted[MASK][1][0]
    rows, mask = np.zeros((len(recorded), positions, len(features))), np.zeros((len(recorded), positions))
    chosen = np.zeros(len(recorded), np.int64)
    for index, (decision, one) in enumerate(recorded):
        slots = np.where(decision.rows[:, -1] > 0, positions - 1, np.arange(len(decision.rows)))
        rows[index, slots], mask[index, slots], chosen[index] = decision.rows, 1, slots[one]
    first = np.array([decision.rows[0] for decision, _ in recorded])
    found = {name: rows[:, :, at] if wanted[name][1] else first[:, at] for at, name in enumerate(inputs)}
    typed = {name: values.astype(wanted[name][0]) for name, values in (found | {MASK: mask}).items()}
    return typed | {signature.choice: chosen, "reward": np.zeros(len(recorded), np.float32)}
