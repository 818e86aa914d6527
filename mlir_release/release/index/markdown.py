"""Markdown as HTML, without raw HTML: a page shows what others wrote, and must not run it."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Callable

    from markdown_it import MarkdownIt
    from markdown_it.token import Token


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
            token.attrSet("id", _anchor(tokens[index + 1], anchors))
    rendered: str = _parser().renderer.render(tokens, _parser().options, {})
    return Markup(rendered)


def _followed(tokens: list[Token], follow: Callable[[str], str | None]) -> list[Token]:
    kept: list[Token] = []
    open_links: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            place = follow(str(token.attrGet("href")))
            open_links.append(place is not None)
            if place is not None:
                token.attrSet("href", place)
        is_shown = token.type != "image"
        if token.type == "link_open":
            is_shown = open_links[-1]
        elif token.type == "link_close":
            is_shown = open_links.pop()
        kept += [token] if is_shown else []
    return kept


def _anchor(inline: Token, taken: Counter[str]) -> str:
    """The anchor that GitHub gives a heading: its words in small letters, and a number from the second of a name on."""
    words = "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))
    anchor = re.sub(r"[^\w -]", "", words.lower()).replace(" ", "-")
    taken[anchor] += 1
    return anchor if taken[anchor] == 1 else f"{anchor}-{taken[anchor] - 1}"
