"""What the settings of a repository are checked for."""

from __future__ import annotations

import pytest

from mlir_release.release.forge.observations import Environment
from tests.healthy import FILES, found

#: Dots in the tags of final releases: ``llvm-22.1.8.01``; a candidate's has fewer: ``llvm-23.1rc1.01``.
FINAL_ONLY = "llvm-*.*.*.*"


@pytest.mark.parametrize(
    ("pattern", "candidates", "level"),
    [("llvm-*", False, "ok"), ("llvm-*", True, "ok"), (FINAL_ONLY, False, "ok"), (FINAL_ONLY, True, "problem")],
)
def test_the_environment_must_admit_the_candidates_that_go_to_pypi(pattern: str, candidates: bool, level: str) -> None:
    targets = FILES["targets.toml"].replace(
        b"[release]\n", b"[release]\npypi-candidates = %s\n" % str(candidates).lower().encode()
    )
    there = {"pypi": Environment(refs="selected", tags=(pattern,))}
    files = {**FILES, "targets.toml": targets}
    (finding,) = found("environment", environments=there, files=files)
    assert finding.level == level
    assert ("release candidates" in finding.text) == candidates
    (reviewers,) = found("environment-reviewers", environments=there, files=files)
    assert reviewers.level == "problem"
