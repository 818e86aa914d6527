"""Recorded knowledge, kept in git: verdicts on a ref of their own, a walk's past in the trailers of its commits.

Each verdict is a file, named by a hash of all that the verdict depends on. So the verdicts of two machines merge by
union, and no commit is tested twice. A failure may turn out to be a flaky test's: of two records of one question, one
that passed counts, else the one with more attempts, on every machine.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.errors import MachineError
from mlir_release.ground.git.remotes import fetch, push
from mlir_release.ground.git.repository import NO_OBJECT, Git, GitError, Signature
from mlir_release.ground.git.trees import GitEntry, commit_files, commit_tree, is_ancestor, tree_of, tree_with
from mlir_release.ground.llvm.pin import SHA_PATTERN
from mlir_release.ground.programs.races import Races
from mlir_release.ground.storage.files import named_files
from mlir_release.ground.strategy import BreakRate, Verdict
from mlir_release.integrate.pins.generated import Generated

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mlir_release.integrate.config import SmokeTable
    from mlir_release.integrate.tables import RefreshTable

PROBES = "refs/mlir-release/probes/"
REMOTE_PROBES = "refs/mlir-release/remote-probes/"

#: The verdicts of all bisects. Not below :data:`PROBES`, where a branch could have the same name.
BISECTS = "refs/mlir-release/bisects"

#: Where ``land`` keeps the advances that it squashed, by branch; and the remote's.
LANDED = "refs/mlir-release/landed/"
REMOTE_LANDED = "refs/mlir-release/remote-landed/"

#: Ends the names of generated files beside the records, so that they are fetched and kept with them.
_FILE = ".file"

#: Trailers of the integrate branch's commits.
T_START = "Integrate-Start"
T_UPSTREAM = "Integrate-Upstream"
T_PIN = "Integrate-Pin"  # the commit, whatever the file says of it
T_COMMITS = "Integrate-Commits"
T_BREAKS = "Integrate-Breaks"
T_PATCHES = "Integrate-Patches"
T_VERDICT = "Integrate-Verdict"
T_DROPPED = "Integrate-Dropped"  # patches that come back if upstream takes back what made them unnecessary
T_CULPRITS = "Integrate-Culprits"  # of a squashed commit: ids, with spaces between them

#: What begins a line of an advance's message that people are told.
DROPS, SKIPS, CARRIES_AGAIN = "drops", "skips", "carries again"
TELLING = (f"{DROPS} ", f"{SKIPS} ", f"{CARRIES_AGAIN} ")

#: A number in a trailer. Anybody may have written a longer one.
_COUNT = re.compile(r"[0-9]{1,9}")

#: Heads the list of culprits, in the pull request and in the squashed commit.
CULPRITS = "Upstream commits that broke this project"


@dataclass(frozen=True)
class LogFinding:
    """An error that a log shows. See :func:`mlir_release.integrate.report.findings_in`."""

    kind: str  #: failed-target, compiler, linker, assertion, test, build-tool, output, or more
    where: str  #: file, target or test; may be empty
    text: str

    @property
    def line(self) -> str:
        """Both on one line."""
        return f"{self.where}: {self.text}".removeprefix(": ")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One smoke test's result and all that it depends on."""

    verdict: Verdict
    upstream: str  #: pristine upstream commit
    upstream_tree: str  #: its tree with the carried patches; of a release, its version, too
    pristine_tree: str  #: the upstream commit's own tree
    outer: str  #: outer tree without the pin
    setting: str  #: hash of command and environment
    exits: Annotated[tuple[int | None, ...], Meta(max_length=1000)] = ()  #: of each attempt, None for a timeout
    confirmations: Annotated[int, Meta(ge=0)] = 0  #: how many of the attempts repeated a test that had failed
    seconds: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    findings: Annotated[tuple[LogFinding, ...], Meta(max_length=100)] = ()
    of: str = ""  #: the upstream's slug, where the downstream follows several
    generated: Generated = {}  #: what refresh commands have made for this test

    @property
    def key(self) -> str:
        """The record's file name."""
        return self.key_of(self.outer, self.upstream_tree, self.setting)

    @staticmethod
    def key_of(outer: str, upstream_tree: str, setting: str) -> str:
        """The name of the record of these sources."""
        return sha256_of("\0".join((outer, upstream_tree, setting)))[:40]

    @property
    def attempts(self) -> int:
        """Smoke tests that it took, without confirmations."""
        return max(0, len(self.exits) - self.confirmations)

    @property
    def weight(self) -> tuple[bool, int]:
        """Of two records with one key, the one with the greater weight counts: a broken commit never passes."""
        return self.verdict is Verdict.GOOD, len(self.exits)


def retries(records: Iterable[Record]) -> tuple[int, int]:
    """How many smoke tests passed only on a retry, and how many there are."""
    tested = [record for record in records if record.exits]
    return sum(record.verdict is Verdict.GOOD and len(record.exits) > 1 for record in tested), len(tested)


def told_retries(retried: int, tested: int) -> str:
    """A sentence about :func:`retries`; empty: no test needed any."""
    return f"{retried} of {tested} smoke tests needed a retry to pass." if retried else ""


#: Names the machines that probe, where others plan and gather: a runner's label, an image.
PROBES_ON = "MLIR_RELEASE_PROBES_ON"


def setting_of(smoke: SmokeTable, command: Sequence[str] = (), *, refreshes: Sequence[RefreshTable] = ()) -> str:
    """Hash of the smoke command and its surroundings: operating system, machine, declared variables and submodules.

    With :data:`PROBES_ON`, it stands for the system, the machine and the variables: these differ from job to job.

    :param command: another one, with the content of the files that it names by absolute paths: no tree that is tested
        has them
    :param refreshes: what runs before the test: a verdict that was made without its files does not count
    """
    import platform

    values = {name: os.environ.get(name) for name in smoke.environment}
    argv = tuple(command or smoke.argv)
    place = [os.environ[PROBES_ON]] if os.environ.get(PROBES_ON) else [platform.system(), platform.machine(), values]
    data: list[object] = [list(argv), *place, smoke.submodules]
    if refreshes:
        data.append([[list(table.argv), list(table.files)] for table in refreshes])
    if argv != smoke.argv:
        data.append(named_files(word for word in argv if Path(word).is_absolute()))
    return sha256_of(json.dumps(data, sort_keys=True))[:40]


class ProbeStore:
    """The verdicts of one integrate branch, or of all bisects.

    :param branch: None: of bisects
    :param signature: gives the committer and the time; called only if something is recorded
    """

    def __init__(self, git: Git, branch: str | None, signature: Callable[[], Signature]) -> None:
        self.git = git
        self.ref = BISECTS if branch is None else PROBES + branch
        self.signature = signature
        self._remote_ref = "refs/mlir-release/remote-bisects" if branch is None else REMOTE_PROBES + branch

    def load(self, keys: Collection[str] | None = None) -> dict[str, Record]:
        """All records, or those with some keys, by key. Files that are not records (of a newer version, for example)
        are skipped."""
        blobs = self._blobs(self.ref)
        wanted = {name for name in blobs if not name.endswith(_FILE)} if keys is None else blobs.keys() & set(keys)
        return self._read({name: oid for name, oid in blobs.items() if name in wanted})

    def _read(self, blobs: Mapping[str, str]) -> dict[str, Record]:
        records: dict[str, Record] = {}
        for name, found in zip(blobs, self.git.objects(list(blobs.values())), strict=True):
            with suppress(MalformedError):
                records[name] = from_json(found[1] if found else b"", Record)
        return records

    def order(self) -> list[str]:
        """The keys of all records, in the order in which they were recorded."""
        if self.git.resolve(self.ref) is None:
            return []
        listing = ("log", "-z", "--reverse", "--diff-filter=A", "--no-renames", "--name-only", "--format=", self.ref)
        return [name for name in self.git.text(*listing, "--").split("\0") if name]

    def _blobs(self, ref: str) -> dict[str, str]:
        done = self.git.run("ls-tree", "-z", ref, check=False)
        if done.returncode != 0:
            if b"Not a valid object name" in done.stderr:  # there is no such ref yet
                return {}
            raise self.git.failure(("ls-tree", ref), done)
        lines = done.stdout.split(b"\0")[:-1]
        return {line.partition(b"\t")[2].decode(): line.split()[2].decode() for line in lines}

    def record(self, *records: Record, replace: bool = False) -> None:
        """Add records, in one commit. One that is there already stays, unless the new one outweighs it (see
        :attr:`Record.weight`), nobody can read it, or ``replace`` is set."""
        races = Races(where=f"{self.git.directory}: {self.ref}")
        while True:
            old = self.git.resolve(self.ref)
            present = self.load([record.key for record in records]) if old and not replace else {}
            new = {
                record.key: (json.dumps(msgspec.to_builtins(record), indent=1, sort_keys=True) + "\n").encode()
                for record in records
                if record.key not in present or record.weight > present[record.key].weight
            }
            if not new:
                return
            made = (file for record in records if record.key in new for file in record.generated.values() if file)
            files = {f"{file.blob}{_FILE}": GitEntry("100644", "blob", file.blob) for file in made}
            subject = ", ".join(f"{record.verdict} at {record.upstream[:12]}" for record in records[:3])
            try:
                commit = commit_files(self.git, old, new, f"Record {subject}\n", self.signature(), entries=files)
                if self.git.update_ref(self.ref, commit, expected=old or NO_OBJECT):
                    return
            except GitError as error:
                raise MachineError(
                    "system-refused",
                    f"a verdict could not be written: {subject}",
                    where=f"{self.git.directory}: {self.ref}",
                    why=error.why,
                    remedy="free some space (or fix the permissions) and run again: earlier records are intact, and "
                    "only this smoke test is repeated",
                ) from error
            races.retry("record a verdict")

    def pull(self, remote: str) -> None:
        """Add the remote's records. :raises MachineError: if it can't be reached."""
        # All of it, in a clone without blobs, too: they would be fetched one by one later.
        if not fetch(self.git, remote, f"+{self.ref}:{self._remote_ref}", "--no-filter"):
            return
        races = Races(where=f"{self.git.directory}: {self.ref}")
        while True:
            old, theirs = self.git.resolve(self.ref), self.git.resolve(self._remote_ref)
            if theirs is None or old == theirs:
                return
            new = theirs if old is None else self._union(old, theirs)
            if new == old or self.git.update_ref(self.ref, new, expected=old or NO_OBJECT):
                return
            races.retry("merge the remote's verdicts")

    def _union(self, ours: str, theirs: str) -> str:
        if is_ancestor(self.git, theirs, ours):
            return ours
        if is_ancestor(self.git, ours, theirs):
            return theirs
        here, there = self._blobs(ours), self._blobs(theirs)
        disputed = [name for name, oid in here.items() if there.get(name, oid) != oid]
        mine, other = (self._read({name: blobs[name] for name in disputed}) for blobs in (here, there))

        def weight(records: Mapping[str, Record], blobs: Mapping[str, str], name: str) -> tuple[tuple[bool, int], str]:
            return records[name].weight if name in records else (False, -1), blobs[name]

        lost = {name for name in disputed if weight(other, there, name) > weight(mine, here, name)}
        kept = {name: GitEntry("100644", "blob", oid) for name, oid in here.items() if name not in lost}
        tree = tree_with(self.git, theirs, kept)
        if tree == tree_of(self.git, theirs):
            return theirs
        return commit_tree(self.git, tree, [ours, theirs], "Merge verdicts\n", self.signature())

    def push(self, remote: str) -> None:
        """Push the records, merged with the remote's."""
        races = Races(where=f"{self.ref} at {remote}")
        while True:
            if self.git.resolve(self.ref) is None:
                return
            self.pull(remote)
            if self.git.resolve(self.ref) == self.git.resolve(self._remote_ref):
                return
            if push(self.git, remote, f"{self.ref}:{self.ref}"):
                return
            races.retry("push the verdicts")


# -- the past in the trailers -----------------------------------------------------------------------------------------


def count_of(trailers: Mapping[str, str], key: str) -> int | None:
    """The number in a trailer; None if it has no usable one."""
    text = trailers.get(key, "").strip()
    return int(text) if _COUNT.fullmatch(text) else None


def of_upstream(trailers: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """The trailers of one upstream, without its name: see :attr:`~mlir_release.integrate.project.Integration.names`."""
    found = {}
    for key in (T_UPSTREAM, T_PIN, T_COMMITS, T_BREAKS, T_CULPRITS, T_PATCHES, T_VERDICT):
        values = [trailers[key + name] for name in names if key + name in trailers]
        if values:
            found[key] = values[0]
    return found


def is_recorded(trailers: Mapping[str, str]) -> bool:
    """Whether the toolkit made this commit of an integrate branch, for any upstream."""
    return any(key.startswith((T_UPSTREAM, T_PIN)) for key in trailers)


def is_squashed(trailers: Mapping[str, str]) -> bool:
    """Whether this commit is a whole integrate, for any upstream."""
    return any(key.startswith(T_BREAKS) for key in trailers)


#: How squashed commits listed their culprits before they had a trailer for them.
_LISTED = re.compile(r"^- ([0-9a-f]{40})$", re.MULTILINE)


def culprits_in(message: str, names: Sequence[str] = ("",)) -> list[str]:
    """The commits of an upstream that a commit of an integrate, or a squashed one, calls culprits."""
    trailers = parse_trailers(message)
    own = of_upstream(trailers, names)
    if own.get(T_VERDICT) == Verdict.BAD and T_UPSTREAM in own:
        return [own[T_UPSTREAM]]
    if T_CULPRITS in own:
        return [word for word in own[T_CULPRITS].split() if SHA_PATTERN.fullmatch(word)]
    return _LISTED.findall(message.partition(f"### {CULPRITS}\n")[2].partition("\n### ")[0]) if "" in names else []


def totals(commits: Sequence[tuple[str, str, Mapping[str, str]]], names: Sequence[str] = ("",)) -> tuple[int, int]:
    """Affecting commits of an upstream that the branch's commits passed, and breaks among them."""
    own = [of_upstream(trailers, names) for _, _, trailers in commits]
    passed = sum(count_of(trailers, T_COMMITS) or 0 for trailers in own)
    breaks = sum((count_of(t, T_BREAKS) or 0) + (t.get(T_VERDICT) == Verdict.BAD) for t in own)
    return passed, breaks


def linear_tests(
    commits: Sequence[tuple[str, str, Mapping[str, str]]],
    names: Sequence[str] = ("",),
    *,
    attempts: int,
    ahead: Literal["", "break", "nothing"] = "",
) -> int:
    """Smoke tests of a walk one commit after the other, to where the branch's commits are, without confirmations.

    Each commit is tested once, a break as often as is configured. A fix has no test of its own, unless the very next
    commit breaks, too, or there is none: then the branch itself is tested.

    :param attempts: how many failures make a commit bad
    :param ahead: the next commit is a break, where such a walk has stopped; or there is none
    """
    passed, breaks = totals(commits, names)
    retested, assumed = 0, True  # whether the branch is only assumed good
    for _, _, all_trailers in commits:
        trailers = of_upstream(all_trailers, names)
        count = count_of(trailers, T_COMMITS)
        if count is not None:
            broke = trailers.get(T_VERDICT) == Verdict.BAD
            retested += broke and assumed and count == 1
            assumed = broke
    return (
        passed
        + retested
        + breaks * (attempts - 1)
        + (ahead == "break") * (attempts + assumed)
        + (ahead == "nothing" and assumed)
    )


@dataclass(frozen=True)
class Past:
    """The records in a branch's trailers."""

    head: str  #: the branch's commit
    upstream: str  #: upstream commit of the last advance or start, or empty
    dropped: str  #: the dropped patches in its trailer
    fixed: bool  #: there are other commits since
    rate: BreakRate  #: of the advances among the last commits


#: Commits that are read: a busy downstream's last few months, thousands of affecting commits.
_PAST = 1000


def past_of(git: Git, branch: str, names: Sequence[str] = ("",)) -> Past:
    """Read the last commits that ``branch`` has. One ``git log`` of bounded length, whatever the history's.

    :param names: of the upstream in trailers; see :attr:`~mlir_release.integrate.project.Integration.names`
    """
    keys = (T_UPSTREAM, T_COMMITS, T_BREAKS, T_VERDICT, T_DROPPED)
    named = [",".join(f"key={key}{name}" for name in names) for key in keys]
    trailers = "%x00".join(f"%(trailers:{asked},valueonly,separator=%x20)" for asked in named)
    output = git.run("log", "-z", f"-n{_PAST}", f"--format=%H%x00%P%x00{trailers}", branch, "--").stdout
    fields = output.decode(errors="replace").split("\0")
    rate = BreakRate()
    line: dict[str, tuple[str, str, str]] = {}  # commit -> first parent, recorded upstream, dropped patches
    for commit, parents, *values in zip(*[iter(fields)] * (2 + len(keys)), strict=False):
        recorded = dict(zip(keys, values, strict=True))
        upstream = recorded[T_UPSTREAM].strip().partition(" ")[0]
        line[commit] = (parents.partition(" ")[0], upstream, recorded[T_DROPPED])
        passed, breaks = count_of(recorded, T_COMMITS), count_of(recorded, T_BREAKS)
        if passed is not None:
            if breaks is None:
                breaks = int(recorded[T_VERDICT].strip() == Verdict.BAD)
            rate = rate.after(commits=passed, breaks=min(breaks, passed))
    commit, steps = fields[0], 0
    while commit in line and not line[commit][1]:
        commit, steps = line[commit][0], steps + 1
    _, upstream, dropped = line.get(commit, ("", "", ""))
    if commit and commit not in line:  # a merge of main may have brought more commits than were read
        only = f"--format=%(trailers:{named[0]},valueonly,separator=%x20)%x00{trailers.rpartition('%x00')[2]}"
        output = git.run("log", "--first-parent", "-n200", only, commit, "--").stdout
        rows = (row.decode(errors="replace").partition("\0") for row in output.splitlines())
        upstream, dropped = next(((said.split()[0], rest) for said, _, rest in rows if said.strip()), ("", ""))
    return Past(fields[0], upstream, dropped, steps > 0, rate)
