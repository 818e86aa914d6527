"""A page of a training: its curve, the evaluation, the embedded files. It is one file, which loads nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

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

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 300, 70, 15, 15, 40


def report(
    corpus: Corpus,
    trace: Trace,
    training: Training,
    evaluation: Evaluation | None = None,
    embedded: Embedded | None = None,
) -> str:
    """The page."""
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup

    problem = problem_of(training.problem)
    templates = Environment(loader=PackageLoader("mlir_release.extras.mlgo"), autoescape=True, trim_blocks=True)
    return templates.get_template("report.html.j2").render(
        corpus=corpus,
        trace=trace,
        training=training,
        problem=problem,
        decisions=f"{trace.decisions:,}",
        policy=training.policy().digest,
        curve=Markup(curve(training.rewards)),
        evaluation=evaluation,
        intervals=Markup(intervals(evaluation, problem.measures)) if evaluation else "",
        colour="#2a2" if evaluation and evaluation.better else "#a22",
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


def curve(rewards: Sequence[float]) -> str:
    """Rewards by generation as SVG, with the best so far, and the default at 0."""
    low, high = min((0.0, *rewards)), max((0.0, *rewards))
    margin = (high - low or 1) * 0.05
    low, high = low - margin, high + margin
    last = max(len(rewards) - 1, 1)
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def across(index: float) -> float:
        return _LEFT + inner_width * index / last

    def up(value: float) -> float:
        return _TOP + inner_height * (high - value) / (high - low)

    best = [max(rewards[: index + 1]) for index in range(len(rewards))]
    ticks = [low + (high - low) * step / 4 for step in range(5)]
    lines = [
        *(_line(_LEFT, up(tick), _WIDTH - _RIGHT, up(tick), "#ddd") for tick in ticks),
        *(_text(_LEFT - 6, up(tick) + 4, f"{tick:+.2%}", "end") for tick in ticks),
        _line(_LEFT, up(0), _WIDTH - _RIGHT, up(0), "#888"),
        _text(_WIDTH - _RIGHT, up(0) - 4, "the default", "end"),
        _path([(across(index), up(value)) for index, value in enumerate(best)], "#2a2", dashed=True),
        _path([(across(index), up(value)) for index, value in enumerate(rewards)], "#26c"),
        _text(_LEFT, _HEIGHT - 20, "warm start", "start"),
        _text(_WIDTH - _RIGHT, _HEIGHT - 20, f"generation {len(rewards)}", "end"),
    ]
    return _svg(_HEIGHT, lines, "reward by generation")


def intervals(evaluation: Evaluation, measures: Mapping[str, str]) -> str:
    """The changes with their confidence intervals, as SVG.

    :param measures: labels, by the names in the evaluation
    """
    shown = {**measures, "instructions": "instructions"}
    rows = [(label, found) for name, label in shown.items() if (found := getattr(evaluation, name))]
    reach = max(abs(end) for _, found in rows for end in (found.low, found.high, found.relative)) * 1.1 or 0.01
    left, width = _LEFT + 30, _WIDTH - _LEFT - 30 - 220

    def across(value: float) -> float:
        return left + width * (value + reach) / (2 * reach)

    height = 40 * len(rows) + 20
    lines = [_line(across(0), 5, across(0), height - 15, "#888")]
    for index, (name, found) in enumerate(rows):
        y = 25 + 40 * index
        colour = "#2a2" if found.high < 0 else "#a22" if found.low > 0 else "#26c"
        said = f"{found.relative:+.2%} ({found.low:+.2%} to {found.high:+.2%})"
        lines += [
            _text(left - 10, y + 4, name, "end"),
            _line(across(found.low), y, across(found.high), y, colour, width=3),
            f'<circle cx="{across(found.relative):.1f}" cy="{y}" r="5" fill="{colour}"/>',
            _text(_WIDTH - _RIGHT, y + 4, said, "end"),
        ]
    return _svg(height, lines, "changes with confidence intervals")


def _svg(height: float, lines: Sequence[str], title: str) -> str:
    inner = "\n".join(lines)
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img"><title>{title}</title>\n{inner}\n</svg>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"/>'


def _path(points: Sequence[tuple[float, float]], colour: str, *, dashed: bool = False) -> str:
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    style = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"{style}/>'


def _text(x: float, y: float, said: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="12">{said}</text>'
