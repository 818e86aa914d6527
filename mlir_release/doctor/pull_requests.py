"""Whether CI runs on integrate's pull requests, which a job's own token opens and pushes without starting any.

Either integrate works with another token, a secret's or that of an App which a step makes; or ``integrate.toml`` names
a workflow that is dispatched on the branch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mlir_release.doctor.findings import Finding, hidden, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.doctor.files import Contents
    from mlir_release.doctor.workflows import Job, Workflow
    from mlir_release.forge.observations import Observations

_WORKFLOWS = ".github/workflows/"

#: The workflow that a downstream's own calls, and its secret for the token.
_CALLED = re.compile(r"(^|/)\.github/workflows/integrate\.ya?ml(@|$)")
_SECRET = "app-token"

#: The action that a downstream's own job may use instead, and its input for the token.
_ACTION = re.compile(r"/actions/integrate(@|$)")
_INPUT = "token"

#: What the caller's job must allow (a called workflow gets no more than its caller has), and what dispatches take.
_PERMISSIONS = ("contents", "pull-requests", "actions")
_ROUND_INPUTS = frozenset({"branch", "strategy", "width"})

_REFERENCE = re.compile(r"\b(secrets|vars)(?:\.([A-Za-z_][\w-]*)|\[\s*'([^']+)'\s*\])")
_OUTPUT = re.compile(r"\bsteps\.([A-Za-z_][\w-]*)\.outputs\b")


@dataclass(frozen=True, kw_only=True)
class Use:
    """A job that runs integrate."""

    workflow: Workflow
    job: Job
    secrets: frozenset[str] = field(default_factory=frozenset)  #: that its token comes from; empty: it is the job's own
    variables: frozenset[str] = field(default_factory=frozenset)
    called: bool = True  #: whether it calls the workflow (or uses the action)


def uses_of(contents: Contents) -> tuple[Use, ...]:
    """Every job that runs integrate with a token other than the job's own, or could."""
    found = []
    for workflow in contents.workflows.values():
        for job in workflow.jobs:
            if _CALLED.search(job.uses):
                found.append(_use(workflow, job, str(job.secrets.get(_SECRET, "")), called=True))
            elif not (_CALLED.search(workflow.path) and "workflow_call" in workflow.triggers):
                found += [
                    _use(workflow, job, str(step.inputs.get(_INPUT, "")), called=False)
                    for step in job.steps
                    if _ACTION.search(step.uses) and step.inputs.get(_INPUT)
                ]
    # Dispatched by itself, integrate.yml gets no secret: app-token is no name that a repository's secret can have.
    found += [
        Use(workflow=workflow, job=workflow.jobs[0], called=False)
        for workflow in contents.workflows.values()
        if _CALLED.search(workflow.path) and "workflow_dispatch" in workflow.triggers and not found
    ]
    return tuple(found)


def _use(workflow: Workflow, job: Job, expression: str, *, called: bool) -> Use:
    texts = [expression]
    for step in job.steps:  # a token that an earlier step makes: of an App, from its id and key
        if step.id and step.id in _OUTPUT.findall(expression):
            texts += [str(value) for value in step.inputs.values()]
    names: dict[str, set[str]] = {"secrets": set(), "vars": set()}
    for kind, dotted, quoted in _REFERENCE.findall(" ".join(texts)):
        names[kind].add((dotted or quoted).upper())  # GitHub's names do not tell cases apart
    own = names["secrets"] <= {"GITHUB_TOKEN"}
    return Use(
        workflow=workflow,
        job=job,
        secrets=frozenset() if own else frozenset(names["secrets"] - {"GITHUB_TOKEN"}),
        variables=frozenset() if own else frozenset(names["vars"]),
        called=called,
    )


def examine_pull_requests(seen: Observations, contents: Contents) -> Iterator[Finding]:
    """Every check of integrate; nothing where there is no integrate.toml."""
    if not contents.integrates:
        return
    uses = uses_of(contents)
    dispatched, why_not = _dispatched(seen, contents)
    tokens = [_token(seen, use) for use in uses]
    remedy = (
        "store a token whose pushes start CI (contents and pull requests: write) as a secret and hand it to "
        "integrate.yml as app-token, or name a workflow in integrate.toml: [ci] workflow (docs/integrate.md)"
    )
    if tokens and all(level == "ok" for level, _ in tokens):
        yield Finding(check="pull-request-token", level="ok", text="; ".join(text for _, text in tokens))
    elif dispatched == "ok":
        yield Finding(check="pull-request-token", level="ok", text=why_not)
    elif not tokens:
        text = f"no workflow here runs integrate, so its token is not known; {why_not}"
        yield Finding(check="pull-request-token", level="unknown", text=text, remedy=remedy)
    else:
        levels = {level for level, _ in tokens if level != "ok"}
        if "unknown" in levels:
            remedy = f"run this with a token that has secrets and variables: read; if the secret is not there, {remedy}"
        text = "; ".join([*(text for level, text in tokens if level != "ok"), why_not])
        sure = "problem" in levels and dispatched == "problem"
        yield Finding(
            check="pull-request-token", level="problem" if sure else "unknown", text=f"CI on pull requests: {text}",
            remedy=remedy,
        )  # fmt: skip
    yield from _own_token(seen, [level for level, _ in tokens])
    for use in uses:
        yield from _caller(seen, use, contents)


def _token(seen: Observations, use: Use) -> tuple[str, str]:
    """Level and text: where a job's token comes from, and whether that is there."""
    where = f"{use.workflow.name} ({use.job.name})"
    if not use.secrets:
        return "problem", f"{where} has no token but the job's own, which starts none"
    secrets = {name.upper() for name in seen.secrets.seen}
    complete = seen.secrets.complete
    if use.job.environment:
        own = seen.environment_secrets.get(use.job.environment)
        secrets |= {name.upper() for name in own or ()}
        complete = complete and own is not None
    variables = {name.upper() for name in seen.variables.seen}
    lacking = [f"secret {name}" for name in sorted(use.secrets - secrets)]
    lacking += [f"variable {name}" for name in sorted(use.variables - variables)]
    if not lacking:
        return "ok", f"{where} has a token of its own, from {', '.join(sorted(use.secrets | use.variables))}"
    sure = (use.secrets <= secrets or complete) and (use.variables <= variables or seen.variables.complete)
    if sure:
        return "problem", f"{where} takes its token from what is not there: {', '.join(lacking)}"
    return "unknown", f"{where} takes its token from what this token may not see: {', '.join(lacking)}"


def _dispatched(seen: Observations, contents: Contents) -> tuple[str, str]:
    """Level and text: whether integrate.toml's own workflow can be dispatched."""
    if contents.config is None:
        return "unknown", "integrate.toml can't be read"
    name = contents.config.ci_workflow
    if not name:
        return "problem", "integrate.toml names no workflow ([ci])"
    path = _WORKFLOWS + name
    workflow = contents.workflows.get(path)
    if workflow is None:
        return "problem", f"integrate.toml's {name} is not in {_WORKFLOWS}, or can't be read"
    if "workflow_dispatch" not in workflow.triggers:
        return "problem", f"integrate.toml's {name} has no workflow_dispatch"
    if seen.workflows is None:
        return "unknown", f"whether integrate.toml's {name} is active is hidden"
    if seen.workflows.get(path) != "active":
        return "problem", f"integrate.toml's {name} is disabled"
    return "ok", f"integrate dispatches {name} on its branch"


def _own_token(seen: Observations, levels: list[str]) -> Iterator[Finding]:
    """Whether the job's own token may open the pull request, where there is no other."""
    if levels and all(level == "ok" for level in levels):
        return
    check = "pull-request-creation"
    if seen.defaults is None:
        what = "whether jobs may create pull requests"
        yield hidden(seen, check, what, asked="workflow", usual="administration: read")
        return
    may = seen.defaults.pull_requests
    yield verdict(
        check,
        may,
        f"jobs' own tokens {'may' if may else 'may not'} create pull requests",
        "Settings > Actions > General > Workflow permissions: Allow GitHub Actions to create and approve pull requests "
        "(where it is grey, the organisation's settings say so)",
    )


def _caller(seen: Observations, use: Use, contents: Contents) -> Iterator[Finding]:
    """Whether a workflow that calls integrate.yml lets it do its work, and its rounds follow each other."""
    if not use.called:
        return
    check, path = "integrate-caller", use.workflow.path
    by_default = "write" if seen.defaults is None or seen.defaults.write else "read"
    lacking = [name for name in _PERMISSIONS if (use.job.may(name) or by_default) != "write"]
    if lacking:
        asked = ", ".join(f"{name}: write" for name in lacking)
        yield verdict(check, False, f"{path} ({use.job.name}) lacks {asked}", "add them to the job's permissions")
    name = str(use.job.inputs.get("next-workflow", "integrate.yml"))
    following = contents.workflows.get(_WORKFLOWS + name)
    takes = following.dispatch_inputs if following else frozenset()
    if following is None or "workflow_dispatch" not in following.triggers or not takes >= _ROUND_INPUTS:
        text = f"{path} has its next round started as {name}, which "
        if following is None:
            text += "is not there"
        else:
            text += f"has no workflow_dispatch with the inputs {', '.join(sorted(_ROUND_INPUTS))}"
        yield verdict(check, False, text, f"say next-workflow: {use.workflow.name}, and give that one the inputs")
    elif not lacking:
        yield verdict(check, True, f"{path} lets integrate do its work", "")
