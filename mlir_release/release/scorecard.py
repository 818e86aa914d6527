"""Where each target of a release stands, with the evidence: a judgement of drafts and of what was published.

Pure: the caller reads files, reports, waivers and jobs. What can be published, what is to be built next, what keeps a
release waiting, and what has an issue are views of one card.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from mlir_release.forge.base import Asset
from mlir_release.forge.services import BAD_ENDS
from mlir_release.model.job_names import is_experimental, sdk_jobs, split_job_name
from mlir_release.model.manifest import LeftOut
from mlir_release.release.assets import File, Source, Wheel, describe_failure, weigh_report

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mlir_release.forge.services import RunJob
    from mlir_release.model.manifest import Manifest
    from mlir_release.model.matrix import Excluded, Matrix
    from mlir_release.model.names import WheelKey
    from mlir_release.model.targets import Runtime
    from mlir_release.model.test_report import TestReport
    from mlir_release.model.wheel_target import TestTarget, WheelTarget

#: ``stale``: the report is about another build of the wheel. ``untested``: a test has no report; a wheel lacks a
#: passing one. ``misnamed``: the wheel is there, and says that it is another target's. ``unconfirmed``: only the tag
#: excludes it. ``made``: its job ended well, and nothing of it is here yet. ``unknown``: no job and no wheel tells
#: whether there is an SDK.
State = Literal[
    "good", "missing", "made", "failed", "stale", "untested", "misnamed", "waived", "excluded", "unconfirmed", "unknown"
]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where one target stands: a CPython's wheel, a test, or a platform's SDK."""

    name: str  #: of the target; ``sdk-<platform>``
    kind: Literal["wheel", "test", "sdk"]
    platform: str  #: the runtime's name
    required: bool  #: whether publication waits for it
    state: State
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


@dataclass(frozen=True, kw_only=True)
class Scorecard:
    """Where all targets of a release stand.

    A wheel that serves several CPythons has a standing for each of them.
    """

    matrix: Matrix
    members: Mapping[str, Standing]  #: by the name of the wheel target, or of the CPython's in a wheel for several
    tests: Mapping[str, Standing]  #: by name, in the matrix's order
    sdks: Mapping[str, Standing]  #: by the platform's name
    excluded_targets: Mapping[str, Standing]  #: those that the revision can't be made into
    files: Mapping[str, File]  #: by the wheel target's name
    foreign: tuple[str, ...]  #: why files don't belong to the release
    jobs: Mapping[str, RunJob]  #: that told something; empty: none did

    # -- publication -----------------------------------------------------------------------------------------------

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """Sentences: what prevents publication."""
        found = [
            reason for row in self.excluded_targets.values() if row.state == "unconfirmed" for reason in row.reasons
        ]
        found += self.foreign
        for row in self.members.values():
            if row.required and row.state not in ("good", "waived", "misnamed"):
                found += row.reasons
        if not self.accepted and not found:
            found = ["nothing is left to publish: every target is left out or waived"]
        return tuple(dict.fromkeys(found))

    @property
    def accepted(self) -> tuple[str, ...]:
        """The wheel targets whose files are published: those that are good for one CPython at least."""
        return tuple(wheel.name for wheel in self.matrix.wheels if "good" in self._states(wheel))

    @property
    def vouching(self) -> tuple[TestReport, ...]:
        """The passing reports that the accepted members rest on."""
        names = {
            test.name
            for wheel in self.matrix.wheels
            for member in wheel.members
            if self.members[member.name].state == "good"
            for test in member.tests
        }
        rows = [row for name, row in self.tests.items() if name in names and row.state == "good"]
        return tuple(row.report for row in rows if row.report is not None)

    @property
    def waivers(self) -> tuple[str, ...]:
        """The waivers that are needed, by their names."""
        rows = (*self.excluded_targets.values(), *self.members.values())
        return tuple(dict.fromkeys(name for row in rows for name in row.waivers))

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Experimental targets that fell short, and those that the revision can't be made into."""
        found = [
            LeftOut(target=name, reason="; ".join(row.reasons))
            for name, row in self.excluded_targets.items()
            if row.state == "excluded"
        ]
        for wheel in self.matrix.wheels:
            for member in wheel.members:
                row = self.members[member.name]
                if not row.required and row.state not in ("good", "waived", "misnamed"):
                    # By the reports alone: the wheel may be deleted already.
                    reports = [self.tests[test.name].report for test in member.tests]
                    failed = [
                        f"{one.target}: {describe_failure(one)}"
                        for one in reports
                        if one is not None and not one.passed
                    ]
                    found.append(LeftOut(target=member.name, reason="; ".join(failed) or "there is no tested wheel"))
        return tuple(found)

    # -- what is to be done next -----------------------------------------------------------------------------------

    @property
    def lacking_wheels(self) -> tuple[str, ...]:
        """The wheel targets that are to be built."""
        return tuple(wheel.name for wheel in self.matrix.wheels if self.lacks(wheel))

    @property
    def lacking_tests(self) -> tuple[str, ...]:
        """The tests that are to be run: without a report, with a failing one, or one about another build."""
        return tuple(name for name, row in self.tests.items() if not row.ok)

    @property
    def lacking_required(self) -> tuple[str, ...]:
        """What publication waits for: required wheels that aren't there, and the tests of those that are."""
        waiting = [
            (wheel, member)
            for wheel in self.matrix.wheels
            for member in wheel.members
            if self.members[member.name].required and not self.members[member.name].ok
        ]
        absent = dict.fromkeys(wheel.name for wheel, _ in waiting if wheel.name not in self.files)
        gates = {test.name for wheel, member in waiting if wheel.name in self.files for test in member.tests}
        return (*absent, *(name for name in self.lacking_tests if name in gates))

    def lacks(self, wheel: WheelTarget) -> bool:
        """Whether a wheel is to be built: it isn't there, and not all of its CPythons are waived."""
        return wheel.name not in self.files and self._states(wheel) != {"waived"}

    def is_required(self, wheel: WheelTarget) -> bool:
        """Whether publication waits for a wheel: for one of its CPythons that isn't waived."""
        return any(
            self.members[member.name].required and self.members[member.name].state != "waived"
            for member in wheel.members
        )

    def _states(self, wheel: WheelTarget) -> set[State]:
        return {self.members[member.name].state for member in wheel.members}


def score(
    matrix: Matrix,
    *,
    wheels: Mapping[WheelKey, File],
    reports: Mapping[str, TestReport | None],
    waivers: Collection[str],
    jobs: Mapping[str, RunJob] | None = None,
) -> Scorecard:
    """Judge what a release has.

    A required target must have its wheel, and the wheel a passing report from each suite of its row, about the very
    bytes that are there. A waiver of a test forgives that report; a waiver of a wheel allows to go without the wheel.
    A waiver that isn't needed changes nothing. An experimental target that falls short is left out, and so is one that
    the revision can't be made into. Where only the tag excludes a required one (:attr:`Excluded.claimed`), nobody
    signed that: it is unconfirmed. What only a wheel's content tells is judged where the content was read.

    :param wheels: complete files, signed where they have to be
    :param reports: by target; None: there is a report that wasn't read, or a manifest says that the test passed
    :param waivers: names of targets
    :param jobs: the latest of each name, without the names of calling jobs; None: no job tells
    """
    known = {target.slot: target for target in matrix.wheels}
    files, foreign = dict[str, File](), list[str]()
    for slot, file in wheels.items():
        target = known.get(slot)
        if target is None:
            foreign.append(f"{_filename(file)}: no target of the build matrix makes such a wheel")
            continue
        files[target.name] = file
        if isinstance(file, Wheel | Source) and file.target != target.name:
            foreign.append(f"{file.filename}: says that its target is {file.target}; here it is {target.name}")
    judge = _Judge(matrix, files, reports, waivers, jobs or {})
    tests = {test.name: judge.test(test) for test in matrix.tests}
    members = {
        member.name: judge.member(member, target, tests) for target in matrix.wheels for member in target.members
    }
    return Scorecard(
        matrix=matrix,
        members=members,
        tests=tests,
        sdks={runtime.name: judge.sdk(runtime, members) for runtime in matrix.runtimes},
        excluded_targets={row.name: judge.excluded(row) for row in matrix.excluded},
        files=files,
        foreign=tuple(foreign),
        jobs=jobs or {},
    )


def score_published(
    matrix: Matrix,
    manifest: Manifest,
    *,
    reports: Mapping[str, TestReport],
    waivers: Collection[str],
    jobs: Mapping[str, RunJob] | None = None,
) -> Scorecard:
    """Judge a published release by its manifest. ``reports``: of the tests that the manifest doesn't list"""
    published = {file.target: file for file in manifest.files}
    return score(
        matrix,
        wheels={target.slot: published[target.name] for target in matrix.wheels if target.name in published},
        reports={**reports, **{test.name: None for test in manifest.tests}},
        waivers=waivers,
        jobs=jobs,
    )


# -- one target -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Judge:
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
        state: State = "untested"
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
            required=any(member.required and not waiver for member, waiver in resting),
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
        state: State = "good"
        reasons: list[str] = []
        mine = [tests[test.name] for test in member.tests]
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
        state: State = "excluded"
        reason = row.reason
        if row.claimed and row.wheel.required:
            state = "waived" if row.name in self.waivers else "unconfirmed"
            reason = f"{row.name}: only the tag leaves it out ({row.reason}), and that is not confirmed"
        return Standing(
            name=row.name,
            kind="wheel",
            platform=row.wheel.runtime.name,
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
        state: State = "good" if there else "unknown"
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


def _filename(file: File) -> str:
    return file.name if isinstance(file, Asset) else file.filename
