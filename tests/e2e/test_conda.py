"""The recipe of the rehearsal's release, built and tested by rattler-build, and its package installed.

conda-forge is not there: a channel in a folder has what the recipe asks for, made of this machine's CPython and of
PyPI's wheels.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.conda.write import write_recipe
from mlir_release.forge.local.forge import LocalForge
from mlir_release.host import venv
from tests.processes import run

if TYPE_CHECKING:
    from tests.e2e.conftest import Rehearsed

pytestmark = pytest.mark.slow  # it packs a whole CPython

#: rattler-build and rattler, from PyPI: the programs are on none of its pages.
TOOLS = ("py-rattler-build==0.73.0", "py-rattler==0.28.0")

BUILD = """
import sys
import rattler_build
recipe, variants, channel, tests = sys.argv[1:]
stage = rattler_build.Stage0Recipe.from_file(recipe)
built = stage.run_build(
    variant_config=rattler_build.VariantConfig.from_file(variants),
    tool_config=rattler_build.ToolConfiguration(test_strategy=tests),
    output_dir=channel,
    channels=["file://" + channel],
)
print(*(package for result in built for package in result.packages), sep="\\n")
"""

INSTALL = """
import asyncio, sys
import rattler
channel, prefix, spec = sys.argv[1:]
async def install():
    virtual = rattler.VirtualPackage.detect()
    records = await rattler.solve(
        ["file://" + channel], [spec], virtual_packages=virtual, platforms=[str(rattler.Subdir.current()), "noarch"]
    )
    await rattler.install(records, prefix, show_progress=False)
asyncio.run(install())
"""

PYTHON = """\
package: {{name: python, version: "{version}"}}
build:
  string: "0_cpython"
  dynamic_linking: {{binary_relocation: false}}
  script:
    - mkdir -p $PREFIX && cp -a {prefix}/. $PREFIX
    - rm -rf $PREFIX/share $PREFIX/lib/python{minor}/test $PREFIX/lib/python{minor}/site-packages/*
"""

PIP = """\
package: {name: pip, version: "1"}
build: {script: ["$PREFIX/bin/python -m ensurepip --default-pip"]}
requirements: {host: [python], run: [python]}
"""

WHEEL = """\
package: {{name: {name}, version: "{version}"}}
source: {{path: {wheel}}}
build:
  dynamic_linking: {{binary_relocation: false}}
  script: ["$PREFIX/bin/python -m pip install --no-deps --no-index --find-links . {name}"]
requirements: {{host: [python, pip], run: [python]}}
"""


class Channel:
    """A folder that conda packages are built into."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder = folder
        self._tools = venv.create(folder / "tools", Path(sys.executable), pip=True)
        self._tools.install(*TOOLS)
        self.path = folder / "channel"
        self.path.mkdir()
        self.variants = folder / "variants.yaml"
        self.minor = run(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
        self.variants.write_text(f"python: ['{self.minor}.*']\n")

    def build(self, recipe: Path, *, tests: str = "skip") -> list[Path]:
        words = (recipe, self.variants, self.path, tests)
        return [Path(line) for line in run(self._tools.python, "-c", BUILD, *words).splitlines()]

    def add(self, name: str, recipe: str) -> None:
        folder = self.folder / "recipes" / name
        folder.mkdir(parents=True)
        (folder / "recipe.yaml").write_text(recipe)
        self.build(folder / "recipe.yaml")

    def add_wheel(self, requirement: str) -> None:
        folder = self.folder / "wheels" / requirement
        words = ("--no-deps", "--only-binary=:all:", "--python-version", self.minor, "-d", folder)
        run(self._tools.python, "-m", "pip", "download", "-q", requirement, *words)
        (wheel,) = folder.iterdir()
        name, version = wheel.name.split("-")[:2]
        self.add(name, WHEEL.format(name=name, version=version, wheel=wheel))

    def install(self, spec: str, prefix: Path) -> None:
        run(self._tools.python, "-c", INSTALL, self.path, prefix, spec)


@pytest.fixture(scope="module")
def channel(rehearsed: Rehearsed, tmp_path_factory: pytest.TempPathFactory) -> Channel:
    python = Path(rehearsed.options.pythons[0])
    channel = Channel(tmp_path_factory.mktemp("conda"), python)
    facts = run(python, "-c", "import platform, sys; print(platform.python_version(), sys.base_prefix)").split()
    channel.add("python", PYTHON.format(version=facts[0], prefix=facts[1], minor=channel.minor))
    channel.add("pip", PIP)
    for requirement in ("numpy<3", "ml_dtypes"):
        channel.add_wheel(requirement)
    return channel


def test_the_package_is_built_tested_and_installed(rehearsed: Rehearsed, channel: Channel, tmp_path: Path) -> None:
    forge = LocalForge(rehearsed.options.workspace / "forge")
    written = write_recipe(forge, rehearsed.report.tag, tmp_path / "recipe")
    (package,) = channel.build(tmp_path / "recipe" / "recipe.yaml", tests="native")
    assert package.name.startswith(f"{written.package}-{written.version}-py{channel.minor.replace('.', '')}")
    prefix = tmp_path / "prefix"
    channel.install(written.package, prefix)
    program = "import mlir.ir as ir\nwith ir.Context():\n    print(ir.Type.parse('memref<2x?xf32>'))"
    assert run(prefix / "bin" / "python", "-c", program, variables={"PATH": "/nowhere"}).strip() == "memref<2x?xf32>"
    shutil.rmtree(prefix)
