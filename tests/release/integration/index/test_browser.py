"""The pages in a real browser, by axe: what keeps people from reading or using them. And the buttons that copy."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest
from msgspec import structs

from mlir_release.builder.model.sdk_wheel_info import SDK, SDK_TOOLS
from mlir_release.extras.apidocs import pages as api_pages
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.release.index.documents import Documents
from mlir_release.release.index.generate import generate
from mlir_release.release.model.manifest import LeftOut, Manifest, Waiver
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_tags import parse_release_tag
from mlir_release.release.model.yanks import Yank, format_yanks
from mlir_release.release.pinning.state import tag_message
from tests import npm
from tests.bindings_factory import FILES, make_bindings_wheel
from tests.browser import Seen, look
from tests.paper_forge import START, PaperForge, make_index, make_manifest
from tests.release.unit.model.test_measures import measured
from tests.release_stage import REQUIRED_TARGETS, TARGETS, make_stage
from tests.serving import serve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[4]
TAG = "snapshot-20261120.02"
API = "snapshots/latest/api/"
PYTHONS = ("cp311", "cp312", "cp313", "cp314")
#: Every kind of page.
PAGES = (
    "",
    "getting-started/",
    f"snapshots/{TAG}/",
    "snapshots/",
    "snapshots/latest/",
    "status/",
    "docs/",
    "docs/operating.html",
    API,
    f"{API}mlir.dialects.toy.html",
    f"{API}mlir.ir.html",
    f"{API}passes.html",
    f"{API}dialect.bare.html",
)
#: The search, as it looks with a list of what it has found.
SEARCH = [("focus", ".search input"), ("type", "oper"), ("waitFor", ".search li a"), ("press", "ArrowDown")]


def make_forge(folder: Path) -> PaperForge:
    """Three snapshots and a numbered release; the newest snapshot has a wheel with an API, and something of all."""
    forge = PaperForge(
        base=folder.as_uri(), yanks=format_yanks((Yank(tag="snapshot-20261119.01", reason="bad"),)).encode()
    )
    old = make_manifest("snapshot-20261119.01", created=START - timedelta(days=1))
    older = make_manifest("snapshot-20261119.02", created=START - timedelta(hours=12), previous=old, pythons=PYTHONS)
    newest = make_manifest(
        TAG,
        previous=older,
        pythons=PYTHONS,
        distributions=("mlir", "mlir-core", SDK, SDK_TOOLS),
        waivers=(Waiver(target="mlir-macos-arm64-cp312", reason="no runner", by="ada", at="2026-11-20T12:00:00Z"),),
        left_out=(LeftOut(target="mlir-windows-x64-cp312", reason="there is no tested wheel"),),
    )
    numbered = make_manifest("llvm-22.1.8.01", version="22.1.8", pythons=PYTHONS)
    old, newest, numbered = (
        measured(manifest, **{"parse": count, "wheel-bytes": 28_000_000 + count, "zoo": 7})
        for manifest, count in ((old, 15_000_000), (newest, 16_000_000), (numbered, 15_000_000))
    )
    toy = "mlir/dialects/toy.py"
    before = {toy: FILES[toy].replace("values: Operation", "operation, " + ", ".join(f"b{n}" for n in range(60)))}
    for manifest in (old, with_api(older, folder, before), with_api(newest, folder), with_api(numbered, folder)):
        forge.add(manifest)
        message = tag_message(
            parse_release_tag(manifest.tag),
            revision=manifest.revision,
            request_id="r",
            wheel_version=manifest.version,
        )
        forge.tag_list[manifest.tag] = replace(forge.tag_list[manifest.tag], message=message)
    return forge


def with_api(manifest: Manifest, folder: Path, changed: Mapping[str, str] | None = None) -> Manifest:
    """The same with a wheel that is there, and is the one whose API is shown."""
    named = {"tag": manifest.tag, "version": manifest.version, "python": "cp314"}
    path = make_bindings_wheel(folder / manifest.tag, changed=changed, **named)
    name = path.name
    wheels = tuple(
        structs.replace(wheel, filename=name, sha256=sha256_of(path))
        if wheel.target.endswith("mlir-manylinux_2_28_x86_64-cp314")
        else wheel
        for wheel in manifest.wheels
    )
    assert any(wheel.filename == name for wheel in wheels)
    return structs.replace(manifest, wheels=wheels).sorted()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLIR_RELEASE_CACHE", str(folder / "cache"))
        make_index(
            make_forge(folder / "releases"),
            folder / "site",
            base_url="file:///nowhere",
            matrix=Matrix.parse(TARGETS),
            sections={"api": api_pages},
            given={"api": True},
            documents=Documents.read(ROOT / "docs", "https://github.com/o/n/blob/main"),
        )
    with serve(folder / "site") as served:
        yield f"{served.url}/"


@pytest.fixture(scope="module")
def seen(site: str) -> list[Seen]:
    pictures = os.environ.get("PICTURES")  # a folder to look at the pages oneself
    return look(
        site,
        PAGES,
        widths=(390, 1280),
        schemes=("light", "dark"),
        steps={API: SEARCH},
        pictures=Path(pictures) if pictures else None,
    )


def test_the_page_of_the_newest_snapshot_says_what_changed_for_python(site: str) -> None:
    with urlopen(f"{site}snapshots/{TAG}/") as answer:
        page = answer.read().decode()
    assert '<h2 id="python">What changed for Python</h2>' in page
    assert "renamed: operation → values; gone: b0, b1" in page


def test_axe_finds_nothing_that_keeps_people_out(seen: list[Seen]) -> None:
    assert len(seen) == 4 * len(PAGES)
    assert {(page.path, page.width, page.scheme): page.grave for page in seen if page.grave} == {}


def test_nothing_is_beyond_the_window_or_cut_without_a_hint(seen: list[Seen]) -> None:
    found = {(page.path, page.width): (page.wide, page.cut) for page in seen if page.wide > 0 or page.cut}
    assert found == {}


def test_no_script_fails_and_nothing_is_loaded_from_elsewhere(seen: list[Seen]) -> None:
    assert {page.path: page.problems for page in seen if page.problems} == {}


def test_the_search_is_used_by_the_keyboard_alone(site: str) -> None:
    find = [("press", "/"), ("type", "MLIRError"), ("waitFor", ".search li a")]
    down, up, enter = ("press", "ArrowDown"), ("press", "ArrowUp"), ("press", "Enter")
    one, two = "mlir.ir.html#MLIRError", "mlir.ir.html#MLIRError.message"
    steps = {
        API: [*find, down, enter, ("arrive", one)],
        f"{API}mlir.dialects.toy.html": [*find, down, down, down, enter, ("arrive", two)],  # of two that are found
        f"{API}mlir.ir.html": [*find, down, up, ("type", ".m"), enter, ("arrive", two)],  # back in the field
    }
    found = [page.url.removeprefix(f"{site}{API}") for page in look(site, list(steps), steps=steps)]
    assert found == [one, two, two]


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("add integers", "mlir.dialects.toy.html#toy.add"),
        ("lower to llvm", "passes.html#toy-to-llvm"),
        ("worklist", "passes.html#toy-to-llvm"),
    ],
)
def test_the_search_finds_passes_options_and_words(site: str, words: str, place: str) -> None:
    find = [("press", "/"), ("type", words), ("waitFor", ".search li a"), ("press", "Enter"), ("arrive", place)]
    (page,) = look(site, [API], steps={API: find})
    assert page.url == f"{site}{API}{place}"


def test_axe_sees_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<html><title>A</title><img src="x.png"><p style="color: #ccc">pale</p></html>'
    )
    with serve(tmp_path) as served:
        (page,) = look(f"{served.url}/", [""])
    rules = {finding.partition(" ")[0] for finding in page.grave}
    assert {"image-alt", "color-contrast", "html-has-lang"} <= rules
    assert any("404" in problem for problem in page.problems)


# -- the buttons beside commands, in a browser's document model: happy-dom, from npm ----------------------------------

WITH_COMMANDS = [
    "index.html",
    "getting-started/index.html",
    "snapshots/latest/index.html",
    f"snapshots/{TAG}/index.html",
]


#: Arguments: happy-dom, a page, its script, and whether there is a clipboard.
PRESS_ALL = """
import { readFileSync } from "node:fs";
const [library, page, script, clipboard] = process.argv.slice(2);
const { Window } = await import(library);
const window = new Window({ url: "https://pages.example/" });
const { document, navigator } = window;
document.write(readFileSync(page, "utf8"));
const run = new Function("document", "navigator", "getSelection", "setTimeout", readFileSync(script, "utf8"));
run(document, clipboard ? navigator : {}, () => window.getSelection(), () => {});
const found = [];
for (const button of document.querySelectorAll("button")) {
  button.click();
  await new Promise((resolve) => setTimeout(resolve, 1));
  const taken = clipboard ? await navigator.clipboard.readText() : window.getSelection().toString();
  found.push([button.textContent, taken]);
}
console.log(JSON.stringify(found));
process.exit(0);
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    stage = make_stage(folder, targets=REQUIRED_TARGETS)
    stage.publish(stage.fill())
    generate(stage.forge, folder / "site", base_url="https://pages.example/")
    return folder / "site"


@pytest.mark.parametrize("page", WITH_COMMANDS)
@pytest.mark.parametrize(("clipboard", "said"), [("yes", "Copied"), ("", "Selected")])
def test_each_command_has_a_button_that_copies_it_or_selects_it(
    pages: Path, tmp_path: Path, page: str, clipboard: str, said: str
) -> None:
    (tmp_path / "press.mjs").write_text(PRESS_ALL)
    library = npm.provide("happy-dom", "20.0.10") / "lib" / "index.js"
    command = [npm.node(), tmp_path / "press.mjs", library, pages / page, pages / "copy.js", clipboard]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    content = (pages / page).read_text()
    found = re.findall(r"<pre(?: data-file=\"[^\"]+\")?><code>(.*?)</code></pre>", content, re.DOTALL)
    shown = [html.unescape(text) for text in found]  # without what programs print
    assert shown
    assert json.loads(done.stdout) == [[said, text] for text in shown]
    assert "<button" not in content  # without scripts there is none that does nothing
    assert re.findall(r"<script[^>]*>", content) == [f'<script src="{"../" * page.count("/")}copy.js" defer>']
