"""The toolkit's own source distribution and wheel: complete, the same whoever makes them, and readable on PyPI."""

from __future__ import annotations

import email
import re
import shutil
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import mlir_release
from mlir_release.ground.programs.needs import install_extra
from mlir_release.ground.storage import shipped
from mlir_release.release.index.documents import render
from tests.distribution import build, tracked

ROOT = Path(__file__).parents[3]
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
#: What setuptools adds to a source distribution.
MADE = re.compile(r"PKG-INFO|setup\.cfg|mlir_release\.egg-info/.+")
#: What lies about in a folder that someone works in.
LITTER = (
    "mlir_release/__pycache__/errors.cpython-312.pyc", ".venv/bin/python", "build/lib/mlir_release/gone.py",
    "tests/seams/unit/__pycache__/test_floors.cpython-312.pyc", "notes.txt",
)  # fmt: skip


@dataclass(frozen=True)
class Built:
    """The distributions of a tree."""

    tree: Path
    sdist: Path
    unpacked: Path  #: the source distribution's folder
    wheel: Path  #: of the source distribution

    def members(self) -> dict[str, int]:
        """The mode of each file of the source distribution, by its path in the checkout."""
        with tarfile.open(self.sdist) as archive:
            return {m.name.partition("/")[2]: m.mode for m in archive.getmembers() if m.isfile()}

    def description(self) -> str:
        """The page on PyPI."""
        with zipfile.ZipFile(self.wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            text = email.message_from_bytes(archive.read(name)).get_payload()
        assert isinstance(text, str)
        return text


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("distribution")
    tree = folder / "tree"
    for name in tracked():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    for name in LITTER:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("litter")
    sdist = build("sdist", tree, folder / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    return Built(tree=tree, sdist=sdist, unpacked=unpacked, wheel=build("wheel", unpacked, folder / "wheel"))


def test_the_source_distribution_is_the_checkout(built: Built) -> None:
    members = {name: mode for name, mode in built.members().items() if not MADE.fullmatch(name)}
    assert set(members) == tracked()
    programs = {name for name, mode in members.items() if mode == 0o755}
    assert programs == {name for name in tracked() if (ROOT / name).stat().st_mode & 0o100}
    assert (built.unpacked / "targets.toml").read_bytes() == (ROOT / "targets.toml").read_bytes()


def test_it_says_nothing_of_who_made_it_and_when(built: Built, tmp_path: Path) -> None:
    (built.tree / "README.md").touch()  # it is not its date that counts
    again = build("sdist", built.tree, tmp_path)
    assert again.read_bytes() == built.sdist.read_bytes()
    with tarfile.open(again) as archive:
        assert {(m.uid, m.gid, m.uname, m.gname) for m in archive.getmembers()} == {(0, 0, "", "")}


def test_checkout_and_source_distribution_make_the_same_wheel(built: Built, tmp_path: Path) -> None:
    for path in built.tree.glob("build/**/*.py"):
        path.unlink()  # setuptools takes what an earlier build left
    assert build("wheel", built.tree, tmp_path).read_bytes() == built.wheel.read_bytes()


def test_the_wheel_has_every_file_of_the_package_and_what_commands_read_of_a_checkout(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        targets = archive.read("mlir_release/shipped/targets.toml")
    package = {name for name in tracked() if name.startswith("mlir_release/")}
    at_top = r"(examples/extension/|matrices/|targets.toml|llvm-project.version)"
    shipped = {name for name in tracked() if re.match(at_top, name)}
    assert names == package | {f"mlir_release/shipped/{name}" for name in shipped}
    assert targets == (ROOT / "targets.toml").read_bytes()


def test_the_page_on_pypi_has_no_relative_link(built: Built) -> None:
    html = render(built.description(), lambda link: link)
    links = re.findall(r'(?:href|src)="([^"]+)"', html)
    assert [link for link in links if not link.startswith("https://")] == []
    at = f"{URLS['Source']}/blob/v{mlir_release.__version__}/"
    ours = [link.removeprefix(at).partition("#")[0] for link in links if link.startswith(at)]
    assert len(ours) > 15
    assert [path for path in ours if not (ROOT / path).exists()] == []


def test_a_checkout_reads_its_own_files_and_has_no_copy() -> None:
    assert shipped.SHIPPED == ROOT
    assert not any(name.startswith("mlir_release/shipped/") for name in tracked())


def test_no_text_tells_people_to_install_the_toolkit_by_a_name_that_anyone_may_register() -> None:
    """Until it is registered; then :func:`install_extra` says so, and this test goes."""
    assert "mlir-release" not in install_extra("github")
    told = re.compile(r"(?:pipx?|uv tool|uv pip) install [^\n`#]*(?<![\w./-])mlir-release(?![\w./-])|uvx mlir-release")
    texts = [name for name in tracked() if re.match(r"(mlir_release|docs|actions|examples|tools|README)", name)]
    assert [name for name in texts if told.search((ROOT / name).read_text("utf-8", "replace"))] == []
