"""The filter language of ``--only``: ``os=linux and (python=cp312 or required) and not llvm=mlir-full``.

A term is ``key=value`` or ``key!=value`` (the value may hold ``*`` and ``?``), or a bare tag. Terms are joined by
``and``, ``or``, ``not`` and parentheses; ``and`` binds tighter than ``or``.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from mlir_release.errors import UsageError
from mlir_release.model.decode import alternatives

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    #: What a filter is asked about: the values of each key (``os`` -> ``{"linux"}``), and the tags under ``"tag"``.
    Facts = Mapping[str, Collection[str]]
    Predicate = Callable[[Facts], bool]

_TOKEN = re.compile(r"[()]|!=|=|[A-Za-z0-9_.*?:/+-]+")

TAG = "tag"


def compile_filter(text: str, known: Mapping[str, Collection[str]]) -> Predicate:
    """Turn a filter into a predicate.

    :param known: every key and all values it takes in this matrix; keys, tags and literal values outside are errors
    :raises UsageError: naming the place in ``text`` and what would be accepted there
    """
    return _Parser(text, known).parse()


class _Parser:
    """Recursive descent; one method a grammar rule."""

    def __init__(self, text: str, known: Mapping[str, Collection[str]]) -> None:
        self.text = text
        self.known = known
        self.tokens = self._tokenize()
        self.at = 0

    def _tokenize(self) -> Sequence[tuple[str, int]]:
        tokens: list[tuple[str, int]] = []
        position = 0
        while rest := self.text[position:].lstrip():
            position = len(self.text) - len(rest)
            match = _TOKEN.match(rest)
            if match is None:
                raise self._error("unexpected character", position)
            tokens.append((match[0], position))
            position += len(match[0])
        return tokens

    def _error(self, why: str, position: int) -> UsageError:
        return UsageError(
            "filter-invalid",
            f"the filter {self.text!r} can't be read at column {position + 1}",
            where=f"{self.text[:position]}▸{self.text[position:]}",
            why=why,
            remedy="write for example: os=linux and (python=cp312 or required) and not llvm=mlir-full; "
            f"keys: {', '.join(sorted(self.known))}",
        )

    def _peek(self) -> str | None:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else None

    def _position(self) -> int:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else len(self.text)

    def _take(self) -> str:
        token = self.tokens[self.at][0]
        self.at += 1
        return token

    def parse(self) -> Predicate:
        predicate = self._any()
        if self._peek() is not None:
            raise self._error(f"expected 'and', 'or' or the end, found {self._peek()!r}", self._position())
        return predicate

    def _any(self) -> Predicate:
        return self._joined("or", self._all, any)

    def _all(self) -> Predicate:
        return self._joined("and", self._negated, all)

    def _joined(self, word: str, part: Callable[[], Predicate], combine: Callable[[Iterable[bool]], bool]) -> Predicate:
        terms = [part()]
        while self._peek() == word:
            self._take()
            terms.append(part())
        return lambda facts: combine(term(facts) for term in terms)

    def _negated(self) -> Predicate:
        if self._peek() == "not":
            self._take()
            inner = self._negated()
            return lambda facts: not inner(facts)
        if self._peek() == "(":
            self._take()
            inner = self._any()
            if self._peek() != ")":
                raise self._error("a parenthesis is not closed", self._position())
            self._take()
            return inner
        return self._term()

    def _term(self) -> Predicate:
        position = self._position()
        word = self._peek()
        if word is None or word in ("(", ")", "=", "!=", "and", "or"):
            raise self._error(
                f"expected key=value or a tag, found {word!r}" if word else "the filter ends here", position
            )
        self._take()
        if self._peek() not in ("=", "!="):
            self._check_value(TAG, word, position)
            return lambda facts: word in facts[TAG]
        operator = self._take()
        if word not in self.known:
            raise UsageError(
                "filter-unknown-key",
                f"the filter {self.text!r} asks for {word!r}, which no target has",
                where=f"column {position + 1}",
                remedy=alternatives(word, sorted(self.known)),
            )
        position = self._position()
        pattern = self._peek()
        if pattern is None or pattern in ("(", ")", "=", "!="):
            raise self._error(f"a value is missing after {word}{operator}", position)
        self._take()
        self._check_value(word, pattern, position)
        wanted = operator == "="
        return lambda facts: any(fnmatchcase(value, pattern) for value in facts[word]) == wanted

    def _check_value(self, key: str, value: str, position: int) -> None:
        if not any(fnmatchcase(candidate, value) for candidate in self.known[key]):
            raise UsageError(
                "filter-unknown-value",
                f"no target has {key} {value!r}" if key != TAG else f"no target has the tag {value!r}",
                where=f"the filter {self.text!r}, column {position + 1}",
                remedy=alternatives(value, sorted(self.known[key])),
            )
