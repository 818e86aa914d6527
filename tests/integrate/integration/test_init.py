"""``integrate init``: on repositories in the shape of real ones, and a walk from there."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.git.repository import Git
from mlir_release.ground.llvm.recipes import recipes
from mlir_release.ground.llvm.recogniser import RecognisedProject
from mlir_release.integrate.config import load_config, read_config
from mlir_release.integrate.pins.init import configuration, init
from mlir_release.integrate.pins.pins import also_said, said
from mlir_release.integrate.tables import AlsoTable, UpstreamTable
from tests.integrate.integration.in_process import succeed
from tests.integrate.integration.miniature import World, git, write_config
from tests.integrate.integration.shapes import OTHER, SHAPES, Shape
from tests.loopback import Loopback, Quiet
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PIN = "1234567890" * 4


@pytest.fixture(autouse=True)
def configuration_of_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Who commits; and nothing of this machine's."""
    write_config(tmp_path)
    World(tmp_path, {}, []).enter(monkeypatch)
    return tmp_path / "gitconfig"


def repository(folder: Path, shape: Shape, pin: str = PIN) -> Path:
    """A checkout of that shape, committed."""
    git(folder.parent, "init", "-q", folder.name)
    git(folder, "remote", "add", "origin", f"https://github.com/{shape.name}.git")
    for path, content in shape.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content.replace("PIN", pin).replace("SHORT", pin[:9]))
    for path, url in shape.submodules.items():
        (folder / path).mkdir(parents=True)  # as a clone has it
        git(folder, "config", "-f", ".gitmodules", f"submodule.{path}.path", path)
        git(folder, "config", "-f", ".gitmodules", f"submodule.{path}.url", url)
        if shape.branch:
            git(folder, "config", "-f", ".gitmodules", f"submodule.{path}.branch", shape.branch)
        git(folder, "update-index", "--add", "--cacheinfo", f"160000,{pin},{path}")
    git(folder, "add", *(list(shape.files) or [".gitmodules"]), *([".gitmodules"] if shape.submodules else []))
    git(folder, "commit", "-q", "-m", "Begin")
    return folder


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_the_pins_of_a_project_are_recognised_by_init_pin_of_and_align(tmp_path: Path, shape: Shape) -> None:
    folder = repository(tmp_path / "project", shape)
    _, _, found = init(folder, smoke="./smoke.sh")
    config = load_config(folder)
    assert {table.title: table.carrier for table in config.upstreams} == shape.pins
    copies = {table.title: [(also.file, also.value) for also in table.also] for table in config.upstreams}
    assert {title: rows for title, rows in copies.items() if rows} == shape.copies
    for table in config.upstreams:
        assert said(Git(folder), "HEAD", table) in (PIN, f"20260910+{PIN[:9]}")
        also_said(Git(folder), "HEAD", table)
        assert table.branch == (shape.branch if "/" in shape.branch else "main")
        patches = [(list(each.files), list(each.listed_in)) for each in table.patches]
        assert patches == ([shape.patches[table.title]] if table.title in shape.patches else [])
        assert ("fork" in "".join(found.notes)) == (shape.name in ("iree-org/iree", "Xilinx/mlir-air"))
        assert (table.export is not None) == ("iree" in shape.name)
    assert ("tracy.patch: write [[upstream.patches]]" in "".join(found.notes)) == ("tt-mlir" in shape.name)
    assert ("tools/patches/ has patch files that no" in "".join(found.notes)) == ("extensions" in shape.name)
    told = [note for note in found.notes if "is no copy" in note]
    assert sorted({note.split()[0] for note in told}) == list(shape.told)
    assert config.smoke.argv == ("./smoke.sh",)
    for title, path in shape.pins.items():
        followed = recipes().followed(title, f"https://example.com/{'llvm-project' if title == 'LLVM' else title}")
        project = RecognisedProject(str(folder), upstream=followed)
        project.have([commit := project.commit("")])
        assert project.place(commit) == path
        assert project.pin(commit) in (PIN, PIN[:9])


def test_every_project_that_is_known_has_its_shape_here() -> None:
    titles = {each.name: UpstreamTable(url=each.url, submodule="x").title for each in recipes().upstream}
    known = {project.name: {titles[name]: path for name, path in project.pins.items()} for project in recipes().project}
    shapes = {shape.name: shape.pins for shape in SHAPES}
    assert {name: shapes[name] for name in known} == known


def test_it_prints_or_writes_and_overwrites_nothing(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project", SHAPES[0])
    git(folder, "branch", "-m", "trunk")
    printed = succeed(folder, "init", "--print").output
    assert not (folder / "integrate.toml").exists()
    written = succeed(folder, "init").output
    text = (folder / "integrate.toml").read_text()
    assert text == printed
    assert 'branch = "trunk"' in text
    assert "write the smoke command into it" in written
    refused(lambda: init(folder), "output-in-the-way")
    assert (folder / "integrate.toml").read_text() == text
    assert load_config(folder).smoke.argv[-1].endswith("exit 127")  # no verdict


def test_one_upstream_of_several_can_be_chosen(tmp_path: Path) -> None:
    shape = next(shape for shape in SHAPES if shape.name == "iree-org/iree")
    folder = repository(tmp_path / "project", shape)
    init(folder, upstreams=["STABLEHLO"])
    assert [table.title for table in load_config(folder).upstreams] == ["stablehlo"]
    error = refused(lambda: init(folder, upstreams=["enzyme"], dry_run=True), "option-invalid", "'enzyme'")
    assert "third_party/torch-mlir" in error.remedy


def test_a_repository_with_nothing_is_told_so(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project", Shape("a/b", {}, files={"README": "nothing\n"}))
    error = refused(lambda: init(folder), "input-missing", "no place in this repository")
    assert "pattern" in error.remedy
    refused(lambda: init(tmp_path / "gone"), "input-missing", "not inside a git work tree")
    git(tmp_path, "init", "-q", "empty")
    refused(lambda: init(tmp_path / "empty"), "input-missing", "no commit yet")


def test_a_place_that_is_gone_from_a_known_project_is_told(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project", Shape("google/heir", {}, files={"README": "nothing\n"}))
    error = refused(lambda: init(folder), "input-missing")
    assert "google/heir had its pin of LLVM in bazel/extensions.bzl, which is gone" in error.why


TWO = {"cmake/llvm-hash.txt": "PIN\n", "third_party/llvm/workspace.bzl": f'LLVM_COMMIT = "{OTHER}"\n'}


def test_two_places_with_different_commits_need_a_choice(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project", Shape("a/b", {}, files=TWO))
    error = refused(lambda: init(folder), "option-invalid", "two places may be the pin of LLVM")
    assert f"cmake/llvm-hash.txt:1 says {PIN}, third_party/llvm/workspace.bzl:1 says {OTHER}" in error.why
    _, _, found = init(folder, pins=["third_party/llvm/workspace.bzl"])
    assert [table.carriers for table in found.tables] == [("third_party/llvm/workspace.bzl",)]
    assert any("left out: cmake/llvm-hash.txt:1" in note for note in found.notes)
    refused(lambda: init(folder, pins=["README"], dry_run=True), "option-invalid", "in 'README'")


def test_a_form_that_fits_twice_is_told_and_not_written(tmp_path: Path) -> None:
    files = {"deps.bzl": f'LLVM_COMMIT = "{PIN}"\nLLVM_COMMIT = "{OTHER}"\n'}
    folder = repository(tmp_path / "project", Shape("a/b", {}, files=files))
    error = refused(lambda: init(folder), "input-missing")
    assert "deps.bzl may pin LLVM in lines 1, 2" in error.why


def test_names_of_files_and_values_that_mislead_are_written_as_data(tmp_path: Path) -> None:
    files = {'od"d\\dir/llvm_version.txt': "PIN\n"}
    folder = repository(tmp_path / "project", Shape("a/b", {}, files=files))
    init(folder)
    assert load_config(folder).upstreams[0].carrier == 'od"d\\dir/llvm_version.txt'


def test_what_is_written_reads_back_the_same() -> None:
    also = AlsoTable(file="a b'c.txt", pattern="^it's\\s(\\w+)\"\x7f", value="date", format="%Y'%m")
    table = UpstreamTable(
        url="https://example.com/x.git", pin_file="a.txt", pattern=r"^x\s(\w+)", also=(also,), paths=("a", "b")
    )
    other = UpstreamTable(url="https://example.com/y.git", submodule="sub", paths=("z",))
    text = configuration([table, other], smoke=["a", "b c"], branch="tr'unk", notes=["one\ntwo"])
    config = read_config(text.replace("# one\ntwo", "# one").encode(), where="x")
    assert config.upstreams[0].also == (also,)
    assert [each.carrier for each in config.upstreams] == ["a.txt", "sub"]
    assert config.downstream.branch == "tr'unk"
    assert config.smoke.argv == ("a", "b c")


# -- ten advances on each shape ----------------------------------------------------------------------------------------


def upstream(folder: Path) -> list[str]:
    """A repository with fourteen commits that everybody is affected by; returns them, oldest first."""
    git(folder.parent, "init", "-q", "--bare", folder.name)
    stream = []
    for number in range(14):
        who = f"Una <una@example.com> {1_790_000_000 + 600 * number} +0000"
        subject = f"[mlir] Change {number}\n"
        stream.append(f"commit refs/heads/main\nmark :{number + 1}\nauthor {who}\ncommitter {who}\n")
        stream.append(f"data {len(subject)}\n{subject}")
        for path in ("mlir", "stablehlo", "include", "xla", "shardy"):
            stream.append(f"M 100644 inline {path}/a.c\ndata {len(str(number))}\n{number}\n")
    command = ["git", "-C", str(folder), "fast-import", "--quiet"]
    subprocess.run(command, input="".join(stream).encode(), check=True)
    git(folder, "branch", "release/22.x", "main")
    return git(folder, "rev-list", "--reverse", "main").split()


@contextmanager
def serving(source: Path, commits: list[str]) -> Iterator[str]:
    """A server that has each commit's archive, and a page of wheels of all commits."""

    class Handler(Quiet):
        def do_GET(self) -> None:
            commit = re.search("[0-9a-f]{40}", self.path)
            names = [f"mlir_python_bindings-202609{10 + index}+{each[:9]}" for index, each in enumerate(commits)]
            content = "".join(f'<a href="{name}-cp312-cp312-linux_x86_64.whl">w</a>' for name in names).encode()
            if commit:
                packed = ["git", "-C", str(source), "archive", "--format=tar.gz", commit[0]]
                content = subprocess.run(packed, check=True, capture_output=True).stdout
            self.answer(200, content)

    with Loopback(Handler) as server:
        yield server.url


WALKS = [(shape, title) for shape in SHAPES for title in shape.pins]


@pytest.mark.slow  # ten advances each, on all shapes
@pytest.mark.parametrize(("shape", "title"), WALKS, ids=lambda value: getattr(value, "name", value))
def test_a_project_of_this_shape_goes_ten_commits_forward_and_lands(
    tmp_path: Path, shape: Shape, title: str, configuration_of_git: Path
) -> None:
    commits = upstream(tmp_path / "upstream.git")
    with configuration_of_git.open("a") as settings:
        settings.write(f'[url "file://{tmp_path}/upstream.git"]\n')
        for followed in recipes().upstream:
            name = followed.url.removeprefix("https://github.com/").removesuffix(".git")
            fork = f"iree-org/{name.partition('/')[2]}"
            settings.writelines(f"\tinsteadOf = https://github.com/{each}.git\n" for each in (name, fork))
    git(tmp_path, "init", "-q", "--bare", "origin.git")
    folder = repository(tmp_path / "project", shape, pin=commits[2])
    git(folder, "remote", "set-url", "origin", f"{tmp_path}/origin.git")
    succeed(folder, "init", "--upstream", title, "--smoke", "true")
    path = folder / "integrate.toml"
    with serving(tmp_path / "upstream.git", commits) as address:
        text = path.read_text().replace("https://llvm.github.io/eudsl", f"{address}/")
        url = f'value = "sha256"\nurl = "{address}/{{commit}}.tar.gz"'
        path.write_text(text.replace('value = "sha256"', url).replace("[smoke]", "[smoke]\nsubmodules = []"))
        git(folder, "add", "integrate.toml")
        git(folder, "commit", "-q", "-m", "Follow")
        git(folder, "push", "-q", "-u", "origin", "main")
        succeed(folder, "start")
        for _ in range(9):
            assert "committed" in succeed(folder, "next").output
        succeed(folder, "run", "--until", commits[12])
        succeed(folder, "land")
    (table,) = load_config(folder).upstreams
    pinned = said(Git(folder), "HEAD", table)
    assert pinned in (commits[12], f"20260922+{commits[12][:9]}")
    for also, value in zip(table.also, also_said(Git(folder), "HEAD", table), strict=True):
        assert value == commits[12] if also.copies else value not in ("", "0" * 64)
    assert git(folder, "rev-list", "--count", "origin/main..HEAD") == "1"
    branches = git(tmp_path / "origin.git", "for-each-ref", "--format=%(refname:short)", "refs/heads/integrates")
    assert branches.startswith("integrates/")
    assert os.path.lexists(folder / ".git")
