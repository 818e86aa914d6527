"""Docstrings as HTML. Upstream writes Markdown, and Google's sections for parameters, results and errors."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from collections import Counter

    from griffe import Docstring
    from markdown_it import MarkdownIt

_SENTENCE = re.compile(r"(.+?[.:;])(?:\s|$)", re.DOTALL)
#: Longest summary in a list of operations.
_SUMMARY = 160


@cache
def _markdown() -> MarkdownIt:
    """Without raw HTML: the text is another's, and the pages must not run it."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table")


def to_html(text: str, broken: Counter[str]) -> Markup:
    """Markdown as HTML. A link that leads nowhere from here is shown as its text, and counted in ``broken``."""
    tokens = _markdown().parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = "h5"  # below the headings of the page
        kept, closing = [], []
        for child in token.children or ():
            if child.type == "link_open":
                href = str(child.attrGet("href"))
                is_kept = href.startswith(("https:", "http:"))
                broken.update([] if is_kept else [href])
                closing.append(is_kept)
            is_image = child.type == "image"
            if is_image:
                broken[str(child.attrGet("src"))] += 1
            drop = is_image or (child.type == "link_open" and not closing[-1])
            drop = drop or (child.type == "link_close" and not closing.pop())
            kept += [] if drop else [child]
        if token.children is not None:
            token.children = kept
    rendered: str = _markdown().renderer.render(tokens, _markdown().options, {})
    return Markup(rendered)


def sections(docstring: Docstring) -> list[tuple[str, list[tuple[str, str]]]]:
    """A docstring of Google's style: headings (empty for text), each with rows of a name and a description.

    Text has one row without a name.
    """
    found: list[tuple[str, list[tuple[str, str]]]] = []
    for section in docstring.parse("google", warnings=False):
        kind = section.kind.value
        if kind == "text":
            found.append(("", [("", section.value)]))
        elif kind == "examples":
            found.append((section.title or "Examples", [("", "\n\n".join(text for _, text in section.value))]))
        elif kind in ("admonition", "deprecated"):
            found.append((section.title or kind.capitalize(), [("", section.value.description)]))
        else:
            rows = [(getattr(row, "name", "") or str(row.annotation or ""), row.description) for row in section.value]
            found.append((section.title or kind.capitalize(), rows))
    return found


def summary(docstring: Docstring | None) -> str:
    """The first sentence, on one line and without marks; empty if there is none."""
    paragraph = docstring.value.strip().partition("\n\n")[0] if docstring else ""
    if not paragraph or paragraph.startswith(("```", "#", "|", "Syntax:")):
        return ""
    line = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split())).replace("`", "")
    match = _SENTENCE.match(line)
    sentence = match[1] if match else line
    return sentence if len(sentence) <= _SUMMARY else sentence[: _SUMMARY - 1].rstrip() + "…"
