"""Jobs of workflow runs, as a forge tells of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mlir_release.ground.hosting import RunJob

START = datetime(2026, 11, 20, 12, tzinfo=UTC)


def make_job(name: str, conclusion: str | None, *, run_id: str = "1", number: int = 1, minutes: int = 0) -> RunJob:
    """A job that started ``minutes`` after :data:`START`."""
    start = START + timedelta(minutes=minutes)
    return RunJob(
        id=str(number),
        name=name,
        run_id=run_id,
        labels=("ubuntu-24.04",),
        status="completed" if conclusion else "in_progress",
        conclusion=conclusion,
        started_at=start,
        completed_at=start + timedelta(minutes=1) if conclusion else None,
        steps=(),
        url=f"https://example.org/jobs/{number}",
    )
