"""The release repository's own files, read from a checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_release.errors import UsageError
from mlir_release.forge.files import files_of_checkout, matrix_of_checkout

ROOT = Path(__file__).parents[3]


def test_a_checkout_gives_a_forge_its_pin_and_targets() -> None:
    files = files_of_checkout(ROOT)
    assert set(files) == {"llvm-project.version", "targets.toml"}
    assert files["targets.toml"] == (ROOT / "targets.toml").read_bytes()
    assert files["llvm-project.version"] == (ROOT / "llvm-project.version").read_bytes()


@pytest.mark.parametrize(("content", "id"), [(None, "targets-missing"), (b"\xff\xfe", "targets-missing")])
def test_targets_that_can_not_be_read_are_refused(tmp_path: Path, content: bytes | None, id: str) -> None:
    if content is not None:
        (tmp_path / "targets.toml").write_bytes(content)
    for read in (matrix_of_checkout, files_of_checkout):
        with pytest.raises(UsageError) as caught:
            read(tmp_path)
        assert caught.value.id == id
        assert "--repository" in caught.value.remedy


def test_targets_without_a_pin_make_no_forge(tmp_path: Path) -> None:
    (tmp_path / "targets.toml").write_bytes((ROOT / "targets.toml").read_bytes())
    with pytest.raises(UsageError) as caught:
        files_of_checkout(tmp_path)
    assert caught.value.id == "pin-missing"
