"""Wheels and reports that are not what they should be are refused, before they are uploaded and as they arrive."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from mlir_release.builder.wheels.inspect import inspect
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import VerificationError
from mlir_release.release.model.manifest import WheelEntry
from mlir_release.release.transaction.assets import check_slots, check_wheel, read_dist, read_report, read_wheel
from mlir_release.release.transaction.release_assets import RemoteRelease
from tests.memory_forge import MemoryForge
from tests.refusals import refused
from tests.wheel_factory import OTHER_PYTHON, PYTHON, REVISION, TAG, VERSION, make_report, make_wheel, pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlir_release.release.forge.base import Forge

EXPECTED = {"tag": TAG, "revision": REVISION, "version": VERSION}


def test_a_sound_wheel(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, requires=("numpy<3,>=1.19.5", "ml_dtypes"), requires_python=">=3.10")
    wheel = read_wheel(path)
    check_wheel(wheel, **EXPECTED)
    assert isinstance(wheel.row, WheelEntry)
    assert wheel.row.requires_dist == ("numpy<3,>=1.19.5", "ml_dtypes")
    assert wheel.target == f"mlir-linux-x86_64-{PYTHON}"
    with zipfile.ZipFile(path) as archive:
        assert wheel.metadata == archive.read(f"mlir-{VERSION}.dist-info/METADATA")
    assert (wheel.sha256, wheel.row.size) == (sha256_of(path), path.stat().st_size)


@pytest.mark.parametrize("keep", [0, 10, 2500, -30, None])
def test_a_wheel_that_is_cut_off_or_has_a_flipped_bit(tmp_path: Path, keep: int | None) -> None:
    path = make_wheel(tmp_path, padding=5000)
    data = bytearray(path.read_bytes())
    if keep is None:
        data[data.index(b"mlir/padding.bin") + 2000] ^= 1
    path.write_bytes(data[:keep])
    refused(lambda: read_wheel(path), "file-damaged", "is damaged")


RECORD = f"mlir-{VERSION}.dist-info/RECORD"

#: What a RECORD can say that no installer should take.
RECORDS: dict[str, Callable[[bytes], bytes]] = {
    "a member that is not listed": lambda text: b"".join(
        line for line in text.splitlines(keepends=True) if not line.startswith(b"mlir/__init__.py,")
    ),
    "a member without its size": lambda text: re.sub(rb"(mlir/__init__.py,[^,]+),\d+", rb"\1,", text),
    "a member with another size": lambda text: re.sub(rb"(mlir/__init__.py,[^,]+),\d+", rb"\1,9999", text),
    "a member with another digest": lambda text: re.sub(rb"(mlir/__init__.py,sha256=)[^,]+", rb"\1abc", text),
    "a member without its digest": lambda text: re.sub(rb"(mlir/__init__.py),[^,]+", rb"\1,", text),
    "a digest of itself": lambda text: text.replace(f"{RECORD},,".encode(), f"{RECORD},sha256=abc,".encode()),
    "a size of itself": lambda text: text.replace(f"{RECORD},,".encode(), f"{RECORD},,7".encode()),
    "no line for itself": lambda text: text.replace(f"{RECORD},,".encode(), b""),
    "its own signature": lambda text: text + f"{RECORD}.jws,sha256=abc,1\n".encode(),
}


@pytest.mark.parametrize("change", RECORDS)
def test_a_record_that_is_not_as_it_has_to_be(tmp_path: Path, change: str) -> None:
    path = make_wheel(tmp_path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    changed = RECORDS[change](members[RECORD])
    assert changed != members[RECORD]
    members |= {RECORD: changed, f"{RECORD}.jws": b"{}"}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    error = refused(lambda: read_wheel(path))
    assert (error.id, "RECORD" in error.why) == ("file-damaged", True)
    assert inspect(path).problems


def test_a_folder_of_metadata_that_the_file_name_contradicts(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    with zipfile.ZipFile(path) as archive:
        members = {name.replace("mlir-", "other-"): archive.read(name) for name in archive.namelist()}
    del members[RECORD.replace("mlir-", "other-")]
    path.write_bytes(pack(members, RECORD.replace("mlir-", "other-")))
    assert refused(lambda: read_wheel(path)).id == "file-damaged"


def test_metadata_that_the_file_name_contradicts(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    other = path.rename(tmp_path / path.name.replace(VERSION, "20261120.3"))
    refused(lambda: read_wheel(other), "file-damaged", "is damaged")


def test_a_file_that_is_called_a_wheel(tmp_path: Path) -> None:
    path = tmp_path / "mlir.whl"
    path.write_bytes(make_wheel(tmp_path / "x").read_bytes())
    assert "file name" in refused(lambda: read_wheel(path), kind=VerificationError).why


def test_metadata_that_is_none(tmp_path: Path) -> None:
    files = {f"mlir-{VERSION}.dist-info/METADATA": b"\xff\xfe nonsense"}
    path = make_wheel(tmp_path, files=files)
    refused(lambda: read_wheel(path), "file-damaged", "is damaged")


@pytest.mark.parametrize(
    ("info", "why"),
    [
        ({"tag": 7}, "tag is not a string"),
        ({"revision": "short"}, "revision is 'short', not a commit"),
        ({"target": None}, "target is missing"),
    ],
)
def test_a_wheel_that_does_not_say_whose_it_is(tmp_path: Path, info: dict[str, object], why: str) -> None:
    path = make_wheel(tmp_path, release_info=info)
    error = refused(lambda: read_wheel(path))
    assert (error.id, why in error.why) == ("wheel-unsuitable", True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tag": "snapshot-20261120.01"}, "its tag is snapshot-20261120.01, the release's is snapshot-20261120.02"),
        ({"revision": "b" * 40}, f"its revision is {'b' * 40}"),
        ({"version": "20261120.3"}, "its version is 20261120.3, the release's is 20261120.2"),
    ],
)
def test_a_wheel_of_another_release(tmp_path: Path, options: dict[str, str], said: str) -> None:
    wheel = read_wheel(make_wheel(tmp_path, **options))  # type: ignore[arg-type]
    error = refused(lambda: check_wheel(wheel, **EXPECTED), "wheel-unsuitable", "does not belong to")
    assert said in error.why


def test_two_files_of_one_name(tmp_path: Path) -> None:
    make_wheel(tmp_path / "row1", content="a = 1")
    make_wheel(tmp_path / "row2", content="a = 2")
    error = refused(lambda: read_dist(tmp_path), "wheel-unsuitable", "two different files are called")
    assert "row1" in error.where
    assert "row2" in error.where


def test_one_file_twice_is_one_file(tmp_path: Path) -> None:
    for folder in ("row1", "row2"):
        make_report(tmp_path / folder, make_wheel(tmp_path / folder))
    content = read_dist(tmp_path)
    assert (len(content.wheels), len(content.reports)) == (1, 1)


def test_two_wheels_for_the_same_users(tmp_path: Path) -> None:
    make_wheel(tmp_path)
    make_wheel(tmp_path, platform="manylinux_2_36_x86_64")
    refused(lambda: check_slots(read_dist(tmp_path).wheels), "wheel-unsuitable", "two wheels are for the same users:")


def test_two_wheels_of_one_target(tmp_path: Path) -> None:
    make_wheel(tmp_path)
    make_wheel(tmp_path, python=OTHER_PYTHON, target=f"mlir-linux-x86_64-{PYTHON}")
    refused(lambda: check_slots(read_dist(tmp_path).wheels), "wheel-unsuitable", "two wheels are for the same users:")


@pytest.mark.parametrize("there", [True, False])
def test_nothing_to_upload(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "dist"
    if there:
        folder.mkdir()
        (folder / "summary.md").write_text("fine")
    refused(lambda: read_dist(folder), "input-missing")


def test_a_run_that_has_signed_wheels_and_tested_none(tmp_path: Path) -> None:
    (tmp_path / "mlir-1.whl.sigstore.json").write_text("{}")
    content = read_dist(tmp_path)
    assert (content.wheels, content.reports, set(content.files)) == ((), (), {"mlir-1.whl.sigstore.json"})


def test_provenance_stands_beside_its_wheel(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    beside = Path(f"{wheel}.provenance")
    beside.write_text("{}")
    assert read_dist(tmp_path).files == {wheel.name: wheel, beside.name: beside}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"passed": "yes"}, "passed is not a boolean (true or false)"),
        ({"target": "smoke-other"}, "target is 'smoke-other', which the file name contradicts"),
        ({"suite": "bindings"}, "suite is 'bindings', which the target"),
        ({"wheel_sha256": None}, "wheel_sha256 is missing"),
        ({"wheel_sha256": "12"}, "wheel_sha256 is '12', not a SHA-256"),
        ({"counts": [1]}, "counts is not an object"),
        ({"failures": [{"message": "x"}]}, "failures[0].name is missing"),
    ],
)
def test_a_report_that_is_none(tmp_path: Path, change: dict[str, object], why: str) -> None:
    path = make_report(tmp_path, make_wheel(tmp_path))
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    error = refused(lambda: read_report(path), "file-damaged", "is not a test report")
    assert why in error.why


def test_a_report_may_tell_of_several_suites(tmp_path: Path) -> None:
    path = make_report(tmp_path, make_wheel(tmp_path), suite="smoke+bindings")
    assert read_report(path).needs_wheel


def test_a_report_on_the_sdk_names_no_wheel(tmp_path: Path) -> None:
    path = make_report(tmp_path, None, suite="regression", target="regression-mlir-linux-x86_64")
    report = read_report(path)
    assert (report.wheel, report.wheel_sha256, report.needs_wheel) == (None, None, False)


def test_a_file_that_arrives_changed_is_removed_again(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"ours")
    forge = MemoryForge({})
    forge.create_tag(TAG, forge.head("main") or "", "")
    draft = forge.create_draft(TAG, title="", body="", prerelease=False)
    asset = forge.upload(draft, "x.whl", tmp_path / "x.whl")
    forge.contents[draft.id, "x.whl"] = b"another's"
    remote = RemoteRelease(cast("Forge", forge), draft)
    place = tmp_path / "downloaded"
    place.mkdir()
    assert asset.sha256 in refused(lambda: remote.fetch(asset, place), "file-damaged").why
    assert list(place.iterdir()) == []
    forge.contents[draft.id, "x.whl"] = b"ours"
    assert remote.fetch(asset, place).read_bytes() == b"ours"
