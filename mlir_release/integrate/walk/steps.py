"""The steps of a bisect: each is a test of one commit, recorded in git as a walk's probes are, and made once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import structs

from mlir_release.ground import strategy as st
from mlir_release.ground.console import console, counted
from mlir_release.ground.errors import UsageError
from mlir_release.ground.foreign import code_block, markdown
from mlir_release.ground.git.remotes import fetch
from mlir_release.ground.git.repository import Git, GitError
from mlir_release.ground.git.trees import tree_of
from mlir_release.ground.search import LEGEND, draw, search, steps_left
from mlir_release.ground.storage.files import read_end
from mlir_release.integrate.pins.refresh import prepared
from mlir_release.integrate.state import PROBES, REMOTE_PROBES, ProbeStore, Record, setting_of
from mlir_release.integrate.upstream import shown
from mlir_release.integrate.walk.smoke import smoke_test

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mlir_release.integrate.project import Integration


#: The last bytes of a log that ``--bad-if`` looks at.
_READ = 16 << 20


@dataclass(frozen=True, kw_only=True)
class BisectResult:
    """``first_bad`` is a verified edge if ``skipped`` is empty; else the culprit is it or one of ``skipped``."""

    of: str  #: whose commits these are: "this repository", or the upstream's name
    first_bad: str
    last_good: str
    skipped: tuple[str, ...]
    reasons: tuple[str, ...]  #: why commits could not be tested, where that is known, each once
    steps: int  #: verdicts that it rests on
    known: int  #: of these, recorded before: they were not tested now
    subject: str
    commits: int  #: after the good end, the bad one included
    line: str  #: drawn, a character for one commit or several
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  #: patches and why -> the steps without them
    inside: BisectResult | None = None  #: the bisect of what ``first_bad`` brought
    end: str = ""  #: why there is no such bisect

    @property
    def size(self) -> str:
        """``1 commit of LLVM``."""
        return f"{counted(self.commits, 'commit')} of {self.of}"

    def as_text(self) -> str:
        """For people: one after the other."""
        inside = f"\n\ninside it, {self.inside.size}:\n{self.inside.as_text()}" if self.inside is not None else ""
        return "\n".join(self._lines()) + inside

    def _lines(self) -> list[str]:
        if self.skipped:
            several = [*self.skipped, self.first_bad]
            lines = [f"first bad is one of these {len(several)}: {' '.join(several)}"]
            lines += [f"untestable: {reason}" for reason in self.reasons]
        else:
            lines = [f"first bad: {self.first_bad} {self.subject}"]
        lines += [f"left out at {len(at)} of the steps: {patch}" for patch, at in self.left_out.items()]
        known = f", {self.known} known" if self.known else ""
        return [*lines, *([self.end] if self.end else []), f"{self.steps} steps{known}"]

    def as_markdown(self) -> str:
        """For a step summary: the lines of all bisects, each with its answer."""
        answer = "\n".join(f"- {markdown(line)}" for line in self._lines())
        inside = [self.inside.as_markdown()] if self.inside is not None else []
        return "\n\n".join([f"### Bisect of {markdown(self.size)}", code_block([self.line, LEGEND]), answer, *inside])


class WrongEnd(UsageError):
    """An end of a line of commits tests otherwise than the search needs."""

    def __init__(self, commit: str, option: str, verdict: st.Verdict, why: str) -> None:
        super().__init__(
            "revision-unsuitable",
            f"the commit given with {option} tests {verdict}",
            where=commit,
            why=why,
            remedy="check the command, and give a commit that tests so; --again tests once more what is recorded",
        )
        self.commit, self.verdict = commit, verdict


@dataclass(frozen=True)
class Tried:
    """What is learnt of a commit. ``why`` it can't be tested; ``without``: patches that were left out, and why."""

    verdict: st.Verdict
    key: str = ""  #: of its record, if it has one
    known: bool = False
    why: str = ""
    without: tuple[str, ...] = ()


@dataclass
class Bisection:
    """The tests of one command in one downstream, each recorded at once.

    :param share: with the remote: its verdicts count from the beginning, and each new one is pushed
    :param again: test once more what is recorded
    :param bad_if: a regular expression: a commit at which the command fails without such output can't be tested
    """

    project: Integration
    command: Sequence[str]
    share: bool = False
    again: bool = False
    bad_if: str = ""
    entered: set[str] = field(default_factory=set)  #: heads of squashed walks that were bisected
    _found: dict[str, Record] = field(default_factory=dict)  #: what was recorded, and is now, by key
    _fresh: set[str] = field(default_factory=set)  #: keys of what was recorded now

    def __post_init__(self) -> None:
        self.project.signature()  # fail now rather than at the first verdict
        try:
            self._sign = re.compile(self.bad_if.encode(), re.MULTILINE)
        except re.error as error:
            raise UsageError("option-invalid", "--bad-if is no regular expression", why=str(error)) from None
        given = (*self.command, f"--bad-if={self.bad_if}") if self.bad_if else self.command
        self.setting = setting_of(self.project.config.smoke, given)
        outer, remote = self.project.outer, self.project.config.downstream.remote
        self.store = ProbeStore(outer, None, self.project.signature)
        if self.share:
            self.store.pull(remote)
            fetch(outer, remote, f"+{PROBES}*:{REMOTE_PROBES}*", "--no-filter")
        if self.again:
            return
        for ref in outer.refs(PROBES, REMOTE_PROBES):
            walk = ProbeStore(outer, None, self.project.signature)
            walk.ref = ref.name
            try:
                self._found |= walk.load()
            except GitError as error:  # others may have pushed anything
                console.warn(f"{ref.name} can't be read, so its verdicts do not count: {error.why}")
        self._found |= self.store.load()

    # -- one commit --------------------------------------------------------------------------------------------------

    def question(self, outer: str, llvm: str, upstream: str) -> Record:
        """The record of a test, still without an answer.

        :param outer: whose sources are tested, but for the pin
        :param llvm: the upstream's commit, patches included; ``upstream``: the pristine one
        """
        git = self.project.upstream
        return Record(
            verdict=st.Verdict.UNTESTABLE,
            upstream=upstream,
            upstream_tree=tree_of(git, llvm) + self.project.version(outer, llvm),
            pristine_tree=tree_of(git, upstream),
            outer=self.project.outer_key(outer),
            setting=self.setting,
        )

    def recorded(self, key: str) -> Record | None:
        """The answer to a question, if there is one. Another process may just have recorded it."""
        if key not in self._found and not self.again:
            self._found |= self.store.load([key])
        return self._found.get(key)

    def tested(self, outer: str) -> set[str]:
        """The trees of pristine upstream commits that were tested with the sources of ``outer``, patches apart."""
        key = self.project.outer_key(outer)
        records = self._found.values()
        return {each.pristine_tree for each in records if (each.outer, each.setting) == (key, self.setting)}

    def ask(self, outer: str, llvm: str, upstream: str, log: str) -> Tried:
        """The verdict: the recorded one, else by a test, which is recorded and pushed."""
        question = self.question(outer, llvm, upstream)
        found = self.recorded(question.key)
        if found is not None:
            return Tried(found.verdict, found.key, known=True)
        path = self.project.log(f"bisect-{log[:12]}")
        with prepared(self.project, outer, llvm) as slot:
            record = smoke_test(self.project, slot, question, path, command=self.command)
        if record.verdict is st.Verdict.BAD and not self._sign.search(read_end(path, _READ)):
            record = structs.replace(record, verdict=st.Verdict.UNTESTABLE)
        record = structs.replace(record, findings=record.findings[:50])
        self.store.record(record, replace=self.again)
        self._found[record.key] = record
        self._fresh.add(record.key)
        self.publish()
        return Tried(record.verdict, record.key)

    def publish(self) -> None:
        """Push what was recorded, if it is to be shared."""
        if self.share:
            self.store.push(self.project.config.downstream.remote)

    # -- a line of commits -------------------------------------------------------------------------------------------

    def search(
        self,
        git: Git,
        of: str,
        commits: Sequence[str],
        test: Callable[[str], Tried],
        *,
        recall: Callable[[], Mapping[int, Record]] = dict,
    ) -> BisectResult:
        """Find the first bad commit of a line, whose ends are tested first.

        :param recall: what is recorded, by position; asked again after each test, whose tree other commits may have
        :raises WrongEnd: if one of the ends tests otherwise
        """
        last = len(commits) - 1
        verdicts: dict[int, st.Verdict] = {}
        asked: dict[str, Tried] = {}
        recalled: dict[int, Record] = {}
        before = set(self._fresh)

        def probe(position: int) -> st.Verdict:
            commit = commits[position]
            asked[commit] = tried = test(commit)
            without = f", without {len(tried.without)} patches" if tried.without else ""
            why = f": {tried.why}" if tried.why else " (known)" if tried.known else ""
            console.say(f"    step {len(asked)}: {commit[:12]} is {tried.verdict}{without}{why}")
            verdicts[position] = tried.verdict
            if 0 in verdicts and last in verdicts:
                recalled.update((at, record) for at, record in recall().items() if at not in verdicts)
                verdicts.update((at, record.verdict) for at, record in recalled.items())
            return tried.verdict

        left = 2 + steps_left(last, {0: st.Verdict.GOOD, last: st.Verdict.BAD})
        console.say(f"    {counted(last, 'commit')} of {of}: about {left} steps")
        for position, option, expected in ((last, "--bad", st.Verdict.BAD), (0, "--good", st.Verdict.GOOD)):
            if probe(position) is not expected:
                raise WrongEnd(commits[position], option, verdicts[position], asked[commits[position]].why)
        if recalled:
            console.say(f"    {len(recalled)} of the {last - 1} commits between have a verdict already")
        edge = search(last, verdicts, probe)
        self.publish()  # a process that was killed may have left something to push
        keys = {record.key for record in recalled.values()} | {tried.key for tried in asked.values() if tried.key}
        certain = [edge.bad] if edge.bad == edge.good + 1 else []
        return BisectResult(
            of=of,
            first_bad=commits[edge.bad],
            last_good=commits[edge.good],
            skipped=tuple(commits[edge.good + 1 : edge.bad]),
            reasons=tuple(dict.fromkeys(tried.why for tried in asked.values() if tried.why)),
            steps=len(keys) + sum(not tried.key for tried in asked.values()),
            known=len(keys - (self._fresh - before)),
            subject=shown(git.message(commits[edge.bad]).partition("\n")[0]),
            commits=last,
            line=draw(last, list(verdicts.items()), certain)[0],
            left_out={
                patch: tuple(commit for commit, other in asked.items() if patch in other.without)
                for tried in asked.values()
                for patch in tried.without
            },
        )
