"""The buttons beside commands, in a browser's document model: happy-dom, from npm."""

from __future__ import annotations

import html
import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.release.index.generate import generate
from tests import npm
from tests.release_stage import REQUIRED_TARGETS, make_stage
from tests.wheel_factory import TAG

if TYPE_CHECKING:
    from pathlib import Path

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


PAGES = ["index.html", "getting-started/index.html", "snapshots/latest/index.html", f"snapshots/{TAG}/index.html"]


@pytest.mark.parametrize("page", PAGES)
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
