"""What installed distributions add, read without importlib.metadata, which is slow to import."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.plugins import COMMANDS, COMPARISONS, PAGES, REHEARSAL, plugins

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


@pytest.mark.parametrize("group", [COMMANDS, COMPARISONS, PAGES, REHEARSAL, "console_scripts", "pytest11"])
def test_they_are_those_of_importlib_metadata(group: str) -> None:
    expected = {(point.name, point.value) for point in entry_points(group=group)}
    assert expected
    assert {(row.name, row.value) for rows in plugins(group).values() for row in rows} == expected


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


@pytest.mark.parametrize(
    ("metadata", "owner"),
    [
        (b"Metadata-Version: 2.1\nName: acme\nVersion: 1.5\n\nVersion: 9\n", "acme 1.5"),
        (b"Name: acme\n", "acme"),
        (b"\xff", "acme"),
        (None, "acme"),
    ],
)
def test_an_egg_info_in_a_checkout_has_its_version_in_its_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metadata: bytes | None, owner: str
) -> None:
    info = tmp_path / "acme.egg-info"
    info.mkdir()
    (info / "entry_points.txt").write_bytes(b"[acme.commands]\nrun = acme:run\n")
    if metadata is not None:
        (info / "PKG-INFO").write_bytes(metadata)
    monkeypatch.syspath_prepend(tmp_path)
    assert [row.distribution for row in plugins(GROUP)["run"]] == [owner]


def test_a_file_that_is_no_text_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "broken", "1.0", b"[acme.commands]\n\xff = a:b\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert plugins(GROUP) == {}
