"""A platform becomes required by a release that proves it, and the edit changes nothing else of the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from mlir_release.errors import NeedsPersonError, UsageError
from mlir_release.model.manifest import Manifest, TestEntry
from mlir_release.model.matrix import Matrix
from mlir_release.model.targets import TARGETS_FILE, Targets
from mlir_release.release.promote import Proof, find_proof, promoted
from tests.paper_forge import make_manifest

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
    assert [TARGETS.target[number].runtime for number in found.rows] == ["windows-x64"]
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
    untested = structs.replace(TARGETS, target=tuple(row for row in TARGETS.target if row.runtime != "windows-x64"))
    with pytest.raises(UsageError) as caught:
        find_proof(untested, "windows-x64", [release(NEWER, *TESTS)])
    assert caught.value.id == "config-invalid"


def test_the_edit_keeps_everything_else() -> None:
    proof = find_proof(TARGETS, "windows-x64", [release(NEWER, *TESTS)])
    changed = promoted(TEXT, proof)
    before, after = TEXT.splitlines(), changed.splitlines()
    assert [line for line in after if line not in before] == [f'proven = "{NEWER}"']
    assert len(after) == len(before) + 1
    assert (
        sum(a != b for a, b in zip([line for line in after if not line.startswith("proven")], before, strict=True)) == 1
    )
    found = {wheel.name for wheel in Matrix.parse(changed).wheels if wheel.required}
    assert found - {wheel.name for wheel in Matrix.parse(TEXT).wheels if wheel.required} == {
        f"mlir-windows-x64-{python}" for python in PYTHONS
    }
    assert promoted(changed, proof) == changed


def test_a_newer_proof_replaces_an_older_one() -> None:
    proof = Proof(runtime="windows-x64", tag=OLDER, rows=(), tests=1)
    assert f'proven = "{OLDER}"' in promoted(TEXT, proof)
    assert promoted(TEXT, proof).count("\nproven = ") == 1
    again = promoted(promoted(TEXT, proof), Proof(runtime="windows-x64", tag=NEWER, rows=(), tests=1))
    assert again.count("\nproven = ") == 1
    assert f'proven = "{NEWER}"' in again
