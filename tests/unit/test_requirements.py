"""The lock file that workflows install from fits pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
WANTED = [
    *PROJECT["project"]["dependencies"],
    *(entry for extra in ("wheels", "github", "integrate") for entry in EXTRAS[extra]),
    *PROJECT["build-system"]["requires"],
]
LOCKED = {
    canonicalize_name(match[1]): match[2]
    for match in re.finditer(
        r"^([\w.-]+)==([^\s;]+)", (ROOT / "requirements" / "toolkit.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
}


@pytest.mark.parametrize("entry", WANTED)
def test_every_requirement_is_locked(entry: str) -> None:
    requirement = Requirement(entry)
    version = LOCKED.get(canonicalize_name(requirement.name))
    assert version is not None, "make requirements/toolkit.txt anew: its first lines say how"
    assert requirement.specifier.contains(version)
