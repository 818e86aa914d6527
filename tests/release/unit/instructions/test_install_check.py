"""Which wheel of a release a CPython gets."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from mlir_release.ground.python.pythons import describe
from mlir_release.release.instructions.install_check import best_wheel
from tests.paper_forge import make_manifest

if TYPE_CHECKING:
    from mlir_release.release.model.manifest import WheelEntry

HERE = describe(Path(sys.executable))


def wheel(python: str, *, requires_python: str = "") -> WheelEntry:
    (one, *_) = make_manifest("snapshot-20261120.02").wheels
    name = f"mlir-20261120.2-{python}-none-any.whl"
    return structs.replace(one, filename=name, python=python, requires_python=requires_python)


def test_the_most_specific_one_that_fits() -> None:
    own, any_ = wheel(HERE.tag), wheel("py3")
    assert best_wheel([any_, own], HERE) == own
    assert best_wheel([wheel("cp27")], HERE) is None


def test_none_that_is_for_older_cpythons_only() -> None:
    limited = wheel("py3", requires_python=f">=3.8,<{HERE.cpython.marker}")
    assert best_wheel([limited], HERE) is None
    older = replace(HERE, version="3.9.1")
    assert best_wheel([limited], older) == limited
