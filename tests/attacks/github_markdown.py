"""What GitHub makes of a document: its HTML, and who is mentioned and what is referred to in the text of that HTML."""

from __future__ import annotations

import html
import re

from markdown_it import MarkdownIt

#: A commit's subject, a name or a line of a log that tries everything.
HOSTILE = (
    "[x](https://evil.example) @llvm/team Fixes #1 GH-2 llvm/llvm-project#3 <img src=x onerror=y> | a | "
    "::error::z ##[set-output name=a]b \x1b[31m\x1b]0;t\x07 \u202e https://github.com/o/r/issues/4 www.evil.example "
    "deadbeef123 **b** `c\n\n# heading\n::set-output name=a::b\n- item\n</details>\n```\n@everyone"
)

#: Each of the marks at which a name, a number or a URL begins, as GitHub looks for them in rendered text.
_REFERENCES = re.compile(
    r"(?:^|\W)@[A-Za-z0-9]|#\d|\bGH-\d|https?://|\bwww\.|(?<![\w./-])(?=\d*[a-f])[0-9a-f]{7,40}(?!\w)", re.IGNORECASE
)

#: What the toolkit's own documents consist of.
_OURS = frozenset(
    "p h2 h3 ul li code pre strong em a table thead tbody tr th td details summary".split()  # noqa: SIM905
)


def render(document: str) -> str:
    """The HTML of a document, with raw HTML as it stands."""
    return str(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(document))


def check_harmless(document: str, *, links: tuple[str, ...] = ()) -> str:
    """Assert that a document has no markup but ours, and nothing outside of code that GitHub links.

    :param links: the only addresses that may be linked
    :return: the HTML
    """
    shown = render(document)
    assert {tag.lower() for tag in re.findall(r"<(\w+)", shown)} <= _OURS, shown
    assert set(re.findall(r'href="([^"]*)"', shown)) <= set(links), shown
    text = re.sub(r"<a [^>]*>.*?</a>|<pre>.*?</pre>|<code[^>]*>.*?</code>", "\0", shown, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]*>", "\0", text))
    assert not _REFERENCES.search(text), text
    assert not re.search("[\x01-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]", document), document
    return shown
