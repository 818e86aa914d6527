"""What is shown of a git that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.git.repository import Git, GitError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("line", "id"), [("No space left on device", "disk-full"), ("Input/output error", "program-failed")]
)
def test_thousands_of_lines_of_a_git_that_fails_are_shortened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, id: str
) -> None:
    script = (
        f'#!/bin/sh\ni=0\nwhile [ $i -lt 3000 ]; do echo "error: file $i: {line}" >&2; i=$((i+1)); done\nexit 128\n'
    )
    (tmp_path / "git").write_text(script)
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(GitError) as caught:
        Git(tmp_path).run("checkout", "HEAD")
    assert caught.value.id == id
    assert len(str(caught.value).splitlines()) < 90
    assert caught.value.stderr.count("\n") == 3000  # whole for those who look for words in it
    assert f"file 2999: {line}" in str(caught.value)
