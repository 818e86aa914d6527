"""Files of a wheel that another distribution has overwritten, or taken along: pip says nothing, the check names it."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.python import installed
from tests.wheel_factory import pack

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"mlir/ir.py": b"ours", "mlir/passmanager.py": b"ours, too", "bin/mlir-opt": b"a program"}


def install(site: Path, name: str, files: dict[str, bytes]) -> None:
    """As pip does it, whatever is there."""
    info = f"{name}-1.dist-info"
    members = {**files, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n".encode()}
    zipfile.ZipFile(io.BytesIO(pack(members, f"{info}/RECORD"))).extractall(site)


def said(site: Path, name: str = "mlir") -> str:
    """What the check says as a program, on a path of nothing else."""
    lines = ["import sys", f"sys.path[:0] = [{str(site)!r}]", f"sys.argv[1:] = [{name!r}]"]
    code = "\n".join([*lines, "import runpy", f"runpy.run_path({installed.__file__!r}, run_name='__main__')"])
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
    assert said(site) == said(site, "clang") == said(site, "nothing") == ""


@pytest.mark.parametrize("same", [False, True], ids=["other bytes", "the same bytes"])
def test_a_distribution_that_has_the_same_files_is_named(site: Path, same: bool) -> None:
    """With the same bytes nothing is damaged until it is uninstalled."""
    name = "mlir/ir.py"
    install(site, "pymlir", {name: FILES[name] if same else b"theirs"})
    lines = said(site).splitlines()
    assert ("mlir 1 is damaged: 1 files (mlir/ir.py) changed or missing" in lines) != same
    assert "pymlir 1 installs 1 files (mlir/ir.py) of mlir 1, too" in lines
    assert lines[-1].endswith("-m pip uninstall pymlir mlir; then install mlir again, alone")


def test_what_an_intruder_took_along_is_noticed(site: Path) -> None:
    (site / "mlir" / "ir.py").unlink()
    assert "no other distribution has them now: one that was removed may have" in said(site)
    install(site, "pymlir", {"mlir/passmanager.py": b"theirs"})
    lines = said(site).splitlines()
    assert lines[0] == "mlir 1 is damaged: 2 files (mlir/ir.py, mlir/passmanager.py) changed or missing"
    assert "no installed distribution but mlir 1 has 1 files (mlir/ir.py)" in lines
