"""A pip that only says what a test wants, for every ``python -m pip`` that is started meanwhile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_MAIN = """\
import json, pathlib, sys
folder = pathlib.Path(__file__).parent
answer = json.loads((folder / "answer.json").read_text())
with (folder / "asked").open("a") as file:
    print(json.dumps(sys.argv[1:]), file=file)
for word in sys.argv:
    option, _, path = word.partition("=")
    if option in answer["files"]:
        pathlib.Path(path).write_text(answer["files"][option])
print(answer["stderr"], end="", file=sys.stderr)
sys.exit(answer["code"])
"""


class FakePip:
    """Succeeds, until it is told otherwise."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "pip"
        self._folder.mkdir()
        (self._folder / "__init__.py").touch()
        (self._folder / "__main__.py").write_text(_MAIN)
        self.answer()

    def answer(self, *, stderr: str = "", code: int = 0, **files: str) -> None:
        """What it says from now on, and what it writes into the files that its options name: ``report="…"``."""
        named = {f"--{option}": text for option, text in files.items()}
        text = json.dumps({"stderr": stderr, "code": code, "files": named})
        (self._folder / "answer.json").write_text(text)

    @property
    def asked(self) -> list[list[str]]:
        """The words of each call."""
        path = self._folder / "asked"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture(name="pip")
def fake_pip(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> FakePip:
    folder = tmp_path_factory.mktemp("pip")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return FakePip(folder)
