"""The toolkit's own documentation, in the look of the pages: a folder of Markdown files, with their links kept."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from mlir_release.ground.storage.files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    from mlir_release.release.forge.base import Forge


# -- Markdown as HTML, without raw HTML: a page shows what others wrote, and must not run it ---------------------------


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    # A wide table scrolls by itself, with the keyboard, too.
    opened = '<div class="wide" role="group" aria-label="Table" tabindex="0">\n<table>\n'
    parser.add_render_rule("table_open", lambda *_: opened)
    parser.add_render_rule("table_close", lambda *_: "</table>\n</div>\n")
    return parser


def render(text: str, follow: Callable[[str], str | None], *, heading: str = "") -> Markup:
    """A text as HTML.

    :param follow: where a link of the text leads from the page that shows it; None: nowhere, so only its words are
        shown. Images are not shown.
    :param heading: the tag of all headings, for a text within a page; default: their own, with GitHub's anchors
    """
    tokens = _parser().parse(text)
    anchors: Counter[str] = Counter()
    for index, token in enumerate(tokens):
        if token.children is not None:
            token.children = _followed(token.children, follow)
        if token.type in ("heading_open", "heading_close") and heading:
            token.tag = heading
        elif token.type == "heading_open":
            # The anchor that GitHub gives it: its words in small letters, and a number from the second of a name on.
            shown = (child for child in tokens[index + 1].children or () if child.type in ("text", "code_inline"))
            words = "".join(child.content for child in shown)
            anchor = re.sub(r"[^\w -]", "", words.lower()).replace(" ", "-")
            anchors[anchor] += 1
            token.attrSet("id", anchor if anchors[anchor] == 1 else f"{anchor}-{anchors[anchor] - 1}")
    rendered: str = _parser().renderer.render(tokens, _parser().options, {})
    return Markup(rendered)


def _followed(tokens: list[Token], follow: Callable[[str], str | None]) -> list[Token]:
    kept: list[Token] = []
    open_links: list[bool] = []
    for token in tokens:
        is_shown = token.type != "image"
        if token.type == "link_open":
            place = follow(str(token.attrGet("href")))
            is_shown = place is not None
            open_links.append(is_shown)
            if place is not None:
                token.attrSet("href", place)
        elif token.type == "link_close":
            is_shown = open_links.pop()
        kept += [token] if is_shown else []
    return kept


# -- the toolkit's own documentation -----------------------------------------------------------------------------------

#: Their folder on the site.
DOCUMENTS = "docs"

#: What each of our own documents tells, in the order in which people need them.
ABOUT = {
    "getting-started": "Install the wheels, build and run a first function, pin a release, report a bug.",
    "choosing": "Find the snapshot of a commit, bisect, compare APIs, and follow a channel that is known to be good.",
    "downstream": "Write a Python package that extends MLIR, over the C API or with dialects of its own.",
    "sets": "Lock mlir together with packages of other projects that are built from the same LLVM.",
    "integrate": "Move a project's LLVM forward, commit by commit, and find the commit that breaks it.",
    "from-eudsl": "Come from eudsl's nightly wheels: the address, the name and the version that change.",
    "from-megabump": "Come from megabump's scripts: each command and each entry of the playbook, beside ours.",
    "conda": "Take the wheels as conda packages.",
    "apidocs": "Make the API pages of a wheel.",
    "platforms": "Where wheels are built and tested, and what is known of each platform.",
    "first-release-repository": "Set up a release repository on GitHub, up to its first snapshot.",
    "operating": "Run a release repository, and what to do when something fails.",
    "configuration": "The files and variables that configure a release repository.",
    "commands": "The command line: every command, and completion in the shell.",
    "limits": "The limits of GitHub, PyPI and pip, and the commands that show how near they are.",
    "errors": "The ids that errors carry, and what helps against each.",
    "error-ids": "The ids of earlier versions, and those that replace them.",
    "cost": "What the jobs cost, in minutes and money.",
    "security": "Who can do what, what stops attackers, and what doesn't.",
    "releasing-the-toolkit": "Release the toolkit itself: its tag, what is checked, and its two environments.",
    "permissions": "The rights of each job, generated from the workflows.",
    "design": "How the toolkit works, and why.",
    "projects": "Release wheels of another part of LLVM, or of a project of your own.",
    "extras": "Add commands and pages to the toolkit, from a package of your own.",
    "mlgo": "Train, evaluate and embed learned policies for LLVM's register allocator and inliner.",
}


@dataclass(frozen=True, kw_only=True)
class MarkdownFile:
    """A Markdown file."""

    name: str  #: without ``.md``
    text: str

    @property
    def title(self) -> str:
        """Its first heading."""
        return next((line[2:].strip() for line in self.text.splitlines() if line.startswith("# ")), self.name)

    @property
    def about(self) -> str:
        """What it tells whom; empty for a document that isn't ours."""
        return ABOUT.get(self.name, "")


@dataclass(frozen=True, kw_only=True)
class Documents:
    """The files of one folder."""

    files: tuple[MarkdownFile, ...]
    source: str = ""  #: URL of the repository's root, which links out of the folder lead to; empty: they lead nowhere

    @classmethod
    def read(cls, folder: Path, source: str = "") -> Documents:
        """All Markdown files of a folder. ``source``: of the repository that it is in, at its root"""
        paths = sorted(folder.glob("*.md"))
        files = tuple(MarkdownFile(name=path.stem, text=read_text(path)) for path in paths)
        return cls(files=files, source=source)

    @property
    def listed(self) -> list[MarkdownFile]:
        """As the list shows them: those that are described first."""
        order = [*ABOUT, *(each.name for each in self.files if not each.about)]
        return sorted(self.files, key=lambda each: order.index(each.name))

    def html(self, document: MarkdownFile) -> Markup:
        """A document's text; links to its neighbours lead to their pages, those to other files to the repository."""
        return render(document.text, self._follow)

    def _follow(self, href: str) -> str | None:
        path, mark, anchor = href.partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return href
        if path.removesuffix(".md") in {each.name for each in self.files}:
            return f"{path.removesuffix('.md')}.html{mark}{anchor}"
        if not self.source:
            return None
        return f"{self.source.rstrip('/')}/{posixpath.normpath(f'{DOCUMENTS}/{path}')}{mark}{anchor}"


def source_of(forge: Forge, branch: str) -> str:
    """Where people read a file of a branch; empty for a forge without pages of files."""
    place = forge.services.location
    return f"https://{place}/blob/{branch}" if place else ""
