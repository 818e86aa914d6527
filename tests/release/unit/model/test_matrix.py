from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.ground.errors import UsageError
from mlir_release.release.model.filters import FILTER_KEYS
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.release_tags import parse_numbered, parse_snapshot
from tests.refusals import refused
from tests.revision_factory import FACTS
from tests.targets_factory import make_row, make_targets

ROOT = Path(__file__).parents[4]
TEXT = (ROOT / TARGETS_FILE).read_text()
#: The runtimes of its fourth row.
SEVERAL = 'runtimes = ["linux-aarch64", "macos-arm64", "windows-x64"]'


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return Matrix.parse(TEXT)


def test_names_are_derived_and_unique(matrix: Matrix) -> None:
    names = [wheel.name for wheel in matrix.wheels] + [test.name for test in matrix.tests]
    assert len(names) == len(set(names))
    assert matrix.wheel("mlir-core-linux-x86_64-cp312").profile == "core"
    assert {"bindings-mlir-linux-x86_64-cp312", "regression-mlir-linux-x86_64"} <= {test.name for test in matrix.tests}


def test_a_suite_that_runs_once_a_platform_gates_all_its_wheels(matrix: Matrix) -> None:
    test = next(test for test in matrix.tests if test.name == "regression-mlir-linux-x86_64")
    assert test.python is None
    assert test.required
    assert "mlir-linux-x86_64-cp311" in test.wheels
    assert len(test.wheels) == 4


@pytest.mark.parametrize("shared", [False, True])
def test_the_newest_cpython_of_a_row_is_measured_and_no_release_waits_for_it(shared: bool) -> None:
    rows = (make_row(suites=["smoke", "performance"]), make_row(suites=["smoke"], pythons=["cp315"], required=False))
    matrix = Matrix.parse(make_targets(*rows, pythons=["cp312", "cp314", "cp313"]))
    if shared:
        matrix = matrix.with_abi3(replace(FACTS, has_stable_abi=True))
    tests = {test.name: test.required for test in matrix.tests}
    assert [name for name in tests if "performance" in name] == ["performance-mlir-linux-x86_64-cp314"]
    assert not tests["performance-mlir-linux-x86_64-cp314"]
    assert tests["smoke-mlir-linux-x86_64-cp314"]
    assert [wheel.required for wheel in matrix.wheels] == ([True] if shared else [True, True, True, False])


def test_filters_choose_wheels(matrix: Matrix) -> None:
    chosen = matrix.only("os=linux and python=cp312 and required")
    assert {wheel.name for wheel in chosen.wheels} == {
        "mlir-linux-x86_64-cp312", "mlir-core-linux-x86_64-cp312", "mlir-full-linux-x86_64-cp312",
    }  # fmt: skip
    assert {wheel.runtime.name for wheel in matrix.only("arch=x86_64 and llvm=mlir").wheels} == {
        "linux-x86_64", "macos-x86_64", "windows-x64",
    }  # fmt: skip
    for spelling in ("x64", "amd64", "AMD64"):
        assert matrix.only(f"arch={spelling}") == matrix.only("arch=x86_64") == matrix.only("arch!=arm64")
    for spelling in ("arm64", "aarch64", "aarch*", "ARM64"):
        assert {wheel.runtime.name for wheel in matrix.only(f"arch={spelling} and llvm=mlir").wheels} == {
            "linux-aarch64", "macos-arm64",
        }  # fmt: skip
    error = refused(lambda: matrix.only("arch=x86"), "option-invalid", "no target has arch 'x86'")
    assert error.remedy == "did you mean 'x86_64'? there are: aarch64, x86_64"
    assert {wheel.name for wheel in matrix.only("experimental and runtime=linux-x86_64 and python!=py3").wheels} == {
        f"mlir-linux-x86_64-{python}" for python in ("cp314t", "cp315", "cp315t")
    }
    with pytest.raises(UsageError, match="no target fits"):
        matrix.only("os=macos and llvm=mlir-core")


def test_each_key_of_filters_has_an_example_that_chooses_targets(matrix: Matrix) -> None:
    (wheel, *_) = matrix.wheels
    assert set(wheel.facts(wheel)) == set(FILTER_KEYS)
    for key, (_, example) in FILTER_KEYS.items():
        assert example.startswith(f"{key}=")
        assert matrix.only(example).wheels


def test_weekly_configurations_are_due_on_mondays_and_in_numbered_releases(matrix: Matrix) -> None:
    def full(due: Matrix) -> bool:
        return any(wheel.distribution == "mlir-full" for wheel in due.wheels)

    assert full(matrix.for_tag(parse_snapshot("snapshot-20261123.01")))
    assert not full(matrix.for_tag(parse_snapshot("snapshot-20261124.01")))
    assert full(matrix.for_tag(parse_numbered("llvm-22.1.8.01")))


NEWER = replace(FACTS, version="25.1.0", minimum_python="3.13")


def test_a_platform_whose_compiler_is_too_old_is_excluded_with_the_reason(matrix: Matrix) -> None:
    fitting = matrix.of_revision(replace(NEWER, minimum_python="3.10", build_tools=("AppleClang>=21.0", "GNU>=14")))
    left_out = {row.wheel.runtime.name for row in fitting.excluded}
    assert left_out == {"macos-arm64", "macos-x86_64", "macos-arm64_clang", "macos-x86_64_clang"}
    assert not {"macos-arm64", "macos-x86_64"} & {runtime.name for runtime in fitting.runtimes}
    assert fitting.excluded[0].reason == "LLVM 25.1.0 needs AppleClang>=21.0, not 17.0 as on macos-arm64"


def test_a_cpython_older_than_a_revisions_minimum_is_excluded_with_the_reason(matrix: Matrix) -> None:
    fitting = matrix.of_revision(NEWER)
    assert {wheel.interpreter for wheel in fitting.wheels} == {
        "cp313", "cp314", "cp314t", "cp315", "cp315t", "py3"
    }  # fmt: skip
    assert {row.wheel.interpreter for row in fitting.excluded} == {"cp311", "cp312"}
    assert len(fitting.wheels) + len(fitting.excluded) == len(matrix.wheels)
    assert str(fitting.excluded[0]) == "mlir-linux-x86_64-cp311: LLVM 25.1.0 needs CPython 3.13 or newer"
    assert not any(test.name.endswith(("cp311", "cp312")) for test in fitting.only("llvm=mlir").tests)
    error = refused(lambda: fitting.wheel("mlir-linux-x86_64-cp311"), kind=UsageError)
    assert (error.id, error.why) == ("option-invalid", fitting.excluded[0].reason)


def test_nothing_is_excluded_where_the_facts_are_not_known(matrix: Matrix) -> None:
    assert matrix.of_revision(None) == matrix


def test_parts_of_a_matrix_have_their_part_of_what_is_excluded(matrix: Matrix) -> None:
    fitting = matrix.of_revision(NEWER)
    assert [row.name for row in fitting.only("llvm=mlir-core").excluded] == [
        "mlir-core-linux-x86_64-cp311", "mlir-core-linux-x86_64-cp312",
    ]  # fmt: skip
    everything_excluded = fitting.only("python=cp311")
    assert not everything_excluded.wheels
    assert everything_excluded.excluded
    tuesday = fitting.for_tag(parse_snapshot("snapshot-20261124.01"))
    assert not any(row.wheel.distribution == "mlir-full" for row in tuesday.excluded)


def test_unknown_target(matrix: Matrix) -> None:
    refused(lambda: matrix.wheel("mlir-linux-x86_64-cp27"), "option-invalid", "there is no target called")


@pytest.mark.parametrize(
    ("old", "new", "place", "hint"),
    [
        ('profile = "host"', 'profil = "host"', "llvm.mlir", "did you mean 'profile'"),
        ('profile = "host"', "", "llvm.mlir", "profile is missing"),
        ('runtime = "linux-x86_64"', 'runtime = "linux-x86"', "[[target]] number 1", "linux-x86_64"),
        ("required = true", 'required = "yes"', "[[target]] number 1", "not a bool"),
        ('suites = ["smoke", "bindings", "regression"]\nrequired = false', "suites = []\nrequired = true",
         "[[target]] number 4", "no release has proven that wheels can be made on linux-aarch64"),
        ('runner = "windows-2022"', 'runner = "windows-2022"\nproven = "yes"', "runtime.windows-x64", "no tag of a"),
        ('"regression", "performance"]', '"regresion"]', "[[target]] number 1", "regression"),
        ('"cp311", ', '"py311", ', "runtime.linux-x86_64", "cp312"),
        ('"cp311", ', '"cp39", ', "runtime.linux-x86_64", "3.10"),
        ('"cp311", ', '"cp312", ', "runtime.linux-x86_64", "names one twice"),
        ('profile = "host"', 'profile = "hots"', "llvm.mlir", "did you mean 'host'"),
        ('floor = "manylinux_2_28"', 'floor = "manylinux2014"', "runtime.linux-x86_64", "manylinux_2_28"),
        ('floor = "win_amd64"', 'floor = "manylinux_2_28"', "runtime.windows-x64", "win_amd64"),
        ('arch = "amd64"', 'arch = "i386"', "runtime.windows-x64", "amd64"),
        ("[[target]]\n", "[[targets]]\n", "the top level", "did you mean 'target'"),
        ('# [release.green]', '[release.green]\ncheck = ["a"]', "release.green", "'checks'"),
        ('# [release.green]', '[release.green]\nchecks = []', "release.green", "empty"),
        ('# [release.green]', '[release.green]\nchecks = ["a"]\ndepth = 0', "release.green", "from 1"),
        ('# [release.green]', '[release.green]\nchecks = ["a"]\nfallback = "heed"', "release.green",
         "did you mean 'head'"),
        ('branch = "main"\n', 'branch = "main"\ndeadline = 0\n', "release", "deadline is 0, not a whole number"),
        ('branch = "main"\n', 'branch = "main"\ndeadline = true\n', "release", "deadline is True, not a whole number"),
        ('branch = "main"\n', 'branch = "main"\nsuperseded-after = 8761\n', "release",
         "superseded-after is 8761, not a whole number of hours from 1 to 8760"),
        ('branch = "main"\n', 'branch = "main"\nlinked-days = 0\n', "release",
         "linked-days is 0, not a whole number of days from 1 to"),
        ('\nbranch = "main"\n', '\nbranch = "main"\npins = "main"\n', "release", "pins is 'main', as branch is"),
        ('\nbranch = "main"\n', '\nbranch = "snapshots"\n', "release", "pins is 'snapshots', as branch is"),
        ('\nbranch = "main"\n', '\nbranch = "main"\npins = "a..b"\n', "release", "no plain name of a branch"),
        ('\nbranch = "main"\n', '\nbranch = "main"\npins = "-f"\n', "release", "no plain name of a branch"),
        ('\nbranch = "main"\n', '\nbranch = "main"\npins = "pins.lock"\n', "release", "no plain name of a branch"),
        ('[requires.numpy]', "[requires]\nml-dtypes = '<3'\n[requires.numpy]", "requires", "ml-dtypes is not a table"),
        ('reason = "no NumPy', '# "', "requires.numpy", "reason is missing"),
        ('reason = "no NumPy', 'reason = " ', "requires.numpy", "not a reason on one line"),
        ('specifier = "<3"', 'specifier = "3"', "requires.numpy", "specifier is '3', which is not a version specifier"),
        ('specifier = "<3"', 'specifier = ""', "requires.numpy", "specifier is empty"),
        ("schema = 1", "schema = 2", "the top level", "schema is 2, and this version of mlir-release reads 1"),
        ("schema = 1", "", "the top level", "schema is missing"),
        ("[release]", '[release]\nmode = "dry-run"', "release", "mode is an unknown key"),  # it's integrate's
        ('"regression", "performance"]', '3, "performance"]', "[[target]] number 1", "suites[2] is not a string"),
        ('tags = ["free-threaded"]', 'tags = ["free threaded"]', "[[target]] number 6", "tags[0] is 'free threaded'"),
        ('pythons = ["cp314t", "cp315t"]', "pythons = []", "[[target]] number 6", "pythons is empty"),
        ('runtime = "linux-x86_64"\n', "", "[[target]] number 1",
         'write runtime = "NAME", or runtimes = ["NAME", "NAME"]'),
        ('runtime = "linux-x86_64"\n', 'runtime = "linux-x86_64"\nruntimes = ["linux-x86_64"]\n',
         "[[target]] number 1", "runtimes stands beside runtime"),
        (SEVERAL, "runtimes = []", "[[target]] number 4", "runtimes is empty"),
        (SEVERAL, 'runtimes = "macos-arm64"', "[[target]] number 4", "runtimes is not a list"),
        (SEVERAL, 'runtimes = ["macos-arm64", "windows-x64", "macos-arm64"]', "[[target]] number 4",
         "runtimes names one twice: macos-arm64"),
        (SEVERAL, 'runtimes = ["macos-arm64", "windows"]', "[[target]] number 4",
         "runtimes[1] is 'windows', which is not known"),
        (SEVERAL, 'runtimes = ["macos-arm64", "linux-x86_64_asserts"]', "[[target]] number 4",
         "runtimes[1] is 'linux-x86_64_asserts', whose SDK has assertions, unlike llvm.mlir"),
        (f'{SEVERAL}\nsuites = ["smoke", "bindings", "regression"]\nrequired = false',
         'runtimes = ["linux-x86_64", "macos-arm64"]\nsuites = ["smoke"]\nrequired = true', "[[target]] number 4",
         "no release has proven that wheels can be made on macos-arm64"),
        ('upstream-branch = "main"', "upstream_branch = 'main'", "release", "did you mean 'upstream-branch'"),
        ('arch = "amd64"', 'arch = "arm64"', "runtime.windows-x64", "which is not for arch = 'arm64'"),
        ('[llvm.mlir-core]', "[llvm.Mlir_]", "llvm", "Mlir_ is not a name of lower-case"),
        ('distribution = "mlir-core"', 'distribution = "mlir"', "mlir-linux-x86_64-cp311", "both would make"),
        ('llvm = "mlir-core"\n', 'llvm = "mlir"\n', "target mlir-linux-x86_64-cp311", "two rows make it"),
    ],
)  # fmt: skip
def test_each_typo_gets_a_message_that_names_it(old: str, new: str, place: str, hint: str) -> None:
    assert old in TEXT
    error = refused(lambda: Matrix.parse(TEXT.replace(old, new, 1)), "config-invalid", "has a mistake in")
    assert place in error.what
    assert hint in str(error)


def test_the_projects_own_platforms(matrix: Matrix) -> None:
    ordinary = {"cp311", "cp312", "cp313", "cp314"}
    wheels = matrix.only("llvm=mlir").wheels
    for runtime in dict.fromkeys(wheel.runtime for wheel in wheels):
        rows = [wheel for wheel in wheels if wheel.runtime == runtime]
        required = {wheel.interpreter for wheel in rows if wheel.required}
        assert required == (ordinary if runtime.name == "linux-x86_64" or runtime.proven else set())
        assert {wheel.interpreter for wheel in rows} == ordinary | {"cp314t", "cp315", "cp315t"}
        assert not runtime.runner.endswith("-latest")
    assert {(runtime.os, runtime.arch) for runtime in matrix.runtimes} == {
        ("linux", "x86_64"), ("linux", "aarch64"), ("macos", "arm64"), ("macos", "x86_64"), ("windows", "amd64"),
    }  # fmt: skip


def test_a_row_with_several_runtimes_is_a_row_on_each_in_order() -> None:
    others = {name: {"pythons": ["cp311"]} for name in ("windows-x64", "macos-arm64")}
    several = make_row(runtimes=["windows-x64", "linux-x86_64", "macos-arm64"], tags=["odd"])
    single = [make_row(runtime=name, tags=["odd"]) for name in several["runtimes"]]
    assert Matrix.parse(make_targets(several, others=others)) == Matrix.parse(make_targets(*single, others=others))


@pytest.mark.parametrize("required", [True, False])
def test_wheels_of_bindings_need_the_smoke_suite_and_what_has_no_bindings_does_not(required: bool) -> None:
    others = [make_row("mlir-sdk", suites=["sdk"]), make_row("mlir-source", suites=["source"])]
    assert Matrix.parse(make_targets(*others)).wheels
    for suites in (["bindings", "regression"], []):
        text = make_targets(*others, make_row(suites=suites, required=required))
        error = refused(partial(Matrix.parse, text), "config-invalid", "has a mistake in [[target]] number 3")
        assert "suites lacks 'smoke'" in error.why
        assert "add 'smoke'" in error.remedy


def test_a_proven_platform_may_be_required(matrix: Matrix) -> None:
    proven = TEXT.replace("\nrequired = false", "\nrequired = true").replace(
        "\nrunner =", '\nproven = "snapshot-20261101.01"\nrunner ='
    )
    assert all(wheel.required for wheel in Matrix.parse(proven).wheels)


NAMES = st.from_regex(r"[a-z0-9]+(?:[-_][a-z0-9]+)*", fullmatch=True).filter(lambda name: len(name) < 12)


def apart(names: set[str]) -> bool:
    """Whether none of the names is part of another; :mod:`tests.release.unit.model.test_targets` has the others."""
    return not any(f"-{one}-" in f"-{other}-" for one in names for other in names - {one})


@given(st.sets(NAMES, min_size=1, max_size=3), st.sets(NAMES, min_size=1, max_size=3).filter(apart))
def test_names_are_a_function_of_the_words_and_never_collide(llvms: set[str], runtimes: set[str]) -> None:
    """Whatever the tables are called."""
    text = ["schema = 1", '[release]\nupstream = "u"']
    text += [f'[llvm.{name}]\ndistribution = "{name}"\nprofile = "host"' for name in sorted(llvms)]
    text += [
        f'[runtime.{name}]\nos = "linux"\narch = "x86_64"\nrunner = "r"\nfloor = "manylinux_2_28"\n'
        f'pythons = ["cp3{10 + number}"]'
        for number, name in enumerate(sorted(runtimes))
    ]
    text += [
        f'[[target]]\nllvm = "{llvm}"\nruntime = "{runtime}"\nsuites = ["smoke"]\nrequired = true'
        for llvm in sorted(llvms)
        for runtime in sorted(runtimes)
    ]
    found = Matrix.parse("\n".join(text))
    names = [wheel.name for wheel in found.wheels]
    assert len(names) == len(set(names)) == len(llvms) * len(runtimes)
    assert all(found.wheel(wheel.name) is wheel for wheel in found.wheels)
    assert all(wheel.name.startswith(wheel.configuration.name + "-" + wheel.runtime.name) for wheel in found.wheels)


def test_not_toml() -> None:
    error = refused(lambda: Matrix.parse("schema = \n", where="here"), "config-invalid", "is not valid TOML")
    assert "line 1" in error.why
