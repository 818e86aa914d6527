"""The API sections of a site, from its first deployment on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from mlir_release.extras.apidocs import pages
from mlir_release.extras.apidocs.published import ApiSection, make_sections, wanted_sections
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.release.index.site import Channel, Published
from mlir_release.release.model.yanks import Yank
from tests.bindings_factory import make_bindings_wheel
from tests.html_links import dangling
from tests.paper_forge import PaperForge, make_index, make_manifest, make_published
from tests.serving import serve

if TYPE_CHECKING:
    from pathlib import Path


NUMBERED, SNAPSHOT = "llvm-22.1.8.01", "snapshot-20261120.02"


#: What further pages the site has.
SITE = {"has_status": True, "has_documents": False}


def release(tag: str, folder: Path | None = None) -> Published:
    """A release; with a folder, its wheels are one that is there."""
    manifest = make_manifest(tag, platforms=("manylinux_2_28_x86_64", "win_amd64"), pythons=("cp39", "cp312"))
    if folder is None:
        return make_published(manifest)
    path = make_bindings_wheel(folder, tag=tag, version=manifest.version)
    one = structs.replace(manifest.wheels[0], filename=path.name, sha256=sha256_of(path))
    return replace(make_published(structs.replace(manifest, wheels=(one,))), urls={path.name: path.as_uri()})


def channels(*releases: Published) -> tuple[Channel, Channel]:
    return Channel.of("snapshot", releases), Channel.of("numbered", releases)


def read(site: Path, tag: str) -> bytes:
    folder = "snapshots/latest" if tag == SNAPSHOT else f"releases/{tag}"
    return (site / folder / "api" / "mlir.dialects.toy.html").read_bytes()


@pytest.fixture
def made(tmp_path: Path) -> tuple[tuple[Channel, Channel], Path]:
    """A site with the sections of a numbered release and a snapshot."""
    both = channels(release(NUMBERED, tmp_path), release(SNAPSHOT, tmp_path))
    make_sections(both, tmp_path / "site", "file:///nowhere", SITE)
    return both, tmp_path / "site"


def test_numbered_releases_and_the_newest_snapshot_are_documented() -> None:
    yanked = replace(release("llvm-22.1.7.01"), yanks=(Yank(tag="llvm-22.1.7.01", reason="bad"),))
    releases = [release(NUMBERED), yanked, release("snapshot-20261119.01"), release(SNAPSHOT)]
    found = list(wanted_sections(channels(*releases)))
    assert [each.folder for each in found] == ["snapshots/latest/api", f"releases/{NUMBERED}/api"]
    assert [each.release.tag for each in found] == [SNAPSHOT, NUMBERED]
    assert {(each.link.wheel.python, each.link.wheel.platforms) for each in found} == {
        ("cp312", ("manylinux_2_28_x86_64",))
    }


def test_a_release_of_an_sdks_wheels_alone_is_not_documented() -> None:
    only = release(NUMBERED)
    wheels = tuple(structs.replace(wheel, python="py3", profile="sdk") for wheel in only.manifest.wheels[:1])
    only = replace(only, manifest=structs.replace(only.manifest, wheels=wheels))
    assert list(wanted_sections(channels(only))) == []


def test_pages_link_the_sections_that_are_there(tmp_path: Path) -> None:
    forge = PaperForge()
    (wheel,) = release(SNAPSHOT, tmp_path).manifest.wheels
    forge.add(structs.replace(make_manifest(SNAPSHOT), wheels=(wheel,)))
    plain = make_index(forge, tmp_path / "site", sections={"api": pages})
    landing = tmp_path / "site" / "index.html"
    assert "/api/" not in landing.read_text()
    make_sections(channels(release(SNAPSHOT, tmp_path)), tmp_path / "site", "file:///nowhere", SITE)
    again = make_index(forge, tmp_path / "site", sections={"api": pages})
    assert "index.html" in again.written
    assert again.reused < plain.reused + len(plain.written)
    assert 'href="snapshots/latest/api/index.html"' in landing.read_text()
    page = (tmp_path / "site" / "snapshots" / SNAPSHOT / "index.html").read_text()
    assert 'href="../../snapshots/latest/api/index.html">The Python API' in page
    section = (tmp_path / "site" / "snapshots" / "latest" / "api" / "index.html").read_text()
    assert f'href="../../{SNAPSHOT}/index.html"' in section
    assert [link for link in dangling(tmp_path / "site") if "api" in link] == []


def test_a_section_keeps_the_main_navigation(made: tuple[tuple[Channel, Channel], Path]) -> None:
    both, site = made
    for page in (site / "snapshots" / "latest" / "api").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        for place in ("", "getting-started/", "snapshots/", "releases/", "snapshots/latest/api/", "status/"):
            assert f'href="../../../{place}index.html"' in text
        assert "../../../docs/" not in text  # the site has none
        assert "<noscript>" in text
    make_sections(both, site, "file:///nowhere", {"has_status": True, "has_documents": True})
    assert b"../../../docs/index.html" in read(site, SNAPSHOT)


def test_the_section_of_an_older_snapshot_is_not_linked_by_the_newer_one(tmp_path: Path) -> None:
    make_sections(channels(release(SNAPSHOT, tmp_path)), tmp_path / "site", "file:///nowhere", SITE)
    forge = PaperForge()
    forge.add(make_manifest("snapshot-20261121.01"))
    make_index(forge, tmp_path / "site", sections={"api": pages})
    assert "/api/" not in (tmp_path / "site" / "snapshots" / "snapshot-20261121.01" / "index.html").read_text()


def remove_wheels(folder: Path) -> None:
    """From now on no section can be made."""
    for wheel in folder.glob("*.whl"):
        wheel.unlink()


def test_a_section_is_made_once(made: tuple[tuple[Channel, Channel], Path], tmp_path: Path) -> None:
    both, site = made
    before = read(site, NUMBERED), read(site, SNAPSHOT)
    remove_wheels(tmp_path)
    make_sections(both, site, "file:///nowhere", SITE)
    assert (read(site, NUMBERED), read(site, SNAPSHOT)) == before


def test_another_renderer_makes_all_sections_anew(made: tuple[tuple[Channel, Channel], Path]) -> None:
    both, site = made
    for path in site.rglob("made.json"):
        section = ApiSection.parse(path.read_bytes())
        assert section is not None
        path.write_bytes(structs.replace(section, renderer="another").to_bytes())
        make_sections(both, site, "file:///nowhere", SITE)
        assert ApiSection.parse(path.read_bytes()) == section


def test_an_empty_folder_begins_from_what_is_served(made: tuple[tuple[Channel, Channel], Path], tmp_path: Path) -> None:
    both, site = made
    remove_wheels(tmp_path)
    with serve(site) as server:
        make_sections(both, tmp_path / "new", server.url, SITE)
    assert read(tmp_path / "new", NUMBERED) == read(site, NUMBERED)
    assert read(tmp_path / "new", SNAPSHOT) == read(site, SNAPSHOT)


@pytest.mark.parametrize("damaged", ["a page that is not its digest", "a list with a path in it"])
def test_what_is_served_is_not_taken_unseen(
    made: tuple[tuple[Channel, Channel], Path], tmp_path: Path, damaged: str
) -> None:
    both, site = made
    whole, folder = read(site, NUMBERED), site / "releases" / NUMBERED / "api"
    if damaged.startswith("a page"):
        (folder / "mlir.dialects.toy.html").write_text("<script>alert(1)</script>")
    else:
        found = ApiSection.parse((folder / "made.json").read_bytes())
        assert found is not None
        outside = structs.replace(found, files={"../../../index.html": "0" * 64})
        (folder / "made.json").write_bytes(outside.to_bytes())
    with serve(site) as server:
        make_sections(both, tmp_path / "new", server.url, SITE)
    assert read(tmp_path / "new", NUMBERED) == whole
    assert not (tmp_path / "new" / "index.html").exists()


def test_what_cannot_be_documented_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken, sound = release(NUMBERED, tmp_path), release(SNAPSHOT, tmp_path)
    (tmp_path / broken.manifest.wheels[0].filename).write_bytes(b"other bytes")
    make_sections(channels(broken, sound), tmp_path / "site", "file:///nowhere", SITE)
    assert f"the API of {NUMBERED} is not documented" in capsys.readouterr().err
    assert not (tmp_path / "site" / "releases" / NUMBERED / "api").exists()
    assert read(tmp_path / "site", SNAPSHOT)


def test_the_section_of_a_yanked_release_is_removed(made: tuple[tuple[Channel, Channel], Path]) -> None:
    both, site = made
    make_sections(channels(*both[0].releases), site, "file:///nowhere", SITE)
    assert not (site / "releases" / NUMBERED / "api").exists()
    assert read(site, SNAPSHOT)
