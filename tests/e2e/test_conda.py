"""The rehearsal's release as conda packages, by the recipe and by the command, each installed by rattler.

conda-forge is not there: a channel in a folder has what the recipe asks for, made of this machine's CPython and of
PyPI's wheels.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tomli_w

from mlir_release.extras.conda import pages as conda_pages
from mlir_release.extras.conda.channel import check_channel, package_release
from mlir_release.extras.conda.recipe import write_recipe
from mlir_release.ground.python.cpython import CPython
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.index.generate import generate
from mlir_release.release.index.site import SiteOptions
from tests.conda_client import install, pixi_form
from tests.processes import run
from tests.serving import serve

if TYPE_CHECKING:
    from tests.e2e.conftest import Rehearsed

pytestmark = pytest.mark.slow  # it packs a whole CPython

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

#: conda-forge's has no files, either.
PYTHON_ABI = """\
package: {{name: python_abi, version: "{minor}"}}
build: {{string: "8_{tag}", noarch: generic}}
"""

WHEEL = """\
package: {{name: {name}, version: "{version}"}}
source: {{path: {wheel}}}
build:
  dynamic_linking: {{binary_relocation: false}}
  script: ["$PREFIX/bin/python -m pip install --no-deps --no-index --find-links . {name}"]
requirements: {{host: [python, pip], run: [python]}}
"""


PROGRAM = "import mlir.ir as ir\nwith ir.Context():\n    print(ir.Type.parse('memref<2x?xf32>'))"
PRINTED = "memref<2x?xf32>"


class Channel:
    """A folder that conda packages are built into."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder = folder
        self.path = folder / "channel"
        self.path.mkdir()
        self.variants = folder / "variants.yaml"
        self.minor = run(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
        self.variants.write_text(f"python: ['{self.minor}.*']\n")

    def build(self, recipe: Path, *, tests: str = "skip") -> list[Path]:
        words = (recipe, self.variants, self.path, tests)
        return [Path(line) for line in run(sys.executable, "-c", BUILD, *words).splitlines()]

    def add(self, name: str, recipe: str) -> None:
        folder = self.folder / "recipes" / name
        folder.mkdir(parents=True)
        (folder / "recipe.yaml").write_text(recipe)
        self.build(folder / "recipe.yaml")

    def add_wheel(self, requirement: str) -> None:
        folder = self.folder / "wheels" / requirement
        words = ("--no-deps", "--only-binary=:all:", "--python-version", self.minor, "-d", folder)
        run(sys.executable, "-m", "pip", "download", "-q", requirement, *words)
        (wheel,) = folder.iterdir()
        name, version = wheel.name.split("-")[:2]
        self.add(name, WHEEL.format(name=name, version=version, wheel=wheel))

    @property
    def url(self) -> str:
        return self.path.as_uri()


@pytest.fixture(scope="module")
def channel(rehearsed: Rehearsed, tmp_path_factory: pytest.TempPathFactory) -> Channel:
    python = Path(rehearsed.options.pythons[0])
    channel = Channel(tmp_path_factory.mktemp("conda"), python)
    facts = run(python, "-c", "import platform, sys; print(platform.python_version(), sys.base_prefix)").split()
    channel.add("python", PYTHON.format(version=facts[0], prefix=facts[1], minor=channel.minor))
    channel.add("pip", PIP)
    channel.add("python_abi", PYTHON_ABI.format(minor=channel.minor, tag=CPython.parse(channel.minor).tag))
    for requirement in ("numpy<3", "ml_dtypes"):
        channel.add_wheel(requirement)
    return channel


def test_the_package_is_built_tested_and_installed(rehearsed: Rehearsed, channel: Channel, tmp_path: Path) -> None:
    forge = LocalForge(rehearsed.options.workspace / "forge")
    written = write_recipe(forge, rehearsed.report.tag, tmp_path / "recipe")
    (package,) = channel.build(tmp_path / "recipe" / "recipe.yaml", tests="native")
    assert package.name.startswith(f"{written.package}-{written.version}-py{channel.minor.replace('.', '')}")
    check_mlir([channel.url], written.package, tmp_path)


def test_the_channel_of_the_pages_is_installed_from(rehearsed: Rehearsed, channel: Channel, tmp_path: Path) -> None:
    forge = LocalForge(rehearsed.options.workspace / "forge")
    packaged = package_release(forge, rehearsed.report.tag, tmp_path / "channels")
    with serve(tmp_path / "channels") as files, serve(tmp_path / "site") as site:
        given = {"conda": tmp_path / "channels", "conda_url": f"{files.url}/{{folder}}"}
        options = SiteOptions(sections={"conda": conda_pages}, given=given)
        generate(forge, tmp_path / "site", base_url=site.url, options=options)
        check_mlir([f"{site.url}/snapshots/conda", channel.url], f"mlir-python-bindings={packaged.version}", tmp_path)
        assert len(files.paths(".conda")) == 1


def test_the_check_of_the_workflow_passes(rehearsed: Rehearsed, channel: Channel, tmp_path: Path) -> None:
    forge = LocalForge(rehearsed.options.workspace / "forge")
    packaged = package_release(forge, rehearsed.report.tag, tmp_path / "channels")
    checked = check_channel(tmp_path / "channels" / "snapshots", [channel.url])
    assert checked.packages == tuple(row[1] for row in packaged.packages)


@pytest.mark.skipif(shutil.which("pixi") is None, reason="pixi is not installed, and no package of PyPI's")
def test_pixi_locks_and_installs_from_the_pages(rehearsed: Rehearsed, channel: Channel, tmp_path: Path) -> None:
    forge = LocalForge(rehearsed.options.workspace / "forge")
    packaged = package_release(forge, rehearsed.report.tag, tmp_path / "channels")
    project = tmp_path / "project"
    project.mkdir()
    with serve(tmp_path / "channels") as files, serve(tmp_path / "site") as site:
        given = {"conda": tmp_path / "channels", "conda_url": f"{files.url}/{{folder}}"}
        options = SiteOptions(sections={"conda": conda_pages}, given=given)
        generate(forge, tmp_path / "site", base_url=site.url, options=options)
        form = pixi_form(tmp_path / "site" / "snapshots" / packaged.tag / "index.html")
        channels = [channel.url if name == "conda-forge" else name for name in form["workspace"]["channels"]]
        content = {
            # Older ones know [project] alone, newer ones both.
            "project": {"name": "mine", "channels": channels, "platforms": ["linux-64"]},
            # Else pixi supposes an old one, whatever the machine has.
            "system-requirements": {"libc": platform.libc_ver()[1]},
            "dependencies": form["dependencies"],
        }
        (project / "pixi.toml").write_text(tomli_w.dumps(content))
        manifest = ("--manifest-path", project / "pixi.toml")
        variables = os.environ | {"RATTLER_CACHE_DIR": str(tmp_path / "cache")}
        run("pixi", "install", *manifest, variables=variables)
        assert run("pixi", "run", *manifest, "python", "-c", PROGRAM, variables=variables).strip() == PRINTED
    assert packaged.packages[0][1] in (project / "pixi.lock").read_text()


def check_mlir(channels: list[str], spec: str, folder: Path) -> None:
    prefix = folder / "prefix"
    install(channels, [spec], prefix, folder / "cache")
    assert run(prefix / "bin" / "python", "-c", PROGRAM, variables={"PATH": "/nowhere"}).strip() == PRINTED
    shutil.rmtree(prefix)
