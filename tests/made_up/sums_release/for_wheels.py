"""Its wheels: see :mod:`mlir_release.builder.wheels.port`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlir_release.builder.projects.api import Component, Course, ProjectWheels

if TYPE_CHECKING:
    from mlir_release.builder.projects.api import WheelRequest


def _fill_in(pyproject: dict[str, Any], request: WheelRequest) -> None:
    pyproject["tool"]["scikit-build"]["cmake"]["define"]["SUMS_PROFILE"] = request.profile


WHEELS = ProjectWheels(
    upstream=lambda _: ("sums/lib", "sums/python/sums"),
    fill_in=_fill_in,
    components=lambda _: (Component("abacus", "MIT", version="2"),),
    course=Course(seconds=2, shares=(0.5, 1.0), reached=(1.0, 2.0)),
    disk=1_000_000,
)
