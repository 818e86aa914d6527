"""Installing from a repository whose releases are signed, and ``mlir-release verify`` as its users call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.use.install import Installed, install
from tests.refusals import refused
from tests.release.integration.signed_stage import REPORT, REPOSITORY, TAG, SignedStage, signed_stage
from tests.sigstore.instance import MadeSigstore
from tests.use.integration.test_install import imported

if TYPE_CHECKING:
    from collections.abc import Iterator


ROOT = Path(__file__).parents[3]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SignedStage]:
    with signed_stage(tmp_path, monkeypatch) as stage:
        stage.whole()
        yield stage


def do_install(stage: SignedStage, python: Path, *, anonymous: bool = False, **options: object) -> Installed:
    token = "" if anonymous else stage.token
    forge = GitHubForge.open(REPOSITORY, environ=stage.server.environment(REPOSITORY, token))
    return install(forge, TAG, python=python, pip_options=["--no-deps"], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("anonymous", [True, False])
def test_what_is_signed_is_installed(stage: SignedStage, python: Path, anonymous: bool) -> None:
    asked = len(stage.server.requests)
    found = do_install(stage, python, anonymous=anonymous)
    assert found.provenance
    assert found.signer == f"{stage.url}/.github/workflows/attest.yml@refs/heads/main"
    assert f"signed by {found.signer}" in found.text()
    assert imported(python) == TAG
    # An anonymous reader has sixty requests an hour, shared by everybody behind one address.
    counted = [record for record in stage.server.requests[asked:] if record.operation]
    assert len(counted) <= 10, [(record.operation, record.path) for record in counted]


def tampered(stage: SignedStage, what: str) -> None:
    wheel = stage.wheel.name
    if what == "no signature":
        stage.release.own = [asset for asset in stage.release.own if asset.name != f"{wheel}.sigstore.json"]
    elif what == "other root":
        stage.made = MadeSigstore()
        stage.asset(f"{wheel}.sigstore.json").content = stage.bundle(wheel, stage.asset(wheel).content)


@pytest.mark.parametrize(
    ("what", "id", "said"),
    [
        ("no signature", "provenance-missing", "nobody signed it"),
        ("other root", "signature-invalid", "its certificate is from no authority that is trusted"),
    ],
)
def test_what_was_changed_is_not_installed(stage: SignedStage, python: Path, what: str, id: str, said: str) -> None:
    tampered(stage, what)
    refused(lambda: do_install(stage, python), id, said)
    assert imported(python) == ""


# -- mlir-release verify -----------------------------------------------------------------------------------------------


def verify(stage: SignedStage, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mlir_release", "verify", *arguments],
        cwd=ROOT,
        env=os.environ | stage.server.environment(REPOSITORY, stage.token),
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_a_file_is_verified_offline(stage: SignedStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLIR_RELEASE_TRUST_CONFIG")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "root.json"
    root.write_text(json.dumps(stage.made.trusted_root()))
    asked = len(stage.server.requests)
    given = ("--trusted-root", str(root), "--signed-by", stage.url)
    done = verify(stage, str(stage.wheel), *given)
    assert done.returncode == 0, done.stderr
    rows = dict(line.split(maxsplit=1) for line in done.stdout.replace("signed by", "signed-by").splitlines())
    assert rows["signed-by"] == f"{stage.url}/.github/workflows/attest.yml@refs/heads/main"
    assert rows["release"] == TAG
    done = verify(stage, str(stage.wheel), *given, "--tag", "snapshot-20261120.02", "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]) == (6, "signature-invalid")
    moved = stage.wheel.rename(tmp_path / stage.wheel.name)
    done = verify(stage, str(moved), *given, "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]) == (6, "provenance-missing")
    bundle = stage.dist / f"{moved.name}.sigstore.json"
    done = verify(stage, str(moved), *given, "--bundle", str(bundle), "--json")
    assert json.loads(done.stdout)["signer"]["ref"] == f"refs/tags/{TAG}"
    assert len(stage.server.requests) == asked


def test_a_release_is_verified_as_a_table(stage: SignedStage) -> None:
    done = verify(stage, TAG, "--forge", f"github:{REPOSITORY}")
    assert done.returncode == 0, done.stderr
    assert "3 of 3 files as they have to be" in done.stdout
    stage.asset(f"{REPORT}.sigstore.json").content = b"{}"
    done = verify(stage, TAG, "--forge", f"github:{REPOSITORY}")
    assert done.returncode == 6
    assert "signature-invalid" in done.stdout
    done = verify(stage, TAG, "--forge", f"github:{REPOSITORY}", "--json")
    assert [row["result"] for row in json.loads(done.stdout)["files"]] == ["signed", "signed", "refused"]
