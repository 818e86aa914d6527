"""Corpus, trace, training and evaluation with a real llc, by the commands."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import msgspec
import pytest

from mlir_release.extras.mlgo.compiling import Compiler
from mlir_release.extras.mlgo.corpora.corpus import Selection, load_corpus, make_corpus
from mlir_release.extras.mlgo.documents import Corpus
from mlir_release.extras.mlgo.evaluate import evaluate, load_policy
from mlir_release.extras.mlgo.toolchain import Toolchain
from tests.extras.integration.mlgo.conftest import command, compilers_of, error_of, make_build, mlgo, programs, said
from tests.mounting import able_to_mount
from tests.prefix_factory import make_source
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.sources.debian import DebianPackages


@pytest.fixture(scope="module")
def corpus(llvm: Path, build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    found = said(mlgo("corpus", build, "-o", folder, "--llvm", llvm, "--held-out", "0.4", "--json"))
    assert [module["name"] for module in found["modules"]] == [f"m{index}.o" for index in range(5)]
    assert sum(module["held_out"] for module in found["modules"]) == 2
    assert found["modules"][0]["flags"] == ["-O3", "-relocation-model=pic", "-function-sections"]
    traced = said(mlgo("trace", folder, "--llvm", llvm, "--json"))
    assert traced["decisions"] > 50
    assert all(default["cost"] > 0 for default in traced["defaults"])
    return folder


def train(corpus: Path, output: Path, llvm: Path, *more: str) -> list[str]:
    return command("train", corpus, "-o", output, "--llvm", llvm, "--pairs", "1", "--generations", "3", *more)


@pytest.fixture(scope="module")
def trained(corpus: Path, llvm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    subprocess.run(train(corpus, folder, llvm), check=True, capture_output=True)
    return folder


def test_the_same_build_gives_the_same_corpus(corpus: Path, build: Path, llvm: Path, tmp_path: Path) -> None:
    assert make_corpus(build, tmp_path, Toolchain(llvm), Selection(share=0.4), jobs=1) == load_corpus(corpus)


def test_a_policy_is_compared_with_the_default(corpus: Path, trained: Path, llvm: Path) -> None:
    words = ("evaluate", corpus, "--policy", trained / "policy.json", "--llvm", llvm)
    found = said(mlgo(*words, "--json"))
    held_out = [module.name for module in load_corpus(corpus).held_out]
    assert [row["module"] for row in found["modules"]] == held_out
    assert found["cost"]["default"] == sum(row["default"]["cost"] for row in found["modules"])
    assert all(row["policy"]["decisions"] > 0 and row["policy"]["text"] > 0 for row in found["modules"])
    assert found["instructions"] is None
    assert not found["better"]  # no instructions were counted
    shown = mlgo(*words).stdout
    assert held_out[0] in shown
    assert f"verdict: {found['verdict']}" in shown
    assert said(mlgo(*words, "--json")) == found


def test_a_policy_is_evaluated_on_what_another_corpus_has_beyond_its_own(
    corpus: Path, trained: Path, build: Path, llvm: Path, tmp_path: Path
) -> None:
    """Cross-evaluation: a library that it was not trained on counts as a whole."""
    policy = ("--policy", trained / "policy.json", "--llvm", llvm, "--trained-on", corpus)
    other, seen = tmp_path / "other", [module.name for module in load_corpus(corpus).training]
    said(mlgo("corpus", build, "-o", other, "--llvm", llvm, "--objects", r"m\d\.o", "--json"))
    rows = said(mlgo("evaluate", other, *policy, "--json"))["modules"]
    assert [row["module"] for row in rows] == [module.name for module in load_corpus(corpus).held_out]
    assert "modules that it was not trained on" in mlgo("evaluate", other, *policy).stdout

    learnt = tmp_path / "learnt"
    said(mlgo("corpus", build, "-o", learnt, "--llvm", llvm, "--objects", "|".join(seen), "--json"))
    assert [module.name for module in load_corpus(learnt).modules] == seen
    error_of("evaluate", learnt, *policy, id="input-invalid", said="the policy was trained on all")
    error_of(
        "evaluate", corpus, *policy[:-1], learnt, id="input-invalid", said="the policy was not trained on the corpus"
    )
    assert mlgo("evaluate", other, *policy, "--training").exit_code == 2


def test_a_training_refuses_sources_of_another_llvm(corpus: Path, llvm: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    words = ("train", corpus, "-o", tmp_path / "out", "--llvm", llvm, "--source")
    error_of(*words, tmp_path / "empty", id="input-missing")
    error_of(*words, make_source(tmp_path / "other", version="19.1.7"), id="model-unsuitable")
    assert not (tmp_path / "out").exists()


def test_never_evicting_is_worse(corpus: Path, trained: Path, llvm: Path) -> None:
    """The measure sees a bad policy."""
    loaded = load_corpus(corpus)
    policy = load_policy(trained / "policy.json")
    never = msgspec.structs.replace(policy, weights=(*(0.0 for _ in policy.weights[1:]), 1.0))
    found = evaluate(never, loaded.modules, Compiler(Toolchain(llvm), loaded, corpus), seed=1)
    assert found.cost.relative > 1
    assert found.cost.worse
    assert found.verdict == "worse than the default beyond the noise: the default stays"


# -- kills --------------------------------------------------------------------------------------------------------


def test_a_trainer_that_is_killed_leaves_no_compiler_and_its_training_goes_on(
    corpus: Path, trained: Path, llvm: Path, tmp_path: Path
) -> None:
    killed_with_compiler = 0
    for delay in (0.0, 0.2, 0.4):
        with subprocess.Popen(train(corpus, tmp_path, llvm), stderr=subprocess.PIPE) as trainer:
            end = time.monotonic() + 120
            while not (running := compilers_of(corpus)) and trainer.poll() is None:
                assert time.monotonic() < end
                time.sleep(0.005)
            time.sleep(delay)
            killed_with_compiler += bool(running := compilers_of(corpus))
            trainer.send_signal(signal.SIGKILL)
        end = time.monotonic() + 30
        while compilers_of(corpus):
            assert time.monotonic() < end, f"compilers outlive the trainer: {running}"
            time.sleep(0.02)
    assert killed_with_compiler > 0
    subprocess.run(train(corpus, tmp_path, llvm), check=True, capture_output=True)
    for name in ("training.json", "policy.json"):
        assert (tmp_path / name).read_bytes() == (trained / name).read_bytes()


def test_a_training_can_be_made_longer(corpus: Path, trained: Path, llvm: Path, tmp_path: Path) -> None:
    for generations in ("1", "3"):
        done = train(corpus, tmp_path, llvm, "--generations", generations)
        subprocess.run(done, check=True, capture_output=True)
    assert (tmp_path / "training.json").read_bytes() == (trained / "training.json").read_bytes()


ON_A_SMALL_DISK = """
set -e
disk=$1; shift
mount -t tmpfs -o size=32k tmpfs "$disk"
"$@" --generations 1
cat /dev/zero > "$disk/full" || true
if "$@" --generations 3 --json > "$disk.error"; then exit 9; fi
rm "$disk/full"
"$@" --generations 3
cp "$disk"/*.json "$disk.result"
"""


def test_a_training_on_a_full_disk_goes_on_when_there_is_room(
    corpus: Path, trained: Path, llvm: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    for folder in (disk, tmp_path / "disk.result"):
        folder.mkdir()
    words = [*able_to_mount(disk), "sh", "-c", ON_A_SMALL_DISK, "sh", str(disk), *train(corpus, disk, llvm)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    error = json.loads((tmp_path / "disk.error").read_text())
    assert (error["error"], error["where"]) == ("disk-full", str(disk))
    assert "No space left on device" in error["why"]
    for name in ("training.json", "policy.json"):
        assert (tmp_path / "disk.result" / name).read_bytes() == (trained / name).read_bytes()


# -- bad input ----------------------------------------------------------------------------------------------------


def test_a_command_that_no_longer_works_is_named(llvm: Path, tmp_path: Path) -> None:
    gone = make_build(llvm, tmp_path / "build", count=2, extra="-fprofile-instrument-use-path=gone.profdata")
    error = error_of("corpus", gone, "-o", tmp_path / "corpus", "--llvm", llvm)
    assert (error.id, error.why) == ("model-unsuitable", "error: could not read profile")
    assert not (tmp_path / "corpus" / Corpus.FILE).exists()


def test_modules_without_a_profile_are_refused_where_one_is_asked_for(build: Path, llvm: Path, tmp_path: Path) -> None:
    error = error_of("corpus", build, "-o", tmp_path / "corpus", "--llvm", llvm, "--profiled")
    assert (error.id, error.where) == ("model-unsuitable", "m0.o")
    (tmp_path / "here.profdata").touch()
    profiled = make_build(llvm, tmp_path / "build", extra=f"-fprofile-instrument-use-path={tmp_path / 'here.profdata'}")
    found = said(mlgo("corpus", profiled, "-o", tmp_path / "corpus", "--llvm", llvm, "--profiled", "--json"))
    assert len(found["modules"]) == 5


def test_a_build_without_bitcode_is_too_small(llvm: Path, build: Path, tmp_path: Path) -> None:
    words = ("corpus", build, "-o", tmp_path, "--llvm", llvm, "--filter", "^-O1$")
    said = "modules of different content are too few to train on some and hold out others"
    error_of(*words, id="input-invalid", said=said)


def test_a_filter_that_is_no_expression_is_explained(llvm: Path, build: Path, tmp_path: Path) -> None:
    words = ("corpus", build, "-o", tmp_path, "--llvm", llvm)
    error_of(*words, "--filter", "(", id="program-failed")
    error_of(*words, "--objects", "(", id="option-invalid")


def test_bitcode_that_was_changed_is_refused(corpus: Path, llvm: Path, tmp_path: Path) -> None:
    (tmp_path / Corpus.FILE).write_text((corpus / Corpus.FILE).read_text())
    error_of("trace", tmp_path, "--llvm", llvm, id="file-damaged")


def test_a_corpus_of_another_llvm_is_refused(corpus: Path, packages: DebianPackages, tmp_path: Path) -> None:
    older = programs(packages, min(packages.versions()), tmp_path / "older")
    error_of("trace", corpus, "--llvm", older, id="model-unsuitable", said="the corpus is bitcode of LLVM")


def test_bitcode_that_llc_cannot_read_is_refused(corpus: Path, packages: DebianPackages, tmp_path: Path) -> None:
    older = Toolchain(programs(packages, min(packages.versions()), tmp_path / "older"))
    loaded = msgspec.structs.replace(load_corpus(corpus), llvm=older.version)
    given = Compiler(older, loaded, corpus)
    error = refused(lambda: given.compile(loaded.modules[0]), "model-unsuitable", "can't read the bitcode of")
    assert f"Reader: 'LLVM {older.version}'" in error.why


def test_a_policy_of_other_features_is_refused(corpus: Path, trained: Path, llvm: Path, tmp_path: Path) -> None:
    policy = load_policy(trained / "policy.json")
    renamed = msgspec.structs.replace(policy, features=("is_purple", *policy.features[1:]))
    (tmp_path / "policy.json").write_text(renamed.to_text())
    words = ("evaluate", corpus, "--policy", tmp_path / "policy.json", "--llvm", llvm)
    error_of(*words, id="model-unsuitable", said="this compiler's features are not those of the policy:")
    assert compilers_of(corpus) == []


def test_without_a_trace_or_a_policy_nothing_begins(corpus: Path, llvm: Path, tmp_path: Path) -> None:
    words = ("evaluate", corpus, "--policy", tmp_path / "policy.json", "--llvm", llvm)
    error_of(*words, id="input-missing", said="there is no policy to evaluate")
    (tmp_path / Corpus.FILE).write_text((corpus / Corpus.FILE).read_text())
    words = ("train", tmp_path, "-o", tmp_path / "run", "--llvm", llvm)
    error_of(*words, id="input-missing", said="the corpus has not been traced")


def test_a_trace_of_another_corpus_is_refused(corpus: Path, llvm: Path, tmp_path: Path) -> None:
    for name in ("trace.json", "decisions.npz"):
        (tmp_path / name).write_bytes((corpus / name).read_bytes())
    loaded = load_corpus(corpus)
    (tmp_path / Corpus.FILE).write_text(msgspec.structs.replace(loaded, share=0.5).to_text())
    error = error_of("train", tmp_path, "-o", tmp_path / "run", "--llvm", llvm)
    assert "the trace is of another corpus" in error.what


def test_a_prefix_without_programs_is_refused(corpus: Path, tmp_path: Path) -> None:
    error_of("trace", corpus, "--llvm", tmp_path, id="tool-missing")
