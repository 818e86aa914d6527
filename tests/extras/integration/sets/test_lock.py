"""Sets of real wheels on local indexes of the shapes that torch-mlir, stablehlo and our releases have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.programs.process import installed_program
from tests.project_factory import STABLEHLO, TORCH_MLIR, Repository, gitmodules
from tests.refusals import refused
from tests.release_stage import make_stage
from tests.revision_factory import LLVM_TREE
from tests.serving import Served, serve
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import PYTHON, pack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.ground.errors import ReleaseError

OTHER = "cp310" if PYTHON != "cp310" else "cp311"
OURS = f"{PYTHON}-{PYTHON}-manylinux_2_28_x86_64"


def make_foreign(folder: Path, name: str, version: str, tags: str, *requires: str, more: str = "") -> str:
    """A wheel of another project, with a module of its own; returns its file name."""
    folder.mkdir(parents=True, exist_ok=True)
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: >=3.8\n"
    metadata = head + "".join(f"Requires-Dist: {line}\n" for line in requires) + more
    members = {
        f"{module}_module.py": f"version = {version!r}\n".encode(),
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tags}\n".encode(),
    }
    path = folder / f"{module}-{version}-{tags}.whl"
    path.write_bytes(pack(members, f"{info}/RECORD"))
    return path.name


class World:
    """Upstream with five commits; releases, torch-mlir and stablehlo, which meet at the second."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.upstream = Repository(folder / "llvm-project", LLVM_TREE)
        self.llvm = [self.upstream.head, *(self.upstream.commit(f"[mlir] Change {n}") for n in range(4))]
        self._release()
        self._torch_mlir()
        self._stablehlo()
        make_foreign(folder / "packages", "helper", "1.5", "py3-none-any")

    def _release(self) -> None:
        targets = make_targets(make_row(), pythons=[PYTHON], upstream=self.upstream.url)
        self.stage = make_stage(self.folder / "ours", targets=targets)
        self.stage.forge.delete_draft(self.stage.draft().release)
        for tag, version, llvm in (("20261121.01", "20261121.1", 1), ("20261122.01", "20261122.1", 3)):
            name, revision = f"snapshot-{tag}", self.llvm[llvm]
            self.stage.add_tag(name, version, revision=revision)
            files = self.stage.fill(tag=name, version=version, revision=revision, pythons=[PYTHON])
            self.stage.publish(files, tag=name)

    def _torch_mlir(self) -> None:
        """Bumped at noon of the days 3 and 6. Its page has the shape of GitHub's: no digests, names cut in two."""
        project = Repository(self.folder / "torch-mlir")
        url = "https://github.com/llvm/llvm-project.git"
        for days, llvm in ((0, 0), (2, 1), (5, 2)):
            project.days = days
            files: dict[str, bytes | str] = {TORCH_MLIR: self.llvm[llvm], ".gitmodules": gitmodules({TORCH_MLIR: url})}
            project.commit(f"Bump LLVM {llvm}", files)
        folder = self.folder / "pages" / "torch-mlir"
        for day, number in ((2, 1), (3, 2), (4, 3), (7, 4)):
            for tags in (OURS, f"{OTHER}-{OTHER}-linux_aarch64"):
                make_foreign(folder / "download", "torch-mlir", f"2026110{day}.{number}", tags, "helper>=1")
        rows = [
            f'<a href="download/{path.name}"><span>{path.name[:20]}</span><span>{path.name[20:]}</span></a>'
            for path in sorted((folder / "download").iterdir())
        ]
        escaped = "".join(
            f'<a href="{each}">x</a>' for each in ("file:///etc/x-1-py3-none-any.whl", "../../up", "a%2Fb.whl")
        )
        (folder / "index.html").write_text(f"<!DOCTYPE html><body>{''.join(rows)}{escaped}")

    def _stablehlo(self) -> None:
        self.stablehlo = Repository(self.folder / "stablehlo")
        folder = self.folder / "wheels"
        for patch, llvm in ((1, 0), (2, 1), (3, 3)):
            commit = self.stablehlo.commit(f"Integrate {llvm}", {STABLEHLO: f"{self.llvm[llvm]}\n".encode()})
            requires = ("helper<2", 'never-there; extra == "x"')
            for python in (PYTHON, OTHER):
                make_foreign(
                    folder, "stablehlo", f"1.0.{patch}+{commit[:8]}", f"{python}-{python}-linux_x86_64", *requires
                )

    def versions(self, llvm: int) -> dict[str, str]:
        """Of all members."""
        (path,) = (self.folder / "wheels").glob(f"stablehlo-1.0.{llvm + 1}+*-{PYTHON}-*")
        return {"mlir": "20261121.1", "torch-mlir": "20261104.3", "stablehlo": path.name.split("-")[1]}


MLIR = 'distribution = "mlir"'
TORCH = """distribution = "torch-mlir"
find-links = "{url}/torch-mlir/"
pin-of = "{folder}/torch-mlir"
version = '(?P<year>\\d{{4}})(?P<month>\\d\\d)(?P<day>\\d\\d)\\.\\d+'
refs = ["before:{{year}}-{{month}}-{{day}}T00:00Z", "before:{{year}}-{{month}}-{{day}}T23:59Z"]"""
STABLE = """distribution = "stablehlo"
find-links = "wheels"
pin-of = "{folder}/stablehlo"
version = '.*\\+(?P<commit>[0-9a-f]+)'
refs = ["{{commit}}"]"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Served]]:
    world = World(tmp_path_factory.mktemp("world"))
    with serve(world.folder / "pages") as pages:
        yield world, pages


class Sets:
    """Set files beside the wheels, and the commands on them."""

    def __init__(self, world: World, pages: Served, output: Path) -> None:
        self.world, self.pages, self.output = world, pages, output

    def write(self, *members: str) -> str:
        text = f'upstream = "{self.world.upstream.url}"\n'
        for member in members:
            text += f"[[member]]\n{member.format(url=self.pages.url, folder=self.world.folder)}\n"
        path = self.world.folder / f"{self.output.name}.toml"
        path.write_text(text)
        return str(path)

    def run(self, verb: str, *words: str) -> dict[str, Any]:
        place = ("--forge", f"local:{self.world.stage.forge.root}", "--json")
        output = ("--output", str(self.output)) if verb == "lock" else ()
        words = ("sets", verb, *words, *output, *place)
        done = CliRunner().invoke(app, words, standalone_mode=False, catch_exceptions=False)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def refused(self, id: str, *words: str) -> ReleaseError:
        error = refused(partial(self.run, "lock", *words), id)
        assert not self.output.exists()
        return error


@pytest.fixture
def sets(served: tuple[World, Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sets:
    world, pages = served
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(world.folder / "packages"))
    return Sets(world, pages, tmp_path / f"locks-{tmp_path.name}")


def installed(target: Path, *command: str) -> dict[str, str]:
    """What an installer puts into a folder from a lock: distributions with their versions."""
    subprocess.run([*command, "--target", str(target)], check=True, capture_output=True, env=dict(os.environ))
    names = [path.name.removesuffix(".dist-info").split("-") for path in target.glob("*.dist-info")]
    return {name.replace("_", "-"): version for name, version in names}


def test_members_of_one_llvm_are_locked_and_can_be_installed(sets: Sets, tmp_path: Path) -> None:
    world = sets.world
    locked = sets.run("lock", sets.write(MLIR, TORCH, STABLE))
    assert locked["llvm"] == world.llvm[1]
    assert locked["versions"] == world.versions(1)
    assert locked["machines"] == [f"{PYTHON} on linux-x86_64"]
    lock = tomllib.loads((sets.output / "pylock.toml").read_text())
    assert {row["name"]: row["version"] for row in lock["packages"]} == {**world.versions(1), "helper": "1.5"}
    assert all(len(wheel["hashes"]["sha256"]) == 64 for row in lock["packages"] for wheel in row["wheels"])
    assert len(sets.pages.paths("-linux_aarch64.whl")) == 1  # only of the version that was chosen
    python = f"--python={sys.executable}"
    program = installed_program("uv")
    assert program is not None
    uv = installed(tmp_path / "uv", program, "pip", "install", python, "-r", str(sets.output / "pylock.toml"))
    assert uv == {**world.versions(1), "helper": "1.5"}
    lines = str(sets.output / "requirements.txt")
    assert installed(tmp_path / "pip", sys.executable, "-m", "pip", "install", "-r", lines) == uv


def test_one_cpython_needs_fewer_downloads(sets: Sets) -> None:
    sets.pages.requests.clear()
    locked = sets.run("lock", sets.write(TORCH, STABLE), "--python", PYTHON, "-n")
    assert locked["files"] == []
    assert not sets.output.exists()
    assert [path.rpartition("-")[2] for path in sets.pages.paths(".whl")] == ["manylinux_2_28_x86_64.whl"]
    error = sets.refused("no-fitting-wheel", sets.write(TORCH, STABLE), "--python", "3.9")
    assert "cp39" in error.what


def test_all_llvms_are_shown(sets: Sets) -> None:
    shown = sets.run("show", sets.write(MLIR, TORCH, STABLE))
    llvm, versions = sets.world.llvm, sets.world.versions(1)
    assert list(shown["common"]) == [llvm[1]]
    assert shown["llvm"][llvm[1]] == versions
    assert shown["llvm"][llvm[3]]["mlir"] == "20261122.1"
    assert shown["llvm"][llvm[3]]["torch-mlir"] == ""
    assert llvm[4] not in shown["llvm"]
    assert shown["left_out"]["torch-mlir"] == {"20261103.2": "LLVM was bumped when it was built"}


def test_without_a_common_llvm_the_nearest_versions_are_said(sets: Sets) -> None:
    """The members that have the third LLVM, and stablehlo's, which has its neighbours."""
    world, (second, fourth) = sets.world, (sets.world.llvm[1][:12], sets.world.llvm[3][:12])
    error = sets.refused("release-not-ready", sets.write(MLIR, TORCH, STABLE), "--llvm", world.llvm[2])
    before, after = world.versions(1)["stablehlo"], world.versions(2)["stablehlo"]
    assert error.why.splitlines()[1:] == [
        f"mlir is not; before: 20261121.1 from {second} of 2026-11-02, after: 20261122.1 from {fourth} of 2026-11-04",
        "torch-mlir 20261107.4 is",
        f"stablehlo is not; before: {before} from {second} of 2026-11-02, after: {after} from {fourth} of 2026-11-04",
    ]
    only = STABLE.replace("'.*", "'1.0.3")
    error = sets.refused("release-not-ready", sets.write(TORCH, only))
    assert "no LLVM has a version of all members" in error.what
    assert f"before: 20261107.4 from {sets.world.llvm[2][:12]}" in error.why
    assert "left out: 20261103.2" in error.why
    sets.refused("revision-unknown", sets.write(TORCH, STABLE), "--llvm", "1" * 40)


def test_a_fork_stands_for_the_llvm_that_it_is_based_on(sets: Sets) -> None:
    world, name = sets.world, sets.output.name
    fork = Repository(world.folder / name / "fork")
    fork.git.run("fetch", "--quiet", world.upstream.url, "main", remote=world.upstream.url)
    patched = fork.commit("Carry a patch", {"patch": b"1"}, on=world.llvm[1])
    project = Repository(world.folder / name / "iree")
    links = gitmodules({"third_party/llvm-project": fork.url})
    commit = project.commit("Begin", {"third_party/llvm-project": patched, ".gitmodules": links})
    project.git.run("update-ref", "refs/tags/iree-3.9.0rc1", commit)
    make_foreign(world.folder / name / "wheels", "iree-base-compiler", "3.9.0rc1", OURS)
    make_foreign(world.folder / name / "wheels", "iree-base-compiler", "3.9.0rc2", OURS)
    member = f"""distribution = "iree-base-compiler"
find-links = "{name}/wheels"
pin-of = "{{folder}}/{name}/iree#third_party/llvm-project"
refs = ["iree-{{{{version}}}}"]"""
    assert sets.run("lock", sets.write(TORCH, member))["versions"] == {
        "torch-mlir": "20261104.3",
        "iree-base-compiler": "3.9.0rc1",
    }
    left_out = sets.run("show", sets.write(TORCH, member))["left_out"]["iree-base-compiler"]
    assert "has no commit iree-3.9.0rc2" in left_out["3.9.0rc2"]


@pytest.mark.parametrize("beside", [True, False], ids=["PEP 658", "in the wheel"])
def test_an_index_whose_wheels_say_their_llvm(sets: Sets, beside: bool) -> None:
    world = sets.world
    folder = world.folder / "pages" / f"simple-{beside}" / "other-dialect"
    links = []
    for version, commit in (("1", world.llvm[0]), ("2", world.llvm[1]), ("3", "unknown"), ("4", "1" * 40)):
        said = f"Project-URL: llvm, x/commit/{commit}\n"
        name = make_foreign(folder, "other_dialect", version, OURS, more=said)
        told = ' data-core-metadata="true"' if beside else ""
        links.append(f'<a href="{name}"{told}>{name}</a>')
        if beside:
            (folder / f"{name}.metadata").write_text(f"Metadata-Version: 2.1\nName: x\n{said}")
    (folder / "index.html").write_text("".join(links))
    member = f"""distribution = "other-dialect"
index = "{{url}}/simple-{beside}"
llvm = 'commit/([0-9a-f]{{{{40}}}})'"""
    locked = sets.run("lock", sets.write(MLIR, member))
    assert locked["versions"] == {"mlir": "20261121.1", "other-dialect": "2"}
    shown = sets.run("show", sets.write(MLIR, member))
    assert shown["left_out"]["other-dialect"] == {
        "3": "its METADATA names no LLVM commit",
        "4": f"upstream has no commit {'1' * 40}",
    }


def test_members_that_require_each_other_must_fit(sets: Sets) -> None:
    folder = sets.world.folder / "pairs"
    member = """distribution = "pair"
find-links = "pairs"
pin-of = "{folder}/stablehlo"
refs = ["main"]"""
    for version, needs in (("1", "stablehlo<1.0.2"), ("2", "stablehlo>=1.0.2")):
        for path in folder.glob("*.whl"):
            path.unlink()
        make_foreign(folder, "pair", version, "py3-none-any", needs)
        pure = [make_foreign(folder, name, version, "py2.py3-none-any").partition("-")[0] for name in ("one", "two")]
        words = (sets.write(member, STABLE),)
        if version == "1":
            assert "requires stablehlo<1.0.2" in sets.refused("release-not-ready", *words).what
        else:
            assert sets.run("lock", *words)["versions"]["pair"] == "2"
            lines = (sets.output / "requirements.txt").read_text().splitlines()
            lock = tomllib.loads((sets.output / "pylock.toml").read_text())
            assert {line.partition(" @ ")[0] for line in lines if " @ " in line} == {"pair", "stablehlo"}
            assert {package["name"] for package in lock["packages"]} == {"pair", "stablehlo", "helper"}
            alone = sets.write(*(member.replace('"pair"', f'"{name}"') for name in pure))
            assert sets.run("lock", alone, "--python", PYTHON)["machines"] == []


@pytest.mark.parametrize(
    ("members", "id", "said"),
    [
        ((MLIR, TORCH + "\ncolour = 1"), "config-invalid", "unknown key"),
        ((STABLE, STABLE), "config-invalid", "has the distribution stablehlo twice"),
        ((MLIR,), "config-invalid", "two members"),
        ((MLIR, 'distribution = "x"\nindex = "https://x"'), "config-invalid", "needs pin-of or llvm"),
        ((MLIR, TORCH.replace("{{day}}", "{{week}}")), "config-invalid", "has {week}"),
        ((MLIR, TORCH.replace("(?P<year>", "(?P<year>(")), "config-invalid", "is not a regular expression"),
        ((MLIR, STABLE.replace('"wheels"', '"nothing"')), "network-failed", "can't be read"),
        ((MLIR, STABLE.replace('"wheels"', '"http://127.0.0.1:9/"')), "network-failed", "can't be read"),
        ((MLIR, STABLE.replace('"wheels"', '"gopher://x/"')), "network-failed", "can't be read"),
        ((MLIR, STABLE.replace("/stablehlo", "/nothing")), "network-failed", "can't be read"),
        ((MLIR, STABLE.replace('"wheels"', '"packages"')), "release-not-ready", "no LLVM has a version"),
        ((MLIR + '\nforge = "local:nothing"', STABLE), "input-missing", "there is no local forge"),
        ((STABLE, TORCH.replace("/torch-mlir/", "/nothing/")), "release-not-ready", "no LLVM has a version"),
    ],
)
def test_a_set_that_can_not_be_locked(sets: Sets, members: tuple[str, ...], id: str, said: str) -> None:
    error = sets.refused(id, sets.write(*members))
    assert said in error.what


def test_a_set_that_is_not_there(sets: Sets) -> None:
    error = sets.refused("input-missing", "nothing")
    assert "mlir-torch-mlir-stablehlo" in error.remedy
    sets.refused("input-missing", "./nothing.toml")


def test_a_wheel_that_is_none_is_refused(sets: Sets, tmp_path: Path) -> None:
    folder = sets.world.folder / sets.output.name
    name = make_foreign(folder, "stablehlo", "1.0.9", OURS)
    (folder / name).write_bytes(b"PK nothing")
    member = f'''distribution = "stablehlo"
find-links = "{sets.output.name}"
pin-of = "{{folder}}/stablehlo"
refs = ["main"]'''
    assert name in sets.refused("wheel-unsuitable", sets.write(MLIR, member)).what
