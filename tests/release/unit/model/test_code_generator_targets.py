"""``code-generators`` in ``targets.toml``, the profile ``all``, and which wheels name the release's ``mlir-sdk``."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from mlir_release.builder.model.orders import SdkOrder, WheelOrder, read_orders
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.matrix_jobs import job_rows
from mlir_release.release.model.release_tags import parse_snapshot, parse_tag
from tests.refusals import refused
from tests.targets_factory import RUNTIME, make_row, make_targets

ALL = f"{RUNTIME}_all"
MONDAY, TUESDAY = (parse_snapshot(f"snapshot-202611{day}.01") for day in (23, 24))
SHIPPED = Path("targets.toml")


def with_all(*, runtime: str = ALL, code_generators: str = "all") -> str:
    """A file with wheels of ``mlir`` and ``mlir-all``, and, weekly, ``mlir-sdk`` of the usual runtime."""
    rows = [make_row(), make_row("mlir-all", required=False), make_row("mlir-sdk", suites=["sdk"], required=False)]
    data: dict[str, Any] = tomllib.loads(make_targets(*rows))
    data["llvm"]["mlir-sdk"]["cadence"] = "weekly"
    data["runtime"][ALL] = data["runtime"][RUNTIME] | {"code-generators": code_generators}
    data["target"][1]["runtime"] = runtime
    return tomli_w.dumps(data)


def test_the_runtime_of_all_code_generators_has_an_sdk_of_its_own() -> None:
    matrix = Matrix.parse(with_all())
    orders = {
        row["runtime"]: read_orders(row["order"], SdkOrder) for row in job_rows(matrix, "platforms", release=RELEASE)
    }
    assert {name: order.code_generators for name, order in orders.items()} == {RUNTIME: "usual", ALL: "all"}
    assert "code_generators" not in job_rows(matrix, "platforms", release=RELEASE)[0]["order"]


RELEASE = {"tag": "snapshot-20261123.01", "version": "20261123.1", "revision": "a" * 40}


@pytest.mark.parametrize("text", [with_all(runtime=RUNTIME), with_all(code_generators="usual")])
def test_no_other_runtime_can_make_wheels_with_all_of_them(text: str) -> None:
    error = refused(lambda: Matrix.parse(text), "config-invalid")
    assert "[[target]] number 2" in error.what
    assert "whose SDK lacks most code generators, which llvm.mlir-all links" in error.why
    assert 'code-generators = "all"' in error.remedy


def test_a_word_that_is_neither_is_refused() -> None:
    error = refused(lambda: Matrix.parse(with_all(code_generators="RISCV")), "config-invalid")
    assert "runtime.linux-x86_64_all" in error.what
    assert "code-generators is 'RISCV', which is not known" in error.why
    assert "usual" in error.remedy


def test_wheels_name_the_sdk_that_their_release_makes_on_their_runtime() -> None:
    matrix = Matrix.parse(with_all())
    named = {wheel.name: wheel.sdk_wheel for wheel in matrix.naming_sdk_wheels(MONDAY).wheels}
    assert [name for name, has in named.items() if has] == [f"mlir-{RUNTIME}-cp312", f"mlir-{RUNTIME}-cp313"]
    assert not any(wheel.sdk_wheel for wheel in matrix.naming_sdk_wheels(TUESDAY).wheels)
    numbered = parse_tag("llvm-22.1.8.01")
    assert numbered is not None
    assert any(wheel.sdk_wheel for wheel in matrix.naming_sdk_wheels(numbered).wheels)


def test_orders_of_older_plans_name_no_sdk() -> None:
    (wheel, *_) = Matrix.parse(with_all()).naming_sdk_wheels(MONDAY).wheels
    assert wheel.order().sdk_wheel
    old = {"target": "t", "runtime": "r", "distribution": "mlir", "profile": "host"}
    assert read_orders(json.dumps([old]), list[WheelOrder])[0].sdk_wheel is False


def test_the_shipped_rows_are_weekly_experimental_and_of_linux() -> None:
    matrix = Matrix.parse(SHIPPED.read_text(encoding="utf-8"))
    weekly = [wheel for wheel in matrix.wheels if wheel.profile in {"sdk", "sdk-tools", "source", "all"}]
    assert {wheel.distribution for wheel in weekly} == {"mlir-sdk", "mlir-sdk-tools", "mlir", "mlir-all"}
    assert {wheel.runtime.os for wheel in weekly} == {"linux"}
    assert not any(wheel.required for wheel in weekly)
    assert set(weekly) <= set(matrix.for_tag(MONDAY).wheels)
    due = matrix.for_tag(TUESDAY)
    assert not {wheel.name for wheel in weekly} & {wheel.name for wheel in due.wheels}
    assert ALL not in {runtime.name for runtime in due.runtimes}, "no SDK is built for it"


def test_the_shipped_source_distribution_is_hidden_from_pip_by_its_name() -> None:
    """GitHub's list of a release's files, which pip reads, has it, too."""
    source = Matrix.parse(SHIPPED.read_text(encoding="utf-8")).wheel("mlir-source-linux-x86_64-py3")
    assert source.makes("source-mlir-20261123.1.tar.gz", "20261123.1")
    assert not source.makes("mlir-20261123.1.tar.gz", "20261123.1")
