"""Workflow runs on GitHub: started and listed; their jobs, with times.

GitHub lists a run some seconds after its dispatch. So the dispatch asks for the run in its answer
(``return_run_details``, since February 2026; docs.github.com, "Create a workflow dispatch event"). Without such an
answer, a caller waits before it concludes that no run exists. An older GitHub Enterprise Server refuses or ignores the
parameter; then the run is not known until it is listed. A dispatch on a tag that was made just now may find no ref.
"""

from __future__ import annotations

import itertools
from datetime import datetime
from email.utils import parsedate_to_datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mlir_release.ground.documents.times import format_time
from mlir_release.ground.errors import ForgeError
from mlir_release.ground.hosting import RunJob, RunStep
from mlir_release.release.forge.github.client import PAUSES, PER_PAGE, GitHubClient
from mlir_release.release.forge.github.refusals import Forbidden, NotFound, Refused, refused
from mlir_release.release.forge.services import PENDING, Commit, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from mlir_release.release.forge.github.client import GitHubClient


#: The parameter that asks for the run. A refusal that names it means that this server does not know it.
PARAMETER = "return_run_details"

#: How GitHub refuses a ref that it does not know, or not yet; and an event that a policy forbids (docs.github.com,
#: "About Actions policies").
_NO_REF, _NOT_ALLOWED = "No ref found", "is not allowed to trigger"

#: The rules that forbid a dispatch despite the permission.
_POLICY = (
    "if it has that, a policy forbids it: allow the event workflow_dispatch, and GitHub Actions as an actor, in "
    "Settings > Actions > Policies (the organisation's, too), then run this again, or leave it to the next sweep; "
)

#: GitHub shows at most a thousand runs for one search (docs.github.com, "List workflow runs").
_RUNS_OF_A_SEARCH = 1000


class GitHubRuns:
    """Adapter of :class:`~mlir_release.release.forge.services.WorkflowRuns`, which also starts and lists a workflow's
    runs.
    """

    def __init__(self, client: GitHubClient) -> None:
        self._client = client
        self._details = {PARAMETER: True}

    def start(self, workflow: str, *, ref: str, inputs: Mapping[str, str]) -> Run | None:
        """Start a workflow; a run that appears although the answer was lost is taken for this one."""
        before = {run.id for run in self.of_workflow(workflow, ref=ref)}

        def seen() -> Run | None:
            attempt = 0
            while True:
                new = [run for run in self.of_workflow(workflow, ref=ref) if run.id not in before]
                if new or not self.await_runs(attempt):
                    return new[0] if new else None
                attempt += 1

        def send() -> Run | None:
            body = {"ref": ref, "inputs": dict(inputs), **self._details}
            path = f"/actions/workflows/{quote(workflow)}/dispatches"
            headers, answer = self._client.request("POST", path, input=body)
            if not isinstance(answer, dict) or "workflow_run_id" not in answer:  # GitHub's older answer is empty
                return None
            return Run(
                id=str(answer["workflow_run_id"]),
                workflow=workflow,
                ref=ref,
                status="queued",
                conclusion=None,
                created_at=parsedate_to_datetime(headers["date"]),
                inputs=dict(inputs),
                url=answer["html_url"],
            )

        try:
            return self._patiently(lambda: self._client.write(send, done=seen, about=f"{workflow} on {ref}"))
        except (Forbidden, Refused) as error:
            if isinstance(error, Refused) and _NOT_ALLOWED not in error.why:
                raise
            why = error.why
            raise refused(
                "forbidden", where=self._client.where, why=why, needed="actions: write", policy=_POLICY
            ) from error
        except NotFound as error:
            raise ForgeError(
                "not-on-forge",
                f"the repository has no workflow {workflow}, or it can't be dispatched",
                where=self._client.where,
                why=error.why,
                remedy=f"commit .github/workflows/{workflow} with a workflow_dispatch trigger to the default branch, "
                "or name the right file in targets.toml ([release] workflow)",
            ) from error

    def _patiently(self, ask: Callable[[], Run | None]) -> Run | None:
        """Ask until the ref is known, for half a minute; without the parameter where the server does not know it."""
        pauses = iter(PAUSES)
        while True:
            try:
                return ask()
            except Refused as error:
                if self._details and PARAMETER in error.why:
                    self._details = {}
                elif _NO_REF in error.why and (seconds := next(pauses, None)) is not None:
                    self._client.pause(seconds)
                else:
                    raise

    def of_workflow(self, workflow: str, *, ref: str) -> Sequence[Run]:
        """The newest hundred runs of a workflow on a branch or tag, newest first."""
        path = f"/actions/workflows/{quote(workflow)}/runs"
        try:
            newest = next(self._client.pages(path, "workflow_runs", branch=ref))
        except NotFound:
            return []
        return [_run(row) for row in newest]

    def await_runs(self, attempt: int) -> bool:
        if attempt >= len(PAUSES):
            return False
        self._client.pause(PAUSES[attempt])
        return True

    def since(self, start: datetime) -> Sequence[Run]:
        """See :class:`WorkflowRuns`. A full search is followed by one for older runs."""
        found: dict[str, Run] = {}
        until = ""
        while True:
            before = len(found)
            created = f"{format_time(start)}..{until}" if until else f">={format_time(start)}"
            pages = self._client.pages("/actions/runs", "workflow_runs", created=created)
            rows = list(itertools.chain.from_iterable(itertools.islice(pages, _RUNS_OF_A_SEARCH // PER_PAGE)))
            found |= {run.id: run for run in map(_run, rows)}
            # Where a thousand runs were created in one second, no search can part them.
            if len(rows) < _RUNS_OF_A_SEARCH or len(found) == before:
                return sorted(found.values(), key=lambda run: (run.created_at, run.id), reverse=True)
            until = format_time(min(run.created_at for run in found.values()))

    def jobs(self, run: Run) -> Sequence[RunJob]:
        pages = self._client.pages(f"/actions/runs/{run.id}/jobs", "jobs", filter="all")
        rows = itertools.chain.from_iterable(pages)
        return [_job(row) for row in rows if row["started_at"] and row["conclusion"] != "skipped"]


def _run(row: dict[str, Any]) -> Run:
    """A run as REST gives it, as ours. GitHub does not tell the inputs of a run."""
    return Run(
        id=str(row["id"]),
        workflow=row["path"].partition("@")[0].rpartition("/")[2],
        ref=row["head_branch"] or "",
        status=_status(row["status"]),
        conclusion=row["conclusion"],
        created_at=datetime.fromisoformat(row["created_at"]),
        url=row["html_url"],
        commit=row["head_sha"],
    )


def _job(row: dict[str, Any]) -> RunJob:
    return RunJob(
        id=str(row["id"]),
        name=row["name"],
        run_id=str(row["run_id"]),
        labels=tuple(row["labels"]),
        status=_status(row["status"]),
        conclusion=row["conclusion"],
        started_at=datetime.fromisoformat(row["started_at"]),
        completed_at=_when(row["completed_at"]),
        steps=tuple(
            RunStep(
                name=step["name"],
                conclusion=step["conclusion"],
                started_at=_when(step.get("started_at")),
                completed_at=_when(step.get("completed_at")),
            )
            for step in row.get("steps") or []
        ),
        url=row["html_url"] or "",
    )


def _status(status: str) -> str:
    """GitHub knows more ways of waiting (requested, waiting, pending …)."""
    return status if status in ("in_progress", "completed") else "queued"


def _when(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


class GitHubChecks:
    """Adapter of :class:`~mlir_release.release.forge.services.Checks`: check runs, and statuses of buildbots."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client
        #: First the kind that had all names last time, because each kind costs a request.
        self._order: list[Callable[[str, Collection[str]], dict[str, str]]] = [self._runs, self._statuses]

    def newest(self, branch: str, count: int) -> Sequence[Commit]:
        """See :class:`Checks`. One request for every hundred commits."""
        found = []
        for row in islice(chain.from_iterable(self._client.pages("/commits", sha=branch)), count):
            inner = row["commit"]
            when = datetime.fromisoformat(inner["committer"]["date"])
            found.append(Commit(sha=row["sha"], when=when, subject=inner["message"].partition("\n")[0]))
        return found

    def states(self, commit: str, names: Collection[str]) -> dict[str, str]:
        """See :class:`Checks`. Two requests at most, one if all names are found by the first; plus further pages.

        A status does not stand in for a check run of the same name.
        """
        found: dict[str, str] = {}
        for ask in tuple(self._order):
            wanted = set(names) - found.keys()
            if not wanted:
                break
            answer = ask(commit, wanted)
            found = answer | found
            if answer.keys() >= set(names):
                self._order.sort(key=lambda other: other != ask)
        return found

    def _runs(self, commit: str, names: Collection[str]) -> dict[str, str]:
        """Of a check that ran several times the newest run counts, also while it has no result yet."""
        pages = self._client.pages(f"/commits/{commit}/check-runs", "check_runs", filter="latest")
        runs = sorted(chain.from_iterable(pages), key=lambda run: int(run["id"]))
        return {run["name"]: run["conclusion"] if run["status"] == "completed" else PENDING for run in runs}

    def _statuses(self, commit: str, names: Collection[str]) -> dict[str, str]:
        """The newest status of each context; of further pages only those that are needed to find ``names``."""
        found: dict[str, str] = {}
        for page in self._client.pages(f"/commits/{commit}/status", "statuses"):
            found |= {status["context"]: status["state"] for status in page}
            if found.keys() >= set(names):
                break
        return found
