#!/usr/bin/env python3
"""Print the files that have slow tests, as a JSON list: ``ci.yml`` runs each in a job of its own.

Together they take longer than a job on GitHub may.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


class _Files:
    """What pytest has selected."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Take the files of the tests that would run."""
        self.names = {item.path.relative_to(session.config.rootpath).as_posix() for item in session.items}


def slow_files(root: Path) -> list[str]:
    """The files below ``root`` that have tests marked ``slow``, sorted; paths are relative to it.

    :raises RuntimeError: pytest could not read one of them
    """
    files = _Files()
    code = pytest.main(["--collect-only", "-qq", "--no-summary", "-m", "slow", "--rootdir", str(root)], plugins=[files])
    if code != pytest.ExitCode.OK:
        raise RuntimeError(f"pytest could not collect the tests ({code!r})")
    return sorted(files.names)


if __name__ == "__main__":
    stdout, sys.stdout = sys.stdout, sys.stderr  # pytest's words are for people
    print(json.dumps(slow_files(ROOT)), file=stdout)
