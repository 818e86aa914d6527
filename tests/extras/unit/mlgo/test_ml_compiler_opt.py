"""What google/ml-compiler-opt is given: tensors, configurations, a corpus, commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mlir_release.extras.mlgo.documents import Corpus, Module, Trace, Trained
from mlir_release.extras.mlgo.training.ml_compiler_opt import (
    Checkout,
    Cloned,
    ModelSignature,
    clone,
    gin,
    reinforce,
    tensors,
    write_corpus,
)
from mlir_release.extras.mlgo.training.saved_model import interpreter
from mlir_release.extras.mlgo.training.trace import save_decisions
from mlir_release.ground.python.pythons import describe
from tests.extras.unit.mlgo.policy_factory import FEATURES, decision
from tests.refusals import refused

#: As ml-compiler-opt's, with four positions, and a feature that all positions share.
SIGNATURE = ModelSignature(
    {
        "mask": ("int64", [4]),
        "is_free": ("int64", [4]),
        "is_hint": ("int64", [4]),
        "nr_broken_hints": ("float32", [4]),
        "use_def_density": ("float32", []),
    },
    "index_to_evict",
)
RECORDED = [
    (decision([1, 0, 0, 0.5, 0], [0, 1, 3, 0.5, 0]), 0),
    (decision([0, 0, 2, 0.25, 0], [0, 0, 1, 0.25, 1]), 1),
    (decision([0, 0, 0, 0.75, 0]), 0),
]


def test_decisions_become_tensors_of_the_types_that_are_asked() -> None:
    found = tensors(RECORDED, FEATURES, SIGNATURE)
    assert found["mask"].tolist() == [[1, 1, 0, 0], [1, 0, 0, 1], [1, 0, 0, 0]]
    assert found["is_free"].tolist() == [[1, 0, 0, 0], [0] * 4, [0] * 4]
    assert found["nr_broken_hints"].tolist() == [[0, 3, 0, 0], [2, 0, 0, 1], [0] * 4]
    assert found["use_def_density"].tolist() == [0.5, 0.25, 0.75], "the same for all positions"
    assert found["index_to_evict"].tolist() == [0, 3, 0], "nothing is evicted: the last position"
    assert {name: str(values.dtype) for name, values in found.items()} == {
        name: kind for name, (kind, _) in SIGNATURE.features.items()
    } | {"index_to_evict": "int64", "reward": "float32"}
    assert all(len(values) == 3 for values in found.values())


@pytest.mark.parametrize(
    ("features", "signature", "why"),
    [
        (("is_free", "another", *FEATURES[2:]), SIGNATURE, "only one of both has another, is_hint"),
        (FEATURES, SIGNATURE._replace(features=dict.fromkeys(SIGNATURE.features, ("int64", [1]))), "no 2 positions"),
        (FEATURES, SIGNATURE._replace(features={"callee_users": ("int64", [])}), "callee_users"),
    ],
)
def test_a_model_of_another_compiler_is_refused(features: tuple[str, ...], signature: ModelSignature, why: str) -> None:
    error = refused(lambda: tensors(RECORDED, features, signature), "model-unsuitable")
    assert why in error.why


def test_too_few_decisions_are_refused_because_the_trainer_would_wait_for_others() -> None:
    refused(lambda: tensors(RECORDED[:2], FEATURES, SIGNATURE), "input-invalid")


def test_a_configuration_includes_the_trainers_own_and_quotes_paths(tmp_path: Path) -> None:
    quoted = tmp_path / "it's"
    lines = gin("ppo_nn_agent", {"clang_path": quoted, "train_eval.num_iterations": 7}).splitlines()
    assert lines[0] == "include 'compiler_opt/rl/regalloc/gin_configs/ppo_nn_agent.gin'"
    assert lines[1:] == [f"clang_path = {str(quoted)!r}", "train_eval.num_iterations = 7"]


def test_a_corpus_links_to_the_bitcode_and_says_how_code_is_generated(tmp_path: Path) -> None:
    corpus, target = tmp_path / "corpus", tmp_path / "run" / "corpus"
    module = Module(name="lib/a.o", bitcode="bitcode/lib/a.o.bc", sha256="0" * 64, flags=("-O3",), held_out=False)
    (corpus / module.bitcode).parent.mkdir(parents=True)
    (corpus / module.bitcode).write_bytes(b"BC")
    for modules in (
        [module, module.__class__(name="gone", bitcode="x", sha256="0" * 64, flags=(), held_out=False)],
        [module],
    ):
        write_corpus(target, modules, corpus)
    description = json.loads((target / "corpus_description.json").read_text())
    assert description == {"modules": ["lib/a.o"], "has_thinlto": False}
    assert (target / "lib" / "a.o.bc").read_bytes() == b"BC"
    assert (target / "lib" / "a.o.cmd").read_text() == "-cc1\0-emit-obj\0-disable-llvm-passes\0-O3"
    assert not (target / "gone.cmd").exists(), "of an earlier run"


def test_a_folder_that_is_no_checkout_says_how_to_get_one(tmp_path: Path) -> None:
    error = refused(lambda: Checkout(tmp_path, "python3", tmp_path / "log"), "input-missing")
    assert "git clone https://github.com/google/ml-compiler-opt" in error.remedy


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """What looks like a checkout, and a CPython without TensorFlow."""
    (tmp_path / "compiler_opt" / "rl").mkdir(parents=True)
    (tmp_path / "compiler_opt" / "rl" / "train_bc.py").write_text("import tensorflow")
    return Checkout(tmp_path, sys.executable, tmp_path / "log")


def test_an_interpreter_without_tensorflow_is_named(checkout: Checkout) -> None:
    error = refused(lambda: checkout.ask("signature"), "no-python")
    assert error.where == sys.executable
    assert "No module named" in error.why


def test_an_interpreter_is_found_from_where_it_was_named(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path / "here")
    named = Checkout(checkout.folder, "./python", checkout.log)
    assert named.command("rl.train_bc")[0] == str(tmp_path / "here" / "python"), "a virtual environment's stays a link"
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert describe(Path(interpreter(version))).short_version == version
    refused(lambda: interpreter("no-such-python"), "python-missing")


def test_a_program_that_fails_shows_the_end_of_its_log(checkout: Checkout) -> None:
    error = refused(lambda: checkout.run("rl.train_bc", "--root_dir=run"), "program-failed")
    assert "No module named 'tensorflow'" in error.why


class Obedient(Checkout):
    """Notes what it is asked to run, and has run it."""

    def __post_init__(self) -> None:
        self.done: list[tuple[str, ...]]
        object.__setattr__(self, "done", [])

    def ask(self, *words: str | Path) -> Any:
        self.done.append(tuple(map(str, words)))
        said = {"signature": SIGNATURE._asdict(), "write": None, "agreement": 0.75, "rewards": [-0.02, 0.01]}
        return said[str(words[0])]

    def run(self, program: str, *options: str, budget: float | None = None) -> None:
        self.done.append((program, *options, *([f"{budget:g} s"] if budget else [])))


MODULES = tuple(
    Module(name=name, bitcode=f"{name}.bc", sha256="0" * 64, flags=("-O3",), held_out=name == "b.o")
    for name in ("a.o", "b.o")
)
CORPUS = Corpus(llvm="22.1.8", share=0.5, modules=MODULES)
TRACE = Trace(
    llvm="22.1.8", corpus=CORPUS.digest, features=FEATURES, mean=(0.0,) * 5, deviation=(1.0,) * 5, decisions=3,
    identical=1, defaults=(),
)  # fmt: skip


def test_a_trace_is_cloned(tmp_path: Path) -> None:
    save_decisions(tmp_path, RECORDED)
    root = tmp_path / "run"
    (root / "vocab").mkdir(parents=True)
    (root / "vocab" / "earlier").write_text("")
    trainer = Obedient(tmp_path, "python3", tmp_path / "log")
    found = clone(trainer, tmp_path, CORPUS, TRACE, root, iterations=7)
    assert trainer.done == [
        ("signature",),
        ("write", f"{root}/decisions.npz", f"{root}/default_trace"),
        ("tools.generate_vocab", f"--input={root}/default_trace", f"--output_dir={root}/vocab",
         "--gin_files=compiler_opt/rl/regalloc/gin_configs/common.gin"),
        ("rl.train_bc", f"--gin_files={root}/behavioral-cloning.gin", f"--data_path={root}/default_trace",
         f"--root_dir={root}/behavioral-cloning"),
        ("agreement", f"{root}/decisions.npz", f"{root}/behavioral-cloning/saved_policy"),
    ]  # fmt: skip
    assert not (root / "vocab").exists(), "of an earlier run"
    assert "num_iterations = 7" in (root / "behavioral-cloning.gin").read_text()
    trained = Trained.from_text((found.model / Trained.FILE).read_bytes(), where="here")
    assert (trained.corpus, trained.llvm) == (CORPUS.digest, "22.1.8")
    assert (found.decisions, found.iterations, found.agreement) == (3, 7, 0.75)
    assert (found.reinforced, found.rewards) == (None, ())


CLONED = Cloned(model=Path("/run/saved_policy"), decisions=3, iterations=7, agreement=0.75)


@pytest.mark.parametrize(
    ("decisions", "rows", "steps"), [(128, 1, 24), (8261, 64, 24), (40_000, 256, 29), (10_000_000, 256, 200)]
)
def test_ppo_goes_on_from_the_clone(tmp_path: Path, decisions: int, rows: int, steps: int) -> None:
    root, trainer = tmp_path / "run", Obedient(tmp_path, "python3", tmp_path / "log")
    (root / "ppo").mkdir(parents=True)
    (root / "ppo" / "checkpoint").write_text("an earlier run's, which it refuses beside a warm start")
    traced = msgspec.structs.replace(TRACE, decisions=decisions)
    found = reinforce(trainer, CLONED, tmp_path, CORPUS, traced, Path("/dev/bin/clang"), root, iterations=3)
    assert trainer.done == [
        ("rl.train_locally", f"--gin_files={root}/ppo.gin", f"--data_path={root}/corpus", f"--root_dir={root}/ppo",
         "1800 s"),
        ("rewards", f"{root}/ppo"),
    ]  # fmt: skip
    assert not (root / "ppo" / "checkpoint").exists()
    assert json.loads((root / "corpus" / "corpus_description.json").read_text())["modules"] == ["a.o"]
    lines = (root / "ppo.gin").read_text().splitlines()
    assert {
        "clang_path = '/dev/bin/clang'",
        "train_eval.warmstart_policy_dir = '/run/saved_policy'",
        "train_eval.num_policy_iterations = 3",
        "train_eval.num_modules = 1",
        f"train_eval.batch_size = {rows}",
        f"train_eval.num_iterations = {steps}",
        f"Trainer.summary_export_interval = {steps}",
    } <= set(lines)
    assert (found.reinforced, found.rewards) == (root / "ppo" / "saved_policy", (-0.02, 0.01))
    assert (root / "ppo" / "saved_policy" / Trained.FILE).is_file()


def test_too_few_decisions_for_a_step_of_ppo_are_refused_because_it_would_wait_for_others(tmp_path: Path) -> None:
    trainer = Obedient(tmp_path, "python3", tmp_path / "log")
    given = (trainer, CLONED, tmp_path, CORPUS, TRACE, Path("clang"), tmp_path / "run")
    refused(lambda: reinforce(*given, iterations=1), "input-invalid", "the trace has 3 decisions, and PPO needs 128")
    assert trainer.done == []
