"""What CMake generates for Ninja, as far as tests ask: which steps there are, and the commands that compile and link.

Also what holds on each system for the steps of the wheel project and for those of LLVM.

Source: "Ninja file reference" in Ninja's manual.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WORD = re.compile(r"(?:\$.|[^\s$:|])+|:|\|+")
_VARIABLE = re.compile(r"\s+(?P<name>\w+) = (?P<value>.*)")


@dataclass(frozen=True)
class Step:
    """A ``build`` statement. Folders are separated by ``/``, and wine's drive is left out."""

    outputs: tuple[str, ...]
    rule: str
    inputs: tuple[str, ...]  #: all that must be there before, also what is only ordered
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def compiles(self) -> bool:
        """Whether C or C++ is compiled."""
        return self.rule.startswith(("C_COMPILER__", "CXX_COMPILER__"))

    @property
    def links(self) -> bool:
        """Whether it makes a shared library, an extension module or a program; archives aren't linked."""
        return "_LINKER__" in self.rule and "STATIC_LIBRARY" not in self.rule

    @property
    def name(self) -> str:
        """The file that it makes."""
        return PurePosixPath(self.outputs[0]).name

    @property
    def flags(self) -> list[str]:
        """The options that compiler or linker gets."""
        text = " ".join(self.variables.get(name, "") for name in ("FLAGS", "ARCH_FLAGS", "LINK_FLAGS", "LINK_PATH"))
        return text.replace("\\$$", "$").replace("$$", "$").split()

    @property
    def libraries(self) -> list[str]:
        """What it links, in the order of the command: files by their names, options as they are."""
        words = self.variables.get("LINK_LIBRARIES", "").replace("\\$$", "$").split()
        return [word if word.startswith("-") else PurePosixPath(word).name for word in words]


@dataclass(frozen=True)
class Build:
    """A configured folder."""

    folder: Path

    @cached_property
    def steps(self) -> list[Step]:
        """All of them, also those that nothing asks for."""
        return list(_read((self.folder / "build.ninja").read_text(encoding="utf-8")))

    def for_target(self, *targets: str) -> list[Step]:
        """The steps that Ninja takes for some targets in an empty folder."""
        makes = {output: step for step in self.steps for output in step.outputs}
        waiting, found = [*targets], dict[str, Step]()
        while waiting:
            step = makes.get(waiting.pop())
            if step is not None and step.outputs[0] not in found:
                found[step.outputs[0]] = step
                waiting += step.inputs
        return [step for step in found.values() if step.rule != "phony"]


def _read(text: str) -> Iterator[Step]:
    lines = iter(text.replace("$\n", "").splitlines())
    step: Step | None = None
    for line in lines:
        if line.startswith("build "):
            if step is not None:
                yield step
            words = [re.sub(r"\$(.)", r"\1", _plain(word)) for word in _WORD.findall(line.removeprefix("build "))]
            outputs, rest = words[: words.index(":")], words[words.index(":") + 1 :]
            step = Step(tuple(_files(outputs)), rest[0], tuple(_files(rest[1:])))
        elif step is not None and (match := _VARIABLE.fullmatch(line)):
            step.variables[match["name"]] = _plain(match["value"])
    if step is not None:
        yield step


def _files(words: list[str]) -> list[str]:
    return [word for word in words if not word.startswith("|")]


def _plain(text: str) -> str:
    r"""As on this machine; a backslash in front of ``$`` is the shell's."""
    return re.sub(r"\\(?!\$)", "/", text.replace("Z$:", "").replace("Z:", ""))


def check_c_runtime(os: str, compiles: Sequence[Step]) -> None:
    """Linked statically on Windows, and the same one in every file: a library can't be linked of two."""
    chosen = {word for step in compiles for word in step.flags if re.fullmatch("[-/]M[TD]d?", word)}
    assert chosen == ({"-MT"} if os == "windows" else set()), chosen
    if os == "windows":
        assert all("-MT" in step.flags for step in compiles)


def check_no_times(os: str, compiles: Sequence[Step], links: Sequence[Step]) -> None:
    """No file has a time in it; what Microsoft's tools write otherwise."""
    if os == "windows":
        for step in links:
            assert {"/INCREMENTAL:NO", "/Brepro"} <= set(step.flags), step.name
        assert all("/Brepro" in step.flags for step in compiles)


def check_deployment_target(os: str, steps: Sequence[Step]) -> None:
    """Everything is compiled and linked for the oldest macOS that wheels promise."""
    wanted = {"-mmacosx-version-min=13.0"} if os == "macos" else set()
    for step in steps:
        assert {word for word in step.flags if "version-min" in word} == wanted, step.name
