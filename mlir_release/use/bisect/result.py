"""The end of a bisect of releases: two neighbours, the LLVM commits between them, and what to do next."""

from __future__ import annotations

import shlex
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from mlir_release.ground.console import console, format_bytes, format_seconds
from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.foreign import code, code_block, link, markdown
from mlir_release.release.model.release_tags import parse_release_tag
from mlir_release.use.find import Origin, distance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mlir_release.ground.search import Edge
    from mlir_release.release.model.release_index import IndexRow, Revert
    from mlir_release.use.bisect.bisect_record import BisectRecord
    from mlir_release.use.bisect.line import Line

T = TypeVar("T")

#: Lines of a comparison that are shown.
_SHOWN = 30


@dataclass(frozen=True, kw_only=True)
class Bisected:
    """Two releases between which the answer changes. ``skipped``: those between them, by tag, and why."""

    before: IndexRow  #: the last that answers as the older end does
    after: IndexRow  #: the first that answers as the newer one does
    fixed: bool
    skipped: Mapping[str, str]
    left_out: int  #: releases between the ends that were not tried at all
    record: BisectRecord
    upstream: str  #: URL of llvm-project, or empty
    commits: int | None  #: those that the later one has and the earlier one lacks; None: not known
    reverted: Sequence[Revert]  #: commits between the two that upstream has reverted since
    differences: Mapping[str, Any]  #: of the two releases, by the plug-in that found them
    next_command: str
    logs: Path

    @property
    def span(self) -> str:
        """``8b223b6207ee..ca7933e47d3a``; empty if both are built from one commit."""
        if self.before.revision == self.after.revision:
            return ""
        return f"{self.before.revision[:12]}..{self.after.revision[:12]}"

    @property
    def url(self) -> str:
        """A page with the LLVM commits; empty if upstream is not on GitHub."""
        if not (self.span and self.upstream.startswith("https://github.com/")):
            return ""
        return f"{self.upstream.removesuffix('.git')}/compare/{self.before.revision}...{self.after.revision}"

    @property
    def _count(self) -> str:
        return "LLVM commits" if self.commits is None else f"{self.commits} LLVM commit{'s' * (self.commits != 1)}"

    def text(self) -> str:
        """For people."""
        first, last = ("works again", "fails") if self.fixed else ("fails", "works")
        lines = [
            f"{self.after.tag} is the first that {first}; {self.before.tag} is the last that {last}",
            f"  {self._count}: {self.span}"
            if self.span
            else f"  both have one LLVM commit, {self.after.revision[:12]}: "
            "what differs is how they were built, and what they require",
        ]
        if self.url:
            lines.append(f"  {self.url}")
        lines += [f"  or it is {tag}, which can't be tested: {why}" for tag, why in self.skipped.items()]
        for revert in self.reverted:
            lines.append(f"  reverted since, by {revert.by[:12]}: {revert.commit[:12]} {revert.subject}")
        for found in self.differences.values():
            whole = found.text().splitlines()
            lines += [f"  {line}" for line in whole[:_SHOWN]]
            if len(whole) > _SHOWN:
                old, new = self.before.tag, self.after.tag
                lines.append(f"  … {len(whole) - _SHOWN} more lines: mlir-release release diff {old} {new}")
        runs, loaded = len(self.record.runs), sum(run.downloaded for run in self.record.runs)
        seconds = format_seconds(sum(run.seconds for run in self.record.runs))
        lines += [
            f"  {runs} runs in {seconds}, {format_bytes(loaded)} of wheels downloaded; logs: {self.logs}",
            f"next: {self.next_command}",
        ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        bad, good = (self.before, self.after) if self.fixed else (self.after, self.before)
        return {
            "fixed": self.fixed,
            "good": {"tag": good.tag, "revision": good.revision},
            "bad": {"tag": bad.tag, "revision": bad.revision},
            "skipped": dict(self.skipped),
            "left_out": self.left_out,
            "url": self.url,
            "commits": self.commits,
            "reverted": list(self.reverted),
            "differences": self.differences,
            "next": self.next_command,
            "runs": self.record.runs,
            "downloaded": sum(run.downloaded for run in self.record.runs),
            "logs": str(self.logs),
        }

    COLUMNS: ClassVar = ("release", "answer", ">runs", ">time", ">downloaded")

    def cells(self) -> list[tuple[str, str, str, str, str]]:
        """Tag, answers, number of runs, time and downloads of each release that was tried, oldest first."""
        found = []
        for tag in sorted({run.tag for run in self.record.runs}, key=parse_release_tag):
            runs = self.record.of(tag)
            answers = ", ".join(dict.fromkeys(run.answer + (f" ({run.why})" if run.why else "") for run in runs))
            times = format_seconds(sum(run.seconds for run in runs))
            loaded = sum(run.downloaded for run in runs)
            found.append((tag, answers, str(len(runs)), times, format_bytes(loaded) if loaded else ""))
        return found

    def markdown(self) -> str:
        """For the step summary."""
        span = link(code(self.span), self.url) if self.url else code(self.span or self.after.revision[:12])
        first, last = ("works again", "fails") if self.fixed else ("fails", "works")
        lines = [
            f"**{markdown(self.after.tag)}** is the first release that {first}, and {markdown(self.before.tag)} the "
            f"last that {last}. {self._count}: {span}.",
            *(f"- {markdown(tag)} can't be tested: {markdown(why)}" for tag, why in self.skipped.items()),
            *(f"- reverted since: {code(each.commit[:12])} {markdown(each.subject)}" for each in self.reverted),
            *(found.markdown() for found in self.differences.values()),
            f"Next:\n{code_block([self.next_command], 'sh')}",
        ]
        return "\n\n".join(lines)


def conclude(
    origin: Origin,
    line: Line,
    record: BisectRecord,
    edge: Edge,
    *,
    skipped: Mapping[str, str],
    fixed: bool,
    logs: Path,
    compare: Callable[[str, str], Mapping[str, Any]],
) -> Bisected:
    """Add to the answer all that is known of the two releases.

    :param compare: compares the two, by their tags
    """
    catalogue = origin.catalogue
    ends = line.entries[edge.good], line.entries[edge.bad]
    before, after = ends[0].row, ends[1].row
    upstream = catalogue.index.upstream
    known, had = (catalogue.quality.releases.get(row.tag) for row in (after, before))
    older = {revert.commit for revert in had.reverted} if had is not None else set()
    reverted = [revert for revert in known.reverted if revert.commit not in older] if known is not None else []
    # The one LLVM commit is found by an integrate, if the user is in one, else by git.
    here, command = Path.cwd(), record.question.command
    if any((folder / "integrate.toml").is_file() for folder in (here, *here.parents)):
        test = ("sh", "-c", f"! {shlex.join(command)}") if fixed else command
        search = f"mlir-release integrate bisect upstream --good {before.revision} --bad {after.revision}"
        following = f"{search} -- {shlex.join(test)}"
    else:
        terms = "--term-old broken --term-new fixed " if fixed else ""
        source = shlex.quote(upstream or "https://github.com/llvm/llvm-project.git")
        following = (
            f"git clone --filter=blob:none {source} llvm-project && "
            f"git -C llvm-project bisect start {terms}{after.revision} {before.revision}"
        )
    return Bisected(
        before=before,
        after=after,
        fixed=fixed,
        skipped=skipped,
        left_out=len(line.left_out),
        record=record,
        upstream=upstream,
        commits=_bounded(lambda: distance(*ends, origin.upstream).ahead, "commits between them"),
        reverted=reverted,
        differences=_bounded(lambda: compare(before.tag, after.tag), "changes of the Python API") or {},
        next_command=following,
        logs=logs,
    )


def _bounded(find: Callable[[], T], what: str, patience: float = 120.0) -> T | None:
    """What a search finds in so many seconds. It must not cost the answer: with a warning, a failure is None."""
    found: list[T] = []
    why = f"it takes longer than {patience:g} s"

    def work() -> None:
        nonlocal why
        try:
            found.append(find())
        except ReleaseError as error:
            why = error.what
        except Exception as error:  # a plug-in's
            why = f"{type(error).__name__}: {error}"

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(patience)
    if found:
        return found[0]
    console.warn(f"the {what} are not told: {why}")
    return None
