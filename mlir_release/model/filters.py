"""The filters of ``--only``: ``os=linux and required``, ``python=cp31[12],tag!=slow``.

A term is ``key=value`` or ``key!=value``, whose value is a glob (``*``, ``?``, ``[12]``), or a bare tag. A target fits
if all terms hold; ``and`` or a comma joins them.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from mlir_release.errors import UsageError
from mlir_release.model.decode import alternatives

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    #: What a filter is asked about: the values of each key (``os`` -> ``{"linux"}``), and the tags under ``"tag"``.
    Facts = Mapping[str, Collection[str]]
    Predicate = Callable[[Facts], bool]

TAG = "tag"

_WORD = r"[A-Za-z0-9_.*?:/+\[\]-]+"
_TERM = re.compile(rf"\s*(?:(?P<key>{_WORD})\s*(?P<operator>!?=)\s*)?(?P<value>{_WORD})\s*")


def compile_filter(text: str, known: Mapping[str, Collection[str]]) -> Predicate:
    """Turn a filter into a predicate.

    :param known: every key and all values it takes in this matrix; keys, tags and values outside are errors
    :raises UsageError: naming the place in ``text`` and what would be accepted there
    """
    terms: list[tuple[str, str, bool]] = []
    position = 0
    for number, part in enumerate(re.split(r"(,|(?<=\s)and(?=\s))", text)):
        at, position = position, position + len(part)
        if number % 2:  # what joins two terms
            continue
        match = _TERM.fullmatch(part)
        if match is None:
            raise UsageError(
                "option-invalid",
                f"the filter {text!r} can't be read at column {at + 1}",
                where=f"{text[:at]}▸{text[at:]}",
                why=f"expected key=value, key!=value or a tag, found {part.strip()!r}",
                remedy="write for example: os=linux and python=cp31[12] and required; all terms have to hold, and "
                "tag!=slow stands for what is not slow; "
                f"keys: {', '.join(sorted(known))}",
            )
        key, value = match["key"] or TAG, match["value"]
        if key not in known:
            raise UsageError(
                "option-invalid",
                f"the filter {text!r} asks for {key!r}, which no target has",
                where=f"column {at + 1}",
                remedy=alternatives(key, sorted(known)),
            )
        if not any(fnmatchcase(candidate, value) for candidate in known[key]):
            raise UsageError(
                "option-invalid",
                f"no target has {key} {value!r}" if key != TAG else f"no target has the tag {value!r}",
                where=f"the filter {text!r}, column {at + 1}",
                remedy=alternatives(value, sorted(known[key])),
            )
        terms.append((key, value, match["operator"] != "!="))
    return lambda facts: all(
        any(fnmatchcase(value, pattern) for value in facts[key]) == wanted for key, pattern, wanted in terms
    )
