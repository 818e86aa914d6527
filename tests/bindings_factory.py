"""Files of a wheel that is shaped like the bindings: nanobind's stubs, what mlir-tblgen generates, and refinements."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.wheel_factory import make_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_IR = '''
from typing import overload
from collections.abc import Sequence

class Attribute:
    @staticmethod
    def parse(asm: str, context: Context | None = None) -> Attribute:
        """
        Parses an attribute from an assembly form.

        Args:
          asm: The text, in <angle> brackets.

        Returns:
          The attribute.
        """

class Context:
    def __init__(self) -> None: ...

class Value:
    @property
    def owner(self) -> Operation:
        """Returns the owner of the value."""

class OpResult(Value): ...
class Region: ...

class _OperationBase:
    @property
    def name(self) -> str:
        """Returns the fully qualified name of the operation."""

    @overload
    def print(self, state: int) -> None:
        """Prints to a state."""

    @overload
    def print(self, file: object | None = None, *, binary: bool = False) -> None:
        """Prints to a file."""

class Operation(_OperationBase):
    @staticmethod
    def create(name: str, operands: Sequence[Value] | None = None) -> Operation: ...

class OpView(_OperationBase): ...

def current_trace(arg: _Unknown, /) -> Value: ...
'''

_OPS = '''
from ._ods_common import _cext as _ods_cext
_ods_ir = _ods_cext.ir
import builtins
from typing import Optional as _Optional

raise RuntimeError("this module was executed")

@_ods_cext.register_dialect
class _Dialect(_ods_ir.Dialect):
  DIALECT_NAMESPACE = "toy"

@_ods_cext.register_operation(_Dialect)
class AddOp(_ods_ir.OpView):
  r"""
  Adds `lhs` and `rhs`. <script>alert(1)</script>

  See [the reference](../LangRef.md#add) and [the site](https://mlir.llvm.org).

  ```mlir
  %a = toy.add %b, %c
  ```
  """

  OPERATION_NAME = "toy.add"

  _ODS_REGIONS = (0, True)

  def __init__(self, lhs, rhs, *, flags=None, loc=None, ip=None):
    pass

  @builtins.property
  def lhs(self) -> _ods_ir.Value:
    return self.operation.operands[0]

  @builtins.property
  def rhs(self) -> _Optional[_ods_ir.Value]:
    return None if len(self.operation.operands) < 2 else self.operation.operands[1]

  @builtins.property
  def flags(self) -> _ods_ir.Attribute:
    return self.operation.attributes["flags"]

  @flags.setter
  def flags(self, value: _ods_ir.Attribute):
    self.operation.attributes["flags"] = value

  @builtins.property
  def result(self) -> _ods_ir.OpResult:
    return self.operation.results[0]

  @builtins.property
  def body(self) -> _ods_ir.Region:
    return self.regions[0]

def add(lhs, rhs, *, flags=None, loc=None, ip=None) -> _ods_ir.OpResult:
  return AddOp(lhs=lhs, rhs=rhs, flags=flags, loc=loc, ip=ip).result

@_ods_cext.register_operation(_Dialect)
class ConstantOp(_ods_ir.OpView):
  r"""Makes a constant."""

  OPERATION_NAME = "toy.constant"

  def __init__(self, value, *, loc=None, ip=None):
    pass

  @builtins.property
  def value(self) -> _ods_ir.Attribute:
    return self.operation.attributes["value"]
'''

_TOY = '''
from ._toy_ops_gen import *
from ._toy_ops_gen import _Dialect
from .._mlir_libs._mlirDialectsToy import *
from typing import overload
from ..ir import *

@_ods_cext.register_operation(_Dialect, replace=True)
class ConstantOp(ConstantOp):
    """Specialization for the constant op class."""

    @overload
    def __init__(self, value: Attribute, *, loc=None): ...
    @overload
    def __init__(self, value: int, bits: int = 64, *, loc=None): ...
    def __init__(self, value, bits=64, *, loc=None):
        super().__init__(value)

    @property
    def value(self):
        return 0

    @classmethod
    def zero(cls) -> OpView:
        """Makes a zero."""

WIDTH = 64

def helper(values: Operation) -> None:
    """Helps."""

def main() -> None:
    """Its name must be no anchor of the page's own."""
'''

_INITIALIZER = '''
def _site_initialize():
    from ._mlir import ir

    class Context(ir.Context):
        def __init__(self, *args): ...

    ir.Context = Context

    class MLIRError(Exception):
        """
        An exception with diagnostics.
        """

        def __init__(self, message):
            self.message = message

    ir.MLIRError = MLIRError

    class Helper: ...

_site_initialize()
'''

#: What mlir-tblgen says of a pass, of an operation that has a Python class, and of one that has none.
_REFERENCE = {
    "schema": 1,
    "entries": [
        {
            "kind": "pass",
            "group": "ToyPasses",
            "name": "toy-to-llvm",
            "summary": "Convert toys to <LLVM>",
            "text": "See [the guide](Toy.md).\n\n<script>alert(1)</script>\n\n#### Options\n\n```\n"
            "-top-down : Seed the <worklist>\n```\n\n#### Statistics\n\n```\n-sunk : Number of them\n```",
        },
        {"kind": "operation", "group": "toy", "name": "toy.add", "summary": "Integer addition of toys"},
        {
            "kind": "operation",
            "group": "bare",
            "name": "bare.nop",
            "summary": "Does nothing",
            "text": "Nothing at all.",
        },
    ],
}

FILES = {
    "mlir/_reference.json": json.dumps(_REFERENCE),
    "mlir/_mlir_libs/__init__.py": _INITIALIZER,
    "mlir/_mlir_libs/_mlir/__init__.pyi": "from . import ir as ir\n",
    "mlir/_mlir_libs/_mlir/ir.pyi": _IR,
    "mlir/ir.py": "from ._mlir_libs._mlir.ir import *\n",
    "mlir/dialects/_ods_common.py": "from .._mlir_libs import _mlir as _cext\n",
    "mlir/dialects/_toy_ops_gen.py": _OPS,
    "mlir/dialects/toy.py": _TOY,
}
#: What differs in a newer wheel: a function's parameter has another name, which breaks who gave it by name.
RENAMED = {"mlir/dialects/toy.py": _TOY.replace("def helper(values", "def helper(operation")}


def make_bindings_wheel(folder: Path, *, changed: Mapping[str, str] | None = None, **options: str) -> Path:
    """A wheel of one dialect, ``toy``, of which every generated module refuses to be executed.

    :param changed: files that are others than in :data:`FILES`, or more
    """
    files = {name: text.encode() for name, text in {**FILES, **(changed or {})}.items()}
    return make_wheel(folder, files=files, **options)  # type: ignore[arg-type]
