"""Starting workflows on GitHub, and finding their runs.

A run is listed some seconds after its dispatch. So the answer to the dispatch is asked to name the run
(``return_run_details``, since February 2026; docs.github.com, "Create a workflow dispatch event"), and whoever has no
such answer waits before concluding that there is no run. An older GitHub Enterprise Server refuses the parameter or
ignores it; then the run is not known until it is listed. A dispatch on a tag that was made just now may find no ref.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mlir_release.errors import ForgeError
from mlir_release.forge.base import Run
from mlir_release.forge.github.client import PAUSES
from mlir_release.forge.github.refusals import Forbidden, NotFound, Refused, forbidden
from mlir_release.forge.github.runs import run_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mlir_release.forge.github.client import GitHubClient

#: What asks for the run; a refusal that names it means that this server does not know it.
PARAMETER = "return_run_details"

#: How GitHub refuses a ref that it does not know, or not yet; and an event that a policy forbids (docs.github.com,
#: "About Actions policies").
_NO_REF, _NOT_ALLOWED = "No ref found", "is not allowed to trigger"

#: What forbids a dispatch to those who have the permission.
_POLICY = (
    "if it has that, a policy forbids it: allow the event workflow_dispatch, and GitHub Actions as an actor, in "
    "Settings > Actions > Policies (the organisation's, too), then run this again, or leave it to the next sweep; "
)


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
            return self._patiently(lambda: self._client.write(send, done=seen, about=f"{workflow} on {ref}"))
        except (Forbidden, Refused) as error:
            if isinstance(error, Refused) and _NOT_ALLOWED not in error.why:
                raise
            raise forbidden(where=self._client.where, why=error.why, needed="actions: write", policy=_POLICY) from error
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
