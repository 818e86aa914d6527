"""The end of a bisect of releases: two neighbours, the LLVM commits between them, and what to do next."""

from __future__ import annotations

import shlex
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mlir_release.console import console, format_bytes, format_seconds
from mlir_release.errors import ReleaseError
from mlir_release.foreign import code, code_block, link, markdown
from mlir_release.host import plugins
from mlir_release.integrate.config import CONFIG_FILE
from mlir_release.model.release_tags import parse_release_tag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlir_release.bisect.line import Line
    from mlir_release.forge.base import Forge
    from mlir_release.integrate.search import Edge
    from mlir_release.model.bisect_record import BisectRecord
    from mlir_release.model.release_index import IndexRow, Revert
    from mlir_release.release.catalogue import Catalogue
    from mlir_release.release.signed import SignedBy

#: Seconds that a comparison of two releases may take: the answer is there already.
_PATIENCE = 120.0

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

    def text(self) -> str:
        """For people."""
        first, last = ("works again", "fails") if self.fixed else ("fails", "works")
        lines = [
            f"{self.after.tag} is the first that {first}; {self.before.tag} is the last that {last}",
            f"  LLVM commits: {self.span}"
            if self.span
            else "  both are built from one LLVM commit, "
            f"{self.after.revision[:12]}: look at the toolkit's changes and at the requirements",
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
            "reverted": list(self.reverted),
            "differences": {name: found.to_json() for name, found in self.differences.items()},
            "next": self.next_command,
            "runs": self.record.runs,
            "downloaded": sum(run.downloaded for run in self.record.runs),
            "logs": str(self.logs),
        }

    #: Of :meth:`rows`.
    COLUMNS: ClassVar = ("release", "answer", ">runs", ">time", ">downloaded")

    def rows(self) -> list[tuple[str, str, str, str, str]]:
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
            f"### {code(shlex.join(self.record.question.command)[:200])}",
            f"**{markdown(self.after.tag)}** is the first release that {first}, and {markdown(self.before.tag)} the "
            f"last that {last}. LLVM commits: {span}.",
            *(f"- {markdown(tag)} can't be tested: {markdown(why)}" for tag, why in self.skipped.items()),
            *(f"- reverted since: {code(each.commit[:12])} {markdown(each.subject)}" for each in self.reverted),
            *(found.markdown() for found in self.differences.values()),
            f"Next:\n{code_block([self.next_command], 'sh')}",
        ]
        return "\n\n".join(lines)


def conclude(
    catalogue: Catalogue,
    forge: Forge,
    line: Line,
    record: BisectRecord,
    edge: Edge,
    *,
    fixed: bool,
    logs: Path,
    signed_by: SignedBy,
) -> Bisected:
    """Add to the answer all that is known of the two releases. Nothing of it can fail."""
    before, after = line.entries[edge.good].row, line.entries[edge.bad].row
    upstream, question = catalogue.index.upstream, record.question
    between = [entry.tag for entry in line.entries[edge.good + 1 : edge.bad]]
    known, had = (catalogue.quality.releases.get(row.tag) for row in (after, before))
    older = {revert.commit for revert in had.reverted} if had is not None else set()
    reverted = [revert for revert in known.reverted if revert.commit not in older] if known is not None else []
    return Bisected(
        before=before,
        after=after,
        fixed=fixed,
        skipped={tag: next((run.why for run in record.of(tag)[::-1] if run.why), "flaky") for tag in between},
        left_out=len(line.left_out),
        record=record,
        upstream=upstream,
        reverted=reverted,
        differences=_compare(forge, before.tag, after.tag, question.distribution, signed_by),
        next_command=_next_command(
            before, after, record.question.command, fixed=fixed, upstream=catalogue.index.upstream
        ),
        logs=logs,
    )


def _compare(forge: Forge, old: str, new: str, distribution: str, signed_by: SignedBy) -> dict[str, Any]:
    """What the installed comparisons find between two releases. One that fails, or takes long, is left out."""
    found: dict[str, Any] = {}

    def work() -> None:
        try:
            for name, hook in plugins.hooks(plugins.COMPARISONS).items():
                found[name] = hook.compare(forge, old, new, distribution=distribution, signed_by=signed_by)
        except ReleaseError as error:
            console.warn(f"the APIs of {old} and {new} are not compared: {error.what}")
        except Exception as error:  # a plug-in must not cost the answer
            console.warn(f"the APIs of {old} and {new} are not compared: {type(error).__name__}: {error}")

    if plugins.plugins(plugins.COMPARISONS):
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(_PATIENCE)
        if thread.is_alive():
            console.warn(f"the APIs of {old} and {new} are not compared: it takes longer than {_PATIENCE:g} s")
    return dict(found)


def _next_command(before: IndexRow, after: IndexRow, command: Sequence[str], *, fixed: bool, upstream: str) -> str:
    """How to find the one LLVM commit: by an integrate, if the user is in one, else by git."""
    here = Path.cwd()
    if any((folder / CONFIG_FILE).is_file() for folder in (here, *here.parents)):
        test = ("sh", "-c", f"! {shlex.join(command)}") if fixed else command
        return (
            f"mlir-release integrate bisect upstream --good {before.revision} --bad {after.revision} "
            f"-- {shlex.join(test)}"
        )
    terms = "--term-old broken --term-new fixed " if fixed else ""
    source = shlex.quote(upstream or "https://github.com/llvm/llvm-project.git")
    return (
        f"git clone --filter=blob:none {source} llvm-project && "
        f"git -C llvm-project bisect start {terms}{after.revision} {before.revision}"
    )
