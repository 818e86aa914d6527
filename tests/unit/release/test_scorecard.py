"""One card for all who judge a release: drafts on which its readers used to differ, and what is decided."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from mlir_release.forge.base import Asset
from mlir_release.model.matrix import Matrix
from mlir_release.model.test_report import TestReport
from mlir_release.release.failing import failing_targets, summary
from mlir_release.release.scorecard import Scorecard, score
from tests.revision_factory import FACTS
from tests.targets_factory import make_row, make_targets

#: A required wheel, and an experimental one; a suite of the platform, and one of each wheel.
PLAIN = Matrix.parse(
    make_targets(
        make_row(suites=["smoke", "regression"], pythons=["cp312"]),
        make_row(suites=["smoke", "regression"], pythons=["cp313"], required=False),
    )
)
#: One wheel for both CPythons, of which only the required one's row has the platform's suite.
SHARED = Matrix.parse(
    make_targets(
        make_row(suites=["smoke", "regression"], pythons=["cp312"]),
        make_row(suites=["smoke"], pythons=["cp313"], required=False),
    )
).with_abi3(replace(FACTS, has_stable_abi=True))
REQUIRED, EXPERIMENTAL, ABI3 = (f"mlir-linux-x86_64-{python}" for python in ("cp312", "cp313", "cp312-abi3"))
PLATFORM = "regression-mlir-linux-x86_64"
NOTHING_LEFT = "nothing is left to publish: every target is left out or waived"
OTHER_BUILD = "the report tells of another build of the wheel than the draft has"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A draft, and what is decided for each reader."""

    matrix: Matrix = PLAIN
    wheels: tuple[str, ...] = (REQUIRED, EXPERIMENTAL)
    untested: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    about: str = ""  #: the digest that the required wheel's report names, if it is another
    waived: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    accepted: tuple[str, ...] = (REQUIRED, EXPERIMENTAL)
    missing: tuple[str, ...] = ()  #: wheels and tests to be made
    lacking: tuple[str, ...] = ()  #: for which a person or a build has to do something before publication
    failing: tuple[tuple[str, bool], ...] = ()  #: issues, and whether publication waits


CASES = {
    "a wheel for several is absent, and its one required CPython is waived: nothing required is lacking": Case(
        matrix=SHARED, wheels=(), untested=(PLATFORM, f"smoke-{EXPERIMENTAL}"), waived=(REQUIRED,),
        problems=(NOTHING_LEFT,), accepted=(), missing=(ABI3, f"smoke-{EXPERIMENTAL}"), failing=((ABI3, False),),
    ),
    "a suite on which only a waived CPython rests is waived with it": Case(
        matrix=SHARED, wheels=(ABI3,), untested=(PLATFORM,), waived=(REQUIRED,), accepted=(ABI3,),
    ),
    "all CPythons of a wheel are waived one by one: the same as its own waiver": Case(
        matrix=SHARED, wheels=(), untested=(PLATFORM, f"smoke-{REQUIRED}", f"smoke-{EXPERIMENTAL}"),
        waived=(REQUIRED, EXPERIMENTAL), problems=(NOTHING_LEFT,), accepted=(),
    ),
    "a suite that only an experimental wheel still rests on keeps nothing back": Case(
        wheels=(EXPERIMENTAL,), untested=(f"smoke-{REQUIRED}",), failed=(PLATFORM,), waived=(REQUIRED,),
        problems=(NOTHING_LEFT,), accepted=(), missing=(PLATFORM,), failing=((PLATFORM, False),),
    ),
    "a waived wheel that is there and good is published, and is well again": Case(waived=(REQUIRED,)),
    "a waived test that passes is well again": Case(waived=(f"smoke-{REQUIRED}",)),
    "a waived test of a wheel that is there takes no wheel away": Case(
        failed=(f"smoke-{REQUIRED}",), waived=(f"smoke-{REQUIRED}",),
    ),
    "a report about another wheel of the draft says nothing about this one": Case(
        about="cp313", accepted=(EXPERIMENTAL,), missing=(f"smoke-{REQUIRED}",), lacking=(f"smoke-{REQUIRED}",),
        problems=(f"smoke-{REQUIRED}: tested another build of the wheel than the draft has",),
        failing=((f"smoke-{REQUIRED}", True),),
    ),
    "a failing report about another build is stale, not failed": Case(
        about="gone", failed=(f"smoke-{REQUIRED}",), accepted=(EXPERIMENTAL,), missing=(f"smoke-{REQUIRED}",),
        problems=(f"smoke-{REQUIRED}: tested another build of the wheel than the draft has",),
        lacking=(f"smoke-{REQUIRED}",), failing=((f"smoke-{REQUIRED}", True),),
    ),
    "a wheel that was deleted for its failed test has the test's issue, published or not": Case(
        wheels=(REQUIRED,), failed=(f"smoke-{EXPERIMENTAL}",), accepted=(REQUIRED,),
        missing=(EXPERIMENTAL, f"smoke-{EXPERIMENTAL}"), failing=((f"smoke-{EXPERIMENTAL}", False),),
    ),
    "a waiver of an SDK is none": Case(
        wheels=(EXPERIMENTAL,), waived=("sdk-linux-x86_64",), problems=(f"{REQUIRED}: there is no wheel",),
        accepted=(EXPERIMENTAL,), missing=(REQUIRED,), lacking=(REQUIRED,), failing=((REQUIRED, True),),
    ),
}  # fmt: skip


def card_of(case: Case) -> Scorecard:
    def digest(name: str) -> str:
        return name.encode().hex().rjust(64, "0")

    def report(name: str, wheel: str) -> TestReport:
        passed = name not in case.failed
        if name == PLATFORM:
            return TestReport(target=name, suite="regression", passed=passed)
        sha256 = digest(case.about if case.about and name == f"smoke-{REQUIRED}" else wheel)
        return TestReport(target=name, suite="smoke", wheel=f"{wheel}.whl", wheel_sha256=sha256, passed=passed)

    files = {
        wheel.slot: Asset(name=f"{wheel.name}.whl", size=1, sha256=digest(wheel.name), complete=True, url="")
        for wheel in case.matrix.wheels
        if wheel.name in case.wheels
    }
    reports = {
        test.name: report(test.name, test.wheels[0]) for test in case.matrix.tests if test.name not in case.untested
    }
    return score(case.matrix, wheels=files, reports=reports, waivers=case.waived)


@pytest.mark.parametrize("name", CASES)
def test_all_who_judge_a_draft_agree(name: str) -> None:
    case = CASES[name]
    card = card_of(case)
    assert card.problems == case.problems
    assert card.accepted == case.accepted
    assert sorted((*card.lacking_wheels, *card.lacking_tests)) == sorted(case.missing)
    assert card.lacking_required == case.lacking
    found = failing_targets(card)
    assert {(row.name, row.required) for row in found.values()} == set(case.failing)
    # Publication waits for something if, and only if, a build or a waiver can help.
    assert bool(card.lacking_required) == bool(set(card.problems) - {NOTHING_LEFT})
    assert any(row.required for row in found.values()) == bool(card.lacking_required)
    assert not set(card.waivers) - set(case.waived)


def test_a_wheel_that_no_target_makes_is_seen_without_its_content() -> None:
    slot = replace(PLAIN.wheels[0].slot, python="cp310")
    stray = Asset(name="stray.whl", size=1, sha256="0" * 64, complete=True, url="")
    card = score(PLAIN, wheels={slot: stray}, reports={}, waivers=())
    assert card.problems[0] == "stray.whl: no target of the build matrix makes such a wheel"


def test_a_stale_report_is_told_as_such() -> None:
    found = failing_targets(card_of(Case(about="gone")))
    assert summary(found[f"smoke-{REQUIRED}"]) == OTHER_BUILD
