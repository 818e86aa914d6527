"""The jobs that run integrate, and where their tokens come from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlir_release.doctor.repository_files import Contents
    from mlir_release.doctor.results import Level
    from mlir_release.doctor.workflows import Job, Workflow
    from mlir_release.forge.github.observations import Observations

#: The workflow that a downstream's own calls, and its secrets for tokens.
_CALLED = re.compile(r"(^|/)\.github/workflows/integrate\.ya?ml(@|$)")
_SECRETS = ("app_token", "export_token")

#: The secret that it uses by default, when it is dispatched or inherits secrets.
_INHERITED = "APP_TOKEN"

#: The action that a downstream's own job may use instead, and its inputs for tokens.
_ACTION = re.compile(r"/actions/integrate(@|$)")
_INPUTS = ("token", "export-token")

_REFERENCE = re.compile(r"\b(secrets|vars)(?:\.([A-Za-z_][\w-]*)|\[\s*'([^']+)'\s*\])")
_OUTPUT = re.compile(r"\bsteps\.([A-Za-z_][\w-]*)\.outputs\b")


@dataclass(frozen=True, kw_only=True)
class Source:
    """The secrets and variables that a token is made from. None: it is the job's own, or there is no token."""

    secrets: frozenset[str] = field(default_factory=frozenset)
    variables: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, kw_only=True)
class Use:
    """A job that runs integrate."""

    workflow: Workflow
    job: Job
    token: Source = field(default_factory=Source)  #: for the branch and its pull request
    export: Source = field(default_factory=Source)  #: for the remotes that patched commits are pushed to
    called: bool = True  #: whether it calls the workflow (or uses the action)

    @property
    def where(self) -> str:
        """For people."""
        return f"{self.workflow.name} ({self.job.name})"


def uses_of(contents: Contents) -> tuple[Use, ...]:
    """Every job that runs integrate and can push."""
    found = []
    for workflow in contents.workflows.values():
        for job in workflow.jobs:
            if _CALLED.search(job.uses):
                token, export = (source_of(job, str(job.secrets.get(name, ""))) for name in _SECRETS)
                if job.inherits:
                    token = Source(secrets=frozenset({_INHERITED}))
                found.append(Use(workflow=workflow, job=job, token=token, export=export))
            elif not (_CALLED.search(workflow.path) and "workflow_call" in workflow.triggers):
                for step in job.steps:
                    if _ACTION.search(step.uses) and step.inputs.get("token"):
                        token, export = (source_of(job, str(step.inputs.get(name, ""))) for name in _INPUTS)
                        found.append(Use(workflow=workflow, job=job, token=token, export=export, called=False))
    found += [
        Use(workflow=workflow, job=workflow.jobs[0], token=Source(secrets=frozenset({_INHERITED})), called=False)
        for workflow in contents.workflows.values()
        if _CALLED.search(workflow.path) and "workflow_dispatch" in workflow.triggers and not found
    ]
    return tuple(found)


def source_of(job: Job, expression: str) -> Source:
    """The secrets and variables in a job's expression, also through steps whose outputs it uses (an App's token)."""
    texts = [expression]
    for step in job.steps:
        if step.id and step.id in _OUTPUT.findall(expression):
            texts += [str(value) for value in step.inputs.values()]
    names: dict[str, set[str]] = {"secrets": set(), "vars": set()}
    for kind, dotted, quoted in _REFERENCE.findall(" ".join(texts)):
        names[kind].add((dotted or quoted).upper())  # GitHub ignores case in names
    secrets = names["secrets"] - {"GITHUB_TOKEN"}
    return Source(secrets=frozenset(secrets), variables=frozenset(names["vars"] if secrets else ()))


def availability(seen: Observations, use: Use, source: Source) -> tuple[Level, str]:
    """Whether a token's secrets and variables exist; and which they are, or which are missing, for people."""
    secrets = {name.upper() for name in seen.secrets.seen}
    complete = seen.secrets.complete
    if use.job.environment:
        own = seen.environment_secrets.get(use.job.environment)
        secrets |= {name.upper() for name in own or ()}
        complete = complete and own is not None
    variables = {name.upper() for name in seen.variables.seen}
    lacking = [f"secret {name}" for name in sorted(source.secrets - secrets)]
    lacking += [f"variable {name}" for name in sorted(source.variables - variables)]
    if not lacking:
        return "ok", ", ".join(sorted(source.secrets | source.variables))
    sure = (source.secrets <= secrets or complete) and (source.variables <= variables or seen.variables.complete)
    names = ", ".join(lacking)
    return ("problem", f"what is missing: {names}") if sure else ("unknown", f"what is hidden: {names}")
