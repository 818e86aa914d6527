"""A platform becomes required by a release that proves it, and the edit changes nothing else of the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from mlir_release.errors import NeedsPersonError, UsageError
from mlir_release.model.manifest import Manifest, TestEntry
from mlir_release.model.matrix import Matrix
from mlir_release.model.release_settings import TARGETS_FILE
from mlir_release.model.targets import Targets
from mlir_release.release.promote import Proof, find_proof, promoted
from tests.paper_forge import make_manifest
from tests.targets_factory import make_row, make_targets

TEXT = (Path(__file__).parents[3] / TARGETS_FILE).read_text()
TARGETS = Targets.parse(TEXT, where=TARGETS_FILE)
NEWER, OLDER = "snapshot-20261121.01", "snapshot-20261120.01"
PYTHONS = ("cp311", "cp312", "cp313", "cp314")
TESTS = (
    *(f"{suite}-mlir-windows-x64-{python}" for suite in ("smoke", "bindings") for python in PYTHONS),
    "regression-mlir-windows-x64",
)


def release(tag: str, *tests: str) -> Manifest:
    rows = tuple(TestEntry(name=name, suite=name.partition("-")[0], counts={"pass": 10}) for name in tests)
    return structs.replace(make_manifest(tag), tests=rows)


def test_the_newest_release_in_which_a_whole_row_passed_is_the_proof() -> None:
    found = find_proof(TARGETS, "windows-x64", [release(NEWER, *TESTS[1:]), release(OLDER, *TESTS)])
    assert (found.tag, found.tests) == (OLDER, 90)
    assert [TARGETS.target[number].all_runtimes for number in found.rows] == [
        ("linux-aarch64", "macos-arm64", "windows-x64")
    ]
    assert find_proof(TARGETS, "windows-x64", [release(NEWER, *TESTS), release(OLDER, *TESTS)]).tag == NEWER


def test_what_is_missing_is_named() -> None:
    with pytest.raises(NeedsPersonError) as caught:
        find_proof(TARGETS, "windows-x64", [release(NEWER), release(OLDER, *TESTS[:-1])])
    assert caught.value.id == "release-not-ready"
    assert caught.value.why == f"the closest is {OLDER}, which lacks regression-mlir-windows-x64"
    with pytest.raises(NeedsPersonError, match="nothing is published"):
        find_proof(TARGETS, "windows-x64", [])


def test_experiments_with_other_cpythons_are_no_proof() -> None:
    tests = [f"{suite}-mlir-windows-x64-{python}" for suite in ("smoke", "bindings") for python in ("cp314t", "cp315t")]
    with pytest.raises(NeedsPersonError):
        find_proof(TARGETS, "windows-x64", [release(NEWER, *tests)])


def test_a_runtime_that_there_is_not_and_one_without_tests() -> None:
    with pytest.raises(UsageError) as caught:
        find_proof(TARGETS, "windows", [release(NEWER, *TESTS)])
    assert caught.value.id == "option-invalid"
    assert "windows-x64" in caught.value.why
    rows = tuple(row for row in TARGETS.target if "windows-x64" not in row.all_runtimes)
    untested = structs.replace(TARGETS, target=rows)
    with pytest.raises(UsageError) as caught:
        find_proof(untested, "windows-x64", [release(NEWER, *TESTS)])
    assert caught.value.id == "config-invalid"


def promoted_by(text: str, tag: str, runtime: str) -> str:
    """The file after the promotion of the first row that has the runtime with its own CPythons."""
    rows = Targets.parse(text, where=TARGETS_FILE).target
    row = next(number for number, row in enumerate(rows) if runtime in row.all_runtimes and row.pythons is None)
    return promoted(text, Proof(runtime=runtime, tag=tag, rows=(row,), tests=1))


def newly_required(before: str, after: str) -> set[str]:
    old, new = Matrix.parse(before), Matrix.parse(after)
    assert {wheel.name for wheel in old.wheels} == {wheel.name for wheel in new.wheels}
    return {wheel.name for wheel in new.wheels if wheel.required and not old.wheel(wheel.name).required}


def test_the_edit_of_a_row_with_one_runtime_keeps_everything_else() -> None:
    changed = promoted_by(TEXT, NEWER, "macos-x86_64")
    before, after = TEXT.splitlines(), changed.splitlines()
    assert [line for line in after if line not in before] == [f'proven = "{NEWER}"']
    unchanged = [line for line in after if not line.startswith("proven")]
    assert sum(a != b for a, b in zip(unchanged, before, strict=True)) == 1
    assert newly_required(TEXT, changed) == {f"mlir-macos-x86_64-{python}" for python in PYTHONS}
    assert promoted_by(changed, NEWER, "macos-x86_64") == changed


def test_a_row_with_several_runtimes_is_split_and_the_others_stay_experimental() -> None:
    changed = promoted_by(TEXT, NEWER, "windows-x64")
    assert newly_required(TEXT, changed) == {f"mlir-windows-x64-{python}" for python in PYTHONS}
    gone = [line for line in TEXT.splitlines() if line not in changed.splitlines()]
    assert gone == ['runtimes = ["linux-aarch64", "macos-arm64", "windows-x64"]']
    row = '[[target]]\nllvm = "mlir"\nruntime = "windows-x64"\nsuites = ["smoke", "bindings", "regression"]\n'
    assert f"\n\n{row}required = true\n\n[[target]]\n" in changed
    assert promoted_by(changed, NEWER, "windows-x64") == changed
    both = promoted_by(changed, NEWER, "linux-aarch64")
    every = promoted_by(both, NEWER, "macos-arm64")
    assert 'runtimes = ["macos-arm64"]' in every
    assert newly_required(TEXT, every) == {
        f"mlir-{runtime}-{python}" for runtime in ("windows-x64", "linux-aarch64", "macos-arm64") for python in PYTHONS
    }


def test_several_rows_of_a_runtime_are_split_each_in_its_place() -> None:
    runtimes = ["linux-aarch64", "macos-arm64"]
    rows = [make_row(llvm, runtimes=runtimes, required=False) for llvm in ("mlir", "mlir-core")]
    others = {name: {"pythons": ["cp312"], "proven": ""} for name in runtimes}
    text = make_targets(*rows, make_row(), others=others)
    changed = promoted(text, Proof(runtime="linux-aarch64", tag=NEWER, rows=(0, 1), tests=1))
    assert newly_required(text, changed) == {"mlir-linux-aarch64-cp312", "mlir-core-linux-aarch64-cp312"}
    assert [row.llvm for row in Targets.parse(changed, where="").target] == [
        "mlir",
        "mlir",
        "mlir-core",
        "mlir-core",
        "mlir",
    ]


def test_a_newer_proof_replaces_an_older_one() -> None:
    proof = Proof(runtime="windows-x64", tag=OLDER, rows=(), tests=1)
    assert f'proven = "{OLDER}"' in promoted(TEXT, proof)
    assert promoted(TEXT, proof).count("\nproven = ") == 1
    again = promoted(promoted(TEXT, proof), Proof(runtime="windows-x64", tag=NEWER, rows=(), tests=1))
    assert again.count("\nproven = ") == 1
    assert f'proven = "{NEWER}"' in again
