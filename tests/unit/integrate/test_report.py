from __future__ import annotations

import pytest

from mlir_release.integrate.report import OUTPUT, WalkReport, clues, findings_in

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
    report = WalkReport(
        outcome="culprit", upstream="LLVM", branch="integrates/x", good="a" * 40, bad="b" * 40,
        findings=tuple(findings_in(log)),
        suspects=(), range=(), log="/state/log", advice="Next: fix it.",
    )  # fmt: skip
    text = report.as_markdown()
    assert title in text
    assert findings_in(log)[-1].text in text
    assert "Whole log: `/state/log`" in text
    assert text.count("Next: fix it.") == 1
