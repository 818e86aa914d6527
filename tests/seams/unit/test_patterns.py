"""Regular expressions meet text that others chose: none takes longer than its text is long, many times over."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import signal
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from re import _constants as code  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

import pytest

import mlir_release
from mlir_release.ground.foreign import inert, link, markdown

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(mlir_release.__file__).parent

#: Runs where a wheel is built, and reads what that wheel's own sources say.
CARRIED = PACKAGE / "builder" / "projects"

#: Characters of a line: what :func:`mlir_release.ground.foreign.visible` lets through.
LINE = 65_536

REPEATS = (code.MAX_REPEAT, code.MIN_REPEAT)


#: Functions that try a pattern at each place of a text.
ANYWHERE = ("search", "finditer", "findall", "sub", "subn", "split")


def literals() -> Iterator[tuple[str, str | bytes, int, bool]]:
    """Patterns that are written where they are used: where, the pattern, its flags, whether it may begin anywhere."""
    for path in PACKAGE.rglob("*.py"):
        if path.is_relative_to(CARRIED):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = ast.unparse(node.func).removeprefix("re.") if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and called in (*ANYWHERE, "match", "fullmatch") and node.args:
                with suppress(ValueError):
                    pattern = ast.literal_eval(node.args[0])
                    if isinstance(pattern, str | bytes):
                        flags = re.MULTILINE if "MULTILINE" in ast.unparse(node) else 0
                        yield path.relative_to(PACKAGE).as_posix(), pattern, flags, called in ANYWHERE


def compiled() -> Iterator[tuple[str, str | bytes, int, bool]]:
    """Patterns that modules have, however they made them."""
    for found in pkgutil.walk_packages([str(PACKAGE)], "mlir_release."):
        if found.name.startswith("mlir_release.builder.projects") or found.name.endswith(("__main__", "in_tensorflow")):
            continue
        module = importlib.import_module(found.name)
        used = Path(module.__file__ or "").read_text(encoding="utf-8")
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                anywhere = re.search(rf"\b{name}\.(?:{'|'.join(ANYWHERE)})\b", used) is not None
                where = found.name.removeprefix("mlir_release.").replace(".", "/")
                yield f"{where}.py", value.pattern, value.flags & ~re.UNICODE, anywhere


def samples(node: Any) -> str:
    """A short text that a part of a pattern matches, roughly."""
    made = ""
    for op, given in node:
        if op is code.LITERAL:
            made += chr(given)
        elif op in (code.NOT_LITERAL, code.ANY):
            made += "a"
        elif op is code.IN:
            made += one_of(given)
        elif op in REPEATS:
            made += samples(given[2]) * max(given[0], 0)
        elif op is code.SUBPATTERN:
            made += samples(given[3])
        elif op is code.BRANCH:
            made += samples(given[1][0])
    return made


def one_of(members: Any) -> str:
    categories = {"CATEGORY_SPACE": " ", "CATEGORY_DIGIT": "1", "CATEGORY_WORD": "a"}
    allowed = [char for char in "aA1 \n\t-_.:/`x[(" if any(is_in(char, member) for member in members)]
    if members[0][0] is code.NEGATE:
        allowed = [char for char in "aA1 \n\t-_.:/`x[(" if not any(is_in(char, member) for member in members[1:])]
    elif not allowed:
        op, given = members[0]
        return chr(given if op is code.LITERAL else given[0]) if op is not code.CATEGORY else categories[str(given)]
    return allowed[0] if allowed else "~"


def is_in(char: str, member: Any) -> bool:
    op, given = member
    if op is code.LITERAL:
        return bool(ord(char) == given)
    if op is code.RANGE:
        return bool(given[0] <= ord(char) <= given[1])
    if op is code.CATEGORY:
        kinds = {"SPACE": r"\s", "DIGIT": r"\d", "WORD": r"\w"}
        name = str(given).removeprefix("CATEGORY_")
        match = re.match(kinds[name.removeprefix("NOT_").removeprefix("UNI_")], char) is not None
        return bool(match != name.startswith("NOT_"))
    return False


def attacks(node: Any, before: str = "") -> Iterator[str]:
    """Texts that make each repeat of a pattern go on and then fail; and its beginning, again and again."""
    for op, given in node:
        if op in REPEATS:
            body = samples(given[2]) or "a"
            if given[1] is code.MAXREPEAT:
                yield before + body * (LINE // len(body)) + "\0"
                if before:
                    yield before * (LINE // len(before)) + "\0"
                yield (before + body) * (LINE // len(before + body)) + "\0"
            yield from attacks(given[2], before)
        elif op is code.SUBPATTERN:
            yield from attacks(given[3], before)
        elif op is code.BRANCH:
            for branch in given[1]:
                yield from attacks(branch, before)
        elif op in (code.ASSERT, code.ASSERT_NOT):
            yield from attacks(given[1], before)
        before += samples([(op, given)])


class TooSlow(Exception):
    pass


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Of a processor, whatever else the machine does."""

    def end(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


#: Modules whose expressions meet no text of strangers but what is short already, or what we have made ourselves.
SHORT = {
    "operate/doctor/releases.py": "what git says of its version",
    "extras/apidocs/draw.py": "descriptions in a wheel of ours, of 64 MB at most, a paragraph each",
    "integrate/project.py": "the user's own name, as git says it",
    "builder/sdk/sources/debian.py": "Debian's signed index",
    "builder/sdk/regalloc_model.py": "a header of the LLVM that is built, whose build is a program anyway",
    "builder/wheels/cibuildwheel.py": "what the kernel says of a process",
    "builder/wheels/platform_tags.py": "the name of a member, of 1024 bytes at most",
    "builder/sdk/prefix.py": "what CMake has written into an SDK of ours",
}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows can't interrupt an expression")
def test_no_expression_takes_seconds_for_a_line() -> None:
    """The limit is a hundred times what a proportionate one takes; a square takes minutes."""
    slow = []
    patterns = {(pattern, flags, anywhere): where for where, pattern, flags, anywhere in (*literals(), *compiled())}
    for (pattern, flags, anywhere), where in patterns.items():
        if where in SHORT:
            continue
        tried = re.compile(pattern, flags)
        for text in dict.fromkeys(attacks(parser.parse(pattern, flags))):
            given = text.encode("latin-1", "replace") if isinstance(pattern, bytes) else text
            try:
                with at_most(3.0):
                    (tried.search if anywhere else tried.match)(given)  # type: ignore[arg-type]
                    (tried.search if anywhere else tried.fullmatch)(given)  # type: ignore[arg-type]
            except TooSlow:
                slow.append((where, pattern, text[:60]))
                break
    assert len(patterns) > 200
    assert not slow


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"\n\s*:(?=:)", r"requirement (.+?) \(from"])
def test_expressions_that_are_slow_are_found(pattern: str) -> None:
    text = " ".join(attacks(parser.parse(pattern, 0)))
    with pytest.raises(TooSlow), at_most(3.0):
        re.search(pattern, text)


def test_what_is_printed_takes_no_longer_than_its_length_says() -> None:
    for text in ("\n" * 1_000_000, " " * 1_000_000 + ":", "`" * 1_000_000, "`a" * 500_000, "[" * 1_000_000):
        with at_most(10.0):
            inert(text)
            markdown(text)
            link(text, "https://example.org/")
