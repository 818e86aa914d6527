"""The page of first steps, and the tutorial: both show the same programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.model.sdk_wheel_info import SDK
from mlir_release.ground.llvm.projects import find_project
from mlir_release.release.index.pages import machines, read_programs
from tests.code_blocks import Block, in_html, in_markdown
from tests.paper_forge import PaperForge, make_index, make_manifest

if TYPE_CHECKING:
    from mlir_release.release.model.manifest import Manifest

ROOT = Path(__file__).parents[4]
TUTORIAL = ROOT / "docs" / "getting-started.md"


def page(tmp_path: Path, *manifests: Manifest) -> str:
    forge = PaperForge()
    for manifest in manifests:
        forge.add(manifest)
    make_index(forge, tmp_path, base_url="https://mlir.example/wheels")
    return (tmp_path / "getting-started" / "index.html").read_text(encoding="utf-8")


def shown() -> list[Block]:
    """The programs as blocks, each with its output."""
    return [
        block
        for program in read_programs(find_project("mlir")).values()
        for block in (Block(program["text"], program["file"]), Block(program["output"], output=True))
    ]


def test_the_tutorial_and_the_page_show_the_programs(tmp_path: Path) -> None:
    assert len(shown()) == 4
    for blocks in (
        in_markdown(TUTORIAL.read_text(encoding="utf-8")),
        in_html(page(tmp_path, make_manifest("snapshot-20261120.01"))),
    ):
        assert [block for block in blocks if not block.is_shell] == shown()


def test_the_page_installs_the_newest_release_and_pins_it(tmp_path: Path) -> None:
    text = page(tmp_path, make_manifest("snapshot-20261120.01"), make_manifest("snapshot-20261120.02"))
    commands = "\n".join(block.text for block in in_html(text) if block.is_shell)
    site = "https://mlir.example/wheels/snapshots"
    assert f"\npip install -r {site}/latest/requirements.txt" in commands
    assert f"\nuv pip install -r {site}/latest/requirements.txt" in commands
    assert f"\npip install -r {site}/snapshot-20261120.02/requirements-snapshot-20261120.02.txt" in commands
    assert "mlir_sdk" not in commands


def test_the_page_shows_the_sdk_where_the_release_has_it(tmp_path: Path) -> None:
    tag = "snapshot-20261120.01"
    text = page(tmp_path, make_manifest(tag, distributions=("mlir", SDK)))
    (block,) = [block.text for block in in_html(text) if "mlir_sdk" in block.text]
    assert block.splitlines() == [
        f"pip install -r https://mlir.example/wheels/snapshots/{tag}/requirements-{tag}-mlir-sdk.txt",
        "python -m mlir_sdk --cmakedir",
    ]


def test_numbered_releases_are_taken_where_there_are_no_snapshots(tmp_path: Path) -> None:
    text = page(tmp_path, make_manifest("llvm-22.1.8.01", version="22.1.8"))
    assert "pip install -r https://mlir.example/wheels/releases/latest/requirements.txt" in text


def test_without_a_release_the_page_says_so(tmp_path: Path) -> None:
    text = page(tmp_path)
    assert "Nothing is published yet" in text
    assert in_html(text) == []


def test_machines_are_named_with_their_pythons() -> None:
    manifest = make_manifest(
        "snapshot-20261120.01",
        platforms=("win_amd64", "manylinux_2_28_x86_64"),
        pythons=("cp312", "cp310", "cp314t"),
        distributions=("mlir", SDK),
    )
    pythons = "3.10, 3.12, 3.14t"
    assert machines(manifest, "mlir") == [
        {"name": "Linux x86_64", "needs": "glibc ≥ 2.28", "pythons": pythons},
        {"name": "Windows x86_64", "needs": "", "pythons": pythons},
    ]
