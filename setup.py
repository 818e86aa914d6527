"""What pyproject.toml can't say of the toolkit's own distributions; every other piece of metadata lives there."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import tarfile
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent

#: What commands read at the top of a checkout. An installed toolkit has it, too:
#: ``mlir_release/ground/storage/shipped.py``.
SHIPPED = ("llvm-project.version", "targets.toml", "matrices", "examples/extension")

#: The date of every file, unless the caller sets another: the same files make the same bytes.
EPOCH = int(os.environ.setdefault("SOURCE_DATE_EPOCH", "1767225600"))


class BuildPy(build_py):
    """Adds :data:`SHIPPED`; an editable installation reads it in the checkout."""

    def run(self) -> None:
        """Build the packages, then copy."""
        super().run()
        if self.editable_mode:
            return
        for name in SHIPPED:
            source, target = ROOT / name, Path(self.build_lib, "mlir_release", "shipped", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
                shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
            else:
                shutil.copyfile(source, target)


class Sdist(sdist):
    """Makes an archive that tells nothing of the machine: a release that is repeated makes the same one."""

    def make_archive(  # type: ignore[override]  # one format, so it ignores the options of others
        self, base_name: str, format: str, root_dir: str | None = None, base_dir: str | None = None, **_: object
    ) -> str:
        """Pack ``base_dir``; returns the archive's path."""
        path = f"{base_name}.tar.gz"
        with (
            Path(path).open("wb") as file,
            gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=EPOCH) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(base_dir or ".", filter=_without_machine)
        return path


def _without_machine(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = EPOCH
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def absolute_links(text: str, version: str) -> str:
    """Markdown of the top folder whose links lead to the files of a version on GitHub: PyPI has none of them."""
    return re.sub(r"\]\((?![a-z]+:)", f"]({PROJECT['urls']['Source']}/blob/v{version}/", text)


def long_description() -> str:
    """The README for PyPI."""
    package = (ROOT / "mlir_release/__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', package, re.MULTILINE)
    return absolute_links((ROOT / "README.md").read_text(encoding="utf-8"), version)


if __name__ == "__main__":
    setup(
        cmdclass={"build_py": BuildPy, "sdist": Sdist},
        long_description=long_description(),
        long_description_content_type="text/markdown",
    )
