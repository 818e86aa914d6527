from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from mlir_release.doctor.repository_files import read_files
from mlir_release.doctor.signer import examine_signer
from tests.healthy import FILES, WELL

SIGNING = ("release.yml", "platform.yml", "latest.yml")
RELEASE = ".github/workflows/release.yml"


def found(files: dict[str, bytes], repository: str = WELL.repository) -> list[tuple[str, str, str]]:
    contents, _ = read_files(files, branch="main")
    return [(f.level, f.text, f.remedy) for f in examine_signer(replace(WELL, repository=repository), contents)]


def test_this_repositorys_attest_at_main() -> None:
    ((level, text, _),) = found(FILES)
    assert (level, text) == ("ok", "releases are signed by openxla/stablehlo/.github/workflows/attest.yml@main")


def test_github_ignores_case() -> None:
    ((level, *_),) = found(FILES, "OpenXLA/StableHLO")
    assert level == "ok"


@pytest.mark.parametrize(
    "call",
    [
        b"someone/else/.github/workflows/attest.yml@main",
        b"openxla/stablehlo/.github/workflows/attest.yml@dev",
        b"openxla/stablehlo/.github/workflows/attest.yml@" + b"0" * 40,
        b"./.github/workflows/attest.yml",
    ],
)
def test_a_signer_that_signatures_must_not_name(call: bytes) -> None:
    right = b"openxla/stablehlo/.github/workflows/attest.yml@main"
    ((level, text, remedy),) = found(FILES | {RELEASE: FILES[RELEASE].replace(right, call)})
    assert level == "problem"
    assert f"release.yml calls {call.decode()}" in text
    assert "platform.yml" not in text
    assert right.decode() in remedy


@pytest.mark.skipif(shutil.which("sed") is None, reason="the remedy is a command of sed")
def test_the_remedy_is_a_command_that_helps() -> None:
    import re
    import subprocess

    ((_, _, remedy),) = found(FILES, "our-org/mlir-wheels")
    script = re.search(r"'(s#.*?#g?)'", remedy)
    assert script is not None
    fixed = dict(FILES)
    for path in FILES:
        if path.startswith(".github/workflows/"):
            done = subprocess.run(["sed", script[1]], input=FILES[path], capture_output=True, check=True)
            fixed[path] = done.stdout
    ((level, *_),) = found(fixed, "our-org/mlir-wheels")
    assert level == "ok"
    assert b"zizmor: ignore[unpinned-uses]" in fixed[RELEASE]


def test_a_repository_that_does_not_sign() -> None:
    without = {path: content for path, content in FILES.items() if not path.endswith(SIGNING)}
    assert found(without) == []
