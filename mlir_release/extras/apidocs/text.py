"""Docstrings as HTML. Upstream writes Markdown, and Google's sections for parameters, results and errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mlir_release.index.markdown import render

if TYPE_CHECKING:
    from collections import Counter

    from griffe import Docstring
    from markupsafe import Markup

_SENTENCE = re.compile(r"(.+?[.:;])(?:\s|$)", re.DOTALL)
#: Longest summary in a list of operations.
_SUMMARY = 160


def to_html(text: str, broken: Counter[str]) -> Markup:
    """Markdown as HTML. A link that leads nowhere from here is shown as its text, and counted in ``broken``."""

    def follow(href: str) -> str | None:
        if href.startswith(("https:", "http:")):
            return href
        broken[href] += 1
        return None

    return render(text, follow, heading="h5")  # below the headings of the page


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
