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
with (folder / "asked").open("a") as file:
    print(json.dumps(sys.argv[1:]), file=file)
code, stderr, files = json.loads((folder / "answer.json").read_text())
for option, _, path in (word.partition("=") for word in sys.argv):
    if option[2:] in files:
        pathlib.Path(path).write_text(files[option[2:]])
print(stderr, end="", file=sys.stderr)
sys.exit(code)
"""


class FakePip:
    """Succeeds, until it is told otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name, text in {"__init__.py": "", "__main__.py": _MAIN, "asked": ""}.items():
            (folder / name).write_text(text)
        self.answer()

    def answer(self, *, code: int = 0, stderr: str = "", **files: str) -> None:
        """What it says from now on, and what it writes into the files that its options name: ``report="…"``."""
        (self.folder / "answer.json").write_text(json.dumps([code, stderr, files]))

    @property
    def asked(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.folder / "asked").read_text().splitlines()]


@pytest.fixture(name="pip")
def fake_pip(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> FakePip:
    folder = tmp_path_factory.mktemp("python")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return FakePip(folder / "pip")
