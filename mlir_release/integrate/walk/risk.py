"""How likely each upstream commit is to break this downstream, relative to the average, by the files it touches."""

from __future__ import annotations

import posixpath
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from mlir_release.ground.git.remotes import have_objects
from mlir_release.ground.git.repository import GitError
from mlir_release.ground.strategy import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mlir_release.integrate.project import Integration
    from mlir_release.integrate.upstream import UpstreamCommit, UpstreamRepository

#: Relative risk of a commit that touches a file which the downstream includes; nothing but tests and documents; else.
INCLUDED, IDLE, OTHER = 3.0, 0.05, 0.6

#: How likely a break that was found with other sources, or another smoke test, is to be there still.
_REMEMBERED = 0.9

IDLE_FILE = re.compile(r"(^|/)(test|tests|unittests|docs|examples|benchmark)/|\.(md|rst)$")
_INCLUDE = re.compile(rb"include\s*[<\"]([^<>\"\n]+)[>\"]")


#: What TableGen makes, by the options of MLIR's build: ``FooOps.h.inc`` and ``FooOpsDialect.cpp.inc`` of ``FooOps.td``.
_GENERATED = re.compile(r"(?:\.h|\.cpp|\.cc)?\.inc$")
_PART = re.compile(r"(?:Dialect|Types|TypeDefs|Enums|Attrs|AttrDefs|Attributes|Interfaces)$")


#: What MLIR's CMake says of it: the file that it is made of, then its own name.
_TABLEGEN = re.compile(r"LLVM_TARGET_DEFINITIONS\s+([^\s)]+)|(?:mlir_)?tablegen\(\s*(?:LLVM\s+)?([^\s)]+)")


def included_in(project: Integration) -> Callable[[str], bool]:
    """A function: whether the downstream's own sources include an upstream file, given by its path there.

    A file is included by the end of its path, as ``mlir/IR/Builders.h`` is. A TableGen file is included, too, if what
    is made of it is, directly or by an included header, as upstream's CMake says; or if it is named like that.
    """
    sources = ("*.h", "*.hpp", "*.c", "*.cc", "*.cpp", "*.td", "*.inc")
    lines = ("grep", "-h", "-I", "-E", r"^\s*#?\s*include\s*[<\"]", "HEAD", "--", *sources)
    output = project.outer.run(*lines, check=False).stdout  # exit code 1: nothing found
    names = {name for path in _INCLUDE.findall(output) for name in _names(path.decode(errors="replace"))}

    def included(path: str) -> bool:
        parts = path.split("/")
        return any("/".join(parts[index:]) in names for index in range(len(parts)))

    with suppress(GitError):  # a clone without these files, and no network
        names |= _made_for(project.upstream, included)
    return included


def _made_for(upstream: UpstreamRepository, included: Callable[[str], bool]) -> set[str]:
    """The ends of the paths of TableGen files that included upstream headers have by what is made of them."""
    if upstream.resolve(upstream.ref) is None:
        return set()
    listed = upstream.text("ls-tree", "-r", "-z", upstream.ref, "--", *upstream.config.paths).split("\0")[:-1]
    files = {path: entry.split()[2] for entry, _, path in (row.partition("\t") for row in listed)}
    read = [path for path in files if path.endswith("/CMakeLists.txt") or (path.endswith(".h") and included(path))]
    have_objects(upstream, upstream.ref, [files[path] for path in read])
    headers, folders = set[str](), {}
    for path, found in zip(read, upstream.objects([files[path] for path in read]), strict=True):
        if found is not None and path.endswith(".h"):
            headers |= {name.decode(errors="replace") for name in _INCLUDE.findall(found[1])}
        elif found is not None:
            folders[path.rpartition("/")[0]] = found[1].decode(errors="replace")
    made = {}
    for folder, text in folders.items():
        source = ""
        for definitions, name in _TABLEGEN.findall(text):
            source = definitions or source
            if name and source:
                made[f"{folder}/{name}"] = posixpath.normpath(f"{folder}/{source}")
    wanted = {name for name in headers if name.endswith(".inc")}
    told = {source for name, source in made.items() if any(name.endswith(f"/{each}") for each in wanted)}
    return told | {end for name in wanted for end in _names(name)}


def _names(path: str) -> Iterator[str]:
    """The ends of the paths of upstream files that an ``#include`` of ``path`` may mean."""
    path = path.rpartition("../")[2].removeprefix("./")
    yield path
    stem = _GENERATED.sub("", path)
    if stem != path:
        yield f"{_PART.sub('', stem)}.td"
    else:
        stem = path.removesuffix(".h")
    if stem != path:
        yield f"{stem}.td"


def weigher(project: Integration) -> Callable[[Sequence[UpstreamCommit]], list[float]]:
    """A function for :class:`~mlir_release.integrate.walk.walk.Walk`; one ``git diff-tree`` for all commits, kept."""
    included = included_in(project)
    seen: dict[str, list[str]] = {}

    def weigh(commits: Sequence[UpstreamCommit]) -> list[float]:
        seen.update(project.upstream.touched(commit.sha for commit in commits if commit.sha not in seen))
        factors = []
        for paths in (seen.get(commit.sha, []) for commit in commits):
            idle = paths and all(IDLE_FILE.search(path) for path in paths)
            factors.append(IDLE if idle else INCLUDED if any(map(included, paths)) else OTHER)
        mean = sum(factors) / len(factors) if factors else 1.0
        return [factor / mean for factor in factors]

    return weigh


def remember(factors: Sequence[float], mean: float, lines: Sequence[Mapping[int, Verdict]]) -> list[float]:
    """``factors`` of the commits ahead, raised where a break was found earlier, under other circumstances.

    :param mean: the average break probability, which the factors multiply
    :param lines: verdicts that belong together, by position; 0: the branch is there or past it
    """
    raised = list(factors)
    for line in lines:
        low = max((position for position, verdict in line.items() if verdict is Verdict.GOOD), default=0)
        bad = [position for position, verdict in line.items() if verdict is Verdict.BAD and position > low]
        if not bad or line.get(0) is Verdict.BAD:  # that break is behind the branch, and explains the others
            continue
        high = min(bad)
        whole = sum(factors[low:high])
        for position in range(low, high):
            share = 1 - (1 - _REMEMBERED) ** (factors[position] / whole)
            raised[position] = max(raised[position], share / mean)
    return raised
