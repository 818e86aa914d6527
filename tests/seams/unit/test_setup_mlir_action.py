"""Which repository setup-mlir takes releases from: the one that it comes from, also inside another action."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.documents import read_yaml

ACTION = Path(__file__).resolve().parents[3] / "actions" / "setup-mlir" / "action.yml"
FOLDER = "actions/setup-mlir"
OUTER = "example/kit"  # what github.action_repository is inside another repository's action


@pytest.mark.skipif(os.name == "nt", reason="NOT TRIED: the stand-in for the toolkit is a script with a shebang")
@pytest.mark.parametrize(
    ("given", "path", "action_repository", "expected"),
    [
        ("", f"/home/runner/work/_actions/llvm/wheels/{'a' * 40}/{FOLDER}", "llvm/wheels", "llvm/wheels"),
        ("", f"/home/runner/work/_actions/llvm/wheels/{'a' * 40}/{FOLDER}", OUTER, "llvm/wheels"),
        ("", f"/home/runner/work/_actions/llvm/wheels/branch/with/slash/{FOLDER}", OUTER, "llvm/wheels"),
        ("", r"D:\a\_actions\llvm\wheels\v1\actions\setup-mlir", OUTER, "llvm/wheels"),
        ("", f"/__w/_actions/llvm/wheels/v1/{FOLDER}", OUTER, "llvm/wheels"),  # a job in a container
        ("", f"/home/runner/work/user/user/{FOLDER}", "llvm/wheels", "llvm/wheels"),  # ./actions/setup-mlir
        ("given/name", f"/home/runner/work/_actions/llvm/wheels/v1/{FOLDER}", OUTER, "given/name"),
    ],
)
def test_the_repository(tmp_path: Path, given: str, path: str, action_repository: str, expected: str) -> None:
    given_words = run_action(tmp_path, REPOSITORY=given, ACTION_PATH=path, ACTION_REPOSITORY=action_repository)
    assert given_words[given_words.index("--forge") + 1] == f"github:{expected}"


@pytest.mark.skipif(os.name == "nt", reason="NOT TRIED: the stand-in for the toolkit is a script with a shebang")
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"TAG": "latest"}, ["--", "latest"]),
        ({"REVISION": "a" * 40}, [f"--revision={'a' * 40}"]),
        ({"REVISION": "before:2026-11-20"}, ["--revision=before:2026-11-20"]),
        ({"REVISION": "--sdk $(touch evil)"}, ["--revision=--sdk $(touch evil)"]),
        ({"TAG": "--dry-run"}, ["--", "--dry-run"]),
        ({"TAG": "latest", "REVISION": "head"}, ["--revision=head", "--", "latest"]),  # which the command refuses
        ({}, []),  # this, too
        ({"TAG": "latest", "DISTRIBUTION": "llvm-libclang"}, ["--distribution", "llvm-libclang", "--", "latest"]),
        ({"TAG": "latest", "DISTRIBUTION": "$(touch evil)"}, ["--distribution", "$(touch evil)", "--", "latest"]),
    ],
)
def test_the_release_is_named_by_its_tag_or_by_a_revision(
    tmp_path: Path, variables: dict[str, str], expected: list[str]
) -> None:
    words = run_action(tmp_path, **({"TAG": "", "REPOSITORY": "a/b"} | variables))
    assert words[0] == "install"
    assert words[words.index("skip") + 1 :] == expected
    assert not (tmp_path / "evil").exists()


def run_action(folder: Path, **given: str) -> list[str]:
    """The arguments that the action's last step gives the toolkit."""
    (step,) = (s for s in read_yaml(ACTION)["runs"]["steps"] if s.get("id") == "install")
    program = folder / "mlir-release-install" / "bin" / "mlir-release"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    variables = {"REPOSITORY": "", "ACTION_PATH": "", "ACTION_REPOSITORY": "", "TAG": "latest", "REVISION": "",
                 "PYTHON": "python", "DISTRIBUTION": "", "SDK": "false", "PROVENANCE": "skip",
                 "SIGNED_BY": "", "TRUSTED_ROOT": ""}  # fmt: skip
    assert step["env"].keys() == {*variables, "GITHUB_TOKEN"}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], capture_output=True, text=True,
        env=variables | given | {"RUNNER_TEMP": str(folder), "RUNNER_OS": "Linux", "PATH": os.environ["PATH"]},
        check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
