"""``assertions`` in ``targets.toml``, and the configuration ``mlir-asserts`` of the release repository."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_tags import parse_tag
from tests.refusals import refused
from tests.targets_factory import RUNTIME, make_row, make_targets

ASSERTS = f"{RUNTIME}_asserts"


def with_assertions(*, name: str = ASSERTS, runtime: bool = True, llvm: bool = True, distribution: str = "") -> str:
    """A file with wheels of ``mlir`` and, on a runtime called ``name``, those of ``mlir-asserts``."""
    data: dict[str, Any] = tomllib.loads(make_targets(make_row(), make_row(required=False)))
    data["llvm"]["mlir-asserts"] = {
        "distribution": distribution or "mlir-asserts", "profile": "host", "cadence": "weekly", "assertions": llvm
    }  # fmt: skip
    data["runtime"][name] = data["runtime"][RUNTIME] | {"assertions": runtime}
    data["target"][1] |= {"llvm": "mlir-asserts", "runtime": name}
    return tomli_w.dumps(data)


def refusal(text: str) -> str:
    error = refused(lambda: Matrix.parse(text), "config-invalid")
    return f"{error.what}: {error.why}"


def test_a_runtime_with_assertions_has_an_sdk_and_wheels_of_its_own() -> None:
    matrix = Matrix.parse(with_assertions())
    assert [(runtime.name, runtime.assertions) for runtime in matrix.runtimes] == [(RUNTIME, False), (ASSERTS, True)]
    assert matrix.wheels[-1].name == f"mlir-asserts-{ASSERTS}-cp313"


def test_wheels_with_assertions_never_have_the_name_of_those_without() -> None:
    """So none of them can get onto PyPI, which gets one distribution only."""
    assert "distribution is 'mlir', as wheels without assertions are called" in refusal(
        with_assertions(distribution="mlir")
    )
    assert Matrix.parse(with_assertions()).on_pypi == ("mlir",)


@pytest.mark.parametrize(("llvm", "runtime"), [(True, False), (False, True)])
def test_a_configuration_has_assertions_where_its_runtimes_sdk_has(llvm: bool, runtime: bool) -> None:
    why = refusal(with_assertions(llvm=llvm, runtime=runtime))
    assert "[[target]] number 2" in why
    assert f"runtime is '{ASSERTS}', whose SDK has {'assertions' if runtime else 'no assertions'}" in why


@pytest.mark.parametrize("name", [f"{RUNTIME}-asserts", f"asserts-{RUNTIME}"])
def test_no_runtimes_name_is_part_of_anothers(name: str) -> None:
    """Jobs find each other's artifacts by ``wheel-*-RUNTIME-*`` and ``report-RUNTIME-*``."""
    assert f"{name} contains {RUNTIME}" in refusal(with_assertions(name=name))


def test_mlir_asserts_is_weekly_experimental_and_of_linux_alone() -> None:
    matrix = Matrix.parse(Path("targets.toml").read_text(encoding="utf-8"))
    found = [wheel for wheel in matrix.wheels if wheel.configuration.assertions]
    assert {(wheel.distribution, wheel.runtime.name, wheel.required) for wheel in found} == {
        ("mlir-asserts", "linux-x86_64_asserts", False)
    }
    monday, tuesday = map(parse_tag, ("snapshot-20261123.01", "snapshot-20261124.01"))
    assert monday is not None
    assert tuesday is not None
    assert set(found) <= set(matrix.for_tag(monday).wheels)
    assert not any(runtime.assertions for runtime in matrix.for_tag(tuesday).runtimes), "no SDK is built for it"
