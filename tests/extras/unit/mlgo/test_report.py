"""The page of a training."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import msgspec
import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.extras.mlgo.documents import Corpus, Default, Module, Trace
from mlir_release.extras.mlgo.embed import Embedded
from mlir_release.extras.mlgo.evaluate import Evaluation
from mlir_release.extras.mlgo.problems import INLINING
from mlir_release.extras.mlgo.report import load_result, report
from mlir_release.extras.mlgo.training.trace import save_decisions
from tests.extras.unit.mlgo.policy_factory import DIGEST, FEATURES, decision, training
from tests.extras.unit.mlgo.test_evaluate import LESS, SAME, evaluation
from tests.refusals import check_error, refused

if TYPE_CHECKING:
    from pathlib import Path

CORPUS = Corpus(
    llvm="22.1.8",
    share=0.5,
    modules=tuple(
        Module(name=name, bitcode=f"{name}.bc", sha256=DIGEST, flags=(), held_out=name == "b.o")
        for name in ("a<i>.o", "b.o")
    ),
)
TRACE = Trace(
    llvm="22.1.8", corpus=CORPUS.digest, features=FEATURES, mean=(0.0,) * 5, deviation=(1.0,) * 5, decisions=1234,
    identical=1, defaults=(Default(name="a<i>.o", cost=3.0, text=10),),
)  # fmt: skip
TRAINING = training(rewards=(-0.02, -0.03, 0.01))


class Page(HTMLParser):
    """What a page shows, and what it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.said = ""
        self.loaded: list[str | None] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href") and (value or "")[:1] != "#"]

    def handle_data(self, data: str) -> None:
        self.said += data


def test_a_page_without_results_shows_the_curve_alone() -> None:
    page = Page(report(CORPUS, TRACE, TRAINING))
    assert page.tags.count("svg") == 1
    assert "Evaluation" not in page.said
    assert "Embedded" not in page.said


def test_a_page_of_inlining_shows_the_size_alone() -> None:
    judged = evaluation(LESS, LESS, problem=INLINING)
    page = Page(report(CORPUS, TRACE, training(rewards=(0.01,), problem="inlining"), judged))
    said = " ".join(page.said.split())
    assert said.count("An inlining policy for LLVM 22.1.8") == 1
    assert "the observed default gives the default's object" in said
    assert "modulecost" not in page.said
    assert "-1.67% (-3.00% to -1.00%)" in said


def test_a_page_shows_everything_and_loads_nothing() -> None:
    files = {"RegAllocEvictModel.o": "5" * 64}
    embedded = Embedded(llvm="22.1.8", policy=DIGEST, corpus=DIGEST, files=files, compared=3, identical=2)
    page = Page(report(CORPUS, TRACE, TRAINING, evaluation(LESS, SAME, LESS), embedded))
    assert page.loaded == []
    assert page.tags.count("svg") == 4  # the curve, and three intervals
    for wanted in (
        "Verdict: better than the default beyond the noise", "-2.00% (-3.00% to -1.00%)", "-2.500%", "1,234",
        "2 of 3 modules", "5" * 64, TRAINING.policy().digest, TRAINING.corpus,
    ):  # fmt: skip
        assert wanted in " ".join(page.said.split())


def test_the_curve_has_each_generation_and_the_best_so_far() -> None:
    drawn = re.findall('points="([^"]*)"', report(CORPUS, TRACE, TRAINING))
    best, line = ([float(point.split(",")[1]) for point in points.split()] for points in drawn)
    assert line[1] > line[0] > line[2]  # SVG counts downward
    assert best[1] == best[0] > best[2] == line[2]


@pytest.mark.parametrize("rewards", [(), (0.0,)])
def test_a_curve_of_nothing_can_be_drawn(rewards: tuple[float, ...]) -> None:
    assert report(CORPUS, TRACE, training(rewards=rewards)).count("<polyline") == 2


@pytest.mark.parametrize("content", [None, "", "[]", "{}", "null"])
def test_what_is_no_result_is_refused(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    if content is not None:
        path.write_text(content)
    refused(lambda: load_result(path, Evaluation), "input-invalid")


def test_a_result_is_read_as_it_was_printed(tmp_path: Path) -> None:
    printed = evaluation(LESS, SAME, LESS)
    (tmp_path / "result.json").write_bytes(msgspec.json.encode(printed))
    assert load_result(tmp_path / "result.json", Evaluation) == printed
    assert load_result(None, Evaluation) is None


def test_a_training_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / Corpus.FILE).write_text(CORPUS.to_text())
    (tmp_path / Trace.FILE).write_text(TRACE.to_text())
    save_decisions(tmp_path, [(decision([1, 0, 0, 0.5, 0]), 0)])
    words = ["report", str(tmp_path), "--training", str(tmp_path / "gone.json"), "-o", str(tmp_path / "out")]
    check_error(CliRunner().invoke(app, ["mlgo", *words]).exception, "input-missing", "there is no training to show")
    assert not (tmp_path / "out").exists()
