from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mlir_release.builder.model.orders import NOTICE, TARGET_MINUTES, SdkOrder, TestOrder, WheelOrder, read_orders
from mlir_release.ground.job_names import is_experimental
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.matrix_jobs import (
    BESIDE,
    HANGS,
    LONGEST_JOB,
    MAX_HANDED_OVER,
    MAX_JOBS,
    budget,
    expected_minutes,
    github_matrix,
    groups,
    job_rows,
)
from mlir_release.release.model.release_settings import TARGETS_FILE
from tests.documents import read_yaml
from tests.refusals import refused
from tests.revision_factory import FACTS
from tests.targets_factory import make_row, make_targets

ROOT = Path(__file__).parents[4]
MATRIX = Matrix.parse((ROOT / TARGETS_FILE).read_text())

#: LLVM 22, with a wheel for each CPython, and LLVM 23, with one for the stable ABI.
REVISIONS = [FACTS, replace(FACTS, version="23.1.4", has_stable_abi=True)]


def test_rows() -> None:
    assert job_rows(MATRIX, "sdk")[0] == {
        "name": "sdk-linux-x86_64",
        "runtime": "linux-x86_64",
        "runner": "ubuntu-24.04",
    }
    assert len(job_rows(MATRIX, "wheels")) == len(MATRIX.wheels)
    tests = {row["name"]: row for row in job_rows(MATRIX, "tests")}
    assert tests["regression-mlir-linux-x86_64"]["python"] == ""
    assert tests["bindings-mlir-linux-x86_64-cp314t"]["required"] == "false"


def test_only_what_is_missing_and_the_sdks_for_it() -> None:
    wheels, tests = {"mlir-macos-arm64-cp312"}, {"regression-mlir-windows-x64"}
    assert [row["name"] for row in job_rows(MATRIX, "wheels", wheels=wheels, tests=tests)] == sorted(wheels)
    assert [row["name"] for row in job_rows(MATRIX, "tests", wheels=wheels, tests=tests)] == sorted(tests)
    sdks = job_rows(MATRIX, "sdk", wheels=wheels, tests=tests)
    assert [row["name"] for row in sdks] == ["sdk-macos-arm64", "sdk-windows-x64"]
    assert job_rows(MATRIX, "sdk", wheels=(), tests=()) == job_rows(MATRIX, "platforms", wheels=(), tests=()) == []


def chain(row: dict[str, str], kind: str) -> list[dict[str, str]]:
    """The rows of a platform's matrix."""
    found: Any = json.loads(row[kind])["include"] if row[kind] else []
    return list(found)


def targets_of(row: dict[str, str], kind: str) -> list[str]:
    return [name for job in chain(row, kind) for name in job["targets"].split()]


@pytest.mark.parametrize("facts", REVISIONS, ids=["22", "23"])
def test_each_target_has_one_job_of_its_platform(facts: Any) -> None:
    matrix = MATRIX.with_abi3(facts)
    rows = job_rows(matrix, "platforms")
    assert [(row["runtime"], row["runner"]) for row in rows] == [(r.name, r.runner) for r in matrix.runtimes]
    assert sorted(name for row in rows for name in targets_of(row, "wheels")) == sorted(w.name for w in matrix.wheels)
    assert sorted(name for row in rows for name in targets_of(row, "tests")) == sorted(t.name for t in matrix.tests)
    required = {wheel.name for wheel in matrix.wheels if wheel.required}
    required |= {test.name for test in matrix.tests if test.required}
    for row in rows:
        for kind in ("wheels", "tests"):
            jobs = chain(row, kind)
            assert len({job["name"] for job in jobs}) == len(jobs)
            assert [job["index"] for job in jobs] == [str(number) for number in range(len(jobs))]
            for job in jobs:
                assert {name in required for name in job["targets"].split()} == {not is_experimental(job["name"])}
                assert all(isinstance(value, str) for value in job.values())
                assert 90 <= int(job["minutes"]) < 360
                limits = [order["minutes"] for order in json.loads(job["orders"])]
                # A few may hang and the others be slow, before the job is ended with all that it made.
                slow = sum(limits) - (len(limits) - HANGS) * TARGET_MINUTES
                assert max(limits) <= int(job["budget"]) <= slow <= int(job["budget"]) + len(limits)
                assert int(job["budget"]) + BESIDE == int(job["minutes"])
    assert {row["fetch"] for row in rows} == {""}
    assert all(isinstance(value, str) for row in rows for value in row.values())
    assert len(json.dumps(rows)) < 100_000  # GitHub allows outputs of 1 MB a job, and a step's variables less


def test_a_test_takes_its_wheel_from_the_job_that_builds_it_or_from_the_draft() -> None:
    built, there = "mlir-linux-x86_64-cp312", "mlir-linux-x86_64-cp313"
    tests = {f"smoke-{built}", f"smoke-{there}", "regression-mlir-linux-x86_64", "sdk-x", "regression-mlir-windows-x64"}
    linux, windows = job_rows(MATRIX, "platforms", wheels={built}, tests=tests)
    assert targets_of(linux, "wheels") == [built]
    (job,) = chain(linux, "tests")
    assert {(order.suite, order.python, order.wheel) for order in read_orders(job["orders"], list[TestOrder])} == {
        ("smoke", "cp312", built),
        ("regression", "", ""),
        ("smoke", "cp313", there),
    }
    assert (job["wheel"], job["sdk"], job["versions"].split()) == ("true", "true", ["3.12", "3.13"])
    assert linux["fetch"] == there
    assert (windows["wheels"], windows["fetch"]) == ("", "")
    (job,) = chain(windows, "tests")
    assert (job["targets"], job["wheel"]) == ("regression-mlir-windows-x64", "false")


def test_a_platform_orders_what_its_builds_need_to_know() -> None:
    """Its version, revision and all of its targets, so that they ask no forge for them."""
    release = {"tag": "snapshot-20261120.02", "version": "20261120.2", "revision": "a" * 40}
    matrix = MATRIX.with_abi3(REVISIONS[1])
    for row, runtime in zip(job_rows(matrix, "platforms", release=release), matrix.runtimes, strict=True):
        sdk = read_orders(row["order"], SdkOrder)
        assert sdk == runtime.order(matrix.release, "a" * 40)
        assert (sdk.upstream, sdk.floor) == (matrix.release.upstream, runtime.floor)
        for job in chain(row, "wheels"):
            orders = read_orders(job["orders"], list[WheelOrder])
            assert " ".join(order.target for order in orders) == job["targets"]
            ordered = [matrix.wheel(order.target) for order in orders]
            assert orders == [structs.replace(wheel.order(**release), minutes=budget([wheel], 1)) for wheel in ordered]
            assert {(order.version, order.revision) for order in orders} == {("20261120.2", "a" * 40)}
            assert len(job["orders"]) < 30_000  # Windows gives a command line 32,767 characters


def test_another_notice_is_in_the_orders_and_the_usual_one_is_not() -> None:
    usual = make_targets(make_row())
    ours = Matrix.parse(usual.replace("[release]\n", '[release]\nnotice = "Ours."\n'))
    for matrix, notice in ((Matrix.parse(usual), NOTICE), (ours, "Ours.")):
        for row in job_rows(matrix, "platforms"):
            for job in chain(row, "wheels"):
                assert {order.notice for order in read_orders(job["orders"], list[WheelOrder])} == {notice}
                assert ("notice" in job["orders"]) == (notice != NOTICE)
    assert ours.with_abi3(REVISIONS[1]).wheels[0].notice == "Ours."


def test_the_suite_that_measures_has_a_job_beside_the_required_ones_with_valgrind_in_it() -> None:
    matrix = Matrix.parse(make_targets(make_row(suites=["smoke", "performance"]), pythons=["cp313", "cp312"]))
    (row,) = job_rows(matrix, "platforms", wheels=())
    jobs = {job["name"]: job for job in chain(row, "tests")}
    assert {name: (job["valgrind"], job["sdk"]) for name, job in jobs.items()} == {
        "linux-x86_64": ("false", "false"),
        "linux-x86_64 (experimental)": ("true", "false"),
    }
    assert jobs["linux-x86_64 (experimental)"]["targets"] == "performance-mlir-linux-x86_64-cp313"


def test_more_work_than_one_job_takes_is_divided() -> None:
    pythons = [f"cp3{minor}" for minor in range(11, 61)]
    matrix = Matrix.parse(make_targets(make_row(suites=["smoke", "bindings"]), pythons=pythons))
    for targets in (matrix.wheels, matrix.tests):
        found = groups(targets)
        assert list(found)[:2] == ["linux-x86_64 (1)", "linux-x86_64 (2)"]
        assert [target for group in found.values() for target in group] == list(targets)
        assert all(expected_minutes(group) <= LONGEST_JOB + 3 for group in found.values())
    rows = [make_row(name) for name in ("mlir", "mlir-core", "mlir-full")]
    matrix = Matrix.parse(make_targets(*rows, pythons=[f"cp3{minor}" for minor in range(11, 99)]))
    refused(lambda: job_rows(matrix, "platforms"), "option-invalid", "jobs; one matrix takes")


def test_platform_yml_has_an_output_for_each_job_of_a_kind() -> None:
    platform = read_yaml(ROOT / ".github" / "workflows" / "platform.yml")
    for job in ("wheels", "tests"):
        assert list(platform["jobs"][job]["outputs"]) == [f"files-{number}" for number in range(MAX_HANDED_OVER)]


@pytest.mark.parametrize(
    "text", ["", "{}", "[{}]", '[{"name":"a","suite":"b","python":"","wheel":"","x":1}]', "[" * 99]
)
def test_orders_that_are_none_are_an_error_of_its_own(text: str) -> None:
    refused(lambda: read_orders(text, list[TestOrder]), "option-invalid", "the orders of the job can't be read")


def test_githubs_limit() -> None:
    assert github_matrix([{"name": "x"}] * MAX_JOBS)["include"]
    refused(lambda: github_matrix([{"name": "x"}] * (MAX_JOBS + 1)), "option-invalid", "jobs; one matrix takes")
