"""Where all targets of a release stand: the one judgement of drafts and of what was published.

Pure: the caller reads files, reports, waivers and jobs. What can be published, what is to be built next, what keeps a
release waiting, and what has an issue are views of one card.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from mlir_release.ground.job_names import is_experimental, own_name, sdk_jobs, split_job_name, work_of
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.release.forge.base import Asset
from mlir_release.release.forge.services import BAD_ENDS
from mlir_release.release.model.manifest import LeftOut, Manifest
from mlir_release.release.transaction.assets import Built, File, describe_failure, weigh_report

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mlir_release.builder.model.names import WheelKey
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
        elif isinstance(file, Built):
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


# -- the card ----------------------------------------------------------------------------------------------------------


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
        """The targets that publication waits for: required wheels that are absent, and the tests of the others."""
        waiting = [
            (wheel, member)
            for wheel in self.matrix.wheels
            for member in wheel.members
            if self.members[member.name].required and not self.members[member.name].ok
        ]
        absent = dict.fromkeys(wheel.name for wheel, _ in waiting if wheel.name not in self.files)
        gates = {
            test.name for wheel, member in waiting if wheel.name in self.files for test in member.tests if test.gates
        }
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

    def _states(self, wheel: WheelTarget) -> set[TargetState]:
        return {self.members[member.name].state for member in wheel.members}

    # -- what has an issue -----------------------------------------------------------------------------------------

    @property
    def failing(self) -> dict[str, Standing]:
        """The targets that fail, by name: each keeps the release from publication, or stays out of it if experimental.

        A target that is waived, or could not be tested, doesn't fail. An SDK stands for all targets that it takes down
        (:attr:`Standing.takes_down`, :attr:`Standing.leaves_out`).
        """
        tried = self._tried
        down = {name for name, row in self.sdks.items() if row.state == "failed"}
        taken: dict[str, list[Standing]] = {name: [] for name in down}
        failing: dict[str, Standing] = {}
        for wheel in self.matrix.wheels:
            if not self.lacks(wheel) or wheel.name in tried:
                continue
            row = replace(
                self.members[wheel.members[0].name], name=wheel.name, required=self.is_required(wheel), state="missing"
            )
            if wheel.runtime.name in down:
                taken[wheel.runtime.name].append(row)
            else:
                failing[wheel.name] = row
        for test in self.matrix.tests:
            row = self.tests[test.name]
            if row.ok or not tried.intersection(test.wheels):
                continue
            if row.platform in down and row.state != "failed":
                taken[row.platform].append(row)
            else:
                failing[test.name] = row
        let_off = {row.platform for row in self.members.values() if row.required and row.state == "waived"}
        for name, rows in taken.items():
            required = tuple(row.name for row in rows if row.required)
            if rows and (required or name not in let_off):  # else the required ones are waived: nothing new is known
                sdk = self.sdks[name]
                failing[sdk.name] = replace(
                    sdk,
                    required=bool(required),
                    takes_down=required,
                    leaves_out=tuple(row.name for row in rows if not row.required),
                )
        return failing

    @property
    def passing(self) -> frozenset[str]:
        """The targets that are well: wheels that are there, their tests that pass, and SDKs."""
        tried = self._tried
        tests = [
            test.name for test in self.matrix.tests if self.tests[test.name].state == "good" and tried & {*test.wheels}
        ]
        return frozenset({*self.files, *tests, *(row.name for row in self.sdks.values() if row.state == "good")})

    @property
    def _tried(self) -> set[str]:
        """The wheels that could be tested: those that are there, and those that were deleted because a test failed."""
        failed = {name for name, row in self.tests.items() if row.state == "failed"}
        deleted = (
            wheel.name
            for wheel in self.matrix.wheels
            if self.lacks(wheel) and any(test.needs_wheel and test.name in failed for test in wheel.tests)
        )
        return {*self.files, *deleted}


def score(
    matrix: Matrix,
    *,
    wheels: Mapping[WheelKey, File],
    reports: Mapping[str, TestReport | None],
    waivers: Collection[str],
    jobs: Mapping[str, RunJob] | None = None,
) -> Scorecard:
    """Judge what a release has.

    A required target must have its wheel, and the wheel a passing report from each suite of its row that gates, about
    the very bytes that are there. A waiver of a test forgives that report; a waiver of a wheel allows to go without the
    wheel. A waiver that isn't needed changes nothing. An experimental target that falls short is left out, and so is
    one that the revision can't be made into. Where only the tag excludes a required one (:attr:`Excluded.claimed`),
    nobody signed that: it is unconfirmed. What only a wheel's content tells is judged where the content was read.

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
            filename = file.name if isinstance(file, Asset | Built) else file.filename
            foreign.append(f"{filename}: no target of the build matrix makes such a wheel")
            continue
        files[target.name] = file
        if not isinstance(file, Built):
            continue
        whose = target.configuration.project
        if file.target != target.name:
            foreign.append(f"{file.name}: says that its target is {file.target}; here it is {target.name}")
        elif file.info.project != whose:
            foreign.append(f"{file.name}: says that its project is {file.info.project}; {target.name} is of {whose}")
    judge = Judge(matrix, files, reports, waivers, jobs or {})
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


def merge_jobs(runs: Iterable[Iterable[RunJob]]) -> dict[str, RunJob]:
    """The latest job of each name, without the names of calling jobs.

    What a newer run has worked on counts for all jobs that divide the work: both jobs of an SDK are of one run.

    :param runs: the jobs of each, the newest run first
    """
    found: dict[str, RunJob] = {}
    for run in runs:
        jobs = sorted(run, key=lambda job: (job.started_at, len(job.id), job.id))
        known = set(map(work_of, found))
        found |= {own_name(job.name): job for job in jobs if work_of(job.name) not in known}
    return found
