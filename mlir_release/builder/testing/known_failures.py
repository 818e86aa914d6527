"""The list of tests that are known to fail: its effect on results, and a proposal for a new platform.

The list (``known_failures.toml`` of the project) is strict both ways. A failure that is not listed fails the suite. So
does a listed test that passes, or that no longer exists. Each entry has its LLVM versions, the reason, and upstream's
report.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from mlir_release.builder.testing.report import TestOutcome, TestResult
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import from_toml
from mlir_release.ground.errors import UsageError
from mlir_release.ground.python.platforms import PLATFORMS, Platform
from mlir_release.ground.storage.files import read_document, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from mlir_release.builder.sdk.info import SdkInfo
    from mlir_release.builder.testing.report import TestRun


@dataclass(frozen=True, kw_only=True)
class Situation:
    """The facts about a tested SDK or wheel that the entries tell apart."""

    llvm_version: str
    python: str = ""  #: ``3.12``; empty where no Python is involved
    profile: str = ""  #: ``host``, ``core`` or ``full``; empty where the SDK is tested
    provider: str = ""  #: where the SDK comes from (``debian``, ``source``, …)
    platform: Platform | None = None  #: that the SDK is for

    @classmethod
    def of(cls, info: SdkInfo, *, python: str = "", profile: str = "") -> Situation:
        """That of an SDK, or of a wheel made with it."""
        return cls(
            llvm_version=info.llvm_version,
            python=python,
            profile=profile,
            provider=info.provider,
            platform=info.platform,
        )


class KnownFailure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry."""

    suite: str
    #: Names or shell patterns (``CAPI/*.c``); each must match at least one test, and each match must fail.
    tests: Annotated[tuple[str, ...], Meta(min_length=1)]
    llvm: str  #: PEP 440 specifiers of the LLVM versions in which the entry holds
    reason: Annotated[str, Meta(min_length=1)]  #: why it fails, for the person who reads the report
    link: Annotated[str, Meta(min_length=1)]  #: where upstream, or the packager, knows of it
    python: str = ""  #: PEP 440 specifiers of CPython's versions; empty: all
    profiles: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()  #: names or shell patterns (``windows-x64``, ``linux-*``)

    def __post_init__(self) -> None:
        from packaging.specifiers import SpecifierSet

        SpecifierSet(self.llvm)
        SpecifierSet(self.python)
        for pattern in self.platforms:
            matching_platforms(pattern)

    def holds(self, situation: Situation) -> bool:
        """Whether the entry is about this situation."""
        return (
            version_in(situation.llvm_version, self.llvm)
            and (not self.python or version_in(situation.python, self.python))
            and (not self.profiles or situation.profile in self.profiles)
            and (not self.providers or situation.provider in self.providers)
            and (not self.platforms or any(situation.platform in matching_platforms(name) for name in self.platforms))
        )


def matching_platforms(pattern: str) -> tuple[Platform, ...]:
    """The platforms that ``linux-*`` or ``windows-x64`` stands for. :raises ValueError: for another name"""
    if "*" not in pattern:
        return (Platform.parse(pattern),)
    found = tuple(platform for platform in PLATFORMS if fnmatchcase(str(platform), pattern))
    if not found:
        raise ValueError(f"no platform is called {pattern!r}; there are: {', '.join(map(str, PLATFORMS))}")
    return found


def version_in(version: str, specifiers: str) -> bool:
    """``version_in("22.1.8", ">=22,<23")``. A suffix of LLVM's own, as in ``23.0.0git``, is left out."""
    from packaging.specifiers import SpecifierSet

    numbers = re.match(r"\d+(\.\d+)*(rc\d+)?", version)
    return SpecifierSet(specifiers).contains(numbers[0] if numbers else version, prereleases=True)


class _Failures(Struct, frozen=True, forbid_unknown_fields=True):
    failure: tuple[KnownFailure, ...] = ()


@cache
def load(path: Path) -> tuple[KnownFailure, ...]:
    """Read a list. :raises UsageError: ``config-invalid``"""
    try:
        return from_toml(read_document(path), _Failures).failure
    except (OSError, ValueError) as error:
        raise UsageError(
            "config-invalid",
            "the list of known failures cannot be read",
            where=str(path),
            why=str(error),
            remedy="each [[failure]] needs suite, tests, llvm, reason and link",
        ) from None


def listed(suite: str, situation: Situation, entries: Iterable[KnownFailure]) -> list[tuple[KnownFailure, str]]:
    """The names or patterns of a suite's tests that are known to fail there, each with its entry."""
    relevant = [entry for entry in entries if entry.suite == suite and entry.holds(situation)]
    return [(entry, pattern) for entry in relevant for pattern in entry.tests]


def judge(
    results: Sequence[TestResult], suite: str, situation: Situation, entries: Iterable[KnownFailure]
) -> tuple[TestResult, ...]:
    """Compare results with the list: listed failures become expected, listed passes unexpected.

    An entry that names no test of the suite becomes a failure of its own, so that the list cannot rot. A test that is
    unsupported here stays unsupported, listed or not.
    """
    known_here = listed(suite, situation, entries)
    judged: list[TestResult] = []
    used: set[str] = set()
    for result in results:
        found = [(entry, pattern) for entry, pattern in known_here if fnmatchcase(result.name, pattern)]
        used.update(pattern for _, pattern in found)
        known = found[0][0] if found else None
        if known and result.outcome is TestOutcome.FAIL:
            result = replace(result, outcome=TestOutcome.EXPECTED_FAIL, message=known.reason, link=known.link)
        elif known and result.outcome is TestOutcome.PASS:
            why = f"{known.reason} ({known.link})"
            message = f"it passes, but is on the list of known failures: {why}; take it off the list"
            result = replace(result, outcome=TestOutcome.UNEXPECTED_PASS, message=message)
        judged.append(result)
    for entry, pattern in known_here:
        if pattern not in used:
            message = f"the list of known failures names {pattern!r} ({entry.reason}), but there is no such test"
            judged.append(TestResult(name=pattern, outcome=TestOutcome.FAIL, message=message))
    return tuple(judged)


#: Begins a proposal.
_PROPOSED = """\
# Proposed for {platform}: what failed there with LLVM {version}. Give each entry its reason and upstream's report, or
# fix what fails; put together what has one cause. Then move them to known_failures.toml of the project {project}.
"""

#: How many of the last lines of a failing test's output a proposal shows: the end says what is wrong.
_SHOWN = 8


def proposal(runs: Sequence[TestRun], sdk: SdkInfo) -> str:
    """A list for a platform that has none yet, for a person to review; empty if nothing is to be proposed.

    On a new platform a test fails because upstream assumes another one, or because something is broken; a program
    can't tell which. So the proposal has everything that failed, with the end of its output, and no reasons. The list
    is refused while a reason is empty (``config-invalid``), so nobody can add the proposal unread. A listed test that
    passes, or no longer exists, is no new failure: a comment names it.
    """
    import tomli_w

    major = int(sdk.llvm_version.split(".")[0])
    entries = []
    for run in runs:
        for result in run.results:
            if result.outcome is not TestOutcome.FAIL:
                continue
            shown = [f"#   {line}".rstrip() for line in result.message.strip().splitlines()[-_SHOWN:]]
            table = {
                "suite": run.suite,
                "tests": [result.name],
                "llvm": f">={major},<{major + 1}",
                "platforms": [str(sdk.platform)],
                "reason": "",
                "link": "",
            }
            entries.append("\n".join([*shown, "[[failure]]", tomli_w.dumps(table)]))
        passing = [result.name for result in run.results if result.outcome is TestOutcome.UNEXPECTED_PASS]
        entries += [f"# Listed, but it passes in the suite {run.suite} here: {name}\n" for name in passing]
    if not entries:
        return ""
    head = _PROPOSED.format(platform=sdk.platform, version=sdk.llvm_version, project=sdk.project)
    return "\n".join([head, *entries])


def write_proposal(runs: Sequence[TestRun], sdk: SdkInfo, path: Path) -> None:
    """Write the proposal to ``path``, and say so. Nothing is written where nothing failed."""
    text = proposal(runs, sdk)
    if not text:
        console.say("    nothing failed that is not listed: there is nothing to propose")
        return
    write_atomically(path, text)
    console.say(f"    {text.count('[[failure]]')} failures to review: {path}")
