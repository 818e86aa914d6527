"""How far a build is, and how long it still takes, by the lines that Ninja prints."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.tools.ninja import Course, Pace, read_course
from mlir_release.ground.programs.process import installed_program

if TYPE_CHECKING:
    from pathlib import Path


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def build(clock: Clock, pace: Pace, *, steps: int, seconds: float, until: int = 0) -> None:
    """A build of two halves: the second half's steps take three times as long as those of the first."""
    for done in range(1, (until or steps) + 1):
        clock.now += seconds / steps * (0.5 if done <= steps // 2 else 1.5)
        assert pace.feed(f"[{done}/{steps}] Building CXX object {done}.o")


def test_it_says_the_steps_done_of_all() -> None:
    pace = Pace()
    assert pace.text() == "no step done yet"
    assert not pace.feed("-- Configuring done")
    assert not pace.feed("[0/0] nothing")
    pace.feed("[12/355] Building CXX object a.o")
    assert pace.text() == "12 of 355 steps"  # one step tells no pace


def test_the_first_build_is_judged_by_its_own_pace() -> None:
    clock = Clock()
    pace = Pace(clock=clock)
    build(clock, pace, steps=100, seconds=100, until=50)
    assert pace.text() == "50 of 100 steps, about 25 s left"  # the slow half is still unknown
    for done in range(51, 101):
        clock.now += 1.5
        pace.feed(f"[{done}/100] Linking")
    assert pace.text() == "100 of 100 steps"  # packing follows, and nothing says how long


@pytest.mark.parametrize("speed", [1.0, 2.0, 0.5], ids=["as fast", "half as fast", "twice as fast"])
def test_a_later_build_learns_from_the_one_before(tmp_path: Path, speed: float) -> None:
    clock, memory = Clock(), tmp_path / "course.json"
    first = Pace(memory=memory, clock=clock)
    build(clock, first, steps=100, seconds=100)
    clock.now += 20  # packing
    first.remember()
    course = read_course(memory)
    assert course is not None
    assert course.seconds == pytest.approx(120)
    assert course.elapsed(0.5) == pytest.approx(25, abs=2)
    second = Pace(memory=memory, clock=clock)
    begun, whole = clock.now, 100 * speed + 20
    errors = []
    for done in range(1, 101):
        clock.now += speed * (0.5 if done <= 50 else 1.5)
        second.feed(f"[{done}/100] Building")
        left = second.remaining()
        assert left is not None
        errors.append(abs(clock.now - begun + left - whole) / whole)
    assert errors[-1] < 0.01  # packing is counted in, and takes as long with any compiler cache
    assert max(errors[75:]) < 0.05  # the speed of this build is learnt by the middle of its time
    assert "left" in second.text()


def test_steps_that_were_seen_at_once_tell_no_pace(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text("".join(f"[{done}/100] Copying\n" for done in range(1, 61)))
    pace = Pace(log, clock=Clock())
    pace.look()
    assert pace.text() == "60 of 100 steps"


def test_a_machines_first_build_takes_the_course_of_others() -> None:
    clock = Clock()
    pace = Pace(first=Course(seconds=200, shares=(0.5, 1.0), reached=(120.0, 180.0)), clock=clock)
    clock.now += 60  # twice as fast
    pace.feed("[50/100] Building")
    assert pace.remaining() == pytest.approx(30 + 20)


def test_a_build_under_load_learns_from_its_own_pace() -> None:
    """Ten times as slow as the earlier one: it never promises an end at once while most is still to come."""
    clock = Clock()
    pace = Pace(first=Course(seconds=200, shares=(0.05, 1.0), reached=(9.0, 180.0)), clock=clock)
    begun, whole = clock.now, 1820.0
    for done in range(1, 20):
        clock.now += 45
        if done > 3:  # within a long step, too
            left = pace.remaining()
            assert left is not None
            assert left == pytest.approx(whole - (clock.now - begun), rel=0.3)
        clock.now += 45
        pace.feed(f"[{done}/20] Building")
    pace.feed("[20/20] Linking")
    assert pace.text() == "20 of 20 steps, packing, about 20 s left"


def test_a_build_that_stalls_promises_nothing() -> None:
    clock = Clock()
    pace = Pace(clock=clock)
    build(clock, pace, steps=100, seconds=100, until=50)
    clock.now += 240
    assert pace.text() == "50 of 100 steps, none ended for 4 min 00 s"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no JSON",
        '{"seconds": 0, "shares": [1], "reached": [1]}',
        '{"seconds": 5, "shares": [], "reached": []}',
        '{"seconds": 5, "shares": [0.5, 1], "reached": [1]}',
    ],
)
def test_a_damaged_memory_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "course.json").write_text(content)
    assert read_course(tmp_path / "course.json") is None
    assert read_course(tmp_path / "missing.json") is None


def test_a_course_is_interpolated() -> None:
    course = Course(seconds=50, shares=(0.2, 0.4, 1.0), reached=(10.0, 20.0, 40.0))
    moments = [course.elapsed(share) for share in (0.1, 0.2, 0.3, 0.7, 1.0)]
    assert moments == pytest.approx([10, 10, 15, 30, 40])


def test_a_real_ninja_is_followed_through_its_log(tmp_path: Path) -> None:
    ninja = installed_program("ninja")
    assert ninja is not None
    steps = "\n".join(f"build s{number}: wait" for number in range(8))
    (tmp_path / "build.ninja").write_text(
        f'rule wait\n  command = "{sys.executable}" -c "import time; time.sleep(0.05)"\n{steps}\n'
    )
    log = tmp_path / "build.log"
    log.write_text("+ ninja\n-- Configuring done\n")
    pace = Pace(log)
    pace.look()
    assert pace.text() == "no step done yet"
    seen = set()
    with log.open("ab") as file, subprocess.Popen([ninja, "-j1", "-C", str(tmp_path)], stdout=file) as running:
        while running.poll() is None:
            pace.look()
            seen.add(pace.done)
    pace.look()
    assert (pace.done, pace.all) == (8, 8)
    assert len(seen) > 2


def test_a_line_that_is_half_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_bytes(b"[1/9] a\n[2/")
    pace = Pace(log)
    pace.look()
    assert (pace.done, pace.all) == (1, 9)
    with log.open("ab") as file:
        file.write(b"9] b\n")
    pace.look()
    assert (pace.done, pace.all) == (2, 9)
    Pace(tmp_path / "none").look()
