"""The record of a bisect, what runs say of a release, and what is told of two neighbours at the end."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from mlir_release.ground.documents.decode import MalformedError
from mlir_release.ground.errors import MachineError
from mlir_release.ground.programs.trial import Trial
from mlir_release.ground.search import Edge
from mlir_release.release.latest.catalogue import Catalogue, read_index
from mlir_release.release.model.release_index import Quality, ReleaseQuality, Revert
from mlir_release.use.bisect.bisect_record import BisectRecord, Question, ReleaseRun, answer_of, judge
from mlir_release.use.bisect.line import Line
from mlir_release.use.bisect.result import Bisected, _bounded, conclude
from mlir_release.use.find import Origin
from tests.paper_forge import START, PaperForge, make_manifest

if TYPE_CHECKING:
    from mlir_release.ground.llvm.upstream import Upstream

TAGS = tuple(f"snapshot-2026111{number}.01" for number in range(4))
COMMAND = ("python", "my test.py")


def revert(commit: str) -> Revert:
    return Revert(commit=commit * 40, subject="[mlir] Rename <b>x</b>", by="e" * 40, date="2026-11-20T00:00:00Z")


@pytest.fixture
def catalogue() -> Catalogue:
    """Four snapshots, the last two of one commit. The third has two commits that were reverted; the second had one."""
    forge = PaperForge()
    for number, tag in enumerate(TAGS):
        created = START + timedelta(days=number - 9)
        forge.add(make_manifest(tag, created=created, revision=str(min(number, 2)) * 40))
    learnt = {
        TAGS[1]: ReleaseQuality(reverted=(revert("a"),)),
        TAGS[2]: ReleaseQuality(reverted=(revert("a"), revert("b"))),
    }
    return replace(read_index(forge), quality=Quality(repository="local", releases=learnt))


def no_upstream() -> Upstream:
    raise MachineError("network-failed", "there is no network")


def end(catalogue: Catalogue, good: int = 1, **changes: Any) -> Bisected:
    entries = tuple(catalogue.of_kind("snapshot"))
    question = Question(
        repository="local", good=TAGS[0], bad=TAGS[3], command=COMMAND, folder="/", python="3.12", distribution="mlir"
    )
    runs = (
        ReleaseRun(tag=TAGS[2], answer="bad", seconds=61.0, downloaded=28_000_000, why="exit code 1"),
        ReleaseRun(tag=TAGS[1], answer="good", seconds=1.0, downloaded=27_000_000),
        ReleaseRun(tag=TAGS[2], answer="bad", seconds=1.0, why="exit code 1"),
    )
    options: dict[str, Any] = {
        "skipped": {}, "fixed": False, "logs": Path("/logs"), "compare": lambda old, new: {}, **changes,
    }  # fmt: skip
    record = BisectRecord(question=question, runs=runs)
    return conclude(Origin(catalogue, no_upstream), Line(entries=entries), record, Edge(good, good + 1), **options)


def test_the_llvm_commits_are_told_with_those_that_were_reverted(catalogue: Catalogue) -> None:
    text = end(catalogue).text()
    assert f"{TAGS[2]} is the first that fails; {TAGS[1]} is the last that works" in text
    assert f"https://github.com/llvm/llvm-project/compare/{'1' * 40}...{'2' * 40}" in text
    assert f"reverted since, by {'e' * 12}: {'b' * 12} [mlir] Rename" in text
    assert "a" * 12 not in text, "both releases have that one"
    assert "3 runs in 1 min 03 s, 55.0 MB of wheels downloaded; logs: /logs" in text
    assert text.endswith(f"git -C llvm-project bisect start {'2' * 40} {'1' * 40}")


def test_two_releases_of_one_commit_differ_in_their_build(catalogue: Catalogue) -> None:
    text = end(catalogue, 2).text()
    assert "both have one LLVM commit" in text
    assert "compare/" not in text


def test_a_snapshot_that_mends_is_told_in_other_words(catalogue: Catalogue) -> None:
    found = end(catalogue, fixed=True)
    assert f"{TAGS[2]} is the first that works again; {TAGS[1]} is the last that fails" in found.text()
    assert found.to_json()["good"] == {"tag": TAGS[2], "revision": "2" * 40}
    assert "works again" in found.markdown()


def test_the_summary_shows_text_of_others_as_it_is(catalogue: Catalogue) -> None:
    shown = end(catalogue, skipped={TAGS[1]: "it says <img> @somebody"}).markdown()
    assert "&lt;b>" in shown
    assert "&lt;img>" in shown
    assert "@somebody" not in shown


def test_the_table_has_a_row_for_each_release_that_was_tried(catalogue: Catalogue) -> None:
    assert end(catalogue).cells() == [
        (TAGS[1], "good", "1", "1.0 s", "27.0 MB"),
        (TAGS[2], "bad (exit code 1)", "2", "1 min 02 s", "28.0 MB"),
    ]


class Difference:
    """What a plug-in of ``mlir_release.comparisons`` finds."""

    def compare(self, forge: object, old: str, new: str, **_: object) -> Difference:
        self.names = (old, new)
        return self

    def text(self) -> str:
        return "\n".join([f"{' to '.join(self.names)}:", *(f"removed: mlir.ir.f{number}" for number in range(99))])

    def markdown(self) -> str:
        return "**removed**"

    def to_json(self) -> object:
        return {"removed": 99}


def test_the_changes_of_the_api_stand_beside_the_answer(catalogue: Catalogue) -> None:
    found = end(catalogue, compare=lambda old, new: {"api": Difference().compare(None, old, new)})
    assert f"  {TAGS[1]} to {TAGS[2]}:\n  removed: mlir.ir.f0" in found.text()
    assert f"more lines: mlir-release release diff {TAGS[1]} {TAGS[2]}" in found.text()
    assert found.differences["api"].to_json() == {"removed": 99}
    assert "**removed**" in found.markdown()


def test_what_takes_long_costs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert _bounded(lambda: time.sleep(1), "changes of the Python API", 0.1) is None
    assert "the changes of the Python API are not told: it takes longer than 0.1 s" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["error", "bug"])
def test_a_comparison_that_fails_costs_nothing(
    catalogue: Catalogue, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    def compare(*_: object, **__: object) -> None:
        raise MachineError("tool-missing", "there is no griffe") if how == "error" else RuntimeError("a bug")

    assert end(catalogue, compare=compare).differences == {}
    why = {"error": "there is no griffe", "bug": "RuntimeError: a bug"}[how]
    assert f"the changes of the Python API are not told: {why}" in capsys.readouterr().err


def test_an_upstream_elsewhere_has_no_page(catalogue: Catalogue) -> None:
    index = structs.replace(catalogue.index, upstream="https://git.example/llvm.git")
    found = end(replace(catalogue, index=index))
    assert found.url == ""
    assert "git clone --filter=blob:none https://git.example/llvm.git" in found.next_command


# -- the record, and what runs say -------------------------------------------------------------------------------------


QUESTION = Question(
    repository="https://github.com/octo/releases",
    good="snapshot-20261101.01",
    bad="snapshot-20261120.01",
    command=("python", "test.py"),
    folder="/home/ada",
    python="3.12.1 /usr/bin/python3.12",
    distribution="mlir",
)


def test_a_record_reads_back() -> None:
    runs = (
        ReleaseRun(tag="snapshot-20261101.01", answer="good", seconds=1.5, downloaded=3),
        ReleaseRun(tag="x", answer="skip"),
    )
    record = BisectRecord(question=QUESTION, packages=("numpy==2.4.6",), files={"test.py": "a" * 64}, runs=runs)
    assert BisectRecord.from_text(record.to_text()) == record
    assert record.of("x") == [runs[1]]


@pytest.mark.parametrize(
    "field", ["good", "bad", "command", "folder", "python", "distribution", "requirements", "timeout"]
)
def test_another_question_has_another_key(field: str) -> None:
    changed = {"command": ("true",), "requirements": ("numpy",), "timeout": 1.0}.get(field, "other")
    assert structs.replace(QUESTION, **{field: changed}).key != QUESTION.key


def test_a_newer_record_is_refused() -> None:
    text = BisectRecord(question=QUESTION).to_text().replace(b'"schema": 1', b'"schema": 2')
    with pytest.raises(MalformedError, match="schema"):
        BisectRecord.from_text(text)


@pytest.mark.parametrize(
    ("code", "answer", "why"),
    [
        (0, "good", ""),
        (1, "bad", "exit code 1"),
        (125, "skip", "exit code 125"),
        (255, "bad", "exit code 255"),
        (3221225477, "bad", "exit code 3221225477"),
        (None, "bad", "no result after 2.5 s"),
        (-signal.SIGSEGV, "bad", "ended by SIGSEGV"),
        (128 + signal.SIGABRT, "bad", "ended by SIGABRT"),
    ],
)
def test_an_exit_code_is_an_answer(code: int | None, answer: str, why: str) -> None:
    assert answer_of(Trial(code), 2.5) == (answer, why)


def test_a_failure_because_something_was_killed_is_no_answer() -> None:
    assert answer_of(Trial(137, "the command was ended by SIGKILL"), None)[0] == "killed"


def runs(*answers: str) -> list[ReleaseRun]:
    return [ReleaseRun(tag="snapshot-20261120.01", answer=answer, why=f"{answer}!") for answer in answers]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answers", "wanted", "said"),
    [
        ((), 1, None),
        (("good",), 1, ("good", "good!")),
        (("good",), 2, None),
        (("good", "good"), 2, ("good", "good!")),
        (("bad", "good"), 2, ("skip", "flaky: it failed in 1 of 2 runs")),
        (("bad", "bad", "good"), 1, ("skip", "flaky: it failed in 2 of 3 runs")),
        (("skip",), 1, ("skip", "skip!")),
        (("killed",), 1, None),
        (("killed", "good"), 1, ("good", "good!")),
        (("killed", "killed"), 1, ("skip", "killed!")),
        (("good", "killed", "killed"), 2, ("good", "good!")),
        (("good", "skip", "skip"), 2, ("good", "good!")),
    ],
)
def test_runs_together_are_judged(answers: tuple[str, ...], wanted: int, said: tuple[str, str] | None) -> None:
    assert judge(runs(*answers), wanted=wanted, retries=1) == said


def test_every_sequence_of_answers_comes_to_a_judgement() -> None:
    for answer in ("good", "bad", "skip", "killed"):
        for first in ("good", "bad", "skip", "killed"):
            for retries in (0, 1, 3):
                made = runs(first)
                while judge(made, wanted=1 + retries, retries=retries) is None:
                    made += runs(answer)
                    assert len(made) < 10
