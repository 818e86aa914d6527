"""What ``targets.toml`` says of runtimes and configurations beyond wheels of bindings for each CPython."""

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
from mlir_release.release.model.release_tags import parse_release_tag, parse_snapshot
from tests.refusals import refused
from tests.targets_factory import RUNTIME, make_row, make_targets

ASSERTS, ALL = f"{RUNTIME}_asserts", f"{RUNTIME}_all"
MONDAY, TUESDAY = (parse_snapshot(f"snapshot-202611{day}.01") for day in (23, 24))
RELEASE = {"tag": "snapshot-20261123.01", "version": "20261123.1", "revision": "a" * 40}


@pytest.fixture
def shipped() -> Matrix:
    return Matrix.parse(Path("targets.toml").read_text(encoding="utf-8"))


def refusal(text: str) -> str:
    error = refused(lambda: Matrix.parse(text), "config-invalid")
    return f"{error.what}: {error.why}"


# -- assertions, and the configuration mlir-asserts --------------------------------------------------------------------


def with_assertions(*, name: str = ASSERTS, runtime: bool = True, llvm: bool = True, distribution: str = "") -> str:
    """A file with wheels of ``mlir`` and, on a runtime called ``name``, those of ``mlir-asserts``."""
    data: dict[str, Any] = tomllib.loads(make_targets(make_row(), make_row(required=False)))
    data["llvm"]["mlir-asserts"] = {
        "distribution": distribution or "mlir-asserts", "profile": "host", "cadence": "weekly", "assertions": llvm
    }  # fmt: skip
    data["runtime"][name] = data["runtime"][RUNTIME] | {"assertions": runtime}
    data["target"][1] |= {"llvm": "mlir-asserts", "runtime": name}
    return tomli_w.dumps(data)


def test_a_runtime_with_assertions_has_an_sdk_and_wheels_of_its_own() -> None:
    matrix = Matrix.parse(with_assertions())
    assert [(runtime.name, runtime.assertions) for runtime in matrix.runtimes] == [(RUNTIME, False), (ASSERTS, True)]
    assert matrix.wheels[-1].name == f"mlir-asserts-{ASSERTS}-cp313"


def test_wheels_with_assertions_never_have_the_name_of_those_without_and_never_go_to_pypi() -> None:
    same = with_assertions(distribution="mlir")
    assert "distribution is 'mlir', as wheels without assertions are called" in refusal(same)
    assert Matrix.parse(with_assertions()).on_pypi == ("mlir",)
    asked = with_assertions() + '[project.mlir]\npypi = ["mlir-asserts"]\n'
    assert "whose wheels have LLVM's assertions" in refusal(asked)


@pytest.mark.parametrize(("llvm", "runtime"), [(True, False), (False, True)])
def test_a_configuration_has_assertions_where_its_runtimes_sdk_has(llvm: bool, runtime: bool) -> None:
    why = refusal(with_assertions(llvm=llvm, runtime=runtime))
    assert "[[target]] number 2" in why
    assert f"runtime is '{ASSERTS}', whose SDK has {'assertions' if runtime else 'no assertions'}" in why


@pytest.mark.parametrize("name", [f"{RUNTIME}-asserts", f"asserts-{RUNTIME}"])
def test_no_runtimes_name_is_part_of_anothers(name: str) -> None:
    """Jobs find each other's artifacts by ``wheel-*-RUNTIME-*`` and ``report-RUNTIME-*``."""
    assert f"{name} contains {RUNTIME}" in refusal(with_assertions(name=name))


# -- code-generators, the profile all, and which wheels name the release's mlir-sdk ------------------------------------


def with_all(*, runtime: str = ALL, code_generators: str = "all") -> str:
    """A file with wheels of ``mlir`` and ``mlir-all``, and, weekly, ``mlir-sdk`` of the usual runtime."""
    rows = [make_row(), make_row("mlir-all", required=False), make_row("mlir-sdk", suites=["sdk"], required=False)]
    data: dict[str, Any] = tomllib.loads(make_targets(*rows))
    data["llvm"]["mlir-sdk"]["cadence"] = "weekly"
    data["runtime"][ALL] = data["runtime"][RUNTIME] | {"code-generators": code_generators}
    data["target"][1]["runtime"] = runtime
    return tomli_w.dumps(data)


def test_the_runtime_of_all_code_generators_has_an_sdk_of_its_own() -> None:
    rows = job_rows(Matrix.parse(with_all()), "platforms", release=RELEASE)
    orders = {row["runtime"]: read_orders(row["order"], SdkOrder) for row in rows}
    assert {name: order.code_generators for name, order in orders.items()} == {RUNTIME: "usual", ALL: "all"}
    assert "code_generators" not in rows[0]["order"]


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
    numbered = parse_release_tag("llvm-22.1.8.01")
    assert any(wheel.sdk_wheel for wheel in matrix.naming_sdk_wheels(numbered).wheels)


def test_orders_of_older_plans_name_no_sdk() -> None:
    (wheel, *_) = Matrix.parse(with_all()).naming_sdk_wheels(MONDAY).wheels
    assert wheel.order().sdk_wheel
    old = {"target": "t", "runtime": "r", "distribution": "mlir", "profile": "host"}
    assert read_orders(json.dumps([old]), list[WheelOrder])[0].sdk_wheel is False


# -- the shipped rows --------------------------------------------------------------------------------------------------


def test_the_shipped_rows_of_these_kinds_are_weekly_experimental_and_of_linux(shipped: Matrix) -> None:
    weekly = [
        wheel
        for wheel in shipped.wheels
        if wheel.configuration.assertions or wheel.profile in {"sdk", "sdk-tools", "source", "all"}
    ]
    distributions = {"mlir-asserts", "mlir-sdk", "mlir-sdk-tools", "mlir", "mlir-all"}
    assert {wheel.distribution for wheel in weekly} == distributions
    assert {wheel.runtime.os for wheel in weekly} == {"linux"}
    assert {wheel.runtime.name for wheel in weekly if wheel.configuration.assertions} == {ASSERTS}
    assert not any(wheel.required for wheel in weekly)
    assert set(weekly) <= set(shipped.for_tag(MONDAY).wheels)
    due = shipped.for_tag(TUESDAY)
    assert not {wheel.name for wheel in weekly} & {wheel.name for wheel in due.wheels}
    assert not {ASSERTS, ALL} & {runtime.name for runtime in due.runtimes}, "no SDK is built for them"


def test_the_shipped_source_distribution_is_hidden_from_pip_by_its_name(shipped: Matrix) -> None:
    """GitHub's list of a release's files, which pip reads, has it, too."""
    source = shipped.wheel("mlir-source-linux-x86_64-py3")
    assert source.makes("source-mlir-20261123.1.tar.gz", "20261123.1")
    assert not source.makes("mlir-20261123.1.tar.gz", "20261123.1")


# -- regalloc-model ----------------------------------------------------------------------------------------------------


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
    why = refusal(with_model("llvm", "mlir", path))
    assert f"regalloc-model is {path!r}, not a folder below the repository's root" in why


def test_where_nothing_is_compiled_a_model_has_no_use() -> None:
    assert "has no use with the profile core" in refusal(with_model("llvm", "mlir-core", "models/evict"))
    windows = with_model("runtime", RUNTIME, "models/evict", os="windows", floor="win_amd64")
    assert "was never tried on Windows" in refusal(windows)


# -- which distributions go to PyPI: pypi in a [project.NAME] ----------------------------------------------------------


def with_names(pypi: list[str] | None = None, **distributions: str) -> str:
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
        (with_names(), ("mlir",)),
        (with_names([]), ()),
        (with_names(mlir="my-mlir"), ()),
        (with_names(["my-mlir"], mlir="my-mlir"), ("my-mlir",)),
        (with_names(["mlir-core"]), ("mlir-core",)),
        (with_names(["mlir-core", "mlir"]), ("mlir", "mlir-core")),
        (with_names(["my_mlir"], mlir="my_mlir"), ("my-mlir",)),
    ],
)
def test_the_names_that_go_there(text: str, names: tuple[str, ...]) -> None:
    assert Matrix.parse(text).on_pypi == names


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (with_names(["mlr"]), "pypi[0] is 'mlr', which is not known"),
        (with_names(["mlir"], mlir="my-mlir"), "pypi[0] is 'mlir', which is not known"),
        (with_names(["mlir", "mlir"]), "pypi names one twice: mlir"),
        (with_names(["my-mlir", "my_mlir"], mlir="my-mlir"), "pypi names one twice: my-mlir"),
        (with_names(["My-MLIR"], mlir="my-mlir"), "lower-case letters"),
        (with_names([]).replace("pypi = []", "pypi = [1]"), "pypi[0]"),
        (with_names().replace("[release]", '[release]\npypi = ["mlir"]'), "pypi is an unknown key"),
        (with_names(["mlir"]).replace("[project.mlir]", "[project.clong]"), "clong is 'clong', which is not known"),
    ],
)
def test_a_mistake_about_names_is_told(text: str, why: str) -> None:
    assert why in refusal(text)
