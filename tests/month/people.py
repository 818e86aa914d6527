"""Those who step in: who dispatches by hand, who runs again what failed, who waives, abandons, yanks."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from mlir_release.ground.errors import ReleaseError
from mlir_release.release.transaction.decisions import abandon, waive, yank

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from tests.month.month import Month

#: Who is refused tries again after so many seconds, so often.
PATIENCE, TRIES = 1200.0, 12


class People:
    """The release engineers. ``waived``: tag -> targets; ``abandoned``, ``yanked``: tags"""

    def __init__(self, month: Month) -> None:
        self.month = month
        self.waived: dict[str, list[str]] = {}
        self.abandoned: list[str] = []
        self.yanked: list[str] = []

    def begin(self) -> None:
        """Who acts when."""
        month = self.month
        for day in range(1, (month.calm - month.day(0)).days):
            self._at(month.day(day + 0.38), self._look_after)
        for when, act in ((11.4, self._waive), (13.4, self._abandon), (12.6, self._yank), (19.7, self._yank)):
            self._at(month.part(when), act)

    def snapshot(self) -> None:
        """Make one on their own machine, whatever GitHub's jobs do."""
        self._try(partial(self.month.make_snapshot, f"by-hand-{self.month.schedule.now:%d%H}"), tries=1)

    def _at(self, when: datetime, act: Callable[[], None]) -> None:
        schedule = self.month.schedule
        schedule.start(act.__name__, act, after=(when - schedule.now).total_seconds())

    def _try(self, act: Callable[[], object], *, tries: int = TRIES) -> bool:
        for _ in range(tries):
            try:
                act()
            except ReleaseError as error:
                if error.id in ("already-published", "tag-abandoned"):
                    return False
                self.month.schedule.sleep(PATIENCE)
            else:
                return True
        return False

    def _decide(self, decision: Callable[..., object], *words: str, **options: str) -> bool:
        return self._try(lambda: decision(self.month.forge, *words, **options))

    def _pending(self) -> list[str]:
        return [state.name for state in self.month.states if state.state == "pending"]

    def _dispatch(self, workflow: str, ref: str) -> None:
        self._try(lambda: self.month.forge.dispatch(workflow, ref=ref, inputs={}))

    def _look_after(self) -> None:
        """Run again what failed in the last day, mostly."""
        now: datetime = self.month.schedule.now
        runs = self.month.runs_of("release.yml")
        for tag in self._pending():
            mine = [run for run in runs if run["head_branch"] == tag]
            young = any(now - run["created"] < timedelta(days=1) for run in mine)
            ended = mine and all(run["status"] == "completed" for run in mine)
            if young and ended and self.month.random.random() < 0.7:
                self._dispatch("release.yml", tag)

    def _waive(self) -> None:
        """Publish the newest without the platform that is red."""
        for tag in self._pending()[-1:]:
            for wheel in self.month.red_wheels:
                if self._decide(waive, tag, wheel, "upstream broke it, and knows"):
                    self.waived.setdefault(tag, []).append(wheel)
            self._dispatch("release.yml", tag)

    def _abandon(self) -> None:
        """Give up the oldest."""
        for tag in self._pending()[:1]:
            if self._decide(abandon, tag, "nobody waits for it"):
                self.abandoned.append(tag)

    def _yank(self) -> None:
        """Hide the newest."""
        published = [state.name for state in self.month.states if state.state == "published"]
        for tag in published[-1:]:
            if self._decide(yank, tag, "it miscompiles", branch="main"):
                self.yanked.append(tag)
                self._dispatch("pages.yml", "main")
