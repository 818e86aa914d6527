"""``[[canary]]`` in ``targets.toml``, and the record of the canaries' results."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_release.ground.documents.decode import MalformedError
from mlir_release.release.model.canaries import CanaryRecords, parse_records
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_index import CanaryResult
from tests.refusals import refused
from tests.targets_factory import make_row, make_targets

TAG, OLDER = "snapshot-20261120.02", "snapshot-20261119.01"

CANARY = """
[[canary]]
name = "toy"
repository = "https://example.org/toy.git"
ref = "main"
python = "cp312"
commands = ["pytest -q"]
"""


def matrix(text: str) -> Matrix:
    return Matrix.parse(make_targets(make_row()) + text)


def test_the_release_repository_has_three_pinned_canaries() -> None:
    canaries = Matrix.parse(Path("targets.toml").read_text(encoding="utf-8")).canaries
    assert [canary.name for canary in canaries] == ["eudsl-python-extras", "lighthouse", "xdsl"]
    assert all(canary.commit == canary.ref and canary.required and canary.llvm for canary in canaries)


def test_a_canary_has_defaults() -> None:
    (canary,) = matrix(CANARY).canaries
    assert (canary.distribution, canary.timeout, canary.required, canary.commit) == ("mlir", 30, True, "")
    assert canary.cpython.version == "3.12"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"main"', '"--upload-pack=touch x"', "is '--upload-pack=touch x', not a commit, a branch or a tag"),
        ('"main"', '"a..b"', "not a commit, a branch or a tag"),
        ('"https://example.org/toy.git"', '"https://user:secret@example.org/toy"', "without a password"),
        ('"https://example.org/toy.git"', '"ext::sh -c true"', "not an address that begins with https://"),
        ('"https://example.org/toy.git"', '"-oProxyCommand=x"', "not an address that begins with https://"),
        ('["pytest -q"]', "[]", "commands is empty"),
        ('["pytest -q"]', '["echo \'"]', "whose words can't be told apart"),
        ('["pytest -q"]', '[" "]', "has an empty command"),
        ('["pytest -q"]', '["a"]\nrequirements = ["--index-url=http://x"]', "which is an option"),
        ('["pytest -q"]', '["a"]\nneeds = ["../sh"]', "not a plain file name"),
        ('["pytest -q"]', '["a"]\ntimeout = 0', "not a whole number of minutes from 1 to 300"),
        ('["pytest -q"]', '["a"]\ndistribution = "numpy"', "is 'numpy', which is not known"),
        ('"cp312"', '"3.12"', "not the tag of CPython 3.10 or newer"),
        ('"main"', '"main"\nllvm = ["22.1"]', "not the first number of an LLVM's version"),
        ('"toy"', '"To y"', "not a name of lower-case letters"),
    ],
)
def test_a_mistake_is_named(old: str, new: str, says: str) -> None:
    assert says in str(refused(lambda: matrix(CANARY.replace(old, new, 1)), "config-invalid"))


def test_two_canaries_of_one_name_are_refused() -> None:
    error = refused(lambda: matrix(CANARY + CANARY), "config-invalid")
    assert "[[canary]] number 2" in str(error)
    assert "is 'toy', as another canary is called" in str(error)


def result(name: str, status: str = "passed") -> CanaryResult:
    return CanaryResult(name=name, status=status)  # type: ignore[arg-type]


def test_newer_results_replace_those_of_the_same_canaries_and_old_snapshots_are_dropped() -> None:
    records = CanaryRecords().with_results(OLDER, [result("a")]).with_results(TAG, [result("a"), result("b")])
    again = records.with_results(TAG, [result("b", "failed")], kept={TAG})
    assert {tag: [(r.name, r.status) for r in rows] for tag, rows in again.releases.items()} == {
        TAG: [("a", "passed"), ("b", "failed")]
    }
    assert parse_records(again.to_bytes()) == again


def test_forged_records_tell_nothing() -> None:
    """Neither of releases that are not there, nor of a canary that targets.toml does not have (any more)."""
    records = CanaryRecords(releases={"snapshot-20991231.01": (result("toy"),), TAG: (result("toy"), result("gone"))})
    assert records.known({TAG}, matrix(CANARY).canaries) == {TAG: (result("toy"),)}
    assert records.known({"evil"}, matrix(CANARY).canaries) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"schema": 2, "releases": {}}',
        b'{"schema": 1, "releases": {"x": [{"name": "a", "status": "wonderful"}]}}',
        b'{"schema": 1, "releases": {"x": [{"name": "a", "status": "passed", "said": "\\u001b[2J"}]}}',
    ],
)
def test_a_damaged_record_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedError):
        parse_records(content)
