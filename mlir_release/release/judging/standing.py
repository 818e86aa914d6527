"""Where one target of a release stands, with the evidence: a CPython's wheel, a test, or a platform's SDK."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mlir_release.ground.job_names import is_experimental, sdk_jobs, split_job_name
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.release.forge.services import BAD_ENDS
from mlir_release.release.transaction.assets import File, Source, Wheel, weigh_report

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mlir_release.builder.model.test_report import TestReport
    from mlir_release.ground.hosting import RunJob
    from mlir_release.release.model.matrix import Excluded, Matrix
    from mlir_release.release.model.targets import Runtime
    from mlir_release.release.model.wheel_target import TestTarget, WheelTarget

#: ``stale``: the report is about another build of the wheel. ``untested``: a test has no report; a wheel lacks a
#: passing one. ``misnamed``: the wheel is there, and says that it is another target's. ``unconfirmed``: only the tag
#: excludes it. ``made``: its job ended well, and nothing of it is here yet. ``unknown``: no job and no wheel tells
#: whether there is an SDK.
TargetState = Literal[
    "good", "missing", "made", "failed", "stale", "untested", "misnamed", "waived", "excluded", "unconfirmed", "unknown"
]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where one target stands: a CPython's wheel, a test, or a platform's SDK."""

    name: str  #: of the target; ``sdk-<platform>``
    kind: Literal["wheel", "test", "sdk"]
    platform: str  #: the runtime's name
    required: bool  #: whether publication waits for it
    project: str = DEFAULT_PROJECT
    state: TargetState
    reasons: tuple[str, ...] = ()  #: sentences that say why it isn't good
    file: File | None = None  #: the wheel that is there
    report: TestReport | None = None  #: of a test
    waivers: tuple[str, ...] = ()  #: names of the waivers that it needs
    jobs: tuple[str, ...] = ()  #: names of the jobs that can tell more, the likeliest first
    wheel: str = ""  #: of a test of one wheel: that wheel's target
    takes_down: tuple[str, ...] = ()  #: of an SDK that fails: required targets that are missing for want of it
    leaves_out: tuple[str, ...] = ()  #: and experimental ones

    @property
    def ok(self) -> bool:
        """Whether nothing of it has to be made or tested any more."""
        return self.state in ("good", "waived")

    @property
    def summary(self) -> str:
        """Why something fails, on one line."""
        if self.kind == "wheel":
            return "there is no wheel"
        if self.kind == "sdk":
            return self.reasons[0]
        if self.state == "stale":
            return "the report tells of another build of the wheel than the draft has"
        if self.report is None:
            return "it was not run, or ended without a report"
        count = len(self.report.failures)
        return f"{count} test{'' if count == 1 else 's'} failed" if count else "the run failed as a whole"


@dataclass(frozen=True)
class Judge:
    """Judges one target after the other, by what is known of all."""

    matrix: Matrix
    files: Mapping[str, File]  #: by the wheel target's name
    reports: Mapping[str, TestReport | None]
    waivers: Collection[str]
    jobs: Mapping[str, RunJob]

    def test(self, test: TestTarget) -> Standing:
        """A test is waived by its own name, and where every CPython whose wheel rests on it is waived."""
        resting = [
            (member, self._waiver_of(member, wheel))
            for wheel in self.matrix.wheels
            if wheel.name in test.wheels
            for member in wheel.members
            if any(own.name == test.name for own in member.tests)
        ]
        own = [self.files[name] for name in test.wheels if name in self.files]
        state: TargetState = "untested"
        why = "was not run"
        if test.name in self.reports:
            state, why = weigh_report(self.reports[test.name], own)
        elif self._is_made("tests", test):
            state = "made"
        waived = test.name in self.waivers or all(waiver for _, waiver in resting)
        return Standing(
            name=test.name,
            kind="test",
            platform=test.runtime.name,
            project=test.runtime.project,
            required=test.required and any(member.required and not waiver for member, waiver in resting),
            state="waived" if waived and state != "good" else state,
            reasons=(f"{test.name}: {why}",) if why else (),
            file=own[0] if len(own) == 1 else None,
            report=self.reports.get(test.name),
            wheel=test.wheels[0] if len(test.wheels) == 1 else "",
            waivers=(test.name,) if test.name in self.waivers and state != "good" else (),
            jobs=self._working_on("tests", test.runtime),
        )

    def member(self, member: WheelTarget, target: WheelTarget, tests: Mapping[str, Standing]) -> Standing:
        """A CPython's wheel. ``target``: the wheel target that makes it"""
        file = self.files.get(target.name)
        state: TargetState = "good"
        reasons: list[str] = []
        mine = [tests[test.name] for test in member.tests if test.gates]
        used = [name for test in mine for name in test.waivers]
        if file is None:
            state = "made" if self._is_made("wheels", target) else "missing"
            reasons = [f"{target.name}: there is no wheel"]
        elif isinstance(file, Wheel | Source):
            if file.target != target.name:
                state = "misnamed"
            # Requirements that a wheel relaxes and its target doesn't: it was built with another targets.toml.
            asked = {override.name for override in member.overrides}
            reasons = [
                f"{target.name}: its wheel requires {row.requirement}, where upstream "
                f"requires {row.upstream}; targets.toml has no such override"
                for row in file.info.relaxed
                if row.name not in asked
            ]
        if file is not None and state != "misnamed":
            # A test that its wheels' waivers let off was not waived itself: the wheel isn't good without it.
            short = [test for test in mine if test.state != "good" and test.name not in self.waivers]
            if reasons or any(test.state == "failed" for test in short):
                state = "failed"
            elif short:
                state = short[0].state
            reasons += [reason for test in short for reason in test.reasons]
        if (waiver := self._waiver_of(member, target)) and state not in ("good", "misnamed"):
            state, used = "waived", [waiver]
        return Standing(
            name=member.name,
            kind="wheel",
            platform=member.runtime.name,
            project=member.runtime.project,
            required=member.required,
            state=state,
            reasons=tuple(reasons),
            file=file,
            waivers=tuple(used) if state in ("good", "waived") else (),
            jobs=self._working_on("wheels", member.runtime),
        )

    def _waiver_of(self, member: WheelTarget, target: WheelTarget) -> str:
        """The waiver that allows to go without a CPython's wheel; empty if nobody gave one."""
        return next((name for name in (member.name, target.name) if name in self.waivers), "")

    def excluded(self, row: Excluded) -> Standing:
        """A CPython's wheel that the revision can't be made into."""
        state: TargetState = "excluded"
        reason = row.reason
        if row.claimed and row.wheel.required:
            state = "waived" if row.name in self.waivers else "unconfirmed"
            reason = f"{row.name}: only the tag leaves it out ({row.reason}), and that is not confirmed"
        return Standing(
            name=row.name,
            kind="wheel",
            platform=row.wheel.runtime.name,
            project=row.wheel.runtime.project,
            required=row.wheel.required,
            state=state,
            reasons=(reason,),
            waivers=(row.name,) if state == "waived" else (),
        )

    def sdk(self, runtime: Runtime, members: Mapping[str, Standing]) -> Standing:
        """A platform's SDK is in no draft: its jobs tell, else its wheels. The second job resumes the first."""
        names = sdk_jobs(runtime.name)
        first, second = map(self.jobs.get, names)
        mine = [wheel for wheel in self.matrix.wheels if wheel.runtime.name == runtime.name]
        there = any(wheel.name in self.files for wheel in mine)
        lacking = [
            wheel
            for wheel in mine
            if any(members[member.name].state in ("missing", "made") for member in wheel.members)
        ]
        state: TargetState = "good" if there else "unknown"
        reason = "there is no SDK" if first is not None else "there is no wheel of this platform at all"
        if first is not None and first.conclusion is not None:
            if any(job is not None and job.conclusion in BAD_ENDS for job in (first, second)):
                state = "failed"
            elif first.conclusion == "success" and second is not None and second.conclusion in ("success", "skipped"):
                state = "good"
        elif len(lacking) > 1 and not there:
            state = "failed"
        return Standing(
            name=f"sdk-{runtime.name}",
            kind="sdk",
            platform=runtime.name,
            project=runtime.project,
            required=any(wheel.required for wheel in mine),
            state=state,
            reasons=(reason,) if state == "failed" else (),
            jobs=names[::-1],
        )

    def _working_on(self, stage: str, runtime: Runtime) -> tuple[str, ...]:
        """The jobs that work on a platform's targets; the log of each says which those are."""
        return tuple(name for name in self.jobs if split_job_name(name) == (stage, runtime.name))

    def _is_made(self, stage: str, target: WheelTarget | TestTarget) -> bool:
        """Whether the jobs that make a target, or run a test, all ended well. Others work on experimental ones."""
        names = self._working_on(stage, target.runtime)
        own = [self.jobs[name] for name in names if is_experimental(name) != target.required]
        return bool(own) and all(job.conclusion == "success" for job in own)
