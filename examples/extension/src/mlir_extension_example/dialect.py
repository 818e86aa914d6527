"""The dialect ``example``: ``!example.handle``, and operations that open and close one."""

from __future__ import annotations

from mlir.dialects import irdl
from mlir.ir import Context, Module

#: IRDL, in which MLIR itself describes a dialect; no C++ is needed to register one.
DEFINITION = """
irdl.dialect @example {
  irdl.type @handle
  irdl.operation @open {
    %handle = irdl.base @example::@handle
    irdl.results(handle: %handle)
  }
  irdl.operation @close {
    %handle = irdl.base @example::@handle
    irdl.operands(handle: %handle)
  }
}
"""


def load(context: Context) -> None:
    """Make ``context`` know the dialect. Once for each context."""
    with context:
        irdl.load_dialects(Module.parse(DEFINITION))
