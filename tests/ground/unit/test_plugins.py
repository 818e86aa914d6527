"""What installed distributions add."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.plugins import plugins

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: That no distribution installed here has.
GROUP = "acme.commands"


@pytest.fixture(autouse=True)
def read_anew() -> Iterator[None]:
    plugins.cache_clear()
    yield
    plugins.cache_clear()


def install(folder: Path, name: str, version: str, text: bytes) -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_bytes(text)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_the_first_on_the_path_counts_and_two_of_one_name_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "a", "Acme_tools", "2.0", b"[console_scripts]\nx = y:z\n\n[acme.commands]\nacme = acme:run\n")
    install(tmp_path / "b", "acme.tools", "1.0", b"[acme.commands]\nold = acme:run\n")
    install(tmp_path / "b", "other", "1.0", b"[acme.commands]\n# a comment = here\nacme=other:run [all]\n")
    for name in ("b", "a", "nothing"):
        monkeypatch.syspath_prepend(tmp_path / name)
    found = {name: [(row.distribution, row.value) for row in rows] for name, rows in plugins(GROUP).items()}
    assert found == {"acme": [("acme-tools 2.0", "acme:run"), ("other 1.0", "other:run [all]")]}


def test_a_file_that_is_no_text_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "broken", "1.0", b"[acme.commands]\n\xff = a:b\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert plugins(GROUP) == {}
