"""The filters of ``--only``: ``os=linux and required``, ``python=cp31[12],tag!=slow``.

A term is ``key=value`` or ``key!=value``, whose value is a glob (``*``, ``?``, ``[12]``), or a bare tag. A target fits
if all terms hold; ``and`` or a comma joins them. :data:`FILTER_KEYS` are the keys.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from mlir_release.ground.errors import UsageError
from mlir_release.ground.python.platforms import common_arch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    #: What a filter is asked about: the values of each key (``os`` -> ``{"linux"}``), and the tags under ``"tag"``.
    Facts = Mapping[str, Collection[str]]
    Predicate = Callable[[Facts], bool]

TAG = "tag"
ARCH = "arch"

#: What can be asked of targets: key -> its meaning, and a term. The help, the documentation and errors show them.
FILTER_KEYS: Mapping[str, tuple[str, str]] = {
    "name": ("the target", "name=mlir-linux-*-cp312"),
    "llvm": ("the LLVM configuration", "llvm=mlir-core"),
    "distribution": ("the name for pip", "distribution=mlir"),
    "profile": ("what is linked in", "profile=host"),
    "project": ("the project of llvm-project", "project=mlir"),
    "runtime": ("the runtime", "runtime=windows-x64"),
    "os": ("the operating system", "os=linux"),
    ARCH: ("the processor, in any spelling", "arch=x86_64"),
    "python": ("the CPython; py3 where one file serves all", "python=cp31[12]"),
    "suite": ("a test suite", "suite=regression"),
    TAG: ("a tag of the row, required, experimental, weekly or always", "tag=free-threaded"),
}

_WORD = r"[A-Za-z0-9_.*?:/+\[\]-]+"
_TERM = re.compile(rf"\s*(?:(?P<key>{_WORD})\s*(?P<operator>!?=)\s*)?(?P<value>{_WORD})\s*")


def compile_filter(text: str, known: Mapping[str, Collection[str]]) -> Predicate:
    """Turn a filter into a predicate.

    :param known: every key and all values it takes in this matrix; keys, tags and values outside are errors
    :raises UsageError: naming the place in ``text`` and what would be accepted there
    """
    from mlir_release.ground.documents.decode import alternatives  # the help, which shows the keys, needs no msgspec

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
        pattern = common_arch(value) if key == ARCH else value
        if not any(fnmatchcase(candidate, pattern) for candidate in known[key]):
            raise UsageError(
                "option-invalid",
                f"no target has {key} {value!r}" if key != TAG else f"no target has the tag {value!r}",
                where=f"the filter {text!r}, column {at + 1}",
                remedy=alternatives(value, sorted(known[key])),
            )
        terms.append((key, pattern, match["operator"] != "!="))
    return lambda facts: all(
        any(fnmatchcase(value, pattern) for value in facts[key]) == wanted for key, pattern, wanted in terms
    )
