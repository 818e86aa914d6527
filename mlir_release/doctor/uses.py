"""Everything that a repository's workflows use: actions and workflows of any repository, nested ones too.

GitHub applies a repository's policies to all of them. "The action actions/upload-artifact@v4 is not allowed in …
because all actions must be pinned to a full-length commit SHA" may be about a step inside a composite action.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.doctor.workflows import parse_action, parse_workflow
from mlir_release.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mlir_release.doctor.repository_files import Contents
    from mlir_release.doctor.workflows import Workflow

    #: A file of a repository at a ref, as ``read("actions/checkout", "action.yml", "v7")``; None: none can be seen.
    Read = Callable[[str, str, str], bytes | None]

_ELSEWHERE = re.compile(r"(?P<repository>[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+)(?:/(?P<path>[^@]*))?@(?P<ref>.+)")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_WORKFLOWS = ".github/workflows/"


@dataclass(frozen=True, kw_only=True)
class Use:
    """An action, or a workflow that is called."""

    name: str  #: as it is written: ``OWNER/NAME/PATH@REF``; of the repository itself: ``./PATH``, ``$/PATH``
    repository: str
    path: str  #: the folder of an action; the file of a workflow
    ref: str
    inside: str = ""  #: the action or workflow of another repository that uses it
    runtime: str | None = None  #: of an action: ``node24``, ``composite``, ``docker``; None: its file can't be read

    @property
    def foreign(self) -> bool:
        """Whether it is named with a repository."""
        return "@" in self.name

    @property
    def is_workflow(self) -> bool:
        """Whether it is a workflow; those need not be named by their commit."""
        return self.path.startswith(_WORKFLOWS)

    @property
    def pinned(self) -> bool:
        """Whether it is named by a full commit, or needs no pin."""
        return not self.foreign or self.is_workflow or _COMMIT.fullmatch(self.ref) is not None

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.name} (inside {self.inside})" if self.inside else self.name


def all_uses(contents: Contents, *, repository: str, branch: str, read: Read) -> tuple[Use, ...]:
    """What the workflows use, each once; those of others are read to find what they use."""
    home = Use(name="", repository=repository, path="", ref=branch)
    found: dict[tuple[str, str, str], Use] = {}
    queue = [use for workflow in contents.workflows.values() for use in _of_workflow(workflow, home, home)]
    while queue:
        use = queue.pop(0)
        place = (use.repository, use.path, use.ref)
        if place in found:
            continue
        runtime, nested = _opened(use, home, read)
        found[place] = Use(**{**vars(use), "runtime": runtime})
        queue += nested
    return tuple(found.values())


def _opened(use: Use, home: Use, read: Read) -> tuple[str | None, list[Use]]:
    """What an action runs on (a workflow: empty), and what it uses; None and nothing if it can't be read."""
    files = (use.path,) if use.is_workflow else (f"{use.path}/action.{end}".lstrip("/") for end in ("yml", "yaml"))
    for path in files:
        content = read(use.repository, path, use.ref)
        if content is None:
            continue
        try:
            if use.is_workflow:
                return "", list(_of_workflow(parse_workflow(content, path=path), use, home))
            action = parse_action(content, path=f"{use.repository}: {path}")
        except UsageError:
            return None, []
        return action.runtime, [inner for uses in action.uses if (inner := _resolve(uses, use, home))]
    return None, []


def _of_workflow(workflow: Workflow, outer: Use, home: Use) -> Iterator[Use]:
    for job in workflow.jobs:
        # A workflow beside the one that calls it; a step's ./PATH is in the workspace, where the caller's checkout is.
        if job.uses and (called := _resolve(job.uses.replace("./", "$/", 1), outer, home)):
            yield called
        yield from (use for step in job.steps if (use := _resolve(step.uses, outer, home)))


def _resolve(uses: str, outer: Use, home: Use) -> Use | None:
    """Where something is; None for an image of a registry."""
    inside = outer.name if outer.foreign else outer.inside
    if uses.startswith(("./", "$/")):
        place = outer if uses.startswith("$/") else home
        path = uses[2:].rstrip("/")
        return Use(name=uses, repository=place.repository, path=path, ref=place.ref, inside=inside)
    match = _ELSEWHERE.fullmatch(uses)
    if match is None:
        return None
    return Use(
        name=uses,
        repository=match["repository"],
        path=(match["path"] or "").strip("/"),
        ref=match["ref"],
        inside=inside,
    )
