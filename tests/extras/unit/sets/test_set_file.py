"""Set files: the shipped one, and what they say of versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.extras.sets.set_file import SHIPPED, load_set
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", [path.stem for path in SHIPPED.glob("*.toml")])
def test_every_shipped_set_can_be_read(name: str) -> None:
    found = load_set(name)
    assert [member.distribution for member in found.member if member.released] == ["mlir"]
    assert found.upstream.endswith("llvm/llvm-project.git")


def test_the_shipped_set_knows_the_versions_of_its_members() -> None:
    _, torch_mlir, stablehlo = load_set("mlir-torch-mlir-stablehlo").member
    assert torch_mlir.refs_of("20260811.123") == ("before:2026-08-11T00:00Z", "before:2026-08-11T23:59Z")
    assert torch_mlir.refs_of("0.0.1") is None
    assert stablehlo.refs_of("1.9.7.1754377200+4fb0a14f") == ("4fb0a14f",)
    assert stablehlo.refs_of("1.9.7") is None


def test_a_folder_is_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '[[member]]\ndistribution = "mlir"\n[[member]]\ndistribution = "x"\nfind-links = "wheels"\nllvm = "(.*)"\n'
    )
    assert load_set(str(path)).member[1].find_links == (tmp_path / "wheels").as_uri()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("llvm = '.*'", "has 0 groups"),
        ("llvm = '(.*)'\nindex = 'https://x'", "exactly one of index and find-links"),
        ("llvm = '(.*)'\npin-of = 'a/b'\nrefs = ['main']", "needs pin-of with refs, or llvm"),
        ("pin-of = 'a/b'", "needs pin-of with refs, or llvm"),
        ("llvm = '(.*)'\nforge = 'local:x'", "and no forge"),
        ("llvm = 1", "is not a string"),
    ],
)
def test_members_that_contradict_themselves(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        f'[[member]]\ndistribution = "mlir"\n[[member]]\ndistribution = "x"\nfind-links = "wheels"\n{line}\n'
    )
    assert said in refused(lambda: load_set(str(path)), "config-invalid").what
