"""What wheels require: upstream's lines, and the caps that an override replaces."""

from __future__ import annotations

from typing import ClassVar

import pytest

from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import Platform
from mlir_release.ground.python.requirements import (
    Override,
    applicable,
    of_other_names,
    relaxed,
    required_names,
    wheel_requirements,
)
from mlir_release.release.model.matrix import Matrix
from tests.refusals import refused
from tests.targets_factory import make_row, make_targets

#: mlir/python/requirements.txt of LLVM 22.1.8.
UPSTREAM = (
    "numpy>=1.19.5, <=2.1.2",
    'ml_dtypes>=0.1.0, <=0.6.0; python_version<"3.13"',
    'ml_dtypes>=0.5.0, <=0.6.0; python_version>="3.13"',
)


def override(name: str = "numpy", specifier: str = "<3") -> Override:
    return Override(name=name, specifier=specifier, reason="no wheel for CPython 3.14")


def test_without_an_override_a_wheel_requires_what_upstream_does() -> None:
    assert wheel_requirements(UPSTREAM) == (
        "numpy<=2.1.2,>=1.19.5",
        'ml_dtypes<=0.6.0,>=0.1.0; python_version < "3.13"',
        'ml_dtypes<=0.6.0,>=0.5.0; python_version >= "3.13"',
    )
    assert relaxed(UPSTREAM, ()) == ()


@pytest.mark.parametrize(
    ("theirs", "specifier", "ours"),
    [
        ("numpy>=2.1.0,<=2.1.2", "<3", "numpy<3,>=2.1.0"),
        ("numpy>=2.1.0,<=2.1.2", ">=2.2", "numpy>=2.1.0,>=2.2"),
        ("numpy==2.1.2", ">=2.1", "numpy>=2.1"),
        ("numpy~=2.1.0", "<3", "numpy<3,>=2.1.0"),
        ("numpy!=2.0.1,<2.2,>1", "<3", "numpy!=2.0.1,<3,>1"),
        ("NumPy[extra]<2; python_version>'3.9'", "<3", 'NumPy[extra]<3; python_version > "3.9"'),
    ],
)
def test_an_override_replaces_caps_and_keeps_lower_bounds(theirs: str, specifier: str, ours: str) -> None:
    assert wheel_requirements([theirs], [override(specifier=specifier)]) == (ours,)
    (row,) = relaxed([theirs], [override(specifier=specifier)])
    assert (row.requirement, row.name, row.reason) == (ours, "numpy", "no wheel for CPython 3.14")


def test_an_override_applies_to_each_line_of_its_name() -> None:
    rows = relaxed(UPSTREAM, [override("ml-dtypes", "<1")])
    assert [row.requirement for row in rows] == [
        'ml_dtypes<1,>=0.1.0; python_version < "3.13"',
        'ml_dtypes<1,>=0.5.0; python_version >= "3.13"',
    ]


def test_an_override_that_upstream_has_caught_up_with_changes_nothing() -> None:
    assert relaxed(["numpy>=2.1,<3"], [override()]) == ()


def test_an_override_of_what_upstream_does_not_require() -> None:
    error = refused(
        lambda: wheel_requirements(UPSTREAM, [override("numpi")]),
        "config-invalid",
        ", which this llvm-project revision does not have",
    )
    assert "did you mean 'numpy'" in error.remedy


def test_the_versions_that_a_relaxed_requirement_admits() -> None:
    (row,) = relaxed(UPSTREAM[:1], [override()])
    assert [row.admits(version) for version in ("1.19.4", "2.5.5", "3.0", "2.6.0rc1")] == [False, True, False, True]


@pytest.mark.parametrize(
    ("python", "platform", "lines"),
    [
        ("cp312", "linux-x86_64", ("ml_dtypes<=0.6.0,>=0.1.0",)),
        ("cp313", "linux-x86_64", ("ml_dtypes<=0.6.0,>=0.5.0",)),
        ("cp314t", "windows-x64", ("ml_dtypes<=0.6.0,>=0.5.0", "colorama")),
    ],
)
def test_markers_are_those_of_the_target_and_not_of_this_interpreter(
    python: str, platform: str, lines: tuple[str, ...]
) -> None:
    upstream = [*UPSTREAM[1:], 'colorama; sys_platform=="win32" and platform_machine=="AMD64" and os_name=="nt"']
    assert applicable(upstream, CPython.of_tag(python), Platform.parse(platform)) == lines


def test_names() -> None:
    assert required_names(UPSTREAM) == ("numpy", "ml-dtypes")
    assert of_other_names(["ml_dtypes>=0.5", "PyYAML"], required_names(UPSTREAM)) == ("PyYAML",)


class TestTargets:
    REQUIRES: ClassVar = {"ml_dtypes": {"specifier": "<1", "reason": "0.6.0 has no wheel"}}

    def test_every_target_has_the_overrides(self) -> None:
        matrix = Matrix.parse(make_targets(make_row(suites=["smoke", "bindings"]), requires=self.REQUIRES))
        (one, other) = matrix.wheels
        assert one.overrides == other.overrides == (
            Override(name="ml-dtypes", specifier="<1", reason="0.6.0 has no wheel"),
        )  # fmt: skip

    def test_a_target_without_the_bindings_suite_can_have_none(self) -> None:
        error = refused(
            lambda: Matrix.parse(make_targets(make_row(), requires=self.REQUIRES)), "config-invalid", "has a mistake in"
        )
        assert "[[target]] number 1" in error.what
        assert "suites lacks 'bindings', which must pass with the versions that [requires] allows" in str(error)
