"""The matrix of a release line: its own targets, under the ``[release]`` of ``targets.toml``."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_release.ground.python.cpython import CPython
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_tags import LINES_FOLDER, line_file, line_of, line_of_file, parse_tag
from tests.refusals import refused
from tests.revision_factory import FACTS
from tests.targets_factory import UPSTREAM, make_line, make_row, make_targets

ROOT = Path(__file__).parents[4]
SHIPPED = sorted((ROOT / LINES_FOLDER).glob("*.toml"))
MAIN = Matrix.parse(make_targets(make_row(), pythons=["cp313"]).replace("[release]", '[release]\nnotice = "ours"'))


@pytest.mark.parametrize(
    ("tag", "line"),
    [
        ("llvm-22.1.8.01", "22.1"),
        ("llvm-22.1rc2.01", "22.1"),
        ("llvm-22.10.0.01", "22.10"),
        ("llvm-12.0rc1.02", "12.0"),
        ("snapshot-20261120.01", None),
    ],
)
def test_the_line_of_a_tag(tag: str, line: str | None) -> None:
    parsed = parse_tag(tag)
    assert parsed is not None
    assert parsed.line == line


def test_a_version_in_any_spelling_has_one_line() -> None:
    assert {line_of(text) for text in ("22.1.0-rc1", "22.1.0rc1", "22.1rc1", "22.1.8")} == {"22.1"}


def test_it_has_its_own_targets_and_nothing_but_targets() -> None:
    text = make_line(make_row("mlir-core"), pythons=["cp311"], requires={"numpy": {"specifier": "<3", "reason": "x"}})
    text = text.replace('"smoke"', '"smoke", "bindings"')
    matrix = MAIN.of_line("22.1", text, where="there")
    (wheel,) = matrix.wheels
    assert (wheel.name, wheel.notice, [each.name for each in wheel.overrides]) == (
        "mlir-core-linux-x86_64-cp311", "ours", ["numpy"],
    )  # fmt: skip
    assert (matrix.release, matrix.release.upstream) == (MAIN.release, UPSTREAM)
    assert (matrix.file, MAIN.file, matrix.canaries) == ("matrices/22.1.toml", "targets.toml", ())


@pytest.mark.parametrize(
    ("change", "what", "why", "remedy"),
    [
        (
            ("schema = 1", 'schema = 1\n[release]\nprovenance = "none"\n'),
            "the top level", "release is an unknown key", "all releases have the [release] of targets.toml",
        ),
        (("schema = 1", "schema = 2"), "the top level", "schema is 2", "newer"),
        (('llvm = "mlir"', 'llvm = "mlr"'), "[[target]] number 1", "llvm is 'mlr'", "did you mean 'mlir'"),
        (('runtime = "linux-x86_64"', 'runtime = "linux"'), "[[target]] number 1", "runtime is 'linux'", ""),
        (("required = true", ""), "[[target]] number 1", "required is missing", "add required"),
        (("[[target]]", "[[target]]\npypi = true"), "[[target]] number 1", "pypi is an unknown key", ""),
    ],
)  # fmt: skip
def test_a_mistake_names_the_lines_own_file(change: tuple[str, str], what: str, why: str, remedy: str) -> None:
    text = make_line(make_row())
    assert change[0] in text
    error = refused(lambda: MAIN.of_line("22.1", text.replace(*change), where="there"), "config-invalid")
    assert error.what == f"matrices/22.1.toml has a mistake in {what}"
    assert why in error.why
    assert remedy in error.remedy


def test_a_line_does_not_say_what_goes_to_pypi() -> None:
    assert MAIN.of_line("22.1", make_line(make_row()), where="").on_pypi == MAIN.on_pypi == ("mlir",)
    text = make_line(make_row("mlir-core")) + '\n[project.mlir]\npypi = ["mlir-core"]\n'
    error = refused(lambda: MAIN.of_line("22.1", text, where="there"), "config-invalid")
    assert error.what == "matrices/22.1.toml has a mistake in project.mlir"
    assert "targets.toml says what goes to PyPI" in error.remedy


def test_a_line_is_no_toml() -> None:
    error = refused(lambda: MAIN.of_line("22.1", "schema = ", where="there"), "config-invalid")
    assert error.what == "matrices/22.1.toml is not valid TOML"


def test_two_rows_that_make_one_wheel() -> None:
    text = make_line(make_row(), make_row())
    error = refused(lambda: MAIN.of_line("22.1", text, where="there"), "config-invalid")
    assert error.what.startswith("matrices/22.1.toml has a mistake in target mlir-linux-x86_64-cp312")


@pytest.mark.parametrize("line", ["22", "22.1.8", "v22.1", "22.01", "022.1", "22.1.toml", "", "../x", "22.1\n", "٢٢.1"])
def test_what_is_no_line(line: str) -> None:
    refused(lambda: line_file(line), "option-invalid")
    error = refused(lambda: line_of_file(f"{LINES_FOLDER}/{line}.toml"), "config-invalid")
    assert "nothing reads others" in error.why


def test_a_file_of_another_folder_or_kind_is_of_no_line() -> None:
    assert line_of_file("matrices/22.1.toml") == "22.1"
    for path in ("22.1.toml", "other/22.1.toml", "matrices/22.1.json", "matrices/22.1", "matrices/README.md"):
        refused(lambda path=path: line_of_file(path), "config-invalid")  # type: ignore[misc]


# -- the shipped ones -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_each_shipped_line_is_sound(path: Path) -> None:
    main = Matrix.parse((ROOT / "targets.toml").read_text(encoding="utf-8"))
    line = line_of_file(f"{LINES_FOLDER}/{path.name}")
    matrix = main.of_line(line, path.read_text(encoding="utf-8"), where=str(path))
    assert any(wheel.required for wheel in matrix.wheels)
    known = {runtime.name: runtime.platform for runtime in main.runtimes}
    assert {each.name: each.platform for each in matrix.runtimes}.items() <= known.items()
    assert {wheel.distribution for wheel in matrix.wheels} <= {wheel.distribution for wheel in main.wheels}


def test_22_1_has_a_wheel_for_each_cpython_that_its_bindings_support() -> None:
    text = (ROOT / LINES_FOLDER / "22.1.toml").read_text(encoding="utf-8")
    matrix = MAIN.of_line("22.1", text, where="").of_revision(FACTS).with_abi3(FACTS)
    assert FACTS.version.startswith("22.1.")
    assert not matrix.excluded
    assert not any(wheel.abi3_members for wheel in matrix.wheels)
    pythons = {python.version for wheel in matrix.wheels for python in wheel.pythons}
    assert min(CPython.parse(version) for version in pythons) == CPython.parse(FACTS.minimum_python)
