"""Compilers in development mode: their training log, what they are linked with, and which are refused.

``eviction.log.gz`` was written by llc 22.1.8 in development mode, for the functions of ``loops(0)`` in the integration
tests' ``conftest.py``.
"""

from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.extras.mlgo.linking import LlvmSources
from mlir_release.extras.mlgo.problems import EVICTION, INLINING
from mlir_release.extras.mlgo.toolchain import Toolchain
from mlir_release.extras.mlgo.training import development
from mlir_release.extras.mlgo.training.development import TFLite, developing, link, replay
from mlir_release.extras.mlgo.training.trace import Recorder, sample
from tests.extras.unit.mlgo.test_report import CORPUS
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlir_release.extras.mlgo.features import Chooser, Decision, Layout

LOG = gzip.decompress(Path(__file__).with_name("eviction.log.gz").read_bytes())
HEADER, _, REST = LOG.partition(b"\n")

#: The bytes of a decision of this LLVM: positions of each feature, the progress, and the choice.
SIZE = 33 * (6 * 8 + 14 * 4) + 4 + 8


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log").write_bytes(LOG)
    return tmp_path / "log"


def shown(path: Path) -> list[Decision]:
    found: list[Decision] = []

    def maker(layout: Layout) -> Chooser:
        def choose(decision: Decision) -> int:
            found.append(decision)
            return 0

        return choose

    assert replay(path, EVICTION, maker) == len(found)
    return found


def test_the_compilers_own_choices_are_read(log: Path) -> None:
    found = shown(log)
    choices = [int(decision.positions[decision.default or 0]) for decision in found]
    assert len(found) == 34
    assert {32} < set(choices), "it evicts a range, or nothing"
    assert all(decision.default is not None for decision in found)
    assert found[0].rows.shape[1] == 21


def test_a_recorder_notes_the_choice_that_was_made(log: Path) -> None:
    recorder = Recorder(lambda features: lambda decision: decision.default or 0)
    replay(log, EVICTION, recorder.around)
    assert [chosen for _, chosen in recorder.sample] == [decision.default for decision in shown(log)]
    assert recorder.rows == sum(len(decision.rows) for decision in shown(log))


def test_a_module_without_decisions_has_a_log_of_a_header(log: Path) -> None:
    log.write_bytes(HEADER + b"\n")
    assert shown(log) == []


@pytest.mark.parametrize(
    "kept",
    [0, 100, len(HEADER), len(HEADER) + 30, len(LOG) - 1, len(LOG) - 4, len(LOG) - 20, len(LOG) // 2],
)
def test_a_truncated_log_is_refused(log: Path, kept: int) -> None:
    log.write_bytes(LOG[:kept])
    assert refused(lambda: shown(log), "file-damaged").why == "it ends too early"


def first_memory() -> int:
    """Where the first decision's memory begins."""
    return LOG.index(b'{"observation":0}\n') + len(b'{"observation":0}\n')


def test_a_choice_that_the_mask_does_not_allow_is_refused(log: Path) -> None:
    end = first_memory() + SIZE
    assert LOG[end : end + 1] == b"\n"
    log.write_bytes(LOG[: end - 8] + struct.pack("=q", 31) + LOG[end:])
    assert "has the choice 31" in refused(lambda: shown(log), "file-damaged").why


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        pytest.param(
            lambda log, at: log[: at + SIZE] + b"x" + log[at + SIZE + 1 :], "an observation ends with", id="end"
        ),
        pytest.param(lambda log, at: log[: at + SIZE - 1] + log[at + SIZE :], "an observation ends with", id="shorter"),
        pytest.param(
            lambda log, at: log.replace(b'"outcome"', b'"success"', 1), "an event of another kind", id="event"
        ),
        pytest.param(lambda log, at: log.replace(b'"int64_t"', b'"int65_t"', 1), "the type 'int65_t'", id="type"),
        pytest.param(
            lambda log, at: log[: at + SIZE - 12] + struct.pack("=f", math.nan) + log[at + SIZE - 8 :],
            "NaN for the feature progress",
            id="NaN",
        ),
    ],
)
def test_a_damaged_log_is_refused(log: Path, damage: Callable[[bytes, int], bytes], said: str) -> None:
    log.write_bytes(damage(LOG, first_memory()))
    assert said in refused(lambda: shown(log), "model-unsuitable").what


def test_the_log_of_another_problem_is_refused(log: Path) -> None:
    refused(lambda: replay(log, INLINING, lambda layout: lambda decision: 0), "model-unsuitable", "this compiler's")
    log.write_bytes(LOG.replace(b'"mask"', b'"masq"'))
    refused(lambda: shown(log), "model-unsuitable", "this compiler's features are not those")


def test_questions_of_the_interactive_mode_are_no_training_log(log: Path) -> None:
    header = HEADER.replace(b'"score"', b'"advice"').replace(
        b'"float","port":0,"shape":[1]}}', b'"int64_t","shape":[1]}}'
    )
    at = first_memory()
    log.write_bytes(header + b'\n{"observation":0}\n' + LOG[at : at + SIZE + 1])
    assert "no choice" in refused(lambda: shown(log), "file-damaged").why


# -- TFLite -----------------------------------------------------------------------------------------------------------


def install(prefix: Path, *names: str) -> Path:
    for name in names:
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).write_text("")
    return prefix


INTERPRETER, FLATBUFFERS = "tensorflow/lite/interpreter.h", "flatbuffers/flatbuffers.h"


@pytest.mark.parametrize(
    ("headers", "library"),
    [
        ("include/", "lib/x86_64-linux-gnu/libtensorflow-lite.so"),
        ("include/", "lib/libtensorflowlite.so"),
        ("include/", "lib64/libtensorflow-lite.so"),
        ("", "libtensorflow_cc.so.2"),
    ],
)
def test_tflite_is_found_where_packages_and_builds_put_it(tmp_path: Path, headers: str, library: str) -> None:
    install(tmp_path, f"{headers}{INTERPRETER}", f"{headers}{FLATBUFFERS}", library)
    assert TFLite.find(tmp_path) == TFLite(tmp_path / headers, tmp_path / library)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "this folder has no headers of TFLite"),
        ((f"include/{INTERPRETER}", "lib/libtensorflow-lite.so"), "this folder has no headers of TFLite"),
        ((f"include/{INTERPRETER}", f"include/{FLATBUFFERS}"), "this folder has no libtensorflow-lite.so or"),
    ],
)
def test_a_folder_without_all_of_tflite_is_refused(tmp_path: Path, names: tuple[str, ...], said: str) -> None:
    error = refused(lambda: TFLite.find(install(tmp_path, *names)), "tool-missing", said)
    assert (error.where, "libtensorflow-lite-dev" in error.remedy) == (str(tmp_path), True)


# -- compilers --------------------------------------------------------------------------------------------------------

#: Answers as a compiler of LLVM 22.1.8.
PROGRAM = """#!/bin/sh
for last do :; done
case $last in
  --version) echo "  LLVM version {version}" ;;
  --help-hidden) echo "{options}" ;;
esac
"""


def program(path: Path, version: str = "22.1.8", options: str = "-regalloc-training-log=<string>") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PROGRAM.format(version=version, options=options))
    path.chmod(0o755)
    return path


@pytest.fixture
def toolchain(tmp_path: Path) -> Toolchain:
    program(tmp_path / "llvm" / "bin" / "llc", options="")
    return Toolchain(tmp_path / "llvm")


@pytest.mark.parametrize("name", ["llc", "clang"])
def test_a_compiler_in_development_mode_is_found(tmp_path: Path, toolchain: Toolchain, name: str) -> None:
    program(tmp_path / name)
    assert developing(tmp_path, name, toolchain) == tmp_path / name


@pytest.mark.parametrize(
    ("given", "id", "said"),
    [
        (None, "input-missing", "this folder has no llc"),
        ({"version": "21.1.0"}, "input-invalid", "this llc is not of LLVM 22.1.8"),
        ({"version": "22.1.80"}, "input-invalid", "this llc is not of LLVM 22.1.8"),
        ({"options": "-regalloc-enable-advisor"}, "input-invalid", "this llc has no development mode"),
    ],
)
def test_another_compiler_is_refused(
    tmp_path: Path, toolchain: Toolchain, given: dict[str, str] | None, id: str, said: str
) -> None:
    if given is not None:
        program(tmp_path / "llc", **given)
    error = refused(lambda: developing(tmp_path, "llc", toolchain), id, said)
    assert "mlgo development" in error.remedy


def test_a_program_that_does_not_start_is_refused(tmp_path: Path, toolchain: Toolchain) -> None:
    (tmp_path / "llc").write_text("#!/nowhere/sh\n")
    (tmp_path / "llc").chmod(0o755)
    refused(lambda: developing(tmp_path, "llc", toolchain), "input-invalid")
    (tmp_path / "llc").chmod(0o644)
    refused(lambda: developing(tmp_path, "llc", toolchain), "input-invalid")


def test_sources_of_another_version_are_refused(tmp_path: Path, toolchain: Toolchain) -> None:
    given = (
        toolchain,
        LlvmSources(tmp_path, "21.1.0"),
        TFLite(tmp_path, tmp_path / "libtensorflow-lite.so"),
        tmp_path / "out",
    )
    refused(lambda: link(*given), "model-unsuitable", "these are the sources of LLVM 21.1.0")
    assert not (tmp_path / "out").exists()


def test_a_library_of_another_system_is_noticed(
    tmp_path: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The linker takes a library that needs a newer system than this one."""
    made: list[tuple[str, dict[str, Any]]] = []

    def linked(name: str, *given: object, **named: Any) -> Path:
        made.append((name, named))
        path = tmp_path / "out" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\necho version GLIBC_2.99 not found >&2; exit 1\n")
        path.chmod(0o755)
        return path

    monkeypatch.setattr(development, "link_program", linked)
    tflite = TFLite(tmp_path / "headers", tmp_path / "lib" / "libtensorflow-lite.so")
    sources = LlvmSources(tmp_path, "22.1.8")
    error = refused(lambda: link(toolchain, sources, tflite, tmp_path / "out"), "program-failed", "doesn't start")
    assert (error.why, "--tflite" in error.remedy) == ("version GLIBC_2.99 not found", True)
    ((name, named),) = made
    assert name == "clang", "the one that needs more packages"
    assert named["given"] == [tflite.library, f"-Wl,-rpath,{tmp_path / 'lib'}"]
    assert len(named["again"]) == 8
    for options in named["again"].values():
        assert options[0] == "-DLLVM_HAVE_TFLITE"
        assert options[-1] == tflite.headers


# -- the sample -------------------------------------------------------------------------------------------------------


def test_a_sample_depends_on_the_modules_names_alone() -> None:
    modules = CORPUS.modules
    for rate in (0.01, 0.5, 1.0):
        taken = sample(modules, rate)
        assert taken == sample(modules[::-1], rate)
        assert len(taken) == max(1, round(rate * len(modules)))
        assert taken <= sample(modules, 1.0), "a larger share has all of a smaller one"
