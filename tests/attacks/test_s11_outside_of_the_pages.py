"""S11: a manifest, or the pages' own state, names files elsewhere, or an address that runs a script."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.extras.apidocs.published import ApiSection, make_sections
from mlir_release.extras.conda.channel import REPODATA, serve_channels
from mlir_release.release.index.generate import STATE_NAME
from mlir_release.release.index.site import Channel
from tests.paper_forge import PaperForge, make_index, make_manifest
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

TAG = "snapshot-20261120.02"


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def forge_of(change: dict[str, Any]) -> PaperForge:
    """A forge with one release, whose manifest someone has changed by hand: a path in it -> a value."""
    forge = PaperForge()
    forge.add(make_manifest(TAG, platforms=("win_amd64",), pythons=("cp312",)))
    (release,) = forge.release_list
    data = json.loads(forge.contents[release.id, "release.json"])
    for path, value in change.items():
        place, *steps = data, *path.split(".")
        for step in steps[:-1]:
            place = place[int(step) if step.isdigit() else step]
        place[steps[-1]] = value
    content = json.dumps(data).encode()
    forge.contents[release.id, "release.json"] = content
    assets = tuple(
        asset
        if asset.name != "release.json"
        else forge.make_asset(TAG, asset.name, len(content), hashlib.sha256(content).hexdigest())
        for asset in release.assets
    )
    forge.release_list[0] = replace(release, assets=assets)
    return forge


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"wheels.0.distribution": "../../../evil"}, "not a name of a distribution"),
        ({"wheels.0.distribution": "evil\n-r https://evil.example"}, "not a name of a distribution"),
        ({"wheels.0.distribution": "numpy"}, "which is not one of numpy"),
        ({"wheels.0.filename": "numpy-99.0-cp312-cp312-win_amd64.whl"}, "which is not one of mlir"),
        ({"wheels.0.filename": "mlir.whl"}, "which is not one of mlir"),
        ({"wheels.0.filename": f"mlir-20261120.2-{'.'.join(['a'] * 200)}-none-any.whl"}, "not a plain file name"),
        ({"wheels.0.provenance": "../../victim.txt"}, "not a plain file name"),
        ({"wheels.0.target": "../x"}, "not a plain file name"),
        ({"wheels.0.requires_dist": ["numpy\nurl = 'https://evil.example'"]}, "not one line of text"),
        ({"wheels.0.requires_dist": ["!!"]}, "requires_dist has '!!'"),
        ({"wheels.0.requires_dist": [f"a; {'(' * 900}"]}, "requires_dist has"),
        ({"wheels.0.requires_dist": ['a; os_name ~= "x"']}, "requires_dist has"),
        ({"wheels.0.requires_python": "newer"}, "requires_python is 'newer'"),
        ({"wheels.0.serves": ["312"]}, "not an interpreter tag"),
        ({"repository": "javascript:alert(document.domain)//github.com/o/n"}, "not a repository's address"),
        ({"repository": 'https://github.com/o/n" onclick="alert(1)'}, "not a repository's address"),
        ({"previous_tag": "../../evil"}, "not a plain file name"),
        ({"previous_revision": "HEAD"}, "not a commit of 40 hex digits"),
        ({"llvm_version": "22\n"}, "not one line of text"),
    ],
)
def test_a_manifest_that_leads_elsewhere_is_refused_and_nothing_is_written(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    (tmp_path / "victim.txt").write_text("precious")
    before = everything(tmp_path)
    refused(lambda: make_index(forge_of(change), tmp_path / "a" / "b" / "site"), "file-damaged", said)
    after = {path: content for path, content in everything(tmp_path).items() if not path.endswith(".lock")}
    assert after == before


def name_in_state(site: Path, name: str) -> set[str]:
    """Name a file in the pages' own state; returns what else is named there."""
    state = json.loads((site / STATE_NAME).read_text())
    before = set(state["files"])
    state["files"][name] = {"inputs": "", "sha256": ""}
    (site / STATE_NAME).write_text(json.dumps(state))
    return before


@pytest.mark.parametrize("name", ["../victim.txt", "/victim.txt", "a/../../victim.txt", "..\\victim.txt", "a//b", "\0"])
def test_a_state_that_names_a_file_elsewhere_removes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    forge = forge_of({})
    make_index(forge, tmp_path / "site")
    (tmp_path / "victim.txt").write_text("precious")
    before = name_in_state(tmp_path / "site", name)
    assert make_index(forge, tmp_path / "site").removed == ()
    assert (tmp_path / "victim.txt").read_text() == "precious"
    assert "what is no longer published is not removed" in " ".join(capsys.readouterr().err.split())
    assert json.loads((tmp_path / "site" / STATE_NAME).read_text())["files"].keys() == before


def test_a_link_among_the_pages_leads_nowhere(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "index.html").write_text("precious")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "snapshots").symlink_to(victim)
    error = refused(lambda: make_index(forge_of({}), tmp_path / "site"), "output-in-the-way")
    assert str(victim) in error.why
    assert everything(victim) == {str(victim / "index.html"): b"precious"}


def test_a_page_that_is_no_longer_planned_is_not_removed_through_a_link(tmp_path: Path) -> None:
    forge = forge_of({})
    make_index(forge, tmp_path / "site")
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "x.txt").write_text("precious")
    (tmp_path / "site" / "old").symlink_to(victim)
    name_in_state(tmp_path / "site", "old/x.txt")
    refused(lambda: make_index(forge, tmp_path / "site"), "output-in-the-way")
    assert (victim / "x.txt").read_text() == "precious"


def test_stale_api_sections_and_conda_indexes_are_not_removed_through_a_link(tmp_path: Path) -> None:
    pytest.importorskip("griffe")
    victim = tmp_path / "victim"
    (victim / "api").mkdir(parents=True)
    section = ApiSection(tag=TAG, wheel="a" * 64, renderer="r", files={})
    (victim / "api" / "made.json").write_bytes(section.to_bytes())
    (victim / "linux-64").mkdir()
    (victim / "linux-64" / REPODATA).write_text("{}")
    (tmp_path / "site" / "snapshots").mkdir(parents=True)
    (tmp_path / "site" / "snapshots" / "latest").symlink_to(victim)
    (tmp_path / "site" / "snapshots" / "conda").symlink_to(victim)
    channel = tmp_path / "channels" / "releases" / "linux-64" / REPODATA
    channel.parent.mkdir(parents=True)
    channel.write_text('{"info": {}, "packages.conda": {}}')
    before = everything(victim)
    channels = [Channel(kind="snapshot", releases=())]
    refused(lambda: make_sections(channels, tmp_path / "site", "", {}), "output-in-the-way")
    refused(lambda: serve_channels(tmp_path / "channels", None, channels, tmp_path / "site"), "output-in-the-way")
    assert everything(victim) == before


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "JaVaScRiPt:alert(1)", " javascript:x"])
def test_no_page_links_an_address_that_runs_a_script(tmp_path: Path, address: str) -> None:
    class Scripted(PaperForge):
        def page_url(self, tag: str) -> str:
            return address

    forge = Scripted()
    forge.add(make_manifest(TAG, upstream=address))
    make_index(forge, tmp_path / "site")
    for page in (tmp_path / "site").rglob("*.html"):
        assert f'href="{address}' not in page.read_text()
