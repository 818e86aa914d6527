"""The releases between two ends: which are tried, which are left out, and which ends are refused."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.errors import MachineError
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.pythons import Python
from mlir_release.release.latest.catalogue import Catalogue, read_index
from mlir_release.use.bisect.line import Line, find_end, line_up
from mlir_release.use.find import Origin
from tests.paper_forge import PLATFORMS, START, PaperForge, make_manifest
from tests.refusals import refused

if TYPE_CHECKING:
    from mlir_release.ground.errors import ReleaseError
    from mlir_release.ground.llvm.upstream import Upstream
    from mlir_release.release.model.release_index import CatalogueEntry

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the wheels are for Linux")

PYTHON = Python(cpython=CPython(3, 12), version="3.12.1", executable=Path("/usr/bin/python3.12"))


def tag(number: int) -> str:
    return f"snapshot-202611{number:02d}.01"


@pytest.fixture
def catalogue() -> Catalogue:
    """Snapshots of nine days: one for other machines only, one for another CPython only, one yanked."""
    forge = PaperForge()
    for number in range(1, 10):
        forge.add(
            make_manifest(
                tag(number),
                created=START - timedelta(days=20 - number),
                platforms=("win_amd64",) if number == 3 else PLATFORMS,
                pythons=("cp311",) if number == 4 else ("cp311", "cp312"),
                revision=f"{number:x}" * 40,
            )
        )
    for version in ("21.1.0", "22.1.8"):
        forge.add(make_manifest(f"llvm-{version}.01", version=version))
    forge.set_yanks(f'[[yank]]\ntag = "{tag(6)}"\nreason = "miscompiles"\n'.encode())
    return read_index(forge)


def no_upstream() -> Upstream:
    raise MachineError("network-failed", "upstream is not asked in these tests")


def end(catalogue: Catalogue, wanted: str, *, older: bool) -> CatalogueEntry:
    return find_end(Origin(catalogue, no_upstream), wanted, "--good" if older else "--bad", older=older)


def lined_up(catalogue: Catalogue, good: str, bad: str, *, fixed: bool = False, yanked: bool = False) -> Line:
    ends = end(catalogue, good, older=not fixed), end(catalogue, bad, older=fixed)
    return line_up(catalogue, *ends, fixed=fixed, python=PYTHON, distribution="mlir", yanked=yanked)


def test_what_does_not_fit_this_machine_and_what_is_yanked_is_left_out(catalogue: Catalogue) -> None:
    line = lined_up(catalogue, tag(1), tag(9))
    assert [entry.tag for entry in line.entries] == [tag(number) for number in (1, 2, 5, 7, 8, 9)]
    assert line.left_out == {
        tag(3): "no wheel for this machine",
        tag(4): "no wheel for this machine",
        tag(6): "yanked: miscompiles",
    }
    assert tag(6) in [entry.tag for entry in lined_up(catalogue, tag(1), tag(9), yanked=True).entries]


def test_the_bad_end_is_the_older_one_where_the_fix_is_looked_for(catalogue: Catalogue) -> None:
    line = lined_up(catalogue, tag(9), tag(7), fixed=True)
    assert [entry.tag for entry in line.entries] == [tag(7), tag(8), tag(9)]


def test_a_yanked_end_is_tried_with_a_warning(catalogue: Catalogue, capsys: pytest.CaptureFixture[str]) -> None:
    line = lined_up(catalogue, tag(5), tag(6))
    assert [entry.tag for entry in line.entries] == [tag(5), tag(6)]
    assert "is yanked: miscompiles" in capsys.readouterr().err


def test_numbered_releases_are_lined_up_by_version(catalogue: Catalogue) -> None:
    line = lined_up(catalogue, "llvm-21.1.0.01", "llvm-22.1.8.01")
    assert [entry.tag for entry in line.entries] == ["llvm-21.1.0.01", "llvm-22.1.8.01"]


@pytest.mark.parametrize(
    ("good", "bad", "fixed", "id", "said"),
    [
        (tag(9), tag(1), False, "option-invalid", f"--good {tag(9)} is newer than --bad {tag(1)}"),
        (tag(1), tag(9), True, "option-invalid", f"--bad {tag(9)} is newer than --good {tag(1)}"),
        (tag(5), tag(5), False, "option-invalid", "the same release"),
        ("llvm-22.1.8.01", tag(9), False, "option-invalid", "is a numbered release"),
        (tag(1), tag(3), False, "no-fitting-wheel", f"{tag(3)} has no wheel of mlir for CPython 3.12.1"),
        (tag(4), tag(9), False, "no-fitting-wheel", tag(4)),
        ("snapshot-20261130.01", tag(9), False, "release-not-published", "--good"),
        ("2020-01-01", tag(9), False, "release-not-published", "2020-01-01"),
        ("2020-13-01", tag(9), False, "option-invalid", "2020-13-01"),
        (tag(1), "nonsense", False, "network-failed", "upstream"),
    ],
)
def test_ends_that_make_no_line_are_refused(
    catalogue: Catalogue, good: str, bad: str, fixed: bool, id: str, said: str
) -> None:
    error: ReleaseError = refused(lambda: lined_up(catalogue, good, bad, fixed=fixed), id, said)
    if id == "no-fitting-wheel":
        assert tag(9 if good == tag(4) else 1) in error.remedy


def test_an_end_is_named_by_its_date_or_its_llvm_commit(catalogue: Catalogue) -> None:
    newest = catalogue.of_kind("snapshot")[-1]
    assert end(catalogue, newest.row.dated[:10], older=False).tag == newest.tag
    assert end(catalogue, "2030-01-01", older=False).tag == newest.tag
    refused(lambda: end(catalogue, "2999-01-01", older=True), "option-invalid", "is in the future")
    assert end(catalogue, "5" * 12, older=True).tag == tag(5)
    assert end(catalogue, "latest", older=False).tag == newest.tag
