"""The API documentation of the real wheel."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from mlir_release.extras.apidocs.comparison import compare
from mlir_release.extras.apidocs.published import make_section
from tests.html_links import dangling, repeated_ids

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.e2e.conftest import Rehearsed

#: Where a public project stays within what GitHub Pages serve.
LIMIT = 50e6


def test_the_api_of_the_real_wheel_is_described(rehearsed: Rehearsed, tmp_path: Path) -> None:
    section = make_section(rehearsed.wheel, tmp_path / "api")
    assert section.operations > 1500
    assert section.dialects >= 30
    assert section.unseen == ()
    assert section.size < LIMIT
    assert sum(section.broken.values()) < 0.01 * section.references, section.text()
    assert dangling(section.output) == []
    assert repeated_ids(section.output) == []
    page = (section.output / "mlir.dialects.arith.html").read_text(encoding="utf-8")
    addition = page[page.index('id="arith.addi"') :].partition("</section>")[0]
    assert "AddIOp(lhs, rhs, *, " in addition
    assert "addi(lhs, rhs, *, " in addition
    assert [part for part in ("operands", "attributes", "results") if f">{part}</th>" in addition] != []
    assert 'id="Operation.print"' in (section.output / "mlir.ir.html").read_text(encoding="utf-8")


def test_a_change_of_one_builder_of_the_real_wheel_is_found_and_nothing_else(
    rehearsed: Rehearsed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    copy = tmp_path / rehearsed.wheel.name
    with zipfile.ZipFile(rehearsed.wheel) as wheel, zipfile.ZipFile(copy, "w") as changed:
        for name in wheel.namelist():
            if name.endswith((".py", ".pyi")):
                text = wheel.read(name).decode()
                if name == "mlir/dialects/_arith_ops_gen.py":
                    text = text.replace("(self, condition, true_value,", "(self, true_value, condition,")
                changed.writestr(name, text)
    found = compare(None, str(rehearsed.wheel), str(copy))
    assert [(change.name, change.level) for change in found.changes] == [("arith.select", "breaking")]
    assert [detail.text for detail in found.changes[0].details] == ["moved: condition, true_value"]
