"""The folder of a learned eviction policy, and whether it fits an LLVM's advisor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.model.regalloc_model import ADVISOR, DESCRIPTION, EVALUATION, MODEL
from mlir_release.builder.sdk.regalloc_model import ModelFolder, advisor_features
from tests.refusals import refused
from tests.regalloc_factory import ADVISOR_TEXT, FEATURES, INSIDE, add_advisor, make_model

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.errors import ReleaseError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_model(tmp_path / "models" / "evict")


def unfit(folder: Path, source: Path | None = None) -> ReleaseError:
    """The error about a folder that can't be used, or not with those sources."""
    return refused(lambda: ModelFolder.load(folder).check(source or folder))


def test_what_is_compiled_is_copied(folder: Path, tmp_path: Path) -> None:
    model = ModelFolder.load(folder)
    model.check(add_advisor(tmp_path / "source"))
    model.copy_to(tmp_path / "copy")
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == [f"{MODEL}.cpp", f"{MODEL}.h"]
    assert model.about.model == INSIDE


@pytest.mark.parametrize("name", [DESCRIPTION, f"{MODEL}.h", f"{MODEL}.cpp"])
def test_a_missing_file_is_named(name: str, folder: Path) -> None:
    (folder / name).unlink()
    error = unfit(folder)
    assert (error.id, error.where) == ("input-missing", str(folder))
    assert name in error.what


def test_a_file_of_another_digest_is_named(folder: Path) -> None:
    (folder / f"{MODEL}.cpp").write_text("int changed;\n")
    error = unfit(folder)
    assert (error.id, error.where) == ("file-damaged", str(folder / f"{MODEL}.cpp"))


@pytest.mark.parametrize(
    ("changed", "problem"),
    [({"policy": "x"}, "policy is 'x'"), ({"schema": 2}, "schema is 2"), ({"more": 1}, "more is an unknown key")],
)
def test_a_description_that_is_none_is_refused(changed: dict[str, object], problem: str, folder: Path) -> None:
    path = folder / DESCRIPTION
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    error = unfit(folder)
    assert error.id == "input-invalid"
    assert problem in error.what


@pytest.mark.parametrize(
    ("features", "why"),
    [
        ((*FEATURES, "colour"), "only one of both has colour"),
        (FEATURES[:2], "only one of both has progress"),
        (FEATURES[::-1], "their order differs"),
    ],
)
def test_a_model_of_other_features_is_refused(features: tuple[str, ...], why: str, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "other", features=features)
    error = unfit(folder, add_advisor(tmp_path / "source"))
    assert (error.id, error.why) == ("model-unsuitable", why)


def test_sources_without_an_advisor_are_refused(folder: Path, tmp_path: Path) -> None:
    assert (unfit(folder).id, unfit(folder).why) == ("model-unsuitable", "there is no such file")
    changed = add_advisor(tmp_path / "source", ADVISOR_TEXT.replace("RA_EVICT_FEATURES_LIST", "FEATURES"))
    error = unfit(folder, changed)
    assert (error.id, error.where) == ("model-unsuitable", str(changed / ADVISOR))
    assert "names no features" in error.why


@pytest.mark.parametrize(
    ("evaluation", "why"),
    [
        (None, "it can't be read"),
        ({"better": True}, "it can't be read: policy is missing"),
        ({"policy": INSIDE.policy, "better": False, "verdict": "the default stays"}, "the default stays"),
        ({"policy": INSIDE.corpus, "better": True, "verdict": "better"}, "it is of another policy, bbbbbbbbbbbb"),
    ],
)
def test_only_a_model_that_won_may_be_released(evaluation: dict[str, object] | None, why: str, folder: Path) -> None:
    model = ModelFolder.load(folder)
    if evaluation is not None:
        (folder / EVALUATION).write_text(json.dumps(evaluation))
    said = "no evaluation shows that the model is better than LLVM's heuristic, so no release may have it"
    error = refused(model.check_better, "model-unsuitable", said)
    assert error.why.startswith(why)
    won = {"policy": INSIDE.policy, "better": True, "verdict": "better", "rows": []}
    (folder / EVALUATION).write_text(json.dumps(won))
    model.check_better()


def test_the_features_are_those_of_the_list_alone() -> None:
    assert advisor_features(ADVISOR_TEXT) == FEATURES
