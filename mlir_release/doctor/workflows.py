"""A workflow's file, as far as it decides whether the workflow can do its work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from mlir_release.errors import UsageError
from mlir_release.host.yaml import pyyaml

if TYPE_CHECKING:
    from collections.abc import Mapping

Access = Literal["none", "read", "write"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step that uses an action."""

    id: str
    uses: str
    inputs: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job, or the call of another workflow."""

    name: str
    uses: str  #: the workflow that it calls; empty for an ordinary job
    permissions: Mapping[str, str] | Access | None  #: ``read`` and ``write`` mean all; None: it has none of its own
    environment: str
    inputs: Mapping[str, str]  #: for the workflow that it calls
    secrets: Mapping[str, str]
    inherits: bool  #: whether it gets all secrets of its caller
    steps: tuple[Step, ...]

    def may(self, permission: str) -> Access | None:
        """Its token's access for one permission; None: the repository's default."""
        if self.permissions is None or isinstance(self.permissions, str):
            return self.permissions
        found = self.permissions.get(permission)
        return "write" if found == "write" else "read" if found == "read" else "none"


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A workflow's file."""

    path: str
    triggers: frozenset[str]
    dispatch_inputs: frozenset[str]
    jobs: tuple[Job, ...]

    @property
    def name(self) -> str:
        """The name of its file, which is used to dispatch it."""
        return self.path.rpartition("/")[2]


def parse_workflow(content: bytes, *, path: str) -> Workflow:
    """Read a workflow's file.

    :raises UsageError: ``workflow-invalid``
    :raises MachineError: ``yaml-missing``
    """
    data = _yaml(content, path)
    data = {"on" if key is True else key: value for key, value in data.items()}  # YAML 1.1 reads `on` as a boolean
    triggers = data.get("on")
    if isinstance(triggers, str):
        triggers = [triggers]
    if not isinstance(triggers, list | dict):
        raise _invalid(path, "it lacks triggers (on)")
    jobs = data.get("jobs")
    if not isinstance(jobs, dict) or not jobs or not all(isinstance(job, dict) for job in jobs.values()):
        raise _invalid(path, "it lacks jobs")
    dispatch = _table(triggers.get("workflow_dispatch")) if isinstance(triggers, dict) else {}
    return Workflow(
        path=path,
        triggers=frozenset(str(trigger) for trigger in triggers),
        dispatch_inputs=frozenset(_table(dispatch.get("inputs"))),
        jobs=tuple(_job(str(name), job, data.get("permissions")) for name, job in jobs.items()),
    )


@dataclass(frozen=True, kw_only=True)
class Action:
    """An action's own file."""

    runtime: str  #: ``node24``, ``composite``, ``docker``
    uses: tuple[str, ...]  #: what the steps of a composite one use


def parse_action(content: bytes, *, path: str) -> Action:
    """Read an ``action.yml``.

    :raises UsageError: ``workflow-invalid``
    :raises MachineError: ``yaml-missing``
    """
    runs = _table(_yaml(content, path).get("runs"))
    if not runs.get("using"):
        raise _invalid(path, "it does not say what it runs on (runs.using)")
    steps = runs.get("steps") or ()
    uses = tuple(str(step["uses"]) for step in steps if isinstance(step, dict) and "uses" in step)
    return Action(runtime=str(runs["using"]), uses=uses)


def _yaml(content: bytes, path: str) -> dict[Any, Any]:
    yaml = pyyaml()
    try:
        data = yaml.load(content, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError) as error:
        raise _invalid(path, "it is not YAML: " + " ".join(str(error).split())) from None
    if not isinstance(data, dict):
        raise _invalid(path, "it is not a table")
    return data


def _invalid(path: str, why: str) -> UsageError:
    return UsageError(
        "workflow-invalid",
        "it is not a workflow that GitHub can run",
        where=path,
        why=why,
        remedy=f"fix {path}, or copy it again from the toolkit's repository (actionlint reports more)",
    )


def _job(name: str, data: dict[str, Any], default: Any) -> Job:
    environment = data.get("environment", "")
    steps = data.get("steps") or ()
    return Job(
        name=name,
        uses=str(data.get("uses", "")),
        permissions=_permissions(data.get("permissions", default)),
        environment=str(environment.get("name", "") if isinstance(environment, dict) else environment),
        inputs=_table(data.get("with")),
        secrets=_table(data.get("secrets")),
        inherits=data.get("secrets") == "inherit",
        steps=tuple(
            Step(id=str(step.get("id", "")), uses=str(step["uses"]), inputs=_table(step.get("with")))
            for step in steps
            if isinstance(step, dict) and "uses" in step
        ),
    )


def _table(data: Any) -> dict[str, Any]:
    return {str(key): value for key, value in data.items()} if isinstance(data, dict) else {}


def _permissions(data: Any) -> dict[str, str] | Access | None:
    if isinstance(data, dict):
        return {str(key): str(value) for key, value in data.items()}
    return "read" if data == "read-all" else "write" if data == "write-all" else None
