"""``regalloc-model`` in ``targets.toml``."""

from __future__ import annotations

import tomllib

import pytest
import tomli_w

from mlir_release.ground.errors import UsageError
from mlir_release.release.model.matrix import Matrix
from tests.refusals import refused
from tests.targets_factory import RUNTIME, make_row, make_targets


def with_model(table: str, name: str, path: str, **changed: str) -> str:
    """A file whose table ``[table.name]`` names a model."""
    data = tomllib.loads(make_targets(make_row(name if table == "llvm" else "mlir", required=False)))
    data[table][name] |= {"regalloc-model": path, **changed}
    return tomli_w.dumps(data)


def test_a_model_of_a_configuration_and_one_of_a_runtime() -> None:
    (wheel, _) = Matrix.parse(with_model("llvm", "mlir", "models/evict")).wheels
    assert (wheel.configuration.regalloc_model, wheel.runtime.regalloc_model) == ("models/evict", "")
    (wheel, _) = Matrix.parse(with_model("runtime", RUNTIME, "models/evict-2.1")).wheels
    assert (wheel.configuration.regalloc_model, wheel.runtime.regalloc_model) == ("", "models/evict-2.1")


@pytest.mark.parametrize("path", ["/etc", "../models", "models/..", "models//evict", "models/evict/", "."])
def test_only_a_folder_below_the_root_is_a_model(path: str) -> None:
    error = refused(lambda: Matrix.parse(with_model("llvm", "mlir", path)), kind=UsageError)
    assert f"regalloc-model is {path!r}, not a folder below the repository's root" in error.why


def test_where_nothing_is_compiled_a_model_has_no_use() -> None:
    error = refused(lambda: Matrix.parse(with_model("llvm", "mlir-core", "models/evict")), kind=UsageError)
    assert "has no use with the profile core" in error.why
    with pytest.raises(UsageError) as caught:
        Matrix.parse(with_model("runtime", RUNTIME, "models/evict", os="windows", floor="win_amd64"))
    assert "was never tried on Windows" in caught.value.why
