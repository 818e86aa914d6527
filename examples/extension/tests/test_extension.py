"""The extension, on contexts that the installed ``mlir`` made."""

from __future__ import annotations

import mlir_extension_example as example
import pytest
from mlir.ir import Context, F32Type, FunctionType, Location, MLIRError, Module, VectorType
from mlir.passmanager import PassManager

FUNCTIONS = """
func.func @first() -> i32 { %0 = arith.constant 1 : i32 return %0 : i32 }
func.func @second() { return }
"""


def test_a_pass_runs_in_a_pipeline_with_those_of_mlir() -> None:
    with Context():
        module = Module.parse(FUNCTIONS)
        manager = PassManager.parse("builtin.module(canonicalize)")
        example.add_counting_pass(manager)
        manager.run(module.operation)
        assert "example-count-operations" in str(manager)
        assert str(module.operation.attributes["example.operations"]) == "6 : i64"


def test_a_pass_runs_on_many_functions_at_once() -> None:
    """Each thread has a clone of it."""
    with Context():
        module = Module.parse("\n".join(f"func.func @f{number}() {{ return }}" for number in range(64)))
        manager = PassManager()
        example.add_counting_pass(manager, "n", on="func.func")
        manager.run(module.operation)
        assert [str(function.attributes["n"]) for function in module.body] == ["2 : i64"] * 64


def test_a_type_is_made_by_the_extension_and_used_by_mlir() -> None:
    with Context(), Location.unknown():
        vector = example.vector_of(F32Type.get(), 4)
        assert isinstance(vector, VectorType)
        assert str(vector) == "vector<4xf32>"
        assert vector == VectorType.get([4], F32Type.get())


def test_a_type_that_can_not_be_is_an_error() -> None:
    with Context(), Location.unknown(), pytest.raises((ValueError, MLIRError)):
        example.vector_of(FunctionType.get([], []), 4)


def test_what_is_no_object_of_mlir_is_refused() -> None:
    with pytest.raises(AttributeError):
        example.add_counting_pass("no pass manager")  # type: ignore[arg-type]


def test_a_dialect_of_irdl_is_known_after_it_is_loaded() -> None:
    text = '%0 = "example.open"() : () -> !example.handle\n"example.close"(%0) : (!example.handle) -> ()'
    with Context() as context:
        with pytest.raises(MLIRError):
            Module.parse(text)
        example.dialect.load(context)
        module = Module.parse(text)
        assert module.operation.verify()
        with pytest.raises(MLIRError):
            Module.parse('"example.close"() : () -> ()')
