"""Facts about one llvm-project revision that a release needs, read from a few files of its own tree.

The same reader serves a folder and a commit: it asks for the text of one path at a time (:meth:`LlvmFacts.read`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mlir_release.ground.llvm.projects import all_projects

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packaging.version import Version

#: Trailers that hold the facts, of our tags and (the first) of upstream commits that represent a release.
TRAILER_VERSION = "LLVM-Version"
_TRAILER_MINIMUM = "Minimum-Python"
_TRAILER_BINDING = "Binding-Requirements"
_TRAILER_RUNTIME = "Runtime-Requirements"
_TRAILER_STABLE_ABI = "Stable-ABI"
_TRAILER_SOURCES = "Python-Sources"
_TRAILER_TOOLS = "Build-Tools"
_TRAILER_LACKS = "Lacks-Projects"

#: Between requirements on one line; no requirement contains it.
_SEPARATOR = " | "
_ANSWERS = {"yes": True, "no": False}
#: Every trailer that is always there, with what its value looks like.
_TRAILERS = {
    TRAILER_VERSION: re.compile(r"\d+\.\d+\.\d+[A-Za-z0-9]*"),
    _TRAILER_MINIMUM: re.compile(r"3\.\d+"),
    _TRAILER_BINDING: re.compile(".*"),
    _TRAILER_RUNTIME: re.compile(".*"),
    _TRAILER_STABLE_ABI: re.compile("|".join(_ANSWERS)),
    _TRAILER_SOURCES: re.compile("|".join(_ANSWERS)),
    _TRAILER_TOOLS: re.compile(".*"),
}

#: The trailer that is there if it says something: names of projects.
_LACKS = re.compile(r"[a-z0-9][a-z0-9-]*(?: [a-z0-9][a-z0-9-]*)*")

REQUIREMENTS_FILE = "mlir/python/requirements.txt"

#: What sets the version; LLVM 19 moved it out of llvm/CMakeLists.txt.
VERSION_FILES = ("cmake/Modules/LLVMVersion.cmake", "llvm/CMakeLists.txt")
#: The bindings' own minimum CPython (since LLVM 21), else that of LLVM's build.
_MINIMUM_FILES = ("mlir/cmake/modules/MLIRDetectPythonEnv.cmake", "mlir/CMakeLists.txt", "llvm/CMakeLists.txt")
_OPTIONS_FILE = "mlir/CMakeLists.txt"
_BINDINGS_FILE = "mlir/python/CMakeLists.txt"
_TOOLS_FILES = ("llvm/CMakeLists.txt", "mlir/CMakeLists.txt", "llvm/cmake/modules/CheckCompilerVersion.cmake")

_FILES = (*VERSION_FILES, *_MINIMUM_FILES, REQUIREMENTS_FILE, _OPTIONS_FILE, _BINDINGS_FILE, *_TOOLS_FILES)

#: CMake's names of compilers -> what the variables with their oldest versions begin with.
COMPILERS = {"GNU": "GCC", "Clang": "CLANG", "AppleClang": "APPLECLANG", "MSVC": "MSVC"}

#: What LLVM's build checks the version of. It names no oldest Ninja.
BUILD_TOOLS = ("CMake", "Python", *COMPILERS)

_NUMBER = re.compile(r"set\(LLVM_VERSION_(?P<part>MAJOR|MINOR|PATCH)\s+(?P<value>\d+)\)")
_SUFFIX = re.compile(r"set\(LLVM_VERSION_SUFFIX\s+(?P<value>[A-Za-z0-9]+)\s*\)")
_MINIMUM = re.compile(r"(?:MLIR_MINIMUM_PYTHON_VERSION|LLVM_MINIMUM_PYTHON_VERSION)\s+(?P<value>3\.\d+)\b")
_STABLE_ABI = re.compile(r"^\s*(?:set|option)\s*\(\s*MLIR_ENABLE_PYTHON_STABLE_ABI\b", re.MULTILINE)
_PYTHON_SOURCES = re.compile(r"^\s*add_custom_target\s*\(\s*\"?mlir-python-sources\b", re.MULTILINE)
_CMAKE = re.compile(r"^[ \t]*cmake_minimum_required\s*\(\s*VERSION\s+(?P<value>[^\s)]+)", re.MULTILINE | re.IGNORECASE)
_PYTHON = re.compile(r"^[ \t]*find_package\s*\(\s*Python3\s+(?P<value>[\d$][^\s)]*)", re.MULTILINE | re.IGNORECASE)
_VERSION = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,3}")

#: LLVM's own minimum, before the bindings had one.
_OLDEST_PYTHON = "3.8"

#: Requirements of the build only, in a requirements.txt that does not tell them apart (LLVM 21 and before).
_NAMES_FOR_BUILDING = re.compile(r"(?:nanobind|pybind11|typing[_-]extensions)(?![A-Za-z0-9._-])")

What = Literal["projects", "version", "requirements", "trailers"]


def fact_files() -> tuple[str, ...]:
    """Every file that :meth:`LlvmFacts.read` may ask for."""
    return tuple(dict.fromkeys((*_FILES, *(project.needs for project in all_projects()))))


class FactsError(ValueError):
    """A tree (or a tag) does not say what it must.

    :param what: what is missing or unreadable in it
    """

    def __init__(self, what: What, why: str) -> None:
        super().__init__(why)
        self.what = what


@dataclass(frozen=True, kw_only=True)
class LlvmFacts:
    """What a revision's own tree says about it. "The bindings" are MLIR's; a tree without them requires nothing."""

    version: str  #: ``22.1.8``, ``23.0.0git``
    minimum_python: str  #: oldest CPython that the bindings support: ``3.10``
    binding_requirements: tuple[str, ...]  #: what building the bindings needs; upstream's lines, without comments
    runtime_requirements: tuple[str, ...]  #: what the bindings import at run time, from the same file
    has_stable_abi: bool  #: whether the bindings can be built for CPython's stable ABI
    has_python_sources: bool  #: whether the bindings' sources can be installed alone (``mlir-python-sources``)
    build_tools: tuple[str, ...]  #: the oldest that LLVM's build accepts, where that can be read: ``CMake>=3.20.0``
    lacks: tuple[str, ...] = ()  #: names of projects that its tree has no sources of

    @property
    def unread_tools(self) -> tuple[str, ...]:
        """Those of :data:`BUILD_TOOLS` whose oldest version could not be read."""
        known = {line.partition(">=")[0] for line in self.build_tools}
        return tuple(name for name in BUILD_TOOLS if name not in known)

    def unmet(self, there: Mapping[str, str]) -> tuple[str, ...]:
        """The demands that a build would not meet: ``CMake>=4.1, not 3.31.10``.

        :param there: versions by their names in :data:`BUILD_TOOLS`; a demand about no other tool is looked at
        """
        from packaging.requirements import Requirement

        return tuple(
            f"{demand}, not {there[demand.name]}"
            for demand in map(Requirement, self.build_tools)
            if demand.name in there and not demand.specifier.contains(there[demand.name])
        )

    @property
    def binding_library(self) -> str:
        """``nanobind`` or ``pybind11``."""
        return "nanobind" if any(line.startswith("nanobind") for line in self.binding_requirements) else "pybind11"

    @classmethod
    def read(cls, text_of: Callable[[str], str | None]) -> LlvmFacts:
        """Read a tree.

        :param text_of: the text of the file at a path (of :func:`fact_files`), None if the tree has no such file
        :raises FactsError: if it has no project at all, no version, or requirements that can't be read
        """
        known = all_projects()
        lacking = [project for project in known if text_of(project.needs) is None]
        if known and len(lacking) == len(known):
            names = ", ".join(project.needs for project in lacking)
            raise FactsError("projects", f"the files of all projects are missing: {names}")
        building, running = split_requirements((text_of(REQUIREMENTS_FILE) or "").splitlines())
        for path in VERSION_FILES:
            text = text_of(path) or ""
            numbers = {match["part"]: match["value"] for match in _NUMBER.finditer(text)}
            if len(numbers) == 3:
                suffix = _SUFFIX.search(text)
                version = "{MAJOR}.{MINOR}.{PATCH}".format(**numbers) + (suffix["value"] if suffix else "")
                break
        else:
            problem = f"neither {' nor '.join(VERSION_FILES)} sets LLVM_VERSION_MAJOR, MINOR and PATCH"
            raise FactsError("version", problem)
        minimums = (_MINIMUM.search(text_of(path) or "") for path in _MINIMUM_FILES)
        text = "\n".join(text_of(path) or "" for path in _TOOLS_FILES)
        # A tool that is asked for in an unknown way is left out.
        tools = {"CMake": _versions(_CMAKE, text), "Python": _versions(_PYTHON, text)}
        # Below a SOFT_ERROR, too, configuration fails, unless a variable says otherwise.
        tools |= {name: _versions(_setting(f"{prefix}_(?:MIN|SOFT_ERROR)"), text) for name, prefix in COMPILERS.items()}
        return cls(
            version=version,
            minimum_python=next((found["value"] for found in minimums if found), _OLDEST_PYTHON),
            binding_requirements=tuple(building),
            runtime_requirements=tuple(running),
            has_stable_abi=_STABLE_ABI.search(text_of(_OPTIONS_FILE) or "") is not None,
            has_python_sources=_PYTHON_SOURCES.search(text_of(_BINDINGS_FILE) or "") is not None,
            build_tools=tuple(f"{name}>={max(versions)}" for name, versions in tools.items() if versions),
            lacks=tuple(project.name for project in lacking),
        )

    def trailers(self) -> dict[str, str]:
        """The facts as trailers of a tag; :meth:`from_trailers` reads them back."""
        names = {answer: name for name, answer in _ANSWERS.items()}
        return {
            TRAILER_VERSION: self.version,
            _TRAILER_MINIMUM: self.minimum_python,
            _TRAILER_BINDING: _SEPARATOR.join(self.binding_requirements),
            _TRAILER_RUNTIME: _SEPARATOR.join(self.runtime_requirements),
            _TRAILER_TOOLS: _SEPARATOR.join(self.build_tools),
            _TRAILER_STABLE_ABI: names[self.has_stable_abi],
            _TRAILER_SOURCES: names[self.has_python_sources],
            **({_TRAILER_LACKS: " ".join(self.lacks)} if self.lacks else {}),
        }

    @classmethod
    def from_trailers(cls, trailers: Mapping[str, str]) -> LlvmFacts | None:
        """The facts that a tag records; None if it lacks one of them, as an older toolkit's tags do.

        :raises FactsError: if one is not what it should be
        """
        if any(key not in trailers for key in _TRAILERS):
            return None
        for key, pattern in _TRAILERS.items():
            if not pattern.fullmatch(trailers[key]):
                raise FactsError("trailers", f"{key} is {trailers[key]!r}")
        lacks = trailers.get(_TRAILER_LACKS)
        if lacks is not None and not _LACKS.fullmatch(lacks):
            raise FactsError("trailers", f"{_TRAILER_LACKS} is {lacks!r}")
        return cls(
            version=trailers[TRAILER_VERSION],
            minimum_python=trailers[_TRAILER_MINIMUM],
            binding_requirements=_recorded(trailers, _TRAILER_BINDING),
            runtime_requirements=_recorded(trailers, _TRAILER_RUNTIME),
            has_stable_abi=_ANSWERS[trailers[_TRAILER_STABLE_ABI]],
            has_python_sources=_ANSWERS[trailers[_TRAILER_SOURCES]],
            build_tools=_recorded(trailers, _TRAILER_TOOLS),
            lacks=tuple((lacks or "").split()),
        )


def _recorded(trailers: Mapping[str, str], key: str) -> tuple[str, ...]:
    lines = tuple(trailers[key].split(_SEPARATOR)) if trailers[key] else ()
    for line in lines:
        if problem := _problem_with(line):
            raise FactsError("trailers", f"{key} contains {line!r}: {problem}")
    return lines


def _problem_with(line: str) -> str:
    """Why a line is not a requirement; empty if it is one."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        found = Requirement(line)
    except InvalidRequirement as error:
        return str(error).splitlines()[0]
    return "it names an address, and not versions that an index has" if found.url else ""


def split_requirements(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Upstream's requirement lines, without comments, as ``(for building, for running)``.

    The file has a heading for each since LLVM 22. Before, it is one list, of which the bindings import all but what
    binds them (PyYAML, too, which later ones import only to print operation definitions).

    :raises FactsError: naming the first line that is not a requirement
    """
    building: list[str] = []
    running: list[str] = []
    heading = ""
    for number, line in enumerate(lines, 1):
        text, _, comment = line.partition("#")
        text = text.strip()
        if not text:
            words = comment.split()
            heading = words[0] if words[1:] == ["dependencies"] else heading
            continue
        if problem := _problem_with(text):
            raise FactsError("requirements", f"line {number} of {REQUIREMENTS_FILE} is {text!r}: {problem}")
        for_building = heading == "BUILD" or (not heading and _NAMES_FOR_BUILDING.match(text) is not None)
        (building if for_building else running).append(text)
    return building, running


def _versions(pattern: re.Pattern[str], text: str) -> list[Version]:
    """The versions at all places that a pattern finds; none at all if one of them can't be read."""
    found = [_version(match["value"], text) for match in pattern.finditer(text)]
    return [version for version in found if version is not None] if all(found) else []


def _setting(variable: str) -> re.Pattern[str]:
    return re.compile(rf"^[ \t]*set\s*\(\s*{variable}\s+(?P<value>[^\s)]+)", re.MULTILINE | re.IGNORECASE)


def _version(word: str, text: str) -> Version | None:
    """The version that a word of a CMake file is: of a range (``3.20...3.31``) the older; a variable's first value.

    :param text: of the files, where a variable is set
    """
    from packaging.version import Version

    for _ in range(4):
        word = word.strip('"').partition("...")[0]
        name = re.fullmatch(r"\$\{(\w+)\}", word)
        match = _setting(name[1]).search(text) if name else None
        if match is None:
            break
        word = match["value"]
    return Version(word) if _VERSION.fullmatch(word) else None
