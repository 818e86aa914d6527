"""The lock files that workflows and ``make`` install from fit pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
#: What each lock file is for.
_TOOLKIT = ("wheels", "github", "integrate", "apidocs")
LOCKS = {
    "toolkit": _TOOLKIT,
    "installers": (*_TOOLKIT, "installers"),
    "integrate": ("integrate",),
    "conda": (*_TOOLKIT, "conda"),
    "mlgo": ("mlgo",),
    "dev": tuple(EXTRAS.keys() - {"installers"}),
}


def locked(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    found = re.finditer(r"^([\w.-]+)(?:\[[^\]]*\])?==([^\s;]+)", text, re.MULTILINE)
    return {canonicalize_name(m[1]): m[2] for m in found}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_requirement_is_locked(lock: str) -> None:
    versions = locked(lock)
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"], "uv"]
    for entry in [*wanted, *(entry for extra in LOCKS[lock] for entry in EXTRAS[extra])]:
        requirement = Requirement(entry)
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"make requirements/{lock}.txt anew: its first lines say how ({entry})"
        assert requirement.specifier.contains(version), entry


def test_locks_agree() -> None:
    assert locked("integrate").items() <= locked("toolkit").items() <= locked("installers").items()
    assert locked("toolkit").items() <= locked("conda").items() <= locked("dev").items()
