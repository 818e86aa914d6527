from __future__ import annotations

import os
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from mlir_release.integrate.report import MORE, OUTPUT, WalkEnd, WalkReport, clues, findings_in

if TYPE_CHECKING:
    from pathlib import Path

LOG = b"""[12/400] Building CXX object a.o
FAILED: lib/a.o
/usr/bin/c++ -c a.cpp
\x1b[1m/src/lib/a.cpp:12:7: \x1b[31merror: \x1b[0mno member named 'getFoo' in 'mlir::Bar'
/src/lib/b.cpp:99:1: error: no member named 'getFoo' in 'mlir::Bar'
ld.lld: error: undefined symbol: mlir::baz()
mlir-opt: x.cpp:5: void f(): Assertion `op != nullptr' failed.
FAIL: MINI :: Dialect/x.mlir (3 of 80)
caf\xe9 not utf-8
"""

END = WalkEnd(
    outcome="culprit", branch="integrates/x", upstream="LLVM", base="a" * 40, remaining=1, good="a" * 40, bad="b" * 40
)


def test_errors_are_found_once_each_whatever_the_bytes() -> None:
    found = findings_in(LOG)
    assert [finding.kind for finding in found] == ["failed-target", "compiler", "linker", "assertion", "test"]
    assert found[1].where == "/src/lib/a.cpp"
    assert found[4].where == "MINI :: Dialect/x.mlir"


def test_clues_name_files_and_symbols() -> None:
    files, symbols = clues(findings_in(LOG))
    assert "a.cpp" in files
    assert "getFoo" in symbols


def test_a_log_without_a_known_error_shows_its_end() -> None:
    noise = b"".join(b"[%d/400] compiling\n\n" % number for number in range(400))
    found = findings_in(noise + b"changed: \x1b[31mIotaOp\x1b[0m | I64Attr:$iota_dimension -> I64Attr:$dim\n")
    assert {finding.kind for finding in found} == {OUTPUT}
    assert len(found) == 20
    assert found[-1].text == "changed: IotaOp | I64Attr:$iota_dimension -> I64Attr:$dim"
    assert findings_in(b"\n \n") == []


@pytest.mark.parametrize(
    ("log", "title"), [(LOG, "### Errors (5)"), (b"changed: IotaOp\n", "### The end of the smoke")]
)
def test_a_report_shows_the_failure_and_where_the_log_is(log: bytes, title: str) -> None:
    report = WalkReport(end=END, findings=tuple(findings_in(log)), log="/state/log", advice="Next: fix it.")
    text = report.as_markdown()
    assert title in text
    assert findings_in(log)[-1].text in text
    assert "Whole log: `/state/log`" in text
    assert text.count("Next: fix it.") == 1


def errors(numbers: range) -> bytes:
    return b"".join(b"lib/f.cpp:%d:7: error: no member named 'get%d'\n" % (number, number) for number in numbers)


def test_of_a_log_with_many_errors_the_first_are_kept_and_the_others_counted() -> None:
    found = findings_in(errors(range(60)) * 2)
    assert [finding.kind for finding in found] == ["compiler"] * 50 + [MORE]
    assert found[-1].line == "and 20 more lines with errors"
    assert findings_in(errors(range(50)) * 2)[-1].text.endswith("'get49'")
    assert len(findings_in(errors(range(60)), most=60)) == 60


def test_the_memory_for_a_log_does_not_grow_with_its_errors(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(errors(range(100_000)))
    tracemalloc.start()
    try:
        found = findings_in(log)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found[-1].line == "and 99950 more lines with errors"
    assert peak < 1 << 20 < log.stat().st_size


@pytest.mark.parametrize("as_file", [True, False])
def test_lines_of_any_length_and_with_any_end_are_read(tmp_path: Path, as_file: bool) -> None:
    content = b"x" * 100_000 + b"error: no\r\n" + b"a.c:1:2: error: one\rb.c:1:2: error: two " + b"y" * 9000 + b"\n"
    log = tmp_path / "log"
    log.write_bytes(content + b"c.c:1:2: error: three \xe2\x82")
    found = findings_in(log if as_file else log.read_bytes())
    assert [finding.where for finding in found] == ["a.c", "b.c", "c.c"]
    assert [len(finding.text) < 4000 for finding in found] == [True] * 3
    assert found[2].text == "error: three \\xe2\\x82"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_the_place_of_a_log_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(OSError, match="not a regular file"):
        findings_in(tmp_path / "log")


def test_a_report_says_how_many_errors_it_does_not_show() -> None:
    text = WalkReport(end=END, findings=tuple(findings_in(errors(range(900)))), advice="").as_markdown()
    assert "### Errors (50)" in text
    assert "'get24'" in text
    assert "'get25'" not in text
    assert "and 25 more errors\nand 850 more lines with errors" in text
