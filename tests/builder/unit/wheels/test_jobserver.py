from __future__ import annotations

import os
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.builder.wheels.jobserver import (
    BUILD_MEMORY,
    COMPILER_MEMORY,
    Concurrency,
    choose_concurrency,
    compiler_slots,
    usable_cores,
)

GB = 10**9


@given(
    count=st.integers(min_value=1, max_value=50),
    cores=st.integers(min_value=1, max_value=256),
    memory=st.integers(min_value=0, max_value=1000 * GB),
)
def test_a_plan_stays_within_the_machine(count: int, cores: int, memory: int) -> None:
    made = choose_concurrency(count, cores=cores, memory=memory)
    assert 1 <= made.builds <= min(count, cores)
    assert made.builds <= made.compilers <= cores
    smallest = Concurrency(builds=1, compilers=1)
    assert made == smallest or made.builds * BUILD_MEMORY + made.compilers * COMPILER_MEMORY <= memory


def test_a_large_machine_is_used_whole() -> None:
    assert choose_concurrency(5, cores=16, memory=64 * GB) == Concurrency(builds=5, compilers=16)


def test_one_cpython_gets_all_cores() -> None:
    assert choose_concurrency(1, cores=8, memory=64 * GB) == Concurrency(builds=1, compilers=8)


def test_a_small_machine_is_slow_not_idle() -> None:
    assert choose_concurrency(5, cores=4, memory=1 * GB) == Concurrency(builds=1, compilers=1)


def test_cores_of_this_process() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def test_a_build_alone_is_told_a_number() -> None:
    with compiler_slots(Concurrency(builds=1, compilers=6)) as slots:
        assert slots.environment == {"CMAKE_BUILD_PARALLEL_LEVEL": "6"}
        slots.give_back()  # nobody is left to take it


@pytest.mark.skipif(sys.platform == "win32", reason="a named pipe")
def test_builds_side_by_side_share_a_pool() -> None:
    with compiler_slots(Concurrency(builds=3, compilers=8)) as slots:
        match = re.search(r"--jobserver-auth=fifo:(\S+)", slots.environment["MAKEFLAGS"])
        assert match is not None
        pipe = os.open(match[1], os.O_RDWR | os.O_NONBLOCK)
        assert os.read(pipe, 100) == b"+" * 5  # each of the three builds has one of its own
        slots.give_back()
        assert os.read(pipe, 100) == b"+"
        os.close(pipe)
    assert not os.path.exists(match[1])  # noqa: PTH110
