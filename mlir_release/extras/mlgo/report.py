"""A page of a training: its curve, the evaluation, the embedded files. It is one file, which loads nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from mlir_release.extras.mlgo.problems import problem_of
from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.errors import UsageError
from mlir_release.ground.storage.files import read_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.documents import Corpus, Trace, Training
    from mlir_release.extras.mlgo.embed import Embedded
    from mlir_release.extras.mlgo.evaluate import Evaluation

R = TypeVar("R", bound="Evaluation | Embedded")

#: Of the curve's box; beside it are the labels.
WIDTH, HEIGHT = 680, 240


def report(
    corpus: Corpus,
    trace: Trace,
    training: Training,
    evaluation: Evaluation | None = None,
    embedded: Embedded | None = None,
) -> str:
    """The page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    problem = problem_of(training.problem)
    templates = Environment(
        loader=PackageLoader("mlir_release.extras.mlgo"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("report.html.j2").render(
        corpus=corpus,
        trace=trace,
        training=training,
        problem=problem,
        decisions=f"{trace.decisions:,}",
        policy=training.policy().digest,
        curve=curve(training.rewards),
        evaluation=evaluation,
        intervals=intervals(evaluation, problem.measures) if evaluation else (),
        embedded=embedded,
    )


def load_result(path: Path | None, kind: type[R]) -> R | None:
    """Read a result that a command printed with ``--json``. :raises UsageError: ``input-invalid``"""
    if path is None:
        return None
    try:
        return from_json(read_document(path), kind)
    except (OSError, MalformedError) as error:
        raise UsageError(
            "input-invalid",
            f"this is not what `mlgo evaluate --json` or `mlgo embed --json` prints: {error}",
            where=str(path),
            remedy="write its standard output into the file again",
        ) from None


# -- pictures ---------------------------------------------------------------------------------------------------------


def curve(rewards: Sequence[float]) -> dict[str, Any]:
    """Where the rewards by generation are in the box, the best so far, and the lines behind them."""
    low, high = min((0.0, *rewards)), max((0.0, *rewards))
    margin = (high - low or 1) * 0.05
    low, high = low - margin, high + margin

    def up(value: float) -> float:
        return HEIGHT * (high - value) / (high - low)

    def line(values: Sequence[float]) -> str:
        step = WIDTH / max(len(values) - 1, 1)
        return " ".join(f"{index * step:.1f},{up(value):.1f}" for index, value in enumerate(values))

    return {
        "width": WIDTH,
        "height": HEIGHT,
        "ticks": [(up(tick), f"{tick:+.2%}") for tick in (low + (high - low) * step / 4 for step in range(5))],
        "zero": up(0),
        "rewards": line(rewards),
        "best": line([max(rewards[: index + 1]) for index in range(len(rewards))]),
    }


def intervals(evaluation: Evaluation, measures: Mapping[str, str]) -> list[dict[str, Any]]:
    """The changes with their confidence intervals: in words, and from 0 to 100, where 50 is no change.

    :param measures: labels, by the names in the evaluation
    """
    shown = {**measures, "instructions": "instructions"}
    rows = [(label, found) for name, label in shown.items() if (found := getattr(evaluation, name))]
    reach = max(abs(end) for _, found in rows for end in (found.low, found.high, found.relative)) * 1.1 or 0.01
    return [
        {
            "label": label,
            "said": f"{found.relative:+.2%} ({found.low:+.2%} to {found.high:+.2%})",
            "style": "better" if found.better else "worse" if found.worse else "",
            "ends": [50 + 50 * end / reach for end in (found.low, found.relative, found.high)],
        }
        for label, found in rows
    ]
