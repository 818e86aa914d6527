"""Files of a wheel that another distribution has overwritten, or taken along: pip says nothing, the check names it."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mlir_release.ground.python import installed
from tests.wheel_factory import pack

FILES = {"mlir/ir.py": b"ours", "mlir/passmanager.py": b"ours, too", "bin/mlir-opt": b"a program"}


def install(site: Path, name: str, files: dict[str, bytes]) -> None:
    """As pip does it, whatever is there."""
    info = f"{name}-1.dist-info"
    members = {**files, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n".encode()}
    zipfile.ZipFile(io.BytesIO(pack(members, f"{info}/RECORD"))).extractall(site)


def said(site: Path, *names: str, program: str = installed.__file__, first: Path | str = "/nowhere") -> str:
    """What the check says as a program, on a path of nothing else."""
    lines = ["import sys", f"sys.path[:0] = [{str(first)!r}, {str(site)!r}]", f"sys.argv[1:] = {names!r}"]
    code = "\n".join([*lines, "import runpy", f"runpy.run_path({program!r}, run_name='__main__')"])
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == bool(done.stderr)
    return done.stderr


@pytest.fixture
def site(tmp_path: Path) -> Path:
    install(tmp_path / "site", "mlir", FILES)
    return tmp_path / "site"


def test_what_is_as_it_was_installed_gets_no_word(site: Path) -> None:
    install(site, "clang", {})  # metadata alone
    (site / "mlir" / "cache.pyc").write_bytes(b"")
    assert said(site, "mlir") == said(site, "clang") == said(site, "nothing") == ""


@pytest.mark.parametrize("same", [False, True], ids=["other bytes", "the same bytes"])
def test_a_distribution_that_has_the_same_files_is_named(site: Path, same: bool) -> None:
    """With the same bytes nothing is damaged until it is uninstalled."""
    name = "mlir/ir.py"
    install(site, "pymlir", {name: FILES[name] if same else b"theirs"})
    lines = said(site, "mlir").splitlines()
    assert ("mlir 1 is damaged: 1 files (mlir/ir.py) changed or missing" in lines) != same
    assert "pymlir 1 installs 1 files (mlir/ir.py) of mlir 1, too" in lines
    # Without site-packages there is no pip, as in environments that uv makes.
    assert lines[-1] == f"to do: uv pip uninstall -p {sys.executable} pymlir mlir; then install mlir again, alone"
    install(site, "pip", {"pip/__init__.py": b""})
    assert said(site, "mlir").endswith("-m pip uninstall pymlir mlir; then install mlir again, alone\n")


def test_a_package_that_an_intruder_lets_nobody_import_is_checked_by_its_own_copy(site: Path) -> None:
    """As by ``pymlir``, whose ``mlir/__init__.py`` fails beside ours: ``python -m mlir._release`` would import it."""
    (site / "mlir" / "_installed.py").write_text(Path(installed.__file__).read_text())
    (site / "mlir" / "_release.json").write_text('{"distribution": "mlir"}')
    install(site, "pymlir", {"mlir/__init__.py": b"raise ImportError('theirs')", "mlir/ir.py": b"theirs"})
    lines = said(site, program=str(site / "mlir" / "_installed.py")).splitlines()
    assert "pymlir 1 installs 1 files (mlir/ir.py) of mlir 1, too" in lines


def test_a_folder_that_comes_first_on_pythons_path_is_named(site: Path, tmp_path: Path) -> None:
    """A build of LLVM in PYTHONPATH, or another distribution among the user's own packages."""
    install(tmp_path / "build", "any", {"mlir/ir.py": b"theirs", "mlir/more.py": b"theirs"})
    assert said(site, "mlir", first=tmp_path / "build").splitlines() == [
        f"{tmp_path / 'build'} has 1 files (mlir/ir.py) of its own, which are imported instead",
        "to do: take that folder out of PYTHONPATH, or run Python elsewhere",
    ]


def test_what_an_intruder_took_along_is_noticed(site: Path) -> None:
    (site / "mlir" / "ir.py").unlink()
    assert "no other distribution has them now: one that was removed may have" in said(site, "mlir")
    install(site, "pymlir", {"mlir/passmanager.py": b"theirs"})
    lines = said(site, "mlir").splitlines()
    assert lines[0] == "mlir 1 is damaged: 2 files (mlir/ir.py, mlir/passmanager.py) changed or missing"
    assert "no installed distribution but mlir 1 has 1 files (mlir/ir.py)" in lines
