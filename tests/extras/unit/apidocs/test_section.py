"""The section of a wheel that is shaped like the bindings."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import griffe
import pytest

from mlir_release.extras.apidocs.describe import Api
from mlir_release.extras.apidocs.draw import LinkMaker
from mlir_release.extras.apidocs.published import make_section
from mlir_release.ground.errors import MachineError
from tests.bindings_factory import FILES, make_bindings_wheel
from tests.html_links import dangling, repeated_ids

if TYPE_CHECKING:
    from mlir_release.extras.apidocs.draw import DrawnSection


@pytest.fixture(scope="module")
def section(tmp_path_factory: pytest.TempPathFactory) -> DrawnSection:
    folder = tmp_path_factory.mktemp("apidocs")
    return make_section(make_bindings_wheel(folder), folder / "api")


def entry(section: DrawnSection, module: str, name: str) -> str:
    """The text of one description, without its tags."""
    page = (section.output / f"{module}.html").read_text(encoding="utf-8")
    start = page.index(f'id="{name}"')
    text = page[page.index(">", start) + 1 : page.index("</section>", start)]
    return re.sub(r"<[^>]+>", " ", text).replace("&gt;", ">").replace("&lt;", "<")


def flat(text: str) -> str:
    return " ".join(text.split())


def test_an_operation_is_under_its_name_in_mlir_with_its_builders(section: DrawnSection) -> None:
    text = flat(entry(section, "mlir.dialects.toy", "toy.add"))
    assert text.startswith("toy.add AddOp AddOp(lhs, rhs, *, flags=None, loc=None, ip=None) add(lhs, rhs,")


def test_the_marks_of_a_signature_stand_in_pythons_order() -> None:
    links = LinkMaker(Api(modules=(), homes={}, aliases={}))
    function = griffe.visit("m", filepath=Path("m.py"), code="def f(a, /, *, b): ...")["f"]
    assert links.signature(function, "f", bound=False) == "f(a, /, *, b)"


def test_what_the_bindings_add_to_ir_when_they_are_imported_is_described(section: DrawnSection) -> None:
    text = flat(entry(section, "mlir.ir", "MLIRError"))
    assert text == "MLIRError a kind of Exception An exception with diagnostics. MLIRError(message) message"
    page = (section.output / "mlir.ir.html").read_text(encoding="utf-8")
    assert page.count('id="Context"') == 1  # as its stub describes it
    assert "Helper" not in page


def test_properties_are_told_apart_by_what_they_look_at(section: DrawnSection) -> None:
    text = flat(entry(section, "mlir.dialects.toy", "toy.add"))
    parts = "operands lhs Value rhs Optional[ Value ] attributes flags Attribute results result OpResult"
    assert f"{parts} regions body Region Adds lhs and rhs" in text


def test_a_refined_operation_is_shown_once_with_what_both_classes_say(section: DrawnSection) -> None:
    text = flat(entry(section, "mlir.dialects.toy", "toy.constant"))
    assert "ConstantOp(value: Attribute , *, loc=None) ConstantOp(value: int, bits: int = 64" in text
    assert "attributes value Attribute Makes a constant." in text
    assert "@classmethod zero() → OpView Makes a zero." in text
    assert "Specialization" not in text


def test_members_of_the_extension_are_under_their_public_names(section: DrawnSection) -> None:
    text = flat(entry(section, "mlir.ir", "Operation.print"))
    assert text.startswith("print(state: int) → None print(file: object | None = None, *, binary: bool = False) → None")
    assert "Prints to a state. Prints to a file." in text
    assert not list(section.output.glob("*_mlir_libs*"))


def test_sections_of_docstrings_are_shown_as_such(section: DrawnSection) -> None:
    text = flat(entry(section, "mlir.ir", "Attribute.parse"))
    assert "Parameters asm The text, in <angle> brackets." in text


def test_names_lead_to_their_descriptions(section: DrawnSection) -> None:
    page = (section.output / "mlir.dialects.toy.html").read_text(encoding="utf-8")
    assert '<a href="mlir.ir.html#Operation">Operation</a>' in page
    assert section.references > 10
    assert dangling(section.output) == []
    assert repeated_ids(section.output) == []


def test_what_leads_nowhere_is_counted_and_shown_as_text(section: DrawnSection) -> None:
    assert dict(section.broken) == {"../LangRef.md#add": 1, "Toy.md": 1, "_Unknown": 1}
    assert "references: " in section.text()
    assert "shown as text: 3" in section.text()
    assert "broken" not in section.text()  # upstream wrote it so, and nobody here can mend it
    page = (section.output / "mlir.dialects.toy.html").read_text(encoding="utf-8")
    assert "See the reference and" in page
    assert 'href="https://mlir.llvm.org"' in page


def test_every_pass_is_described_with_its_options(section: DrawnSection) -> None:
    text = flat(entry(section, "passes", "toy-to-llvm"))
    assert text.startswith("toy-to-llvm Convert toys to <LLVM> See the guide.")
    assert "Options -top-down : Seed the <worklist>" in text
    index = (section.output / "index.html").read_text(encoding="utf-8")
    assert '<a href="passes.html">Passes</a>' in index
    assert section.passes == 1


def test_a_dialect_without_python_classes_has_a_page(section: DrawnSection) -> None:
    assert "Nothing at all." in entry(section, "dialect.bare", "bare.nop")
    assert not (section.output / "dialect.toy.html").exists()  # its module says more
    page = (section.output / "mlir.dialects.toy.html").read_text(encoding="utf-8")
    assert "<small>Integer addition of toys</small>" in page


@pytest.mark.parametrize("name", ["../../../index", "a/b", '"onclick=x'])
def test_a_reference_with_other_than_plain_names_is_not_shown(tmp_path: Path, name: str) -> None:
    entries = [{"kind": "operation", "group": name, "name": "bare.nop", "summary": "", "text": ""}]
    changed = {"mlir/_reference.json": json.dumps({"schema": 1, "entries": entries})}
    made = make_section(make_bindings_wheel(tmp_path, changed=changed), tmp_path / "api")
    assert [path.name for path in made.output.glob("dialect.*")] == []
    assert made.operations == 2  # the rest is described


def test_html_in_docstrings_is_text(section: DrawnSection) -> None:
    pages = [path.read_text(encoding="utf-8") for path in section.output.glob("*.html")]
    assert all("<script>" not in page for page in pages)
    assert any("&lt;script&gt;alert(1)" in page for page in pages)


def test_compiled_modules_without_stubs_are_named(section: DrawnSection) -> None:
    assert section.unseen == ("mlir._mlir_libs._mlirDialectsToy",)
    assert "_mlirDialectsToy" in section.text()


def test_with_stubs_the_same_modules_are_described(section: DrawnSection, tmp_path: Path) -> None:
    """And with what a wheel has for type checkers: a copy of the dialect's module, and a stub that leads to it."""
    stub = "from collections.abc import Sequence\n\nclass ToyType:\n    def parts(self) -> Sequence[int]: ...\n"
    added = {
        "mlir/dialects/_toy_typing.py": FILES["mlir/dialects/toy.py"],
        "mlir/dialects/toy.pyi": "from ._toy_typing import *\n",
        "mlir/_mlir_libs/_mlirDialectsToy.pyi": stub,
    }
    typed = make_section(make_bindings_wheel(tmp_path, changed=added), tmp_path / "api")
    assert typed.unseen == ()
    before, after = ((of.output / "mlir.dialects.toy.html").read_text(encoding="utf-8") for of in (section, typed))
    assert 'id="ToyType"' in after
    assert {line for line in before.splitlines() if 'id="toy.' in line} <= set(after.splitlines())


def test_everything_can_be_found(section: DrawnSection) -> None:
    text = (section.output / "names.js").read_text(encoding="utf-8")
    names = {row[0]: row[1] for row in json.loads(text.removeprefix("const names = ").rstrip(";\n"))}
    assert names["toy.add"] == "mlir.dialects.toy.html#toy.add"
    assert names["toy-to-llvm"] == names["toy-to-llvm top-down"] == "passes.html#toy-to-llvm"
    assert "toy-to-llvm sunk" not in names  # a statistic
    assert names["bare.nop"] == "dialect.bare.html#bare.nop"
    assert names["ir.Operation.name"] == "mlir.ir.html#Operation.name"
    assert names["ir.MLIRError"] == "mlir.ir.html#MLIRError"
    assert names["ir.MLIRError.message"] == "mlir.ir.html#MLIRError.message"
    assert names["toy.WIDTH"] == "mlir.dialects.toy.html#WIDTH"


def test_the_adaptor_of_an_operation_is_named_with_it_and_not_described_again(tmp_path: Path) -> None:
    """LLVM 23 has one for each operation, with the operation's name."""
    name = "mlir/dialects/_toy_ops_gen.py"
    adaptors = FILES[name] + "".join(
        f"""
@_ods_cext.register_op_adaptor({operation}Op)
class {operation}OpAdaptor(_ods_ir.OpAdaptor):
  OPERATION_NAME = "toy.{operation.lower()}"
"""
        for operation in ("Add", "Constant")
    )
    adapted = make_section(make_bindings_wheel(tmp_path, changed={name: adaptors}), tmp_path / "api")
    assert adapted.operations == 2
    assert "In a rewrite, AddOpAdaptor has its operands and attributes." in flat(
        entry(adapted, "mlir.dialects.toy", "toy.add")
    )
    assert '["toy.AddOpAdaptor","mlir.dialects.toy.html#AddOpAdaptor","class"]' in (
        adapted.output / "names.js"
    ).read_text(encoding="utf-8")
    assert repeated_ids(adapted.output) == []


def test_the_same_wheel_gives_the_same_bytes(section: DrawnSection, tmp_path: Path) -> None:
    again = make_section(make_bindings_wheel(tmp_path), tmp_path / "api")
    assert [path.read_bytes() for path in sorted(again.output.iterdir())] == [
        path.read_bytes() for path in sorted(section.output.iterdir())
    ]


def test_nothing_of_the_wheel_is_imported(section: DrawnSection) -> None:
    assert section.operations == 2  # of a module that raises when it is executed
    assert not [name for name in sys.modules if name == "mlir" or name.startswith("mlir.")]


def test_without_griffe_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "griffe", None)
    with pytest.raises(MachineError, match=r"\[apidocs\]"):
        make_section(make_bindings_wheel(tmp_path), tmp_path / "api")
