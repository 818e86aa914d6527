"""Response files in a command: clang takes ``@FILE`` for the words in that file.

Source of the rules: ExpansionContext and TokenizeGNUCommandLine in llvm/lib/Support/CommandLine.cpp. They are not a
shell's: a backslash escapes in every quote, no word is empty, and the end of the file closes a quote.
"""

from __future__ import annotations

import codecs
import os
import re
from typing import TYPE_CHECKING

from mlir_release.ground.documents.digests import open_regular
from mlir_release.ground.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Bytes of all response files of a command; a file counts as a page at least. Chromium's link has 4 MB. Files can name
#: each other without a circle, and still have more words than memory holds.
_LIMIT, _PAGE = 64_000_000, 4096

_PIECE = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<quote>["'])(?P<quoted>(?:\\.|(?!(?P=quote)).)*)(?:(?P=quote)|\Z)
    |\\.|[^ \t\r\n"'\\]+|\\""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def expand(command: Sequence[str], folder: Path) -> list[str]:
    """The words of a command, with those of its response files, and of the files that these name.

    :param folder: that the command runs in; all names are relative to it, also those in a response file
    :raises UsageError: ``input-invalid``. clang itself leaves the name of a missing file as it is.
    """
    found: list[str] = []
    stack = [iter(command)]  # a chain of files may be longer than Python's recursion
    opened: list[tuple[int, int]] = []
    left = _LIMIT
    while stack:
        for word in stack[-1]:
            if not word.startswith("@"):
                found.append(word)
                continue
            path = folder / word[1:]
            try:
                with open_regular(path) as file:
                    status = os.fstat(file.fileno())
                    content = file.read(left + 1)
                encoding = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
                text = content.decode(encoding) if len(content) <= left else ""
            except FileNotFoundError:
                remedy = "if Ninja deleted it after the link, delete the linked file and link it again with ninja -d "
                raise _refused(path, "it doesn't exist", f"{remedy}keeprsp") from None
            except UnicodeDecodeError as error:
                why = f"it is not text in {error.encoding}: {error.reason} at byte {error.start:,}"
                raise _refused(path, why) from None
            except (OSError, ValueError) as error:
                raise _refused(path, getattr(error, "strerror", None) or str(error)) from None
            if "\0" in text:
                raise _refused(path, "it has a zero byte, which no word of a command has")
            left -= max(len(content), _PAGE)
            if left < 0:
                raise _refused(path, f"the response files of one command have more than {_LIMIT:,} bytes")
            if (status.st_dev, status.st_ino) in opened:
                raise _refused(path, "it names itself, directly or through another one")
            opened.append((status.st_dev, status.st_ino))
            stack.append(iter(split(text)))
            break
        else:
            stack.pop()
            del opened[-1:]
    return found


def split(text: str) -> list[str]:
    """The words of a response file's text."""
    words, word = [], ""
    for piece in _PIECE.finditer(text):
        if piece["space"] is None:
            word += _ESCAPED.sub(r"\1", piece[0] if piece["quote"] is None else piece["quoted"])
        elif word:
            words.append(word)
            word = ""
    return [*words, word] if word else words


def _refused(path: Path, why: str, remedy: str = "correct the file, or the command that names it") -> UsageError:
    return UsageError(
        "input-invalid", f"the response file {path.name} can't be read", where=str(path), why=why, remedy=remedy
    )
