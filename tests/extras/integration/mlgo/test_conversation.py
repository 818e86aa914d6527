"""Conversations that end otherwise than both sides meant."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.extras.mlgo.conversation import converse
from mlir_release.extras.mlgo.problems import EVICTION
from mlir_release.ground.errors import ReleaseError, VerificationError
from mlir_release.ground.programs.process import capture
from tests.extras.integration.mlgo.conftest import compilers_of, function
from tests.processes import wait_for_end
from tests.refusals import refused

if TYPE_CHECKING:
    from mlir_release.extras.mlgo.features import Chooser, Decision, Layout


@pytest.fixture
def llc(llvm: Path, tmp_path: Path) -> list[str | Path]:
    source = tmp_path / "module.ll"
    source.write_text('target triple = "x86_64-pc-linux-gnu"\n' + function("f", 24, 3))
    return [llvm / "bin" / "llc", "-O3", "-filetype=null", source]


def first(layout: Layout) -> Chooser:
    def choose(decision: Decision) -> int:
        return 0

    return choose


def test_the_compiler_is_answered_to_the_end(llc: list[str | Path]) -> None:
    found = converse(llc, EVICTION, first)
    assert found.code == 0, found.errors
    assert found.decisions > 10
    assert converse(llc, EVICTION, first) == found


def test_a_module_without_decisions_ends_too(llvm: Path, tmp_path: Path) -> None:
    source = tmp_path / "module.ll"
    source.write_text('target triple = "x86_64-pc-linux-gnu"\ndefine void @f() {\n  ret void\n}\n')
    assert converse([llvm / "bin" / "llc", "-O3", "-filetype=null", source], EVICTION, first).decisions == 0


def test_a_compiler_that_is_killed_is_noticed(llc: list[str | Path]) -> None:
    def murderer(layout: Layout) -> Chooser:
        def choose(decision: Decision) -> int:
            for process in compilers_of(Path(llc[-1])):
                os.kill(process, signal.SIGKILL)
            return 0

        return choose

    start = time.monotonic()
    found = converse(llc, EVICTION, murderer)
    assert found.code == 128 + signal.SIGKILL
    assert found.decisions == 1
    assert time.monotonic() - start < 60


def test_a_compiler_that_dies_before_it_speaks_is_noticed(tmp_path: Path) -> None:
    program = tmp_path / "llc"
    program.write_text("#!/bin/sh\necho dead >&2\nkill -9 $$\n")
    program.chmod(0o755)
    found = converse([program], EVICTION, first)
    assert (found.code, found.errors.strip()) == (128 + signal.SIGKILL, "dead")


def test_a_compiler_that_says_nothing_is_stopped(tmp_path: Path) -> None:
    program, said = tmp_path / "llc", tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ > {said}\nexec sleep 600\n")
    program.chmod(0o755)
    refused(lambda: converse([program], EVICTION, first, silence=5.0), "program-failed")
    wait_for_end(int(said.read_text()))


def test_a_compiler_that_says_something_else_is_stopped(tmp_path: Path) -> None:
    program = tmp_path / "llc"
    program.write_text('#!/bin/sh\nfor word; do :; done\necho hello > "${word#*=}.out"\nexec sleep 600\n')
    program.chmod(0o755)
    refused(lambda: converse([program], EVICTION, first), "model-unsuitable")


def test_a_chooser_that_fails_ends_the_compiler(llc: list[str | Path]) -> None:
    def failing(layout: Layout) -> Chooser:
        raise VerificationError("mlgo-test", "no", remedy="none")

    with pytest.raises(ReleaseError, match="no"):
        converse(llc, EVICTION, failing)
    assert compilers_of(Path(llc[-1])) == []


def test_without_a_channel_stock_compilers_refuse(llc: list[str | Path]) -> None:
    """Why there is a conversation at all."""
    for mode in ("release", "development"):
        assert capture([*llc, f"-regalloc-enable-advisor={mode}"]).returncode == 1
