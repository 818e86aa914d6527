"""The health of a platform in one release, by the release's scorecard, or by its manifest once it is published.

A published release is not judged again: the build matrix may have changed since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mlir_release.ground.job_names import is_about, is_experimental
from mlir_release.ground.python.cpython import STABLE_ABI
from mlir_release.release.forge.services import BAD_ENDS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mlir_release.release.judging.scorecard import Scorecard
    from mlir_release.release.model.manifest import Manifest
    from mlir_release.release.model.matrix import Matrix

#: Failed jobs of a platform that are linked at most.
MAX_LINKS = 3

#: ``partial``: all that is required passed, but something experimental did not. ``waived``: something required is
#: waived; ``failed`` if that leaves no wheel. ``missing``: something required is not there, and nothing works on it.
PlatformHealth = Literal["passed", "partial", "waived", "failed", "building", "missing", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Link:
    """A page for people."""

    text: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The health of one platform in one release."""

    verdict: PlatformHealth
    done: int = 0  #: wheels that are there
    total: int = 0  #: wheels that it is to have
    lacking: tuple[str, ...] = ()  #: targets that are waived or left out
    failed: tuple[Link, ...] = ()  #: jobs, or tests


class TargetNames:
    """The platforms of targets by their names, also of an older matrix whose rows had other CPythons.

    :param matrices: of the branch
    """

    def __init__(self, *matrices: Matrix) -> None:
        wheels = [wheel for matrix in matrices for wheel in (*matrix.wheels, *(row.wheel for row in matrix.excluded))]
        self.platforms = tuple(dict.fromkeys(runtime.name for matrix in matrices for runtime in matrix.runtimes))
        self._wheels = {_without_python(wheel.name): wheel.runtime.name for wheel in wheels}
        self._tests = {
            _without_python(test.name) if test.needs_wheel else test.name: test.runtime.name
            for wheel in wheels
            for test in wheel.tests
        }

    def is_wheel(self, name: str) -> bool:
        """Whether it is the name of a wheel's target."""
        return name not in self._tests and _without_python(name) in self._wheels

    def platform_of(self, name: str) -> str:
        """The platform of a wheel, a test or an SDK; empty if the matrix has no such configuration there."""
        if name.startswith("sdk-") and name.removeprefix("sdk-") in self.platforms:
            return name.removeprefix("sdk-")
        stem = _without_python(name)
        return self._tests.get(name) or self._wheels.get(stem) or self._tests.get(stem, "")


def _without_python(name: str) -> str:
    return name.removesuffix(f"-{STABLE_ABI}").rpartition("-")[0]


def published_health(manifest: Manifest, names: TargetNames, excluded: Collection[str]) -> Mapping[str, Cell]:
    """By platform, as the manifest of a published release records it.

    :param excluded: targets that its revision can't be made into: that they lack says nothing about their platforms
    """

    def of(platform: str) -> Cell:
        def mine(targets: Collection[str]) -> list[str]:
            return [target for target in targets if names.platform_of(target) == platform]

        there = mine([file.target for file in manifest.files])
        waived = mine([waiver.target for waiver in manifest.waivers])
        left_out = mine([row.target for row in manifest.left_out if row.target not in excluded])
        # A wheel for several CPythons is there for each of them, and a test takes no wheel away.
        served = {f"{_without_python(wheel.target)}-{python}" for wheel in manifest.wheels for python in wheel.serves}
        gone = [target for target in (*waived, *left_out) if names.is_wheel(target) and target not in served]
        return Cell(
            verdict=_outcome(len(there), waived, left_out) if there or gone else "missing",
            done=len(there),
            total=len(there) + len(gone),
            lacking=(*waived, *left_out),
        )

    return {platform: of(platform) for platform in names.platforms}


def draft_health(card: Scorecard, platform: str, *, live: bool, seen: bool) -> Cell:
    """The health of one platform in a release that is not published yet.

    :param live: whether a run of its build is not over: then it may build what no job is listed for
    :param seen: whether the draft could be seen; else its jobs tell alone
    """
    rows = [row for row in (*card.members.values(), *card.tests.values()) if row.platform == platform]
    wheels = [wheel for wheel in card.matrix.wheels if wheel.runtime.name == platform]
    jobs = [job for job in card.jobs.values() if is_about(job.name, platform)]
    bad = sorted((job for job in jobs if job.conclusion in BAD_ENDS), key=lambda job: is_experimental(job.name))
    # What a job has made is in the draft soon. If the build is over and it is not there, it was lost.
    short = [row for row in rows if not (row.ok or (row.state == "made" and (live or not seen)))]
    failed = sorted((row for row in short if row.state == "failed"), key=lambda row: (not row.required, row.name))
    lacking = any(row.required for row in short)
    unproven = any(row.required and not row.ok for row in rows)
    absent = {row.name for row in rows if row in short or row.state == "waived"}
    done = sum(
        wheel.name in card.files or any(member.name not in absent for member in wheel.members) for wheel in wheels
    )
    waived = dict.fromkeys(
        name for row in (*rows, *card.excluded_targets.values()) if row.platform == platform for name in row.waivers
    )
    verdict: PlatformHealth
    if any(row.required for row in failed) or (unproven and any(not is_experimental(job.name) for job in bad)):
        verdict = "failed"
    elif any(job.status != "completed" for job in jobs) or (lacking and live):
        verdict = "building"
    elif lacking or not wheels:
        verdict = "missing"
    else:
        verdict = _outcome(done, waived, short)
    links = [
        *(Link(text=job.name, url=job.url) for job in bad),
        *(Link(text=row.name, url="") for row in failed if row.kind == "test"),
    ]
    return Cell(
        verdict=verdict,
        done=done,
        total=len(wheels),
        lacking=tuple(waived),
        failed=() if all(row.ok for row in rows) else tuple(links[:MAX_LINKS]),
    )


def _outcome(done: int, waived: Collection[str], left_out: Collection[object]) -> PlatformHealth:
    """The health of a platform for which nobody waits any more."""
    if waived:
        return "waived" if done else "failed"
    return "partial" if left_out else "passed"
