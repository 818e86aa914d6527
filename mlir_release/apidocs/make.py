"""Make the API section of a wheel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename

from mlir_release.apidocs.read import read_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.apidocs.draw import Section


def make_section(wheel: Path, output: Path, *, home: str = "", release: str = "") -> Section:
    """Describe a wheel's API in ``output``, as pages that link only each other, and what is named here.

    :param home: the site's landing page, relative to ``output``
    :param release: the release's page, likewise
    :raises VerificationError: ``apidocs-no-bindings``
    :raises MachineError: ``apidocs-tool-missing``
    """
    package = read_wheel(wheel)  # first: it says so if griffe is missing, which the others import
    from mlir_release.apidocs.describe import describe
    from mlir_release.apidocs.draw import Heading, draw

    name, version, _, _ = parse_wheel_filename(wheel.name)
    return draw(describe(package), output, Heading(title=f"{name} {version}", home=home, release=release))
