"""The made-up project of tests/made_up, installed as another distribution would be, and an SDK for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release import plugins
from mlir_release.model.platforms import Platform
from mlir_release.model.projects import find_project
from mlir_release.sdk.info import Sdk, SdkInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.model.projects import Project

MADE_UP = Path(__file__).parent / "made_up"
REVISION = "ca7933e47d3a3451d81e72ac174dcb5aa28b59d1"


def install(folder: Path) -> None:
    """Install the package into a folder, with pip."""
    copy = shutil.copytree(MADE_UP, folder / "sources", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", folder / "installed", copy], check=True)
    shutil.rmtree(copy)


@contextmanager
def found(folder: Path) -> Iterator[Project]:
    """The project, while the packages that were installed into the folder can be imported."""
    caches = (plugins.plugins.cache_clear, find_project.cache_clear)
    sys.path.insert(0, str(folder / "installed"))
    for clear in caches:
        clear()
    try:
        yield find_project("sums")
    finally:
        sys.path.remove(str(folder / "installed"))
        for name in [name for name in sys.modules if name.partition(".")[0] == "sums_release"]:
            del sys.modules[name]
        for clear in caches:
            clear()


def make_sdk(root: Path, *, project: str = "sums") -> Sdk:
    """An SDK of the project, in one part."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(MADE_UP / "upstream", root / "source", ignore=ignored)
    shutil.copytree(MADE_UP / "upstream" / "sums" / "include", root / "include")
    (root / "licenses").mkdir()
    (root / "licenses" / "LLVM.txt").write_text("as you like\n")
    info = SdkInfo(
        revision=REVISION, llvm_version="22.1.8", provider="source", configuration="release", project=project,
        platform=Platform.of_host(), code_generators=(), native_code_generator="X86", binding_library="",
        binding_requirements=(), runtime_requirements=(), minimum_python="3.9", source_epoch=1781740800, linked=(),
        file_count=0, size=0, digest="sha256:0",
    )  # fmt: skip
    (root / "sdk.json").write_text(info.to_json())
    return Sdk.load(root)
