"""Documents that the version of commit d4e4c23 wrote are still read, and written byte for byte as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.model.test_report import TestReport
from mlir_release.builder.model.wheel_info import WheelInfo
from mlir_release.ground.llvm.pin import format_pin, parse_pin
from mlir_release.release.model.manifest import Manifest, Waiver
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.yanks import format_yanks, parse_yanks

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parent / "data"
BINDINGS = "bindings-mlir-linux-x86_64-cp312.tests.json"
REGRESSION = "regression-mlir-linux-x86_64.tests.json"


def report(text: str, name: str) -> TestReport:
    return TestReport.from_text(text, name=name, where=name)


@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("release.json", lambda text: Manifest.from_text(text, where="").to_text()),
        ("waiver-bindings-mlir-windows-x64-cp314.json", lambda text: Waiver.from_text(text, where="").to_text()),
        ("yanked.toml", lambda text: format_yanks(parse_yanks(text))),
        ("_release.json", lambda text: WheelInfo.from_text(text).to_text()),
        (BINDINGS, lambda text: report(text, BINDINGS).to_text()),
        (REGRESSION, lambda text: report(text, REGRESSION).to_text()),
        ("llvm-project.version", lambda text: format_pin(parse_pin(text.encode(), where="")).decode()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_document_is_read_and_written_as_before(name: str, again: Callable[[str], str]) -> None:
    text = (DATA / name).read_text(encoding="utf-8")
    assert again(text) == text


def test_the_values_are_what_was_written() -> None:
    manifest = Manifest.from_text((DATA / "release.json").read_bytes(), where="")
    assert (manifest.tag, len(manifest.wheels), manifest.left_out[0].target) == (
        "snapshot-20261120.02", 4, "mlir-windows-x64-cp314t",
    )  # fmt: skip
    assert "“#12” — Ünïcode & <b>" in manifest.waivers[0].reason
    failed = report((DATA / BINDINGS).read_text(encoding="utf-8"), BINDINGS)
    assert (failed.failed, failed.counts["unexpected_pass"], failed.seconds) == (("b.py", "c.py"), 1, 12.3)
    assert report((DATA / REGRESSION).read_text(encoding="utf-8"), REGRESSION).wheel is None
    assert WheelInfo.from_text((DATA / "_release.json").read_bytes()).target == "mlir-linux-x86_64-cp312"


def test_the_build_matrix_is_the_same() -> None:
    matrix = Matrix.parse((DATA / TARGETS_FILE).read_text(encoding="utf-8"))
    assert len(matrix.wheels) == 40
    assert matrix.release.upstream == "https://github.com/llvm/llvm-project.git"
    wheel = matrix.wheel("mlir-full-linux-x86_64-cp312")
    assert (wheel.profile, wheel.configuration.cadence, wheel.suites) == ("full", "weekly", ("smoke", "bindings"))
    assert matrix.wheel("mlir-windows-x64-cp314t").tags == {"free-threaded"}


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("release.json", lambda text: Manifest.from_text(text, where="")),
        ("_release.json", WheelInfo.from_text),
        (BINDINGS, lambda text: report(text, BINDINGS)),
    ],
    ids=["release.json", "_release.json", "tests.json"],
)
@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (2, "schema is 2, and this version of mlir-release reads 1"),
        (True, "schema is True, and this version of mlir-release reads 1"),
        (None, "schema is missing"),
    ],
)
def test_another_schema_is_refused(name: str, read: Callable[[str], object], schema: object, said: str) -> None:
    """Before anything else that such a document may have changed."""
    data = {"tag": 7, **json.loads((DATA / name).read_text(encoding="utf-8")), "target": 7, "schema": schema}
    with pytest.raises(Exception, match="schema") as caught:
        read(json.dumps(data))
    assert said in str(caught.value)
