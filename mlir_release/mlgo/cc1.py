"""What a recorded command of ``clang -cc1`` says to those who compile its bitcode again. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Options that name a profile to use.
PROFILE = re.compile(r"-fprofile-(?:instrument-use-path|sample-use)=")

#: Options that say what to write, and where; those with a value are in the second set.
_OUTPUT = re.compile(r"-emit-obj|-fembed-bitcode(?:=.*)?|-sys-header-deps|-MP|-MG")
_OUTPUT_VALUED = frozenset({"-o", "-x", "-MT", "-MQ", "-dependency-file", "-split-dwarf-file", "-split-dwarf-output"})

#: Options of the front end alone, which name folders of the machine; those with a value are in the second set.
_SOURCE = re.compile(r"-std=.*|-pedantic.*|-W.*|-f(?:debug|coverage)-compilation-dir=.*|-fcolor-diagnostics")
_SOURCE_VALUED = frozenset(
    {
        "-main-file-name", "-resource-dir", "-D", "-U", "-I", "-isystem", "-isysroot", "-iquote", "-idirafter",
        "-include", "-include-pch", "-internal-isystem", "-internal-externc-isystem", "-ferror-limit",
    }
)  # fmt: skip


def with_profiles(command: Sequence[str], directory: Path) -> list[str]:
    """A command recorded in a folder, with the full paths of its profiles: it is used elsewhere later."""
    return [
        f"{match[0]}{directory / word[match.end() :]}" if (match := PROFILE.match(word)) else word for word in command
    ]


def without_output(command: Sequence[str]) -> list[str]:
    """The options of a command but for those that say what to write.

    :param command: ``-cc1`` and its options, as recorded; inputs and outputs may be missing
    """
    return _without(command, _OUTPUT, _OUTPUT_VALUED)


def clang_flags(command: Sequence[str]) -> tuple[str, ...]:
    """The options of a command that count for bitcode: without output, sources and folders, but for profiles."""
    return tuple(_without(without_output(command), _SOURCE, _SOURCE_VALUED))


def llc_flags(command: Sequence[str]) -> tuple[str, ...]:
    """llc's options for what a command says about code generation and the module does not."""
    found = []
    for word, value in zip(command, [*command[1:], ""], strict=True):
        if re.fullmatch("-O[0-3]", word):
            found.append(word)
        elif word in ("-Os", "-Oz"):
            found.append("-O2")
        elif word == "-mrelocation-model":
            found.append(f"-relocation-model={value}")
        elif word.startswith("-mcmodel="):
            found.append(f"-code-model={word.partition('=')[2]}")
        elif word in ("-ffunction-sections", "-fdata-sections"):
            found.append(f"-{word[2:]}")
    return tuple(found)


def _without(command: Sequence[str], single: re.Pattern[str], valued: frozenset[str]) -> list[str]:
    kept, words = [], iter(command)
    for word in words:
        if word in valued:
            next(words, None)
        elif not single.fullmatch(word):
            kept.append(word)
    return kept
