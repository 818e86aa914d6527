"""``Key: value`` lines at the end of commit and tag messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_LINE = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9-]*): (?P<value>.*)")


def parse_trailers(message: str) -> dict[str, str]:
    """The ``Key: value`` lines of the last paragraph of ``message``; empty unless every line of it is one.

    The strict subset of git's own trailer rules that this toolkit writes; a later key wins. Line ends may be Windows',
    as in messages that were written on GitHub's pages.
    """
    paragraphs = message.replace("\r\n", "\n").rstrip().split("\n\n")
    if len(paragraphs) < 2:
        return {}
    found: dict[str, str] = {}
    for line in paragraphs[-1].splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            return {}
        found[match["key"]] = match["value"].strip()
    return found


def format_message(subject: str, body: str = "", trailers: Mapping[str, object] | None = None) -> str:
    """A commit or tag message that :func:`parse_trailers` reads back."""
    parts = [subject.strip()]
    if body.strip():
        parts.append(body.strip())
    if trailers:
        parts.append("\n".join(f"{key}: {value}" for key, value in trailers.items()))
    return "\n\n".join(parts) + "\n"
