"""Whether the project on the index is ours, and has room."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.errors import MachineError
from mlir_release.ground.plugins import TOOLKIT
from mlir_release.operate.doctor.files import Contents, Examined
from mlir_release.operate.doctor.index import TOOLKIT_PUBLISHER, judge_name, judge_project, judge_toolkit
from mlir_release.release.forge.observations import Names
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.pypi.project import PROJECT_LIMIT, IndexFile, IndexProject, publishers
from tests.healthy import WELL, asked
from tests.memory_forge import MemoryForge
from tests.release.unit.model.test_targets import with_names
from tests.serving import pypi as serve_pypi

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


def project(*sizes: int | None, owners: Collection[str] | None = None) -> IndexProject:
    files = {
        f"mlir-{n}.whl": IndexFile(filename=f"mlir-{n}.whl", sha256="", size=size, version=f"22.1.{n}")
        for n, size in enumerate(sizes)
    }
    known = None if owners is None else frozenset(owners)
    return IndexProject(name="mlir", url="https://pypi.org/simple/mlir/", files=files, owners=known)


@pytest.mark.parametrize(
    ("answer", "owners", "ours", "level", "said"),
    [
        (project(), ["llvm"], [], "ok", "the name mlir is free"),
        (project(1, owners=["llvm", "bot"]), ["llvm"], [], "ok", "belongs to bot, llvm"),
        (project(1, owners=["somebody"]), ["llvm"], [], "problem", "somebody"),
        (project(owners=["somebody"]), ["llvm"], [], "problem", "somebody"),  # a name without files is taken, too
        (project(1, owners=["llvm"]), [], [], "problem", "no owner was named"),
        (project(1, owners=["llvm"]), None, [], "unknown", "belongs to llvm, which may or may not be us"),
        (project(1, owners=[]), None, [], "unknown", "belongs to nobody"),
        (project(1, 1), ["llvm"], ["22.1.0", "22.1.1"], "ok", "all versions of mlir are ours"),
        (project(1, 1), None, ["22.1.0"], "problem", "22.1.1"),
    ],
)
def test_owners(
    answer: IndexProject, owners: Collection[str] | None, ours: Collection[str], level: str, said: str
) -> None:
    found = next(f for f in judge_project(answer, owners=owners, ours=ours) if f.check == "pypi-owner")
    assert found.level == level
    assert said in found.text
    assert bool(found.remedy) is (level != "ok")


@pytest.mark.parametrize(
    ("sizes", "level"),
    [
        ((), "ok"),
        ((1, 2), "ok"),
        ((PROJECT_LIMIT // 2, PROJECT_LIMIT // 4), "ok"),
        ((PROJECT_LIMIT // 2, PROJECT_LIMIT // 2), "problem"),
        ((PROJECT_LIMIT * 8 // 10 + 1,), "problem"),
        ((1, None), "unknown"),
    ],
)
def test_storage(sizes: tuple[int | None, ...], level: str) -> None:
    found = next(f for f in judge_project(project(*sizes), owners=["llvm"]) if f.check == "pypi-storage")
    assert found.level == level
    assert bool(found.remedy) is (level != "ok")


OTHER = replace(project(), name="mlir-core")


@pytest.mark.parametrize(
    ("answer", "owners", "level", "said"),
    [
        (OTHER, ["llvm"], "problem", "mlir-core is free for anyone to take"),
        (OTHER, None, "problem", "mlir-core is free for anyone to take"),
        (replace(OTHER, owners=frozenset({"llvm", "bot"})), ["llvm"], "ok", "belongs to bot, llvm"),
        (replace(project(1, owners=["other"]), name="mlir-core"), ["llvm"], "problem", "belongs to other (22.1.0)"),
        (replace(OTHER, owners=frozenset({"other"})), ["llvm"], "problem", "belongs to other (no files)"),
        (replace(OTHER, owners=frozenset({"other"})), None, "unknown", "belongs to other"),
        (replace(project(1), name="mlir-core"), ["llvm"], "unknown", "an owner that the index does not tell"),
        (MachineError("network-failed", "it can't be read", remedy="look"), ["llvm"], "unknown", "can't be read"),
    ],
)
def test_names_that_are_never_uploaded(
    answer: IndexProject | MachineError, owners: Collection[str] | None, level: str, said: str
) -> None:
    found = judge_name(answer, owners=owners)
    assert (found.check, found.level) == ("pypi-names", level)
    assert said in found.text
    assert bool(found.remedy) is (level != "ok")


def test_an_index_that_does_not_answer_is_one_finding() -> None:
    error = MachineError("network-failed", "it can't be read", where="https://pypi.org/simple/", remedy="look")
    (found,) = judge_project(error, owners=["llvm"])
    assert (found.check, found.level, found.remedy) == ("pypi", "unknown", "look")
    assert found.text == "https://pypi.org/simple/: it can't be read"


def toolkit(*published: tuple[str, str], owners: Collection[str] | None = None) -> IndexProject:
    """The toolkit's project, with the version and the publisher of each file."""
    files = {
        f"{TOOLKIT}-{n}.whl": IndexFile(
            filename=f"{TOOLKIT}-{n}.whl", sha256="", size=1, version=version, provenance=publisher
        )
        for n, (version, publisher) in enumerate(published)
    }
    known = None if owners is None else frozenset(owners)
    return IndexProject(name=TOOLKIT, url="https://pypi.org/simple/mlir-release/", files=files, owners=known)


OURS, THEIRS = TOOLKIT_PUBLISHER, "github.com/mallory/mlir-release/release-toolkit.yml"


@pytest.mark.parametrize(
    ("answer", "level", "said"),
    [
        (toolkit(), "ok", "nobody has the name mlir-release"),
        (toolkit(owners=["mallory"]), "problem", "anything of mlir-release"),
        (toolkit(("1.0.0", OURS), ("1.0.0", OURS), owners=["llvm"]), "ok", "published mlir-release 1.0.0"),
        (toolkit(("1.0.0", OURS), ("1.0.0", THEIRS)), "problem", "published mlir-release-1.whl"),
        (toolkit(("1.0.0", OURS), ("1.0.0", "")), "problem", "published mlir-release-1.whl"),
        (toolkit(("1.0.0", OURS), ("1.0.0", f"{OURS} {THEIRS}")), "problem", "published mlir-release-1.whl"),
        (toolkit(("10.0", OURS), ("9.0", THEIRS)), "ok", "published mlir-release 10.0"),  # before it was ours
        (toolkit(("1.0.0", OURS), ("", THEIRS)), "problem", "published mlir-release-1.whl"),
        (MachineError("network-failed", "it can't be read", remedy="look"), "unknown", "can't be read"),
    ],
)
def test_the_toolkits_name(answer: IndexProject | MachineError, level: str, said: str) -> None:
    found = judge_toolkit(answer, lambda file: frozenset(file.provenance.split()))
    assert (found.check, found.level) == ("toolkit-name", level)
    assert said in found.text
    assert bool(found.remedy) is (level != "ok")


def test_only_publishers_that_the_index_checked_at_github_count() -> None:
    rows = [
        {"publisher": {"kind": "GitHub", "repository": "llvm/mlir-release", "workflow": "release-toolkit.yml"}},
        {"publisher": {"kind": "GitLab", "repository": "llvm/mlir-release", "workflow_filepath": "a.yml"}},
        {"publisher": {"kind": "Google", "email": "mallory@example.org"}},
    ]
    assert publishers(json.dumps({"version": 1, "attestation_bundles": rows}).encode()) == {TOOLKIT_PUBLISHER}


@pytest.mark.parametrize(
    ("name", "pypi", "uploaded", "watched"),
    [
        ("mlir", None, {"mlir"}, {"mlir-core"}),
        ("my-mlir", None, set(), {"mlir-core", "my-mlir"}),
        ("my-mlir", ["my-mlir"], {"my-mlir"}, {"mlir-core"}),
        ("my-mlir", ["mlir-core", "my-mlir"], {"mlir-core", "my-mlir"}, set()),
        ("my-mlir", [], set(), {"mlir-core", "my-mlir"}),
    ],
)
def test_the_names_that_go_to_pypi_must_be_ours_and_the_others_are_watched(
    tmp_path: Path, name: str, pypi: list[str] | None, uploaded: set[str], watched: set[str]
) -> None:
    matrix = Matrix.parse(with_names(pypi, mlir=name))
    variables = Names(seen={"MLIR_RELEASE_PYPI_OWNER": "us"}, complete=True)
    with serve_pypi(tmp_path, ("mlir", "mlir-core", "my-mlir"), owner="somebody", size=1) as url:
        rows = [
            row
            for check in ("pypi", "pypi-names")
            for row in asked(check, matrix, MemoryForge({}), seen=replace(WELL, variables=variables), index_url=url)
        ]
        found = [each for each in rows if each.level != "ok"]
    said: dict[str, set[str]] = {}
    for each in found:
        said.setdefault(each.check, set()).update(re.findall(r"(?<![\w-])(?:my-)?mlir(?:-core)?(?![\w-])", each.text))
    assert (said.get("pypi-owner", set()), said.get("pypi-names", set())) == (uploaded, watched)
    assert Examined(seen=WELL, contents=Contents(matrix=matrix)).uploads == bool(uploaded)
