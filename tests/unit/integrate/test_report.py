from __future__ import annotations

from dataclasses import asdict

from mlir_release.integrate.report import clues, findings_in

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
    files, symbols = clues([asdict(finding) for finding in findings_in(LOG)])
    assert "a.cpp" in files
    assert "getFoo" in symbols
