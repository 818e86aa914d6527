from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from tests import healthy
from tests.healthy import FILES, WELL

if TYPE_CHECKING:
    from pathlib import Path

SIGNING = ("release.yml", "platform.yml", "latest.yml")
RELEASE = ".github/workflows/release.yml"


def found(files: dict[str, bytes], repository: str = WELL.repository) -> list[tuple[str, str, str]]:
    answers = healthy.found("signer", files=files, repository=repository)
    return [(f.level, f.text, f.remedy) for f in answers]


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
    assert remedy.startswith("in a checkout: mlir-release forge adopt openxla/stablehlo ")


def test_the_remedy_is_a_command_that_helps(tmp_path: Path) -> None:
    ((_, _, remedy),) = found(FILES, "our-org/mlir-wheels")
    command = remedy.removeprefix("in a checkout: mlir-release ").partition(";")[0].split()
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    done = CliRunner().invoke(app, [*command, "-C", str(tmp_path)])
    assert done.exit_code == 0, done.output
    fixed = {path: (tmp_path / path).read_bytes() for path in FILES}
    ((level, *_),) = found(fixed, "our-org/mlir-wheels")
    assert level == "ok"
    assert b"zizmor: ignore[unpinned-uses]" in fixed[RELEASE]
    assert "nothing to do" in CliRunner().invoke(app, [*command, "-C", str(tmp_path)]).output


def test_a_repository_that_does_not_sign() -> None:
    without = {path: content for path, content in FILES.items() if not path.endswith(SIGNING)}
    assert found(without) == []
