"""A saved model answers the real compiler. A stand-in plays TensorFlow; the real one is in test_ml_compiler_opt.py."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.extras.mlgo.compiling import Compiler
from mlir_release.extras.mlgo.corpora.corpus import load_corpus
from mlir_release.extras.mlgo.documents import Trained
from mlir_release.extras.mlgo.embed import asked
from mlir_release.extras.mlgo.toolchain import Toolchain
from mlir_release.extras.mlgo.training.saved_model import CONTENT, opened
from tests.extras.integration.mlgo.conftest import error_of, mlgo, said

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.extras.mlgo.features import Chooser, Layout

#: NumPy's names of the compiler's types.
SIZES = {"float": "float32", "int64_t": "int64"}

#: Its models choose the first position that the mask allows, or, if they say so, the first that it does not.
TENSORFLOW = """
import json, pathlib, types
from contextlib import nullcontext
import numpy as np

__version__ = "0"
inputs = {}

class Named(types.SimpleNamespace):
    pass

def as_dtype(name):
    return np.dtype(name)

def load(session, tags, folder):
    about = json.loads((pathlib.Path(folder) / "saved_model.pb").read_text())
    session.about = about
    def tensor(name, type, size):
        shape = Named(dim=[Named(size=each) for each in size])
        return Named(name=name + ":0", dtype=type, tensor_shape=shape)
    given = {name: tensor(name, *rest) for name, rest in about["inputs"].items()}
    return Named(signature_def={"action": Named(inputs=given, outputs={"choice": Named(name="choice:0")})})

class Session:
    def __init__(self, graph):
        pass
    def __enter__(self):
        return self
    def __exit__(self, *error):
        pass
    def make_callable(self, fetched, fed):
        mask = fed.index("mask:0")
        def act(*tensors):
            assert all(np.all(tensors[fed.index(f"{name}:0")] == 0) for name in ("reward", "step_type"))
            if self.about["chooses"] == "nothing":
                raise SystemExit(1)
            return np.array([int(np.argmax(tensors[mask][0] == (1 if self.about["chooses"] == "first" else 0)))])
        return act

Graph = object
compat = Named(v1=Named(Session=Session, saved_model=Named(loader=Named(load=load))))
"""


@pytest.fixture
def model(corpus: Path, llvm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model that takes the first position that it may, with the inputs of the compiler's and TF-Agents' own."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "tensorflow.py").write_text(TENSORFLOW)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    folder = tmp_path / "model"
    (folder / "variables").mkdir(parents=True)
    inputs = {
        each.name: (SIZES[each.type], [1, each.elements]) for each in asked(Toolchain(llvm)).features
    } | {"reward": ("float32", [1]), "step_type": ("int32", [1])}  # fmt: skip
    write(folder, inputs)
    loaded = load_corpus(corpus)
    (folder / Trained.FILE).write_text(Trained(llvm=loaded.llvm, corpus=loaded.digest).to_text())
    return folder


def write(folder: Path, inputs: dict[str, tuple[str, list[int]]] | None = None, chooses: str = "first") -> None:
    """Make a model of that, which keeps its inputs unless they are given."""
    path = folder / CONTENT
    kept = inputs or json.loads(path.read_text())["inputs"]
    path.write_text(json.dumps({"inputs": kept, "chooses": chooses}))


def test_it_is_evaluated_as_the_policy_that_it_is(corpus: Path, llvm: Path, model: Path) -> None:
    words = ("evaluate", corpus, "--llvm", llvm, "--policy", model, "--python", sys.executable, "--json")
    found = said(mlgo(*words))
    loaded = load_corpus(corpus)
    with opened(model, sys.executable) as answers:
        assert (found["policy"], answers.corpus) == (answers.digest, loaded.digest)
    compiler = Compiler(Toolchain(llvm), loaded, corpus)

    def first(_: Layout) -> Chooser:
        return lambda _: 0

    wanted = [compiler.compile(module, first, emit=True) for module in loaded.held_out]
    assert [row["policy"]["sha256"] for row in found["modules"]] == [one.sha256 for one in wanted]
    assert sum(one.decisions for one in wanted) > 10
    assert {row["default"]["sha256"] for row in found["modules"]}.isdisjoint(one.sha256 for one in wanted)


def test_its_digest_is_of_its_files_and_not_of_what_says_so(model: Path, tmp_path: Path) -> None:
    def digest(folder: Path) -> str:
        with opened(folder, sys.executable) as answers:
            return answers.digest

    shutil.copytree(model, tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / Trained.FILE).write_text(Trained(llvm="22.1.8", corpus="1" * 64).to_text())
    assert digest(tmp_path / "elsewhere") == digest(model)
    (tmp_path / "elsewhere" / "variables" / "weights").write_text("others")
    assert digest(tmp_path / "elsewhere") != digest(model)


def test_a_model_that_does_not_fit_is_refused(corpus: Path, llvm: Path, model: Path, tmp_path: Path) -> None:
    words = ("evaluate", corpus, "--llvm", llvm, "--python", sys.executable, "--policy")
    write(model, chooses="forbidden")
    error_of(*words, model, id="model-unsuitable", said=", which the compiler's mask does not allow")
    write(model, chooses="nothing")
    error_of(*words, model, id="no-python")
    write(model, {"mask": ("int64", [1, 33]), "unknown": ("float32", [1, 33])})
    error = error_of(*words, model, id="model-unsuitable", said="this compiler's features are not those of the policy:")
    assert "it does not send unknown" in error.why
    (model / Trained.FILE).write_text("{}")
    error_of(*words, model, id="input-invalid", said="can't be read:")
    (model / Trained.FILE).unlink()
    error_of(*words, model, id="input-invalid", said="the saved model does not say what it was trained on: it has no")
    error_of(*words, tmp_path, id="input-missing")


def test_an_interpreter_without_tensorflow_is_named(
    corpus: Path, llvm: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH")
    for python, why in ((sys.executable, "No module named"), (str(tmp_path / "none"), "No such file")):
        error = error_of("evaluate", corpus, "--llvm", llvm, "--policy", model, "--python", python)
        assert (error.id, error.where) == ("no-python", python)
        assert why in error.why
    error = error_of("embed", model, "--llvm", llvm, "-o", tmp_path / "out", "--python", sys.executable)
    assert error.id == "no-python"
    assert not (tmp_path / "out").exists()
