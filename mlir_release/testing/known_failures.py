"""The list of tests that are known to fail, and its effect on results.

The list (``projects/mlir/known_failures.toml``) is strict both ways: a failure that is not listed fails the suite, and
so does a listed test that passes, or that no longer exists. Each entry has its LLVM versions, the reason, and
upstream's report.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct, structs

from mlir_release.errors import UsageError
from mlir_release.host.files import read_document
from mlir_release.model.decode import from_toml
from mlir_release.model.platforms import PLATFORMS, Platform
from mlir_release.projects.mlir import KNOWN_FAILURES
from mlir_release.testing.report import TestOutcome, TestResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is tested, as far as the entries tell situations apart.

    :param python: ``3.12``; empty where no Python is involved
    :param profile: ``host``, ``core`` or ``full``; empty where the SDK is tested
    :param provider: where the SDK comes from (``debian``, ``source``, …)
    :param platform: that the SDK is for
    """

    llvm_version: str
    python: str = ""
    profile: str = ""
    provider: str = ""
    platform: Platform | None = None


@dataclass(frozen=True, kw_only=True)
class KnownFailure:
    """One entry.

    :param tests: names or shell patterns (``CAPI/*.c``); each must match at least one test, and each match must fail
    :param llvm: PEP 440 specifiers of the LLVM versions in which it holds
    :param reason: why it fails, for the person who reads the report
    :param link: where upstream, or the packager, knows of it
    """

    suite: str
    tests: tuple[str, ...]
    llvm: str
    reason: str
    link: str
    python: str = ""
    profiles: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    platforms: tuple[Platform, ...] = ()

    def holds(self, situation: Situation) -> bool:
        """Whether the entry is about this situation."""
        return (
            version_in(situation.llvm_version, self.llvm)
            and (not self.python or version_in(situation.python, self.python))
            and (not self.profiles or situation.profile in self.profiles)
            and (not self.providers or situation.provider in self.providers)
            and (not self.platforms or situation.platform in self.platforms)
        )


def version_in(version: str, specifiers: str) -> bool:
    """``version_in("22.1.8", ">=22,<23")``. A suffix of LLVM's own, as in ``23.0.0git``, is left out."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        parsed = Version(version)
    except InvalidVersion:
        numbers = version[: next((i for i, c in enumerate(version) if c not in "0123456789."), len(version))]
        parsed = Version(numbers.strip("."))
    return SpecifierSet(specifiers).contains(parsed, prereleases=True)


class _Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A :class:`KnownFailure` as the file has it: with patterns of platforms."""

    suite: str
    tests: Annotated[tuple[str, ...], Meta(min_length=1)]
    llvm: str
    reason: Annotated[str, Meta(min_length=1)]
    link: Annotated[str, Meta(min_length=1)]
    python: str = ""
    profiles: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()


class _Document(Struct, frozen=True, forbid_unknown_fields=True):
    failure: tuple[_Entry, ...] = ()


@cache
def load(path: Path = KNOWN_FAILURES) -> tuple[KnownFailure, ...]:
    """Read a list. :raises UsageError: ``config-invalid``"""
    try:
        return tuple(map(_failure, from_toml(read_document(path), _Document).failure))
    except (OSError, ValueError) as error:
        raise UsageError(
            "config-invalid",
            "the list of known failures cannot be read",
            where=str(path),
            why=str(error),
            remedy="each [[failure]] needs suite, tests, llvm, reason and link",
        ) from None


def _failure(entry: _Entry) -> KnownFailure:
    from packaging.specifiers import SpecifierSet

    SpecifierSet(entry.llvm)
    SpecifierSet(entry.python)
    platforms = tuple(platform for pattern in entry.platforms for platform in _platforms(pattern))
    return KnownFailure(**structs.asdict(entry) | {"platforms": platforms})


def _platforms(pattern: str) -> tuple[Platform, ...]:
    """The platforms that ``linux-*`` or ``windows-x64`` means. :raises ValueError: if it means none"""
    if "*" not in pattern:
        return (Platform.parse(pattern),)
    found = tuple(platform for platform in PLATFORMS if fnmatchcase(str(platform), pattern))
    if not found:
        raise ValueError(f"no platform is called {pattern!r}; there are: {', '.join(map(str, PLATFORMS))}")
    return found


def judge(
    results: Sequence[TestResult], suite: str, situation: Situation, entries: Iterable[KnownFailure] | None = None
) -> tuple[TestResult, ...]:
    """Compare results with the list: listed failures become expected, listed passes unexpected.

    An entry that names no test of the suite becomes a failure of its own, so that the list cannot rot. A test that is
    unsupported here stays unsupported, listed or not.
    """
    relevant = [
        entry for entry in (load() if entries is None else entries) if entry.suite == suite and entry.holds(situation)
    ]
    listed = [(entry, pattern) for entry in relevant for pattern in entry.tests]
    judged: list[TestResult] = []
    used: set[str] = set()
    for result in results:
        found = [(entry, pattern) for entry, pattern in listed if fnmatchcase(result.name, pattern)]
        used.update(pattern for _, pattern in found)
        judged.append(_judge(result, found[0][0]) if found else result)
    judged += [
        TestResult(
            name=pattern,
            outcome=TestOutcome.FAIL,
            message=f"the list of known failures names {pattern!r} ({entry.reason}), but there is no such test",
        )
        for entry, pattern in listed
        if pattern not in used
    ]
    return tuple(judged)


def _judge(result: TestResult, entry: KnownFailure) -> TestResult:
    if result.outcome is TestOutcome.FAIL:
        return replace(result, outcome=TestOutcome.EXPECTED_FAIL, message=f"{entry.reason} ({entry.link})")
    if result.outcome is TestOutcome.PASS:
        message = (
            f"it passes, but is on the list of known failures: {entry.reason} ({entry.link}); take it off the list"
        )
        return replace(result, outcome=TestOutcome.UNEXPECTED_PASS, message=message)
    return result
