"""What changed for Python, on the pages of a site, from its first deployment on."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from mlir_release.extras.apidocs import pages
from mlir_release.extras.apidocs.history import COMPARED, HISTORY_NAME, make_history, show_history
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.release.index.site import Channel, Published
from tests.bindings_factory import RENAMED, make_bindings_wheel
from tests.html_links import dangling
from tests.paper_forge import PaperForge, make_index, make_manifest, make_published
from tests.serving import serve

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("cache")

TAGS = [f"snapshot-202611{day:02d}.01" for day in range(10, 20)]


def chain(folder: Path, *changed: Mapping[str, str]) -> tuple[Channel, Channel]:
    """Snapshots that follow each other, each with one wheel of its own, and its changed files."""
    found: list[Published] = []
    for tag, files in zip(TAGS, changed, strict=False):
        before = found[-1].manifest if found else None
        manifest = make_manifest(tag, previous=before, platforms=("manylinux_2_28_x86_64",), pythons=("cp312",))
        path = make_bindings_wheel(folder / tag, tag=tag, version=manifest.version, changed=files)
        wheel = structs.replace(manifest.wheels[0], filename=path.name, sha256=sha256_of(path))
        manifest = structs.replace(manifest, wheels=(wheel,))
        found.append(replace(make_published(manifest), urls={path.name: path.as_uri()}))
    return Channel.of("snapshot", found), Channel.of("numbered", [])


def outlines(cache: Path) -> dict[str, int]:
    """What was read of wheels, and when."""
    return {path.name: path.stat().st_mtime_ns for path in (cache / "apis").iterdir()}


def test_a_release_says_what_changed_since_the_one_before(tmp_path: Path) -> None:
    channels = chain(tmp_path, {}, RENAMED, RENAMED)
    make_history(channels, tmp_path / "site", "file:///nowhere")
    shown = show_history(channels, tmp_path / "site", "https://mlir.example")
    assert list(shown) == [TAGS[2], TAGS[1]]
    assert f'Since <a href="../{TAGS[1]}/"><code>{TAGS[1]}</code></a>: no change.' in shown[TAGS[2]]
    assert "1 change, 1 of them breaking" in shown[TAGS[1]]
    assert "renamed: values → operation" in shown[TAGS[1]]
    assert f"mlir-release release diff {TAGS[0]} {TAGS[1]}" in shown[TAGS[1]]


def test_only_new_releases_are_compared_and_each_wheel_is_read_once(tmp_path: Path, cache: Path) -> None:
    make_history(chain(tmp_path, {}, RENAMED), tmp_path / "site", "file:///nowhere")
    read, first = outlines(cache), (tmp_path / "site" / HISTORY_NAME).read_bytes()
    assert len(read) == 2
    make_history(chain(tmp_path, {}, RENAMED), tmp_path / "site", "file:///nowhere")
    assert (outlines(cache), (tmp_path / "site" / HISTORY_NAME).read_bytes()) == (read, first)
    make_history(chain(tmp_path, {}, RENAMED, {}), tmp_path / "site", "file:///nowhere")
    assert read.items() < outlines(cache).items()
    assert len(outlines(cache)) == 3


def test_a_run_compares_a_few_releases_the_newest_first(tmp_path: Path) -> None:
    channels = chain(tmp_path, *[{}] * 8)
    for runs in (1, 2):
        make_history(channels, tmp_path / "site", "file:///nowhere")
        shown = show_history(channels, tmp_path / "site", "file:///nowhere")
        assert list(shown) == TAGS[7:0:-1][: COMPARED * runs]


def test_a_new_job_begins_from_what_is_served(tmp_path: Path, cache: Path) -> None:
    channels = chain(tmp_path, {}, RENAMED)
    make_history(channels, tmp_path / "site", "file:///nowhere")
    shutil.rmtree(cache)
    with serve(tmp_path / "site") as server:
        make_history(channels, tmp_path / "new", server.url)
    assert not cache.exists()
    assert (tmp_path / "new" / HISTORY_NAME).read_bytes() == (tmp_path / "site" / HISTORY_NAME).read_bytes()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"schema": 2}', b'{"schema": 1, "releases": {"a": {}}}'])
def test_a_damaged_file_is_made_anew(tmp_path: Path, content: bytes) -> None:
    channels = chain(tmp_path, {}, RENAMED)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / HISTORY_NAME).write_bytes(content)
    make_history(channels, tmp_path / "site", "file:///nowhere")
    assert list(show_history(channels, tmp_path / "site", "file:///nowhere")) == [TAGS[1]]


def test_what_was_compared_of_other_wheels_is_not_shown(tmp_path: Path) -> None:
    make_history(chain(tmp_path, {}, RENAMED), tmp_path / "site", "file:///nowhere")
    assert show_history(chain(tmp_path / "b", {}, {}), tmp_path / "site", "file:///nowhere") == {}


def test_what_a_served_file_says_is_text(tmp_path: Path) -> None:
    channels = chain(tmp_path, {}, RENAMED)
    make_history(channels, tmp_path / "site", "file:///nowhere")
    path = tmp_path / "site" / HISTORY_NAME
    path.write_text(
        path.read_text(encoding="utf-8").replace("mlir.dialects.toy.helper", "<script>alert(1)</script>\u202e")
    )
    shown = show_history(channels, tmp_path / "site", "file:///nowhere")[TAGS[1]]
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "\u202e" not in shown


def test_what_cannot_be_compared_is_a_warning_and_is_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    channels = chain(tmp_path, {}, RENAMED, {})
    path = tmp_path / TAGS[0] / channels[0].releases[-1].manifest.wheels[0].filename
    sound = path.read_bytes()
    path.write_bytes(b"other bytes")
    make_history(channels, tmp_path / "site", "file:///nowhere")
    assert f"the API of {TAGS[1]} is not compared" in capsys.readouterr().err
    assert list(show_history(channels, tmp_path / "site", "file:///nowhere")) == [TAGS[2]]
    path.write_bytes(sound)
    make_history(channels, tmp_path / "site", "file:///nowhere")
    assert list(show_history(channels, tmp_path / "site", "file:///nowhere")) == TAGS[2:0:-1]


def test_the_page_of_a_release_shows_it_and_is_drawn_once(tmp_path: Path) -> None:
    forge = PaperForge()
    channels = chain(tmp_path, {}, RENAMED)
    for release in reversed(channels[0].releases):
        forge.add(release.manifest)
    make_history(channels, tmp_path / "site", "file:///nowhere")
    make_index(forge, tmp_path / "site", sections={"api": pages})
    page = (tmp_path / "site" / "snapshots" / TAGS[1] / "index.html").read_text(encoding="utf-8")
    assert '<h2 id="python">What changed for Python</h2>' in page
    assert "renamed: values → operation" in page
    assert 'id="python"' not in (tmp_path / "site" / "snapshots" / TAGS[0] / "index.html").read_text(encoding="utf-8")
    assert make_index(forge, tmp_path / "site", sections={"api": pages}).written == ()
    assert [link for link in dangling(tmp_path / "site") if "snapshot" in link] == []
