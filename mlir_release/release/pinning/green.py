"""Select a revision: a named one, another project's pin, or the newest upstream commit that its checks call good."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from mlir_release.ground.console import console, format_seconds
from mlir_release.ground.errors import NeedsPersonError, UsageError
from mlir_release.ground.llvm import recogniser
from mlir_release.ground.llvm.pin import SHA_PATTERN
from mlir_release.release.forge.open import open_checks
from mlir_release.release.forge.services import SUCCESS, Checks, Commit
from mlir_release.release.pinning import pin_of
from mlir_release.release.pinning.reachable import need_upstream, unspliced

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from mlir_release.ground.llvm.upstream import Revision, Upstream
    from mlir_release.release.model.release_settings import GreenPolicy, ReleaseConfig
    from mlir_release.release.pinning.pin_of import ProjectPin

#: Of a check that a commit does not have (yet).
MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class CheckedCommit:
    """A commit that was looked at, with the state of every required check."""

    commit: Commit
    states: Mapping[str, str]

    @property
    def green(self) -> bool:
        """Whether every required check has succeeded. One that is missing has not."""
        return all(state == SUCCESS for state in self.states.values())

    def row(self) -> tuple[str, str, str, str]:
        """For people: abbreviated commit, date (UTC), subject, and why it was or was not taken."""
        by_state: dict[str, list[str]] = {}
        for name, state in self.states.items():
            by_state.setdefault(state, []).append(name)
        reasons = [f"{state}: {', '.join(names)}" for state, names in by_state.items()]
        when = self.commit.when.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
        return self.commit.sha[:12], when, self.commit.subject, "taken" if self.green else "; ".join(reasons)

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        commit = self.commit
        when = commit.when.isoformat()
        return {
            "commit": commit.sha, "date": when, "subject": commit.subject, "checks": dict(self.states),
            "green": self.green,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Search:
    """The commits that were looked at, newest first; nothing after the green one, if there is one."""

    COLUMNS = ("commit", "date (UTC)", "subject", "checks")  #: of a table of :meth:`CheckedCommit.row`

    branch: str
    candidates: tuple[CheckedCommit, ...]
    seen: frozenset[str]  #: checks that occurred, required or not

    @property
    def chosen(self) -> Commit | None:
        """The newest green commit."""
        return self.candidates[-1].commit if self.candidates and self.candidates[-1].green else None

    @property
    def seconds_behind(self) -> float | None:
        """By how much the chosen commit is older than the head."""
        return (self.candidates[0].commit.when - self.chosen.when).total_seconds() if self.chosen else None

    def text(self) -> str:
        """One line about the chosen revision."""
        looked = len(self.candidates)
        if self.chosen is None or self.seconds_behind is None:
            return f"none of the last {looked} commits of {self.branch} is green"
        age = format_seconds(max(0, self.seconds_behind))
        if looked == 1:
            return f"green: {self.chosen.sha[:12]}, the head of {self.branch}"
        commits = "1 commit" if looked == 2 else f"{looked - 1} commits"
        return f"green: {self.chosen.sha[:12]}, {commits} and {age} older than the head of {self.branch}"

    def counts(self) -> str:
        """A count of the states of each check: ``mlir-nvidia: 40 missing, 2 failure``."""
        names = self.candidates[0].states if self.candidates else ()
        counted = {name: Counter(candidate.states[name] for candidate in self.candidates) for name in names}
        return "; ".join(
            f"{name}: " + ", ".join(f"{count} {state}" for state, count in states.most_common())
            for name, states in counted.items()
        )

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "branch": self.branch,
            "commit": self.chosen.sha if self.chosen else None,
            "seconds_behind": self.seconds_behind,
            "candidates": [candidate.to_json() for candidate in self.candidates],
        }


def search(checks: Checks, branch: str, green: GreenPolicy) -> Search:
    """Look at the newest commits of ``branch`` up to the first green one. No later commit is asked about."""
    candidates: list[CheckedCommit] = []
    seen: set[str] = set()
    for commit in checks.newest(branch, green.depth):
        states = checks.states(commit.sha, green.checks)
        seen |= states.keys()
        candidates.append(CheckedCommit(commit=commit, states={n: states.get(n, MISSING) for n in green.checks}))
        if candidates[-1].green:
            break
    return Search(branch=branch, candidates=tuple(candidates), seen=frozenset(seen))


def names_seen(checks: Checks, branch: str, names: Collection[str], *, count: int) -> set[str]:
    """Names of the checks on the last ``count`` commits of ``branch``, or of fewer that have all of ``names``."""
    seen: set[str] = set()
    for commit in checks.newest(branch, count):
        seen |= checks.states(commit.sha, names).keys()
        if seen >= set(names):
            break
    return seen


def unseen(names: Iterable[str], seen: Collection[str]) -> list[str]:
    """Those of ``names`` that did not occur, each with similar names that did: ``'lnux' (did you mean 'linux'?)``."""
    found = []
    for name in names:
        if name not in seen:
            close = difflib.get_close_matches(name, sorted(seen), n=2)
            found.append(f"{name!r}" + (f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""))
    return found


def select(
    config: ReleaseConfig,
    policy: str,
    upstream: Upstream | None = None,
    *,
    checks: Checks | None = None,
    explain: Callable[[Search | ProjectPin], None] = lambda found: None,
    exact: bool = False,
) -> Revision:
    """The revision that ``policy`` names: ``green``, ``pin-of:…``, or anything that :meth:`Upstream.resolve` knows.

    Of a fork, the stack is taken that the named branch shows, and people are told what it carries.

    :param upstream: None: the configuration's
    :param checks: where results are asked for; None: GitHub, at the upstream's own address
    :param explain: gets the commits that policy ``green`` looked at, also after a failure; or a project's pin
    :param exact: refuse a project's pin that is not upstream's own
    :raises UsageError: ``config-invalid``, ``needs-github``, those of :meth:`Upstream.resolve`, and of
        :func:`~mlir_release.release.pinning.pin_of.pin_of`
    :raises VerificationError: ``revision-not-upstream``
    :raises NeedsPersonError: ``nothing-green``, if no commit is green and the fallback is to
        stop
    """
    if upstream is None:
        from mlir_release.ground.llvm.upstream import Upstream

        upstream = Upstream.of(config)
    revision = _select(config, policy, upstream, checks, explain, exact=exact)
    if upstream.base is None:
        return revision
    revision = revision if SHA_PATTERN.fullmatch(policy) else upstream.resolve(unspliced(upstream, revision.sha))
    if stack := need_upstream(upstream, revision.sha):
        console.say(f"{revision.sha[:12]}: llvm-project {stack.text()}")
        for line in stack.lines():
            console.say(f"    {line}")
    return revision


def _select(
    config: ReleaseConfig,
    policy: str,
    upstream: Upstream,
    checks: Checks | None,
    explain: Callable[[Search | ProjectPin], None],
    *,
    exact: bool,
) -> Revision:
    """As :func:`select`, but of a fork's commits nothing is asked."""
    if policy.startswith(recogniser.PREFIX):
        pinned = pin_of.pin_of(policy, upstream, exact=exact)
        for line in pinned.notes() or [pinned.text()]:
            console.say(line)
        explain(pinned)
        return upstream.resolve(pinned.revision)
    if exact:
        raise UsageError(
            "option-invalid",
            "--exact is about the pin of another project",
            why=f"{policy!r} names a revision of upstream",
            remedy=f"leave it out, or use a policy {recogniser.PREFIX}…",
        )
    if policy != "green":
        revision = upstream.resolve(policy)
        # Forks share objects: a commit of theirs has an id here, too.
        if SHA_PATTERN.fullmatch(policy) and upstream.base is None:
            need_upstream(upstream, policy)
        return revision
    green = config.green
    if green is None:
        raise UsageError(
            "config-invalid",
            "policy 'green' needs to know which checks must have succeeded",
            where="targets.toml",
            remedy='add [release.green] with checks = ["…"], depth = 50 and fallback = "head" or "stop"',
        )
    found = search(checks or open_checks(config.upstream, os.environ), config.upstream_branch, green)
    explain(found)
    if found.chosen is not None:
        console.say(found.text())
        return upstream.resolve(found.chosen.sha)
    what = f"none of the last {len(found.candidates)} upstream commits has "
    remedy = 'wait for upstream to be fixed, name a revision, or set fallback = "head" in [release.green]'
    if found.seen and (never := unseen(green.checks, found.seen)):
        what += f"a check {', '.join(never)}"
        remedy = "correct the names in [release.green]; if they are right, raise depth, or wait until they run again"
    else:
        what += f"{', '.join(green.checks)} green"
    error = NeedsPersonError("nothing-green", what, where=upstream.url, why=found.counts(), remedy=remedy)
    if green.fallback == "stop":
        raise error
    console.warn(f"{error.what}; taking head\n{error.why}")
    return upstream.resolve("head")
