from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.errors import UsageError
from mlir_release.release.model.manifest import Manifest, WheelEntry
from mlir_release.release.pypi.project import (
    FILE_LIMIT,
    PROJECT_LIMIT,
    IndexFile,
    IndexProject,
    make_plan,
    read_project,
    simple_url,
)
from mlir_release.release.pypi.publish import check_name, numbered_tag
from tests.refusals import refused
from tests.serving import serve

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 40_000_000


def wheel(filename: str, *, distribution: str = "mlir", size: int = SIZE) -> WheelEntry:
    return WheelEntry(
        filename=filename, target="t", distribution=distribution, profile="host", python="cp312", platforms=(),
        requires_python="", requires_dist=(), size=size, sha256=hashlib.sha256(filename.encode()).hexdigest(),
        metadata_sha256="0" * 64,
    )  # fmt: skip


def name(version: str = "22.1.8", python: str = "cp312") -> str:
    return f"mlir-{version}-{python}-{python}-manylinux_2_28_x86_64.whl"


def manifest(*wheels: WheelEntry, tag: str = "llvm-22.1.8.01", version: str = "22.1.8") -> Manifest:
    return Manifest(
        tag=tag, kind="numbered", version=version, revision="a" * 40, commit="b" * 40, upstream="",
        created_at="2026-11-20T12:00:00Z", toolkit_version="1", wheels=wheels,
    )  # fmt: skip


def project(*files: IndexFile, owners: frozenset[str] | None = None) -> IndexProject:
    return IndexProject(name="mlir", url="https://i.example/mlir/", files={f.filename: f for f in files}, owners=owners)


def on_index(entry: WheelEntry, **changes: object) -> IndexFile:
    file = IndexFile(filename=entry.filename, sha256=entry.sha256, size=entry.size, version="22.1.8")
    return replace(file, **changes)  # type: ignore[arg-type]


def test_a_plan_skips_what_is_there_and_other_distributions() -> None:
    first, second = wheel(name()), wheel(name(python="cp313"))
    others = [
        wheel(f"{prefix}-22.1.8-cp312-cp312-win_amd64.whl", distribution=prefix.replace("_", "-"), size=FILE_LIMIT * 2)
        for prefix in ("mlir_core", "mlir_asserts")
    ]
    plan = make_plan(manifest(first, second, *others), project(on_index(first)))
    assert (plan.upload, plan.there) == ((second,), (first,))
    assert (plan.size, plan.used) == (SIZE, SIZE)


def test_the_budget_counts_what_is_there() -> None:
    first, second = wheel(name()), wheel(name(python="cp313"))
    there = on_index(first, size=PROJECT_LIMIT - SIZE)
    assert make_plan(manifest(first, second), project(there)).upload == (second,)
    there = on_index(first, size=PROJECT_LIMIT - SIZE + 1)
    refused(
        lambda: make_plan(manifest(first, second), project(there)),
        "pypi-unsuitable",
        "does not fit into the project's storage",
    )
    # Nothing left to upload: a full project is no reason to fail.
    assert make_plan(manifest(first), project(replace(there, size=PROJECT_LIMIT + 1))).upload == ()
    # An index that does not tell sizes sets no budget.
    assert make_plan(manifest(first, second), project(replace(there, size=None))).used is None


@pytest.mark.parametrize("known", ["", "f" * 64])
def test_a_file_that_may_be_another_is_refused(known: str) -> None:
    entry = wheel(name())
    refused(
        lambda: make_plan(manifest(entry), project(on_index(entry, sha256=known))),
        "pypi-unsuitable",
        "the index has other bytes under the name",
    )


@pytest.mark.parametrize("filename", [name(python="cp313"), "mlir-22.1.8.tar.gz", "mlir-22.1.8.0-py3-none-any.whl"])
def test_a_file_of_the_version_that_the_release_has_not_is_refused(filename: str) -> None:
    entry, older = wheel(name()), on_index(wheel(name("22.1.7")), version="22.1.7")
    unread = IndexFile(filename="mlir-dev.zip", sha256="f" * 64, size=1, version="dev")
    version = "22.1.8.0" if "22.1.8.0" in filename else "22.1.8"
    foreign = IndexFile(filename=filename, sha256="f" * 64, size=1, version=version)
    assert make_plan(manifest(entry), project(on_index(entry), older, unread)).there == (entry,)
    error = refused(lambda: make_plan(manifest(entry), project(on_index(entry), older, foreign)), "pypi-unsuitable")
    assert filename in error.what


@pytest.mark.parametrize("size", [FILE_LIMIT, FILE_LIMIT + 1])
def test_the_limit_of_a_file(size: int) -> None:
    entry = manifest(wheel(name(), size=size))
    if size <= FILE_LIMIT:
        assert make_plan(entry, project()).size == size
        return
    refused(lambda: make_plan(entry, project()), "pypi-unsuitable", "is larger than the index takes")


@pytest.mark.parametrize(
    ("tag", "version", "fits"),
    [
        *(("llvm-22.1.8.01", version, True) for version in ("22.1.8", "22.1.8.post1")),
        *(("llvm-22.1.8.01", version, False) for version in ("22.1.8+sha", "22.1.8rc1", "22.1.7", "22.1.8.dev1")),
        *(("llvm-23.1rc2.01", version, True) for version in ("23.1rc2", "23.1rc2.post1")),
        *(("llvm-23.1rc2.01", version, False) for version in ("23.1.0", "23.1rc1", "23.1rc2+sha", "23.1.0.post1")),
    ],
)
def test_versions(tag: str, version: str, fits: bool) -> None:
    entry = manifest(wheel(name(version)), tag=tag, version=version)
    if fits:
        assert make_plan(entry, project()).version == version
        return
    refused(lambda: make_plan(entry, project()), "pypi-unsuitable", "is not one for PyPI")


def test_a_release_without_the_distribution() -> None:
    refused(lambda: make_plan(manifest(), project()), "release-unsuitable")


def test_names() -> None:
    stub = IndexFile(filename="mlir-0.0.1-py3-none-any.whl", sha256="a" * 64, size=1, version="0.0.1")
    check_name(project(), (), ours=())  # nobody has it
    check_name(project(on_index(wheel(name()))), (), ours={"22.1.8"})
    check_name(project(stub, owners=frozenset({"llvm", "ada"})), ("llvm",), ours=())  # transferred, with its past
    for files, owners, expected in (
        ((stub,), None, ()),
        ((stub,), None, ("llvm",)),
        ((), frozenset({"stranger"}), ("llvm",)),
        ((), frozenset({"llvm"}), ()),
        ((), frozenset(), ("llvm",)),
    ):
        refused(partial(check_name, project(*files, owners=owners), expected, ours={"22.1.8"}), "pypi-name-foreign")


def test_tags() -> None:
    assert numbered_tag("llvm-22.1.8.02").number == 2
    assert numbered_tag("llvm-22.1.8rc1.01").version == "22.1.8rc1"
    for tag in ("snapshot-20261120.01", "v1.0", "main"):
        with pytest.raises(UsageError, match="PyPI"):
            numbered_tag(tag)


def test_addresses() -> None:
    assert simple_url("https://upload.pypi.org/legacy") == "https://pypi.org/simple/"
    assert simple_url("http://localhost:8080") == "http://localhost:8080/simple/"


def test_an_index_as_pypi_answers(tmp_path: Path) -> None:
    page = {
        "meta": {"api-version": "1.1"},
        "name": "mlir",
        "versions": ["22.1.8"],
        "files": [{"filename": name(), "url": "x", "hashes": {"sha256": "a" * 64}, "size": 7}],
    }
    ownership = {"roles": [{"role": "Owner", "user": "ada"}, {"role": "Maintainer", "user": "bob"}]}
    (tmp_path / "simple" / "mlir").mkdir(parents=True)
    (tmp_path / "simple" / "mlir" / "index.json").write_text(json.dumps(page))
    (tmp_path / "pypi" / "mlir").mkdir(parents=True)
    answer = tmp_path / "pypi" / "mlir" / "json"
    with serve(tmp_path, json=True) as served:

        def read(ownership: object) -> IndexProject:
            answer.write_text(json.dumps({"info": {}, "ownership": ownership}))
            return read_project(f"{served.url}/simple/", "mlir")

        found = read({**ownership, "organization": "llvm"})
        assert found.owners == frozenset({"ada", "llvm"})
        assert (found.size, found.versions) == (7, frozenset({"22.1.8"}))
        assert read({**ownership, "organization": None}).owners == frozenset({"ada"})
        assert read(None).owners is None
        answer.write_text("not JSON")
        assert read_project(f"{served.url}/simple/", "mlir").owners is None
        assert read_project(f"{served.url}/simple/", "nothing").files == {}
