"""Starting workflows on GitHub, and finding their runs.

A run is listed some seconds after its dispatch. So the answer to the dispatch is asked to name the run
(``return_run_details``, since February 2026; docs.github.com, "Create a workflow dispatch event"), and whoever has no
such answer waits before concluding that there is no run. An older GitHub Enterprise Server refuses the parameter or
ignores it; then the run is not known until it is listed.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mlir_release.errors import ForgeError
from mlir_release.forge.base import Run
from mlir_release.forge.github.refusals import NotFound, Refused
from mlir_release.forge.github.runs import run_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlir_release.forge.github.client import GitHubClient

#: Seconds between two looks at the list of runs, until every run that was dispatched before the first is on it.
PAUSES = (2.0, 4.0, 8.0, 16.0)

#: What asks for the run; a refusal that names it means that this server does not know it.
PARAMETER = "return_run_details"


class Dispatcher:
    """Starts and lists the runs of one repository's workflows."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client
        self._details = {PARAMETER: True}

    def start(self, workflow: str, *, ref: str, inputs: Mapping[str, str]) -> Run | None:
        """Start a workflow; a run that appears although the answer was lost is taken for this one."""
        before = {run.id for run in self.runs(workflow, ref=ref)}

        def seen() -> Run | None:
            attempt = 0
            while True:
                new = [run for run in self.runs(workflow, ref=ref) if run.id not in before]
                if new or not self.await_runs(attempt):
                    return new[0] if new else None
                attempt += 1

        def send() -> Run | None:
            body = {"ref": ref, "inputs": dict(inputs), **self._details}
            path = f"/actions/workflows/{quote(workflow)}/dispatches"
            headers, answer = self._client.request("POST", path, input=body)
            return _dispatched(workflow, ref, inputs, headers, answer)

        try:
            try:
                return self._client.write(send, done=seen, about=f"{workflow} on {ref}")
            except Refused as error:
                if PARAMETER not in error.why or not self._details:
                    raise
            self._details = {}
            return self._client.write(send, done=seen, about=f"{workflow} on {ref}")
        except NotFound as error:
            raise ForgeError(
                "workflow-missing",
                f"the repository has no workflow {workflow}, or it can't be dispatched",
                where=self._client.where,
                why=error.why,
                remedy=f"commit .github/workflows/{workflow} with a workflow_dispatch trigger to the default branch, "
                "or name the right file in targets.toml ([release] workflow)",
            ) from error

    def runs(self, workflow: str, *, ref: str) -> Sequence[Run]:
        """The newest hundred runs of a workflow on a branch or tag, newest first."""
        path = f"/actions/workflows/{quote(workflow)}/runs"
        try:
            newest = next(self._client.pages(path, "workflow_runs", branch=ref))
        except NotFound:
            return []
        return [run_record(run) for run in newest]

    def await_runs(self, attempt: int) -> bool:
        """See :class:`~mlir_release.forge.base.Forge`."""
        if attempt >= len(PAUSES):
            return False
        self._client.pause(PAUSES[attempt])
        return True


def _dispatched(
    workflow: str, ref: str, inputs: Mapping[str, str], headers: Mapping[str, Any], answer: Any
) -> Run | None:
    """The run that an answer names; None for GitHub's older answer, which is empty."""
    if not isinstance(answer, dict) or "workflow_run_id" not in answer:
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
