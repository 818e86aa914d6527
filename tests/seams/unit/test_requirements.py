"""The lock files that workflows and ``make`` install from fit pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mlir_release.cli.app import unexpected
from mlir_release.ground.programs.needs import OF_RELEASES

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
#: What each lock file is for.
_TOOLKIT = ("release", "wheels", "github", "apidocs")
LOCKS = {
    "toolkit": _TOOLKIT,
    "installers": (*_TOOLKIT, "installers"),
    "integrate": (),
    "conda": (*_TOOLKIT, "conda"),
    "mlgo": ("release", "mlgo"),
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
        if requirement.name == "mlir-release":  # an extra that takes another one along
            assert requirement.extras <= set(LOCKS[lock])
            continue
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"make requirements/{lock}.txt anew: its first lines say how ({entry})"
        assert requirement.specifier.contains(version), entry


def test_locks_agree() -> None:
    assert locked("integrate").items() <= locked("toolkit").items() <= locked("installers").items()
    assert locked("toolkit").items() <= locked("conda").items() <= locked("dev").items()


def test_libraries_of_releases_are_known_by_what_is_imported() -> None:
    """Those of the extra, and what they bring that the toolkit imports, too."""
    imported = {"markdown-it-py": "markdown_it"}
    named = {Requirement(entry).name for entry in EXTRAS["release"]}
    assert {imported.get(name, name.replace("-", "_")) for name in named} | {
        "markupsafe",
        "sigstore_models",
    } == OF_RELEASES


def test_a_library_of_releases_that_is_missing_is_one_error_that_names_the_extra() -> None:
    error = unexpected(ModuleNotFoundError("No module named 'sigstore.models'", name="sigstore.models"))
    assert (error.id, error.exit_code) == ("tool-missing", 3)
    assert "[release]" in error.remedy
    assert unexpected(ModuleNotFoundError("No module named 'nonsense'", name="nonsense")).id == "internal-error"
