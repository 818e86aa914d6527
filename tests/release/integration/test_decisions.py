"""A person's ways out, on a real local forge: waive, abandon, yank."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.errors import ForgeError, ReleaseError
from mlir_release.release.forge.files import head_of
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.yanks import Yank, parse_yanks
from mlir_release.release.transaction.decisions import (
    RecordedDecision,
    Waivers,
    abandon,
    waive,
    waive_either,
    waive_only,
    yank,
)
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.ledger import Ledger
from mlir_release.release.transaction.start import start
from mlir_release.release.transaction.upload import upload
from tests.disturbed_forge import DisturbedForge
from tests.refusals import refused
from tests.revision_factory import make_revision
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ADA = "Ada Lovelace <ada@example.org>"
BOB = "Bob <bob@example.org>"
TAG = "snapshot-20261120.01"
TARGETS = make_targets(make_row(suites=["smoke", "bindings"]), pythons=["cp312"]).encode()
TARGET = "mlir-linux-x86_64-cp312"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A forge with one pending snapshot."""
    files = {"llvm-project.version": b"a" * 40 + b"\n", "targets.toml": TARGETS}
    forge = LocalForge.create(tmp_path / "forge", files, clock=lambda: NOW, identity=ADA)
    begin(forge, "b" * 40)
    return tmp_path / "forge"


def begin(forge: LocalForge, sha: str) -> None:
    start(forge, make_revision(sha), Matrix.parse(TARGETS.decode()), request_id=f"r-{sha[0]}")


@pytest.fixture
def forge(root: Path) -> LocalForge:
    return LocalForge(root, clock=lambda: NOW, identity=ADA)


@pytest.fixture
def bob(root: Path) -> LocalForge:
    return LocalForge(root, clock=lambda: NOW.replace(hour=13), identity=BOB)


def image(forge: LocalForge) -> object:
    """What must not change when a decision is refused."""
    return ([*forge.tags()], [*forge.releases()], forge.head("main"))


def publish(forge: LocalForge, tmp_path: Path, name: str = "mlir-20261120.1-cp312-cp312-linux_x86_64.whl") -> None:
    source = tmp_path / "source"
    source.write_bytes(b"wheel")
    (draft,) = [release for release in forge.releases() if release.draft]
    forge.upload(draft, name, source)
    forge.publish(draft)


def changes_nothing(forge: LocalForge, action: Callable[[], object], id: str, said: str = "") -> ReleaseError:
    """The error of a decision that is refused."""
    before = image(forge)
    error = refused(action, id, said)
    assert image(forge) == before
    return error


# -- waive ------------------------------------------------------------------------------------------------------------


def test_a_waiver_stands_in_the_draft(forge: LocalForge, tmp_path: Path) -> None:
    decision = waive(forge, TAG, TARGET, "  runner is\n broken ")
    assert (decision.new, decision.reason, decision.by, decision.at) == (
        True,
        "runner is broken",
        ADA,
        "2026-11-20T12:00:00Z",
    )
    (draft,) = forge.releases()
    asset = draft.asset(f"waiver-{TARGET}.json")
    assert asset is not None
    forge.download(draft, asset, tmp_path / "waiver")
    assert json.loads((tmp_path / "waiver").read_bytes()) == {
        "target": TARGET,
        "reason": "runner is broken",
        "by": ADA,
        "at": "2026-11-20T12:00:00Z",
    }
    assert decision.text() == f"waived {TARGET} of {TAG}: runner is broken"


def test_the_first_waiver_of_a_target_stands(forge: LocalForge, bob: LocalForge) -> None:
    waive(forge, TAG, TARGET, "first")
    again = waive(bob, TAG, TARGET, "second")
    assert (again.new, again.reason, again.by) == (False, "first", ADA)
    assert "already" in again.text()
    assert len(forge.releases()[0].assets) == 1


def test_a_test_target_can_be_waived(forge: LocalForge) -> None:
    assert waive(forge, TAG, f"bindings-{TARGET}", "known").new


def test_waivers_that_are_refused(forge: LocalForge, tmp_path: Path) -> None:
    changes_nothing(
        forge,
        lambda: waive(forge, TAG, "mlir-linux-x86_64-cp313", "r"),
        "option-invalid",
        "there is no target",
    )
    changes_nothing(forge, lambda: waive(forge, TAG, TARGET, " \n"), "option-invalid", "needs a reason")
    changes_nothing(forge, lambda: waive(forge, "snapshot-20261120.02", TARGET, "r"), "tag-missing")
    changes_nothing(forge, lambda: waive(forge, "llvm-22.1.10", TARGET, "r"), "option-invalid", "tag")
    publish(forge, tmp_path)
    changes_nothing(forge, lambda: waive(forge, TAG, TARGET, "r"), "already-published")


def test_a_dry_decision_changes_nothing(forge: LocalForge, tmp_path: Path) -> None:
    before = image(forge)
    assert waive(forge, TAG, TARGET, "r", dry_run=True).new
    assert abandon(forge, TAG, "r", dry_run=True).new
    assert image(forge) == before
    publish(forge, tmp_path)
    before = image(forge)
    assert yank(forge, TAG, "r", branch="main", dry_run=True).new
    assert image(forge) == before


# -- abandon ----------------------------------------------------------------------------------------------------------


def test_an_abandoned_tag_keeps_its_record_and_loses_its_drafts(forge: LocalForge, bob: LocalForge) -> None:
    decision = abandon(forge, TAG, "LLVM is broken")
    assert decision.new
    (state,) = Ledger(forge, whole=True).states
    assert (state.state, state.reason) == ("abandoned", "LLVM is broken")
    assert not forge.releases()
    by_name = {tag.name: tag for tag in forge.tags()}
    assert by_name[f"abandoned/{TAG}"].commit == forge.head("main")
    assert f"Abandoned-By: {ADA}" in by_name[f"abandoned/{TAG}"].message
    again = abandon(bob, TAG, "other reason")
    assert (again.new, again.reason) == (False, "LLVM is broken")


def test_drafts_left_by_a_killed_abandon_are_deleted_by_the_next(forge: LocalForge) -> None:
    abandon(forge, TAG, "broken")
    forge.create_draft(TAG, title="", body="", prerelease=True)
    assert not abandon(forge, TAG, "broken").new
    assert not forge.releases()


def test_abandonments_that_are_refused(forge: LocalForge, tmp_path: Path) -> None:
    changes_nothing(forge, lambda: abandon(forge, TAG, ""), "option-invalid", "needs a reason")
    changes_nothing(forge, lambda: abandon(forge, "snapshot-20261120.09", "r"), "tag-missing")
    publish(forge, tmp_path)
    changes_nothing(forge, lambda: abandon(forge, TAG, "r"), "already-published")


def test_a_release_that_is_published_meanwhile_stays_published(forge: LocalForge, tmp_path: Path) -> None:
    disturbed = DisturbedForge(forge, lambda what, _: publish(forge, tmp_path) if what == "create_tag" else None)
    refused(lambda: abandon(disturbed, TAG, "r"), "changed-meanwhile")
    assert [state.state for state in Ledger(forge, whole=True).states] == ["published"]


# -- yank -------------------------------------------------------------------------------------------------------------


def yanks(forge: LocalForge) -> tuple[Yank, ...]:
    head = head_of(forge, "main")
    return parse_yanks((forge.read("yanked.toml", commit=head) or b"").decode())


def test_a_release_is_yanked_on_the_branch(forge: LocalForge, bob: LocalForge, tmp_path: Path) -> None:
    publish(forge, tmp_path)
    assert yank(forge, TAG, "crashes", branch="main").new
    expected = Yank(tag=TAG, reason="crashes", file="", by=ADA, at="2026-11-20T12:00:00Z")
    assert yanks(forge) == (expected,)
    head = forge.head("main")
    again = yank(bob, TAG, "other", branch="main")
    assert (again.new, again.reason, again.by) == (False, "crashes", ADA)
    assert not yank(bob, TAG, "other", branch="main", file=forge.releases()[0].assets[0].name).new
    assert forge.head("main") == head
    assert head is not None
    assert forge.read("targets.toml", commit=head) == TARGETS


def test_a_file_is_yanked_and_then_the_rest(forge: LocalForge, tmp_path: Path) -> None:
    publish(forge, tmp_path, "z.whl")
    yank(forge, TAG, "this one", branch="main", file="z.whl")
    yank(forge, TAG, "all", branch="main")
    assert [(entry.file, entry.reason) for entry in yanks(forge)] == [("", "all"), ("z.whl", "this one")]


def test_yanks_are_kept_in_one_order(forge: LocalForge, tmp_path: Path) -> None:
    publish(forge, tmp_path)
    begin(forge, "c" * 40)
    publish(forge, tmp_path)
    yank(forge, "snapshot-20261120.02", "r", branch="main")
    yank(forge, TAG, "r", branch="main")
    assert [entry.tag for entry in yanks(forge)] == [TAG, "snapshot-20261120.02"]


def test_a_yank_survives_a_branch_that_moves(forge: LocalForge, bob: LocalForge, tmp_path: Path) -> None:
    publish(forge, tmp_path)
    moves = [b"1", b"2"]

    def move(what: str, branch: str) -> None:
        if what == "commit" and moves:
            expected = forge.head(branch)
            assert expected is not None
            bob.commit(branch, expected=expected, files={"README.md": moves.pop()}, message="m\n")

    assert yank(DisturbedForge(forge, move), TAG, "r", branch="main").new
    assert len(yanks(forge)) == 1
    assert not moves


def test_yanks_that_are_refused(forge: LocalForge, tmp_path: Path) -> None:
    changes_nothing(forge, lambda: yank(forge, TAG, "r", branch="main"), "release-pending")
    publish(forge, tmp_path)
    changes_nothing(forge, lambda: yank(forge, TAG, "", branch="main"), "option-invalid", "needs a reason")
    changes_nothing(forge, lambda: yank(forge, TAG, "r", branch="main", file="no.whl"), "option-invalid")
    changes_nothing(forge, lambda: yank(forge, TAG, "r", branch="trunk"), "branch-missing")
    changes_nothing(forge, lambda: yank(forge, "snapshot-20261120.99", "r", branch="main"), "tag-missing")
    changes_nothing(forge, lambda: yank(forge, "v1.2.3", "r", branch="main"), "option-invalid")


def test_a_yanked_toml_with_junk_is_left_alone(forge: LocalForge, tmp_path: Path) -> None:
    publish(forge, tmp_path)
    head = head_of(forge, "main")
    forge.commit("main", expected=head, files={"yanked.toml": b"[[yank]]\ntga = 1\n"}, message="m\n")
    changes_nothing(forge, lambda: yank(forge, TAG, "r", branch="main"), "config-invalid")


# -- waive --only -----------------------------------------------------------------------------------------------------

TWO_PLATFORMS = make_targets(
    make_row(suites=["smoke", "regression"]),
    make_row(runtime="windows-x64", suites=["smoke", "regression"]),
    make_row(runtime="windows-x64", required=False, pythons=["cp315"]),
    pythons=["cp312"],
    others={"windows-x64": {"pythons": ["cp312", "cp313"]}},
    provenance="",
)
WINDOWS = ["mlir-windows-x64-cp312", "mlir-windows-x64-cp313"]
REGRESSION = "regression-mlir-windows-x64"


@pytest.fixture
def windows(tmp_path: Path) -> LocalForge:
    """A forge with one pending snapshot of two platforms."""
    files = {"llvm-project.version": b"a" * 40 + b"\n", "targets.toml": TWO_PLATFORMS.encode()}
    forge = LocalForge.create(tmp_path / "two", files, clock=lambda: NOW, identity=ADA)
    start(forge, make_revision("b" * 40), Matrix.parse(TWO_PLATFORMS), request_id="r-b")
    return forge


def fill(forge: LocalForge, folder: Path, *targets: str, passed: bool = True) -> None:
    """Upload wheels of Windows with passing smoke tests, and a report of the regression suite."""
    for target in targets:
        python = target.rpartition("-")[2]
        wheel = make_wheel(
            folder, tag=TAG, version="20261120.1", revision="b" * 40, python=python, platform="win_amd64", target=target
        )
        make_report(folder, wheel, target=f"smoke-{target}")
    make_report(folder, None, suite="regression", target=REGRESSION, passed=passed, failures=() if passed else ("a",))
    upload(Draft.load(forge, TAG), folder)


def test_a_whole_platform_is_waived(windows: LocalForge, bob: LocalForge) -> None:
    found = waive_only(windows, TAG, "os=windows", "no runner")
    assert [(one.subject, one.reason, one.by, one.new) for one in found.decisions] == [
        (name, "no runner", ADA, True) for name in WINDOWS
    ]
    (draft,) = windows.releases()
    assert [asset.name for asset in draft.assets] == [f"waiver-{name}.json" for name in WINDOWS]
    # The suites of wheels that are not there gate nothing.
    assert Draft.load(windows, TAG).card().lacking_required == ("mlir-linux-x86_64-cp312",)
    again = waive_only(windows, TAG, "os=windows", "another reason")
    assert [(one.reason, one.new) for one in again.decisions] == [("no runner", False)] * 2
    assert again.text().count("waived already") == 2


def test_what_is_there_and_passes_is_not_waived(windows: LocalForge, tmp_path: Path) -> None:
    fill(windows, tmp_path / "dist", WINDOWS[0], passed=False)
    found = waive_only(windows, TAG, "os=windows", "r")
    assert [one.subject for one in found.decisions] == [WINDOWS[1], REGRESSION]
    assert waive_only(windows, TAG, "os=linux and python=cp312", "r", dry_run=True).decisions[0].new
    assert Draft.load(windows, TAG).card().lacking_required == ("mlir-linux-x86_64-cp312",)


def test_a_wheel_that_is_there_is_still_gated_by_its_suites(windows: LocalForge, tmp_path: Path) -> None:
    fill(windows, tmp_path / "dist", *WINDOWS, passed=False)
    found = waive_only(windows, TAG, "os=windows", "r")
    assert [one.subject for one in found.decisions] == [REGRESSION]


def test_filters_that_choose_nothing(windows: LocalForge, tmp_path: Path) -> None:
    changes_nothing(
        windows,
        lambda: waive_only(windows, TAG, "os=widnows", "r"),
        "option-invalid",
        "no target has os",
    )
    changes_nothing(
        windows,
        lambda: waive_only(windows, TAG, "os=linux and python=cp313", "r"),
        "option-invalid",
        "no target fits the filter",
    )
    changes_nothing(windows, lambda: waive_only(windows, TAG, "os=windows", " "), "option-invalid", "needs a reason")
    fill(windows, tmp_path / "dist", *WINDOWS)
    error = changes_nothing(windows, lambda: waive_only(windows, TAG, "os=windows", "r"), "nothing-to-do")
    assert "mlir-linux-x86_64-cp312" in error.remedy
    changes_nothing(windows, lambda: waive_only(windows, TAG, "experimental", "r"), "nothing-to-do")
    abandon(windows, TAG, "broken")
    changes_nothing(windows, lambda: waive_only(windows, TAG, "os=windows", "r"), "tag-abandoned")


def test_a_waiver_names_a_target_or_a_filter(windows: LocalForge) -> None:
    for target, only in ((None, None), (TARGET, "os=windows"), (TARGET, "")):
        changes_nothing(
            windows,
            lambda target=target, only=only: waive_either(windows, TAG, target=target, only=only, reason="r"),  # type: ignore[misc]
            "option-invalid",
            "waive" if target is None and only is None else "not both",
        )
    assert isinstance(waive_either(windows, TAG, target=WINDOWS[0], only=None, reason="r"), RecordedDecision)
    assert isinstance(waive_either(windows, TAG, target=None, only="os=windows", reason="r"), Waivers)


def test_a_waiver_that_was_cut_short_is_completed(windows: LocalForge) -> None:
    uploads: list[str] = []

    def fail_at_the_second(what: str, name: str) -> None:
        uploads.extend([name] * (what == "upload"))
        if len(uploads) == 2:
            raise ForgeError("forge-unreachable", "gone", where="", why="", remedy="later")

    with pytest.raises(ForgeError):
        waive_only(DisturbedForge(windows, fail_at_the_second), TAG, "os=windows", "r")
    found = waive_only(windows, TAG, "os=windows", "r")
    assert [one.new for one in found.decisions] == [False, True]
