"""The picture of what is going on, from observed facts."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from mlir_release.builder.model.test_report import TestReport
from mlir_release.ground.documents.times import format_age
from mlir_release.ground.hosting import Issue
from mlir_release.release.forge.base import Asset
from mlir_release.release.forge.services import Run
from mlir_release.release.judging.scorecard import merge_jobs, score
from mlir_release.release.judging.status import Facts, TagFacts, TargetNames, make_status, stale
from mlir_release.release.model.manifest import LeftOut, Waiver
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_tags import parse_release_tag
from mlir_release.release.pinning.state import TagState
from tests.job_factory import make_job
from tests.paper_forge import START, make_manifest
from tests.release.unit.judging.test_scorecard import ABI3, REGRESSION, SHARED
from tests.release.unit.model.test_measures import TARGET, history, measured
from tests.targets_factory import make_line, make_row, make_targets

if TYPE_CHECKING:
    from collections.abc import Collection

    from mlir_release.ground.hosting import RunJob
    from mlir_release.release.judging.status import PlatformLine, Status

TARGETS = make_targets(
    make_row(),
    make_row(runtime="windows-x64"),
    make_row(pythons=["cp314t"], required=False),
    others={"windows-x64": {"pythons": ["cp312"]}},
    provenance="",
)
MATRIX = Matrix.parse(TARGETS)
LINUX, WINDOWS = "linux-x86_64", "windows-x64"
TWELVE, THIRTEEN, FREE = (f"mlir-{LINUX}-{python}" for python in ("cp312", "cp313", "cp314t"))
WIN = f"mlir-{WINDOWS}-cp312"
ALL = frozenset({TWELVE, THIRTEEN, FREE, WIN})


def tag(number: int) -> str:
    return f"snapshot-202611{number:02d}.01"


def state(name: str, state: Any = "pending", reason: str = "") -> TagState:
    return TagState(
        tag=parse_release_tag(name), state=state, commit="c" * 40, revision="a" * 40, request_id="r", wheel_version="1",
        reason=reason,
    )  # fmt: skip


def published(
    number: int, *targets: str, waived: str = "", left_out: str = "", name: str = "", serves: tuple[str, ...] = ()
) -> TagFacts:
    """A release that has the wheels of some targets."""
    name = name or tag(number)
    manifest = make_manifest(name, version="22.1.8" if name.startswith("llvm") else None)
    wheels = tuple(
        structs.replace(manifest.wheels[place], target=target, serves=serves)
        for place, target in enumerate(sorted(targets))
    )
    manifest = structs.replace(
        manifest,
        wheels=wheels,
        waivers=(Waiver(target=waived, reason="r"),) if waived else (),
        left_out=(LeftOut(target=left_out, reason="r"),) if left_out else (),
    )
    when = START + timedelta(days=number)
    return TagFacts(state=state(name, "published"), published_at=when, manifest=manifest, page=f"p/{name}")


def run(conclusion: str | None) -> Run:
    status = "completed" if conclusion else "in_progress"
    return Run(
        id="1", workflow="release.yml", ref="", status=status, conclusion=conclusion, created_at=START, url="https://r/1"
    )  # fmt: skip


def pending(
    number: int,
    *jobs: RunJob,
    conclusion: str | None = None,
    runs: bool = True,
    present: Collection[str] | None = None,
    failing: Collection[str] = (),
    untested: Collection[str] = (),
    waived: Collection[str] = (),
    matrix: Matrix = MATRIX,
) -> TagFacts:
    """A release that is not published yet.

    :param present: the wheels of its draft; their tests have passed, but for those that fail or are untested; None: the
        draft can't be seen
    """
    wheels = [wheel for wheel in matrix.wheels if wheel.name in (present or ())]
    files = {
        wheel.slot: Asset(name=f"{wheel.name}.whl", size=1, sha256="0" * 64, complete=True, url="") for wheel in wheels
    }
    reports = {
        test.name: TestReport(
            target=test.name, suite=test.suite, wheel="w", wheel_sha256="0" * 64, passed=test.name not in failing
        )
        for test in matrix.tests
        if test.name not in untested and {*test.wheels} & {wheel.name for wheel in wheels}
    }
    return TagFacts(
        state=state(tag(number)),
        card=score(matrix, wheels=files, reports=reports, waivers=waived, jobs=merge_jobs([jobs])),
        seen=present is not None,
        runs=(run(conclusion),) if runs else (),
    )


def picture(*releases: TagFacts, **facts: Any) -> Status:
    """Of releases, newest first."""
    return make_status(Facts(now=START + timedelta(days=30), source="s", releases=releases, matrix=MATRIX, **facts))


def line(status: Status, name: str) -> PlatformLine:
    return next(line for line in status.platforms if line.name == name)


def test_what_passed() -> None:
    status = picture(published(2, *ALL), published(1, *ALL))
    assert [(row.tag, row.state, row.done, row.total, row.red) for row in status.releases] == [
        (tag(2), "published", 4, 4, ()),
        (tag(1), "published", 4, 4, ()),
    ]
    for name in (LINUX, WINDOWS):
        found = line(status, name)
        assert (found.verdict, found.passed, found.building, found.red_since) == ("passed", tag(2), "", "")


def test_red_since_the_first_of_an_unbroken_row() -> None:
    bad = make_job(f"{WINDOWS} / wheels: {WINDOWS}", "failure", number=7)
    status = picture(
        pending(6),  # being built: says nothing yet
        pending(5, bad, conclusion="failure", present=ALL - {WIN}),
        replace(pending(4), state=state(tag(4), "abandoned", "superseded")),
        published(3, TWELVE, THIRTEEN, FREE, waived=WIN),
        published(2, *ALL),
        published(1, TWELVE, THIRTEEN, FREE, waived=WIN),
    )
    windows = line(status, WINDOWS)
    assert (windows.verdict, windows.building, windows.passed) == ("failed", tag(6), tag(2))
    assert windows.red_since == tag(3)
    assert [(link.text, link.url) for link in windows.failed] == [(bad.name, "https://example.org/jobs/7")]
    assert line(status, LINUX).red_since == ""
    states = {row.tag: row.shown_state for row in status.releases}
    assert states[tag(6)] == "building"
    assert states[tag(5)] == "waiting for waiver"
    assert states[tag(4)] == "abandoned"
    assert status.releases[2].reason == "superseded"


def test_an_issue_knows_of_an_older_failure_than_is_shown() -> None:
    body = f"x\nFirst failed in: `{tag(1)}`\nLast failed in: `{tag(9)}`"
    issues = (
        Issue(number=4, key=f"snapshot/{WIN}", title="", body=body, url="https://i/4"),
        Issue(number=5, key=f"snapshot/sdk-{LINUX}", title="", body="", url="https://i/5"),
        Issue(
            number=7,
            key=f"snapshot/{WIN}t",
            title=f"{WIN}t fails (experimental)",
            body=body.replace(tag(1), "snapshot-20261001.01"),
            url="https://i/7",
        ),
        Issue(number=6, key=f"numbered/{WIN}", title="", body=body, url="https://i/6"),
    )
    status = picture(published(9, TWELVE, THIRTEEN, FREE, waived=WIN), issues=issues)
    windows = line(status, WINDOWS)
    assert windows.red_since == tag(1)
    assert [link.text for link in windows.issues] == ["#4", "#7"]
    assert [link.text for link in line(status, LINUX).issues] == ["#5"]
    between = picture(published(9, TWELVE, THIRTEEN, FREE, waived=WIN), published(8, *ALL), issues=issues)
    assert line(between, WINDOWS).red_since == tag(9)  # it worked in between, whatever the issue says


def test_something_experimental_is_not_red() -> None:
    broken = make_job(f"{LINUX} / wheels: {LINUX} (experimental)", "failure")
    for facts in (
        published(1, TWELVE, THIRTEEN, WIN, left_out=FREE),
        pending(1, broken, conclusion="failure", present=ALL - {FREE}),
        pending(1, conclusion="success", present=ALL, failing=frozenset({f"smoke-{FREE}"})),
    ):
        status = picture(facts)
        linux = line(status, LINUX)
        assert (linux.verdict, linux.passed, linux.red_since) == ("partial", tag(1), "")
        assert status.releases[0].red == ()


def test_a_platform_that_is_waived_as_a_whole_fails() -> None:
    status = picture(published(1, TWELVE, THIRTEEN, FREE, waived=WIN))
    cell = status.releases[0].platforms[WINDOWS]
    assert (cell.verdict, cell.done, cell.total, cell.lacking) == ("failed", 0, 1, (WIN,))
    # A waived test of a wheel that is there takes no wheel away.
    cell = picture(published(1, *ALL, waived=f"smoke-{WIN}")).releases[0].platforms[WINDOWS]
    assert (cell.verdict, cell.done, cell.total) == ("waived", 1, 1)


@pytest.mark.parametrize("drafts", [True, False], ids=["a token that sees drafts", "one that does not"])
def test_what_is_being_built(drafts: bool) -> None:
    jobs = (
        make_job(f"{LINUX} / wheels: {LINUX}", "success", number=1),
        make_job(f"{LINUX} / wheels: {LINUX} (experimental)", None, number=2),
        make_job(f"{WINDOWS} / sdk: {WINDOWS}", "failure", number=3),
        make_job(f"{WINDOWS} / sdk: {WINDOWS}", None, number=4, minutes=9),  # its second attempt
    )
    facts = pending(1, *jobs, present=frozenset({TWELVE}) if drafts else None)
    status = picture(facts)
    cells = status.releases[0].platforms
    assert [(cell.verdict, cell.done, cell.total) for cell in cells.values()] == [
        ("building", 2, 3),
        ("building", 0, 1),
    ]
    assert line(status, LINUX).building == tag(1)
    assert status.releases[0].run == "https://r/1"


def test_a_test_that_fails_is_a_failure_of_its_platform() -> None:
    facts = pending(1, conclusion="failure", present=ALL, failing=frozenset({f"smoke-{WIN}"}))
    status = picture(facts)
    assert status.releases[0].red == (WINDOWS,)
    assert line(status, LINUX).verdict == "passed"


def test_nothing_is_known() -> None:
    status = picture(
        replace(published(4), manifest=None),
        pending(3, runs=False),
        replace(pending(2, conclusion="failure"), card=None),
    )
    assert [row.state for row in status.releases] == ["published", "not started", "waiting"]
    assert [row.platforms[LINUX].verdict for row in status.releases] == ["unknown", "missing", "unknown"]
    assert line(status, LINUX).verdict == "unknown"
    empty = picture()
    assert (empty.releases, empty.platforms) == ((), ())


def test_the_kinds_are_kept_apart() -> None:
    numbered = published(5, TWELVE, THIRTEEN, FREE, waived=WIN, name="llvm-22.1.8.01")
    status = picture(published(3, *ALL), numbered)
    releases, platforms = status.of_kind("numbered")
    assert [row.tag for row in releases] == ["llvm-22.1.8.01"]
    assert [(row.name, row.red_since) for row in platforms] == [(LINUX, ""), (WINDOWS, "llvm-22.1.8.01")]
    assert [row.red_since for row in status.of_kind("snapshot")[1]] == ["", ""]
    data: Any = json.loads(json.dumps(status.to_json()))
    assert data["releases"][1]["platforms"][WINDOWS]["lacking"] == [WIN]
    assert {row["kind"] for row in data["platforms"]} == {"snapshot", "numbered"}


def test_a_line_has_platforms_of_its_own() -> None:
    """One that only its line has makes no snapshot lack it; and one that its line lacks is not missed there."""
    own = make_line(make_row(runtime="macos-arm64"), others={"macos-arm64": {"pythons": ["cp312"]}})
    line = MATRIX.of_line("22.1", own, where="")
    numbered = published(5, "mlir-macos-arm64-cp312", name="llvm-22.1.8.01")
    other = published(4, *ALL, name="llvm-21.1.8.01")
    status = picture(published(3, *ALL), numbered, other, lines={"22.1": line})
    shown = {
        row.tag: {name: (cell.verdict, cell.total) for name, cell in row.platforms.items()} for row in status.releases
    }
    assert shown == {
        tag(3): {LINUX: ("passed", 3), WINDOWS: ("passed", 1), "macos-arm64": ("unknown", 0)},
        "llvm-22.1.8.01": {LINUX: ("unknown", 0), WINDOWS: ("unknown", 0), "macos-arm64": ("passed", 1)},
        "llvm-21.1.8.01": {LINUX: ("passed", 3), WINDOWS: ("passed", 1), "macos-arm64": ("unknown", 0)},
    }
    rows = {kind: {row.name for row in status.of_kind(kind)[1]} for kind in ("snapshot", "numbered")}
    assert rows == {"snapshot": {LINUX, WINDOWS}, "numbered": {LINUX, WINDOWS, "macos-arm64"}}


def test_the_platform_of_a_target_is_its_runtime_in_the_matrix() -> None:
    names = TargetNames(MATRIX)
    for text, expected in (
        (TWELVE, LINUX),
        (f"mlir-{LINUX}-cp312-abi3", LINUX),
        (f"smoke-{WIN}", WINDOWS),
        (f"mlir-{WINDOWS}-cp310", WINDOWS),  # the matrix had such a row once
        (f"smoke-mlir-{WINDOWS}-cp310", WINDOWS),
        (f"sdk-{WINDOWS}", WINDOWS),
        ("sdk-macos-arm64", ""),
        ("mlir-windows-x641-cp312", ""),
        (f"gone-{WINDOWS}-cp312", ""),
        (f"x-{WIN}-y", ""),
    ):
        assert names.platform_of(text) == expected
    assert names.is_wheel(WIN)
    assert not names.is_wheel(f"smoke-{WIN}")


# -- where the status used to judge by itself --------------------------------------------------------------------------

WHEELS_MADE, WHEELS_FAILED = (make_job(f"{WINDOWS} / wheels: {WINDOWS}", end) for end in ("success", "failure"))
TESTED = make_job(f"{WINDOWS} / tests: {WINDOWS}", "success")
NOT_UPLOADED = make_job(f"{WINDOWS} / publish: upload wheels and test reports ({WINDOWS})", "failure")

CASES: dict[str, tuple[TagFacts, str, tuple[object, ...]]] = {
    "all that is required is waived: as once it is published": (
        pending(1, WHEELS_FAILED, conclusion="failure", present=ALL - {WIN}, waived=[WIN]),
        WINDOWS, ("failed", 0, 1, (WIN,)),
    ),
    "a required wheel is waived: nothing is missing any more": (
        pending(1, conclusion="failure", present=ALL - {TWELVE}, waived=[TWELVE]),
        LINUX, ("waived", 2, 3, (TWELVE,)),
    ),
    "a failed test is waived": (
        pending(1, conclusion="failure", present=ALL, failing=[f"smoke-{TWELVE}"], waived=[f"smoke-{TWELVE}"]),
        LINUX, ("waived", 3, 3, (f"smoke-{TWELVE}",)),
    ),
    "a required test was not run": (
        pending(1, conclusion="success", present=ALL, untested=[f"smoke-{WIN}"]), WINDOWS, ("missing", 1, 1, ()),
    ),
    "a required test is still to be run": (
        pending(1, present=ALL, untested=[f"smoke-{WIN}"]), WINDOWS, ("building", 1, 1, ()),
    ),
    "a job failed, and all is there nevertheless": (
        pending(1, WHEELS_FAILED, conclusion="failure", present=ALL), WINDOWS, ("passed", 1, 1, ()),
    ),
    "a wheel was made, and lost before it was in the draft": (
        pending(1, WHEELS_MADE, conclusion="failure", present=()), WINDOWS, ("missing", 0, 1, ()),
    ),
    "the upload failed": (
        pending(1, WHEELS_MADE, NOT_UPLOADED, conclusion="failure", present=()), WINDOWS, ("failed", 0, 1, ()),
    ),
    "the draft can't be seen: the jobs tell alone": (
        pending(1, WHEELS_MADE, TESTED, conclusion="success"), WINDOWS, ("passed", 1, 1, ()),
    ),
    "one wheel for two CPythons": (
        pending(1, conclusion="success", present=[ABI3], matrix=SHARED), LINUX, ("passed", 1, 1, ()),
    ),
    "of the two, the one that is not required fails": (
        pending(1, conclusion="success", present=[ABI3], failing=[f"smoke-{THIRTEEN}"], matrix=SHARED),
        LINUX, ("partial", 1, 1, ()),
    ),
    "of the two, the required one is waived, and so is the suite that only it has": (
        pending(
            1, conclusion="success", present=[ABI3], failing=[f"smoke-{TWELVE}"], untested=[REGRESSION],
            waived=[TWELVE], matrix=SHARED,
        ), LINUX, ("waived", 1, 1, (TWELVE,)),
    ),
    "the wheel for two is waived": (
        pending(1, conclusion="success", present=[], waived=[ABI3], matrix=SHARED), LINUX, ("failed", 0, 1, (ABI3,)),
    ),
    "published: what a wheel for two serves is not gone": (
        published(1, ABI3, waived=f"smoke-{TWELVE}", left_out=THIRTEEN, serves=("cp312", "cp313")),
        LINUX, ("waived", 1, 1, (f"smoke-{TWELVE}", THIRTEEN)),
    ),
    "published: only something experimental is left out": (
        published(1, WIN, left_out=FREE), LINUX, ("partial", 0, 1, (FREE,)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_status_is_what_the_scorecard_says(name: str) -> None:
    facts, platform, expected = CASES[name]
    cell = picture(facts).releases[0].platforms[platform]
    assert (cell.verdict, cell.done, cell.total, cell.lacking) == expected


def test_a_release_without_a_wheel_of_a_platform_is_not_one_in_which_it_passed() -> None:
    found = line(picture(published(2, WIN, left_out=FREE), published(1, *ALL)), LINUX)
    assert (found.verdict, found.passed) == ("partial", tag(1))


def test_no_new_snapshot_for_days_is_noted() -> None:
    begun = [replace(state(tag(number)), created_at=START + timedelta(days=number)) for number in (1, 2)]
    assert not list(stale(START + timedelta(days=4), begun))
    (note,) = stale(START + timedelta(days=5), begun)
    assert note.startswith("the newest snapshot is 3 d old")
    facts = TagFacts(state=begun[1])
    status = make_status(Facts(now=START + timedelta(days=5), source="here", releases=(facts,), matrix=MATRIX))
    assert note in status.notes


def test_ages() -> None:
    for age, text in (
        (timedelta(seconds=-3), "0 min"),
        (timedelta(minutes=59), "59 min"),
        (timedelta(minutes=60), "1 h"),
        (timedelta(hours=47, minutes=59), "47 h"),
        (timedelta(days=400), "400 d"),
    ):
        assert format_age(age) == text


def test_measures_are_compared_within_their_kind_and_given_as_data() -> None:
    rows = history([10_000_000, 10_000_000, 9_000_000])
    numbered = measured(make_manifest("llvm-22.1.8.01", version="22.1.8"), parse=70_000_000)
    facts = Facts(now=START, source="s", releases=(), matrix=MATRIX, manifests=(*rows, numbered))
    data = json.loads(json.dumps(make_status(facts).to_json()))["measures"]
    ((snapshots,), (releases,)) = data["snapshot"], data["numbered"]
    assert (snapshots["target"], snapshots["measure"]) == (TARGET, "parse")
    assert [point["change"] for point in snapshots["points"]] == [None, None, pytest.approx(-0.1)]
    assert [point["value"] for point in releases["points"]] == [70_000_000]
