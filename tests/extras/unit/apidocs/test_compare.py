"""What differs between two wheels that are shaped like the bindings."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from mlir_release.extras.apidocs.compare import find_changes
from mlir_release.extras.apidocs.describe import describe
from mlir_release.extras.apidocs.outline import Outline, outline_of
from mlir_release.extras.apidocs.read import read_wheel
from tests.bindings_factory import FILES, make_bindings_wheel

if TYPE_CHECKING:
    from mlir_release.extras.apidocs.changes import ApiChange

OPS, TOY, IR = "mlir/dialects/_toy_ops_gen.py", "mlir/dialects/toy.py", "mlir/_mlir_libs/_mlir/ir.pyi"
CALLS = "mlir/calls.py"

#: A constructor, a function and a property, as mlir-tblgen writes them.
SUB = """
@_ods_cext.register_operation(_Dialect)
class SubOp(_ods_ir.OpView):
  OPERATION_NAME = "toy.sub"

  def __init__(self, lhs, rhs, *, loc=None, ip=None):
    pass

  @builtins.property
  def lhs(self) -> _ods_ir.Value:
    return self.operation.operands[0]

def sub(lhs, rhs, *, loc=None, ip=None) -> _ods_ir.OpResult:
  return SubOp(lhs=lhs, rhs=rhs, loc=loc, ip=ip).result
"""

ADAPTOR = """
@_ods_cext.register_op_adaptor(AddOp)
class AddOpAdaptor(_ods_ir.OpAdaptor):
  OPERATION_NAME = "toy.add"

  @builtins.property
  def lhs(self) -> _ods_ir.Value:
    return self.operands[0]
"""


@cache
def outline(*changed: tuple[str, str]) -> Outline:
    with TemporaryDirectory() as folder:
        return outline_of(describe(read_wheel(make_bindings_wheel(Path(folder), changed=dict(changed)))))


def changes(old: dict[str, str], new: dict[str, str]) -> list[ApiChange]:
    found, uncompared = find_changes(outline(*old.items()), outline(*new.items()))
    assert uncompared == []
    return found


def said(found: list[ApiChange]) -> list[tuple[str, ...]]:
    """Each difference: how far it goes, its name and member, and the text; of a change without any, how it is."""
    return [
        (detail.level, change.name, *filter(None, [detail.member]), detail.text)
        for change in found
        for detail in change.details
    ] + [(change.level, change.name, change.how) for change in found if not change.details]


def test_an_operation_is_added_and_removed() -> None:
    more = {OPS: FILES[OPS] + SUB}
    (added,) = changes({}, more)
    assert (added.how, added.kind, added.name, added.group) == ("added", "operation", "toy.sub", "toy")
    assert (added.path, added.level) == ("mlir.dialects.toy.SubOp", "compatible")
    (removed,) = changes(more, {})
    assert (removed.how, removed.name, removed.level) == ("removed", "toy.sub", "breaking")


def test_what_a_class_and_its_function_share_is_said_once() -> None:
    swapped = SUB.replace("lhs, rhs, *", "rhs, lhs, *")
    found = changes({OPS: FILES[OPS] + SUB}, {OPS: FILES[OPS] + swapped})
    assert said(found) == [("breaking", "toy.sub", "moved: lhs, rhs")]
    (detail,) = found[0].details
    assert (detail.before, detail.after) == ("(lhs, rhs, *, loc=None, ip=None)", "(rhs, lhs, *, loc=None, ip=None)")


@pytest.mark.parametrize(
    ("old", "new", "expected", "after"),
    [
        ("def sub(lhs, rhs,", "def sub(left, rhs,", ("sub()", "renamed: lhs → left"), None),
        ("  @builtins.property\n  def lhs", "  def lhs", ("lhs", "a read-only attribute became a method"), None),
        ("SubOp", "SubtractOp", ("another class",), "mlir.dialects.toy.SubtractOp"),
    ],
    ids=["what only its function has is said of it", "a property became a method", "a class of another name"],
)
def test_what_of_an_operation_breaks(old: str, new: str, expected: tuple[str, ...], after: str | None) -> None:
    found = changes({OPS: FILES[OPS] + SUB}, {OPS: FILES[OPS] + SUB.replace(old, new)})
    assert said(found) == [("breaking", "toy.sub", *expected)]
    assert after in (None, found[0].details[0].after)


def test_adaptors_are_neither_operations_nor_changes() -> None:
    """LLVM 23 has one for each operation, of the operation's name."""
    assert changes({}, {OPS: FILES[OPS] + ADAPTOR}) == []


@pytest.mark.parametrize(
    ("old", "new", "level", "text"),
    [
        ("a, b", "a", "breaking", "gone: b"),
        ("a", "a, b", "breaking", "new and required: b"),
        ("a", "a, b=None", "compatible", "new: b"),
        ("a", "b, a", "breaking", "new and required: b; moved: a"),
        ("a, b", "b, a", "breaking", "moved: a, b"),
        ("a, b=1", "a, b", "breaking", "required now: b"),
        ("a, b", "a, b=1", "compatible", "can be called in more ways"),
        ("a, b=1", "a, b=2", "breaking", "another default: b"),
        ("a, b=1", "a, b=...", "compatible", "can be called in more ways"),
        ("a, b", "a, *, b", "breaking", "passed in another way: b"),
        ("a, *, b", "a, b", "compatible", "can be called in more ways"),
        ("a, b", "x, b", "breaking", "renamed: a → x"),
        ("*, a", "*, b", "breaking", "gone: a; new and required: b"),
        ("arg0, /", "value, /", "types", "other types"),
        ("arg0, /", "value", "compatible", "can be called in more ways"),
        ("arg0: int, /", "value, b=None", "compatible", "new: b"),
        ("a, b", "*args, **kwargs", "compatible", "new: args, kwargs"),
        ("a: int", "a: str", "types", "other types"),
        ("a", "a: _ir.Value", "types", "other types"),
    ],
)
def test_a_signature_breaks_only_who_called_it_so(old: str, new: str, level: str, text: str) -> None:
    one, other = ({CALLS: f"def call({parameters}): ...\n"} for parameters in (old, new))
    assert said(changes(one, other)) == [(level, "mlir.calls.call", text)]


def test_a_result_of_another_type_is_only_declared() -> None:
    one, other = ({CALLS: f"def call() -> {result}: ...\n"} for result in ("int", "str"))
    assert said(changes(one, other)) == [("types", "mlir.calls.call", "other types")]


def test_a_module_is_one_change_whatever_it_has() -> None:
    (change,) = changes({}, {CALLS: "def a(): ...\nclass B: ...\nc = 1\n"})
    assert (change.how, change.kind, change.name) == ("added", "module", "mlir.calls")


def calls(*signatures: str) -> dict[str, str]:
    ways = "".join(f"@overload\ndef call({signature}) -> None: ...\n" for signature in signatures)
    stub = f"from typing import overload\n{ways}"
    return {CALLS: "from ._mlir_libs._calls import *\n", "mlir/_mlir_libs/_calls.pyi": stub}


def test_a_call_that_one_of_the_overloads_takes_is_not_broken() -> None:
    assert said(changes(calls("a: int", "b: str"), calls("b: str", "a: int"))) == [
        ("types", "mlir.calls.call", "other types")
    ]
    assert said(changes(calls("a: int", "b: str"), calls("a: int", "b: str", "a: float"))) == [
        ("compatible", "mlir.calls.call", "takes other types, too")
    ]
    (change,) = changes(calls("a: int", "b: str"), calls("a: int", "b: str", "c: float, d: float"))
    assert (change.level, change.details[0].text) == ("compatible", "new: c, d")
    (change,) = changes(calls("a: int", "b: str", "c: float, d: float"), calls("a: int", "b: str"))
    assert (change.level, change.details[0].before) == ("breaking", "(c, d)")


def test_a_parameter_that_has_no_name_in_a_stub_can_be_given_another_placeholder() -> None:
    """Stubs of LLVM 19 have ``arg0`` for it, later ones ``arg, /``."""
    assert said(changes(calls("arg0: int"), calls("arg: int, /"))) == [("types", "mlir.calls.call", "other types")]
    assert said(changes(calls("arg0: int"), calls("value: int"))) == [
        ("compatible", "mlir.calls.call", "can be called in more ways")
    ]


CLASSES = """
class Base: ...
class Other(Base):
    def plain(self, x): ...
    @classmethod
    def make(cls, x): ...
    _hidden = 1
    def _private(self): ...
    @property
    def size(self) -> int: ...
    @size.setter
    def size(self, value: int): ...
    value = 1
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("    def plain(self, x): ...\n", "", ("breaking", "plain", "gone")),
        ("plain(self, x)", "plain(self, x, y=1)", ("compatible", "plain", "new: y")),
        (
            "    @classmethod\n    def make(cls",
            "    def make(self",
            ("breaking", "make", "a classmethod method became a method"),
        ),
        (
            "    def plain(self, x)",
            "    @staticmethod\n    def plain(x)",
            ("compatible", "plain", "a method became a staticmethod method"),
        ),
        (
            "    @size.setter\n    def size(self, value: int): ...\n",
            "",
            ("breaking", "size", "an attribute became a read-only attribute"),
        ),
        ("-> int", "-> float", ("types", "size", "another type")),
        ("value = 1", "value = 2", ("compatible", "value", "another value")),
        ("Other(Base)", "Other", ("breaking", "no longer a kind of: Base")),
        (
            "    value = 1\n",
            "    value = 1\n    def __init__(self, x): ...\n",
            ("compatible", "a constructor of its own"),
        ),
    ],
)
def test_members_and_bases_of_a_class(old: str, new: str, expected: tuple[str, ...]) -> None:
    assert old in CLASSES
    found = said(changes({CALLS: CLASSES}, {CALLS: CLASSES.replace(old, new)}))
    assert found == [(expected[0], "mlir.calls.Other", *expected[1:])]


def test_what_has_items_can_still_be_iterated() -> None:
    items = "class Items:\n    def __getitem__(self, index): ...\n"
    found = changes({CALLS: f"{items}    def __iter__(self): ...\n"}, {CALLS: items})
    assert said(found) == [("compatible", "mlir.calls.Items", "__iter__", "gone")]


def test_private_names_are_ignored() -> None:
    other = CLASSES.replace("_hidden = 1", "_hidden = 2").replace("_private(self)", "_private(self, x)")
    assert changes({CALLS: CLASSES}, {CALLS: other, "mlir/_more.py": "def public(): ...\n"}) == []


def test_what_several_modules_show_is_counted_once() -> None:
    shown = {"mlir/_shared.py": "def call(a): ...\n"}
    for name in ("one", "two"):
        shown[f"mlir/{name}.py"] = "from ._shared import call\n"
    (change,) = changes(shown, shown | {"mlir/_shared.py": "def call(b): ...\n"})
    assert (change.name, change.also) == ("mlir.one.call", ("mlir.two.call",))


def test_what_a_stub_imports_is_not_of_the_module_that_shows_the_stub() -> None:
    files = {
        "mlir/_mlir_libs/_mlirDialectsToy.pyi": "from mlir._mlir_libs._mlir.ir import Context\n\nclass ToyType: ...\n"
    }
    found = outline(*files.items()).entries
    assert "mlir.dialects.toy.ToyType" in found
    assert "mlir.dialects.toy.Context" not in found


def test_what_one_wheel_has_no_stubs_for_is_not_compared() -> None:
    stub = {"mlir/_mlir_libs/_mlirDialectsToy.pyi": "class ToyType: ...\n"}
    without, with_stub = outline(), outline(*stub.items())
    assert without.unseen == ("mlir._mlir_libs._mlirDialectsToy",)
    assert find_changes(without, with_stub) == ([], ["mlir.dialects.toy.ToyType"])
    assert find_changes(with_stub, without) == ([], ["mlir.dialects.toy.ToyType"])
