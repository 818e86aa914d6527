"""Which distributions go to PyPI: ``pypi`` in the ``[project.NAME]`` of ``targets.toml``."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomli_w

from mlir_release.release.model.matrix import Matrix
from tests.refusals import refused
from tests.targets_factory import make_row, make_targets


def targets(pypi: list[str] | None = None, **distributions: str) -> str:
    """A file with ``mlir`` and ``mlir-core``, whose distributions may have other names."""
    data: dict[str, Any] = tomllib.loads(make_targets(make_row(), make_row("mlir-core")))
    for name, distribution in distributions.items():
        data["llvm"][name.replace("_", "-")]["distribution"] = distribution
    if pypi is not None:
        data["project"] = {"mlir": {"pypi": pypi}}
    return tomli_w.dumps(data)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (targets(), ("mlir",)),
        (targets([]), ()),
        (targets(mlir="my-mlir"), ()),
        (targets(["my-mlir"], mlir="my-mlir"), ("my-mlir",)),
        (targets(["mlir-core"]), ("mlir-core",)),
        (targets(["mlir-core", "mlir"]), ("mlir", "mlir-core")),
        (targets(["my_mlir"], mlir="my_mlir"), ("my-mlir",)),
    ],
)
def test_the_names_that_go_there(text: str, names: tuple[str, ...]) -> None:
    assert Matrix.parse(text).on_pypi == names


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (targets(["mlr"]), "pypi[0] is 'mlr', which is not known"),
        (targets(["mlir"], mlir="my-mlir"), "pypi[0] is 'mlir', which is not known"),
        (targets(["mlir", "mlir"]), "pypi names one twice: mlir"),
        (targets(["my-mlir", "my_mlir"], mlir="my-mlir"), "pypi names one twice: my-mlir"),
        (targets(["My-MLIR"], mlir="my-mlir"), "lower-case letters"),
        (targets([]).replace("pypi = []", "pypi = [1]"), "pypi[0]"),
        (targets().replace("[release]", '[release]\npypi = ["mlir"]'), "pypi is an unknown key"),
        (targets(["mlir"]).replace("[project.mlir]", "[project.clong]"), "clong is 'clong', which is not known"),
    ],
)
def test_a_mistake(text: str, why: str) -> None:
    error = refused(lambda: Matrix.parse(text), "config-invalid")
    assert why in f"{error.what}: {error.why}"


def test_wheels_with_assertions_do_not_go_there() -> None:
    data = tomllib.loads(targets(["mlir-core"], mlir_core="my-asserts"))
    data["project"]["mlir"]["pypi"] = ["my-asserts"]
    data["llvm"]["mlir-core"]["assertions"] = True
    data["runtime"]["linux-x86_64_asserts"] = data["runtime"]["linux-x86_64"] | {"assertions": True}
    data["target"][1]["runtime"] = "linux-x86_64_asserts"
    error = refused(lambda: Matrix.parse(tomli_w.dumps(data)), "config-invalid")
    assert "whose wheels have LLVM's assertions" in error.why
