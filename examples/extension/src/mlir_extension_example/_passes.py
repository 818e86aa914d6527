"""The native module's functions, on the objects of ``mlir.ir`` and ``mlir.passmanager``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir.ir import Type

from . import _native

if TYPE_CHECKING:
    from mlir.ir import VectorType
    from mlir.passmanager import PassManager


def add_counting_pass(manager: PassManager, attribute: str = "example.operations", *, on: str = "") -> None:
    """Append a pass that counts the operations in the one that it runs on, into an attribute of that operation.

    :param on: the operations that it runs on, in those of ``manager``: ``func.func``; empty: ``manager``'s own
    """
    _native.add_counting_pass(manager._CAPIPtr, attribute, on)


def vector_of(element: Type, size: int) -> VectorType:
    """``vector<SIZExELEMENT>``. :raises ValueError: ``element`` can't be in a vector"""
    made = _native.vector_of(element._CAPIPtr, size)
    if made is None:
        raise ValueError(f"there are no vectors of {element} with {size} elements")
    return Type._CAPICreate(made).maybe_downcast()
