"""A list of known failures for a platform that has none yet, proposed to the person who is to review it.

What fails on a new platform is what upstream's tests assume of others, or a fault; a program can't tell which. So the
proposal has everything that failed, with the end of its output, and no reasons: the list is refused as long as one is
empty (``config-invalid``), so that nobody can add the proposal unread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.host.files import write_atomically
from mlir_release.testing.report import TestOutcome

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.sdk.info import SdkInfo
    from mlir_release.testing.report import TestResult, TestRun

#: Lines of a failing test's output: the end has what is wrong.
_LINES = 8

_HEAD = """\
# Proposed for {platform}: what failed there with LLVM {version}. Give each entry its reason and upstream's report, or
# fix what fails; put together what has one cause. Then move them to mlir_release/projects/mlir/known_failures.toml.
"""


def proposal(runs: Sequence[TestRun], sdk: SdkInfo) -> str:
    """TOML, in the form of the list; empty if there is nothing to propose.

    A listed test that passes, or is no longer there, is no new failure: it is named in a comment.
    """
    entries = []
    for run in runs:
        failed = [result for result in run.results if result.outcome is TestOutcome.FAIL]
        entries += [_entry(result, run.suite, sdk) for result in failed]
        passing = [result.name for result in run.results if result.outcome is TestOutcome.UNEXPECTED_PASS]
        entries += [f"# Listed, but it passes in the suite {run.suite} here: {name}\n" for name in passing]
    if not entries:
        return ""
    return "\n".join([_HEAD.format(platform=sdk.platform, version=sdk.llvm_version), *entries])


def write_proposal(runs: Sequence[TestRun], sdk: SdkInfo, path: Path) -> None:
    """Write the proposal to ``path``, and say so; nothing where nothing failed."""
    text = proposal(runs, sdk)
    if not text:
        console.say("    nothing failed that is not listed: there is nothing to propose")
        return
    write_atomically(path, text)
    console.say(f"    {text.count('[[failure]]')} failures to review: {path}")


def _entry(result: TestResult, suite: str, sdk: SdkInfo) -> str:
    import tomli_w

    major = int(sdk.llvm_version.split(".")[0])
    table = {
        "suite": suite,
        "tests": [result.name],
        "llvm": f">={major},<{major + 1}",
        "platforms": [str(sdk.platform)],
        "reason": "",
        "link": "",
    }
    shown = [f"#   {line}".rstrip() for line in result.message.strip().splitlines()[-_LINES:]]
    return "\n".join([*shown, "[[failure]]", tomli_w.dumps(table)])
