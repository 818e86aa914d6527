"""The made-up project of tests/made_up, installed as another distribution would be, and an SDK for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.components import SdkSpec
from mlir_release.builder.sdk.importer import import_sdk
from mlir_release.ground import plugins
from mlir_release.ground.llvm.projects import find_project
from tests.prefix_factory import EPOCH, REVISION, make_prefix, make_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.ground.llvm.projects import Project

MADE_UP = Path(__file__).parent / "made_up"


def install(folder: Path) -> None:
    """Install the package into a folder, with pip."""
    copy = shutil.copytree(MADE_UP, folder / "sources", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", folder / "installed", copy], check=True)
    shutil.rmtree(copy)


@contextmanager
def found(folder: Path) -> Iterator[Project]:
    """The project, while what was installed into the folder can be imported, and the project ``mlir`` can't."""
    caches = (plugins.plugins.cache_clear, find_project.cache_clear)
    ours = {
        name: module
        for name, module in sys.modules.items()
        if f"{name}.".startswith("mlir_release.builder.projects.mlir.")
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder / "installed")
        for name in ours:
            patch.delitem(sys.modules, name)
        patch.setitem(sys.modules, "mlir_release.builder.projects.mlir", None)
        for clear in caches:
            clear()
        yield find_project("sums")
        for name in [name for name in sys.modules if name.partition(".")[0] == "sums_release"]:
            del sys.modules[name]
    for clear in caches:
        clear()


def make_sdk(root: Path) -> Sdk:
    """An SDK of the project, imported from an installed LLVM, which is beside it in ``root``."""
    if sys.platform != "linux":
        pytest.skip("the miniature prefix is Linux's")
    prefix, source = make_prefix(root / "llvm-22"), make_source(root / "llvm-project")
    shutil.copytree(MADE_UP / "upstream" / "sums" / "include", prefix / "include", dirs_exist_ok=True)
    shutil.copytree(MADE_UP / "upstream", source, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    spec = SdkSpec(project="sums")
    return import_sdk(prefix, source=source, output=root / "sdk", revision=REVISION, source_epoch=EPOCH, spec=spec)
