"""Whether the workflows have attest.yml of this very repository sign, at the branch that signatures must name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mlir_release.doctor.results import Finding, adopt_command, verdict
from mlir_release.forge.checkout import SIGNER
from mlir_release.forge.files import DEFAULT_BRANCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.doctor.repository_files import Contents
    from mlir_release.forge.github.observations import Observations

_CALL = re.compile(rf"(?P<repository>[^/]+/[^/]+)/{re.escape(SIGNER)}@(?P<ref>.+)")


def examine_signer(seen: Observations, contents: Contents) -> Iterator[Finding]:
    """GitHub allows no expression in ``uses``, so the repository's name is written in the workflows themselves."""
    calls = sorted(
        {
            (workflow.name, job.uses)
            for workflow in contents.workflows.values()
            for job in workflow.jobs
            if job.uses.partition("@")[0].endswith(SIGNER)
        }
    )
    if not calls:
        return
    wanted = (seen.repository.lower(), DEFAULT_BRANCH)
    wrong = [f"{name} calls {uses}" for name, uses in calls if _target(uses) != wanted]
    right = f"{seen.repository}/{SIGNER}@{DEFAULT_BRANCH}"
    yield verdict(
        "signer",
        not wrong,
        f"{'; '.join(wrong)}: its signatures would be refused" if wrong else f"releases are signed by {right}",
        adopt_command(seen.repository),
    )


def _target(uses: str) -> tuple[str, str] | None:
    """The repository and the ref of a call; None for ``./…`` and ``$/…``, which are the caller's own commit."""
    match = _CALL.fullmatch(uses)
    return (match["repository"].lower(), match["ref"]) if match else None
