"""Find the first published release that breaks a command, or the first that mends it.

All that was learnt is in the record, which is written after each run of the command. The search is pure. So a killed
bisect that is started again asks the same next question, and comes to the same answer.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from mlir_release.ground import plugins
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import MalformedError
from mlir_release.ground.errors import ConflictError, UsageError, VerificationError
from mlir_release.ground.git import locks
from mlir_release.ground.programs.surroundings import also_pass, withheld
from mlir_release.ground.programs.trial import COMMIT_VARIABLE, TriedCommand, run_trial
from mlir_release.ground.python.pythons import describe, find_executable
from mlir_release.ground.python.requirements import check_requirement
from mlir_release.ground.search import Edge, draw, search, steps_left
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.ground.storage.files import named_files, read_if_there, write_atomically
from mlir_release.ground.strategy import Verdict
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy, read_published
from mlir_release.use.bisect.bisect_record import (
    RECORD_NAME,
    Answer,
    BisectRecord,
    Question,
    ReleaseRun,
    answer_of,
    judge,
)
from mlir_release.use.bisect.environments import Candidate, Environments, UnresolvableError
from mlir_release.use.bisect.line import Line, find_end, line_up
from mlir_release.use.bisect.result import Bisected, conclude
from mlir_release.use.find import Origin
from mlir_release.use.install import choose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.model.release_index import CatalogueEntry


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A command, and the releases between which its answer changes."""

    good: str  #: tag, date or LLVM commit of a release with which the command succeeds
    bad: str  #: of one with which it does not
    command: Sequence[str]
    fixed: bool = False  #: the bad one is the older, and the first release that works again is looked for
    python: str | None = None
    distribution: str | None = None  #: None: the main one of the bad end
    requirements: Sequence[str] = ()  #: what the command needs beside the wheel
    files: Sequence[Path] = ()  #: the same, in files
    variables: Sequence[str] = ()  #: of this process, which the command sees, too
    timeout: float | None = None  #: seconds after which the command counts as failed
    retries: int = 1  #: how often the two deciding answers are tried again, and a run that was killed
    yanked: bool = False  #: try yanked releases, too
    state: Path | None = None  #: folder of the record and the logs; None: one in the cache for each question
    again: bool = False  #: forget what was recorded


def bisect(forge: Forge, wish: Wish, signed_by: SignedBy = AS_DECLARED) -> Bisected:
    """Run a command with the wheels of releases, each in an environment of its own, until the first bad one is found.

    :raises UsageError: ``option-invalid``, ``release-not-published``, ``release-unsuitable``, ``python-missing``
    :raises MachineError: ``tool-missing``, ``network-failed``, ``disk-full``
    :raises ConflictError: ``lost-race``
    :raises VerificationError: ``no-fitting-wheel``, and what ``install`` raises
    """
    for requirement in wish.requirements:
        try:
            check_requirement(requirement)
        except MalformedError as error:
            raise UsageError(
                "option-invalid",
                f"--with {requirement!r} is no requirement",
                why=str(error),
                remedy="write it as in requirements files: numpy, or 'numpy<2.3'; a folder's changes would not be "
                "noticed",
            ) from error
    wanted = wish.python or shutil.which("python") or shutil.which("python3") or sys.executable
    environments = Environments(describe(find_executable(wanted)), wish.requirements, wish.files)
    origin, fixed = Origin.of(forge, signed_by), wish.fixed
    ends = (
        find_end(origin, wish.good, "--good", older=not fixed),
        find_end(origin, wish.bad, "--bad", older=fixed),
    )
    distribution = wish.distribution or ends[1].row.main
    line = line_up(
        origin.catalogue,
        *ends,
        fixed=fixed,
        python=environments.python,
        distribution=distribution,
        yanked=wish.yanked,
    )
    question = Question(
        repository=origin.catalogue.index.repository,
        good=ends[0].tag,
        bad=ends[1].tag,
        command=tuple(wish.command),
        folder=str(Path.cwd()),
        python=f"{environments.python.name} {environments.python.executable}",
        distribution=distribution,
        requirements=environments.wanted,
        timeout=wish.timeout,
    )
    also_pass(wish.variables)
    folder = (wish.state or cache_directory() / "bisect" / question.key).absolute()

    @cache
    def candidate(tag: str) -> Candidate:
        release = read_published(forge, tag, signed_by)  # whether it is yanked, the index says: that saves requests
        return Candidate(release, choose(release.manifest, environments.python, distribution))

    with _alone(folder) as lock:
        record = _load(folder, question, again=wish.again)
        search = ReleaseSearch(line, record, folder, lock, environments, candidate, fixed=fixed, retries=wish.retries)
        edge = search.run()

    def compare(old: str, new: str) -> dict[str, Any]:
        hooks = plugins.hooks(plugins.COMPARISONS).items()
        options: dict[str, Any] = {"distribution": distribution, "signed_by": signed_by}
        return {name: hook.compare(forge, old, new, **options) for name, hook in hooks}

    return conclude(
        origin,
        line,
        search.record,
        edge,
        skipped={entry.tag: search.said(entry)[1] for entry in line.entries[edge.good + 1 : edge.bad]},
        fixed=fixed,
        logs=search.logs,
        compare=compare,
    )


@contextmanager
def _alone(folder: Path) -> Iterator[int]:
    """Hold a bisect's folder. Yields a lock that the command inherits: one of a killed bisect may still run.

    :raises ConflictError: ``lost-race``
    """
    with locks.exclusive(folder / "lock", wait=False) as held:
        if held is None:
            raise ConflictError(
                "lost-race",
                "another process runs the same bisect",
                where=str(folder),
                remedy="wait for it to end, then run this again: it has the answer at once",
            )
        with locks.exclusive(folder / "command.lock", wait=False) as free:
            if free is not None:
                yield free
                return
        console.say("    the command of a bisect that was killed still runs; waiting for its end")
        with locks.exclusive(folder / "command.lock") as free:
            assert free is not None
            yield free


def _load(folder: Path, question: Question, *, again: bool) -> BisectRecord:
    """The record of a question. :raises UsageError: ``output-in-the-way``: the folder has that of another one"""
    fresh = BisectRecord(question=question, files=named_files(question.command))
    try:
        content = read_if_there(folder / RECORD_NAME) if not again else None
        found = BisectRecord.from_text(content) if content is not None else fresh
    except MalformedError as error:
        console.warn(f"{folder / RECORD_NAME} can't be read, so everything is tried again: {error}")
        return fresh
    if found.question != question:
        fields = question.__struct_fields__
        differing = [name for name in fields if getattr(question, name) != getattr(found.question, name)]
        raise UsageError(
            "output-in-the-way",
            "that folder has the answers to another question",
            where=str(folder),
            why=f"it differs in {', '.join(differing)}",
            remedy="give another folder with --state, or forget those answers with --again",
        )
    changed = [name for name, digest in fresh.files.items() if found.files.get(name) not in (None, digest)]
    if changed and found.runs:
        console.warn(
            f"{', '.join(changed)} changed since the first of the {len(found.runs)} recorded runs; --again forgets them"
        )
    return found


@dataclass
class ReleaseSearch:
    """One search. ``verdicts`` are by position in the line; there, good is how the older end answers."""

    line: Line
    record: BisectRecord
    folder: Path
    lock: int
    environments: Environments
    candidate: Callable[[str], Candidate]
    fixed: bool = field(kw_only=True)
    retries: int = field(kw_only=True)
    verdicts: dict[int, Verdict] = field(default_factory=dict)

    @property
    def logs(self) -> Path:
        """The folder of the command's outputs."""
        return self.folder / "logs"

    def run(self) -> Edge:
        """The two neighbours between which the answer changes, each tried as often as is asked for."""
        if self.record.packages is None:  # the versions of all other packages are chosen once for all releases
            older, newer = (self.candidate(self.line.entries[position].tag) for position in (0, -1))
            try:
                self._save(packages=self.environments.resolve(newer, older.wheel.requires_dist))
            except UnresolvableError as error:
                raise UsageError(
                    "option-invalid",
                    f"no set of packages fulfils what {newer.wheel.filename}, --with and the requirements file ask for",
                    why=str(error),
                    remedy="correct --with or the requirements file; pip config list shows the index that is asked",
                ) from error
        left_out = f", {len(self.line.left_out)} left out" if self.line.left_out else ""
        known = f"; {len(self.record.runs)} runs are recorded" if self.record.runs else ""
        console.say(f"==> bisect {len(self.line.entries)} releases{left_out}{known}")
        if [self.test(position) for position in (self.line.last, 0)] != [Verdict.BAD, Verdict.GOOD]:
            self._refuse_ends()
        while True:
            edge = search(self.line.last, self.verdicts, self.test)
            for position in (edge.good, edge.bad):
                before = self.verdicts[position]
                if self.test(position, wanted=1 + self.retries) is not before:
                    break
            else:
                return edge
            if position in (0, self.line.last):
                self._refuse_ends()

    def test(self, position: int, *, wanted: int = 1) -> Verdict:
        """The verdict on a release, from recorded runs if they are enough; it is remembered."""
        entry = self.line.entries[position]
        while (found := judge(self.record.of(entry.tag), wanted=wanted, retries=self.retries)) is None:
            self._try(entry)
        answer, why = found
        old = "bad" if self.fixed else "good"
        verdict = Verdict.UNTESTABLE if answer == "skip" else Verdict.GOOD if answer == old else Verdict.BAD
        before = self.verdicts.get(position)
        self.verdicts[position] = verdict
        if verdict is not before:
            swapped = {Verdict.GOOD: Verdict.BAD, Verdict.BAD: Verdict.GOOD} if self.fixed else {}
            said = [(at, swapped.get(known, known)) for at, known in self.verdicts.items()]
            shown, _ = draw(self.line.last, said, ())
            left = steps_left(self.line.last, self.verdicts)
            ahead = f"; about {left} more" if left and self.verdicts.get(0) is Verdict.GOOD else ""
            console.say(f"    {shown} {entry.tag} {_SAID[answer]}{f' ({why})' if why else ''}{ahead}")
        return verdict

    def said(self, entry: CatalogueEntry) -> tuple[Answer, str]:
        """The answer for a release so far, and why."""
        return judge(self.record.of(entry.tag), wanted=1, retries=self.retries) or ("skip", "it was not tried")

    def _refuse_ends(self) -> None:
        """The error for ends that don't answer as they should. Their runs are forgotten: the command may be changed."""
        ends = {"--bad" if self.fixed else "--good": 0, "--good" if self.fixed else "--bad": self.line.last}
        wrong, said = [], []
        for option, position in ends.items():
            tag = self.line.entries[position].tag
            answer, why = self.said(self.line.entries[position])
            said.append(f"{option} {tag} {_SAID[answer]}{f' ({why})' if why else ''}")
            if answer != option.removeprefix("--"):
                wrong.append(tag)
        flaky = any("flaky" in text for text in said)
        log = max(self.logs.glob(f"{wrong[0]}-*.log"), key=lambda path: path.stat().st_mtime, default=self.logs)
        self._save(runs=tuple(run for run in self.record.runs if run.tag not in wrong))
        if flaky:
            remedy = "make the command repeat itself until its answer is certain, and fail if one of them fails"
        elif len(wrong) == 2 and Verdict.UNTESTABLE not in (self.verdicts[0], self.verdicts[self.line.last]):
            remedy = "swap --good and --bad, and " + (
                "leave out --fixed: the newer one fails" if self.fixed else "add --fixed: the newer one works again"
            )
        else:
            remedy = "check the command by hand, or give other ends; the log has what it printed"
        raise UsageError(
            "release-unsuitable",
            "the ends do not answer as --good and --bad say",
            where=str(log),
            why="; ".join(said),
            remedy=remedy + withheld(place="--env"),
        )

    # -- one run --------------------------------------------------------------------------------------------------

    def _try(self, entry: CatalogueEntry) -> None:
        """Run the command once with a release, and record its answer."""
        answer: Answer
        try:
            candidate = self.candidate(entry.tag)
            environment = self.environments.provide(candidate, self.record.packages or ())
        except UnresolvableError as error:
            why = " ".join(str(error).split())[:500]
            self._save(
                runs=(*self.record.runs, ReleaseRun(tag=entry.tag, answer="skip", why=f"not installable: {why}"))
            )
            return
        except VerificationError as error:
            if error.id != "no-fitting-wheel":
                raise
            self._save(runs=(*self.record.runs, ReleaseRun(tag=entry.tag, answer="skip", why=error.what)))
            return
        question, start = self.record.question, time.monotonic()
        variables = environment.variables({COMMIT_VARIABLE: entry.row.revision})
        variables.pop("PYTHONDONTWRITEBYTECODE")  # what is imported again and again would be compiled each time
        number = len(self.record.of(entry.tag)) + 1
        first, *rest = question.command
        first = shutil.which(first, path=variables["PATH"]) or first  # Windows would look where this process does
        with console.waiting(f"{entry.tag}: {shlex.join(question.command)}"):
            trial = run_trial(
                TriedCommand([first, *rest], "the command", _CORRECT),
                log=self.logs / f"{entry.tag}-{number}.log",
                environment=variables,
                cwd=Path(question.folder),
                lock=self.lock,
                timeout=question.timeout,
            )
        answer, why = answer_of(trial, question.timeout)
        seconds = round(time.monotonic() - start, 3)
        run = ReleaseRun(tag=entry.tag, answer=answer, seconds=seconds, downloaded=candidate.downloaded, why=why)
        candidate.downloaded = 0
        self._save(runs=(*self.record.runs, run))

    def _save(self, **changes: object) -> None:
        self.record = structs.replace(self.record, **changes)
        write_atomically(self.folder / RECORD_NAME, self.record.to_text())


_CORRECT = "check its name, and that it can be run; with --with, uv installs what it needs. No answer was recorded"

_SAID = {"good": "works", "bad": "fails", "skip": "can't be tested"}
