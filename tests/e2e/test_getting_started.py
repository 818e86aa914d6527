"""A newcomer's first steps, as README, tutorial and page show them: every block is run, with a real wheel.

Only the address of the pages is another one: a server on loopback stands for GitHub Pages.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest
from msgspec import structs

from mlir_release.builder.projects.mlir.sdk_wheels import write_sdk_wheel
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.python.cpython import ANY_PYTHON
from mlir_release.ground.python.pythons import find_pythons
from tests.code_blocks import Block, in_html, in_markdown, run_blocks
from tests.paper_forge import PaperForge, make_index, make_manifest
from tests.processes import run
from tests.serving import serve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.release.model.manifest import Manifest
    from tests.e2e.conftest import Rehearsed

ROOT = Path(__file__).parents[2]
#: The pages, as documents name them.
PLACEHOLDER = "https://OWNER.github.io/NAME"


@dataclass(frozen=True)
class Site:
    """The pages of a release of real wheels, being served."""

    url: str  #: without a slash at the end
    python: Path  #: that the bindings' wheel is for
    version: str

    def blocks(self, source: str) -> list[Block]:
        """The blocks of README, tutorial or page."""
        if source == "page":
            with urlopen(f"{self.url}/getting-started/", timeout=60) as answer:
                return in_html(answer.read().decode())
        text = (ROOT / source).read_text(encoding="utf-8")
        if source == "README.md":
            text = text.partition("\n## Getting started\n")[2].partition("\n## ")[0]
        # The README installs what the rehearsal before has published: here, what the fixture has.
        blocks = in_markdown(text.replace(PLACEHOLDER, self.url).replace("build/rehearsal/site", self.url))
        if source == "README.md":  # which has the last command in a sentence
            assert blocks.pop(0).text.strip() == "make rehearsal"  # tests/e2e/test_distributions.py runs it
            blocks += [Block(command) for command in re.findall(r"`(python [\w.]+)` prints", text)]
        assert any(self.url in block.text for block in blocks)
        return blocks

    def run(self, blocks: Sequence[Block], folder: Path) -> list[str]:
        """Run blocks in an empty folder, with this Python and uv."""
        folder.mkdir()
        programs = folder.with_name("programs")
        programs.mkdir()
        (programs / "uv").symlink_to(Path(sys.executable).with_name("uv"))
        return run_blocks(blocks, folder, programs=[self.python.parent, programs])


def make_release(folder: Path, wheels: Sequence[Path]) -> Manifest:
    """A release of wheels that are there, moved into the folder of its tag."""
    reports = [inspect(wheel) for wheel in wheels]
    assert reports[0].release is not None
    tag = reports[0].release.tag
    manifest = make_manifest(tag, version=reports[0].version, platforms=("any",), pythons=("cp312",))
    (folder / tag).mkdir()
    entries = []
    for wheel, report in zip(wheels, reports, strict=True):
        (folder / tag / wheel.name).symlink_to(wheel)
        tags = wheel.stem.split("-")
        entries.append(
            structs.replace(
                manifest.wheels[0],
                filename=wheel.name,
                target=f"{report.distribution}-{tags[-1]}-{tags[-3]}",
                distribution=report.distribution,
                profile="host" if report.distribution == "mlir" else "sdk",
                python=tags[-3] if tags[-3].startswith("cp") else ANY_PYTHON,
                platforms=tuple(tags[-1].split(".")),
                size=wheel.stat().st_size,
                sha256=sha256_of(wheel),
                requires_python="",
            )
        )
    return structs.replace(manifest, wheels=tuple(entries), tests=())


def publish(folder: Path, wheels: Sequence[Path]) -> Iterator[Site]:
    (folder / "releases").mkdir()
    manifest = make_release(folder / "releases", wheels)
    with serve(folder) as served:
        forge = PaperForge(base=f"{served.url}/releases")
        forge.add(manifest)
        make_index(forge, folder / "site", base_url=f"{served.url}/site")
        (tag,) = (wheel.pythons[0] for wheel in manifest.wheels if wheel.pythons)
        (python,) = find_pythons([f"{tag[2]}.{tag[3:]}"])
        yield Site(f"{served.url}/site", python.executable, manifest.version)


@pytest.fixture(scope="module")
def site(rehearsed: Rehearsed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Without ``mlir-sdk``, which takes minutes to pack."""
    yield from publish(tmp_path_factory.mktemp("pages"), [rehearsed.wheel])


def by(installer: str, blocks: Sequence[Block]) -> list[Block]:
    """The blocks without those of the other installer; a reader takes one of them."""
    other = {"pip": "uv venv", "uv": "python3 -m venv"}[installer]
    kept = [block for block in blocks if not block.text.startswith(other)]
    assert any(block.text.startswith("python3 -m venv" if installer == "pip" else "uv venv") for block in kept)
    return kept


@pytest.mark.parametrize(
    ("source", "installer"), [("README.md", "pip"), ("docs/getting-started.md", "uv"), ("page", "pip"), ("page", "uv")]
)
def test_each_block_works_as_it_stands(site: Site, source: str, installer: str, tmp_path: Path) -> None:
    blocks = site.blocks(source)
    if source != "README.md":
        blocks = by(installer, blocks)
    without = [block for block in blocks if "mlir_sdk" not in block.text]
    assert len(blocks) - len(without) == (source == "docs/getting-started.md")  # and that is run below
    printed = site.run(without, tmp_path / "empty")
    assert any("func.func @add" in text for text in printed)
    python = tmp_path / "empty" / "mlir-env" / "bin" / "python"
    installed = run(python, "-c", "from importlib.metadata import version as v; print(v('mlir'))")
    assert installed.strip() == site.version


def test_elsewhere_pip_installs_nothing_and_says_what_the_tutorial_says(site: Site, tmp_path: Path) -> None:
    (other, *_) = (python for python in find_pythons() if python.executable != site.python and python.tag != "cp310")
    install = site.blocks("page")[0]
    assert "python3 -m venv" in install.text
    elsewhere = Site(site.url, other.executable, "")
    with pytest.raises(AssertionError, match="is not a supported wheel on this platform") as caught:
        elsewhere.run([install], tmp_path / "empty")
    assert "Successfully installed" not in str(caught.value)
    said = "is not a supported wheel on this platform"
    assert said in (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")


@pytest.mark.slow  # it packs the SDK
@pytest.mark.parametrize("source", ["docs/getting-started.md", "page"])
def test_so_do_those_about_the_sdk(rehearsed: Rehearsed, sdk: Sdk, source: str, tmp_path: Path) -> None:
    packed = write_sdk_wheel(sdk, inspect(rehearsed.wheel).version, output=tmp_path / "packed")
    (tmp_path / "pages").mkdir()
    for site in publish(tmp_path / "pages", [rehearsed.wheel, packed]):
        blocks = by("pip", site.blocks(source))
        assert any("mlir_sdk" in block.text for block in blocks)
        printed = site.run(blocks, tmp_path / "empty")
        (folder,) = (text.splitlines()[-1] for text in printed if "lib/cmake/mlir" in text)
        assert (Path(folder) / "MLIRConfig.cmake").is_file()
