"""What may be published: the view of the scorecard that publication reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.release.scorecard import score

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.model.manifest import LeftOut, Waiver
    from mlir_release.model.matrix import Matrix
    from mlir_release.model.names import WheelKey
    from mlir_release.model.test_report import TestReport
    from mlir_release.release.assets import Built


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What is published, what is left out, and what prevents publication (nothing, if ``problems`` is empty)."""

    wheels: tuple[Built, ...]
    reports: tuple[TestReport, ...]  #: the passing runs that the wheels rest on
    waivers: tuple[Waiver, ...]  #: the ones that were needed
    left_out: tuple[LeftOut, ...]  #: experimental targets that fell short, and excluded ones
    excluded: tuple[Built, ...]  #: wheels of experimental or waived targets that failed their tests
    problems: tuple[str, ...]


def judge(
    matrix: Matrix, wheels: Mapping[WheelKey, Built], reports: Mapping[str, TestReport], waivers: Mapping[str, Waiver]
) -> Judgement:
    """Weigh a draft's content by :func:`~mlir_release.release.scorecard.score`."""
    card = score(matrix, wheels=wheels, reports=reports, waivers=waivers)
    files = {target.name: wheels[target.slot] for target in matrix.wheels if target.slot in wheels}
    return Judgement(
        wheels=tuple(files[name] for name in card.accepted),
        reports=card.vouching,
        waivers=tuple(waivers[name] for name in card.waivers),
        left_out=card.left_out,
        excluded=tuple(files[name] for name in card.rejected),
        problems=card.problems,
    )
