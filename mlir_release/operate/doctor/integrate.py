"""Whether integrate can work: CI runs on its pull requests, its tokens exist, and its jobs have their permissions.

A push with a job's own token starts no workflows. So either integrate uses another token, from a secret or of an App,
or ``integrate.toml`` names a workflow that is dispatched on the branch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec

from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.errors import UsageError
from mlir_release.integrate.config import ROLL_VARIABLE, switched_to
from mlir_release.operate.doctor.files import WORKFLOW_FOLDER, Contents, Examined, Job, Workflow
from mlir_release.operate.doctor.results import Answer, Finding, Level, ok, problem, unknown, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.release.forge.observations import Observations

#: The workflow that a downstream's own calls, and its secrets for tokens.
_CALLED = re.compile(r"(^|/)\.github/workflows/integrate\.ya?ml(@|$)")
_SECRETS = ("app_token", "export_token")

#: The secret that it uses by default, when it is dispatched or inherits secrets.
_INHERITED = "APP_TOKEN"

#: The workflow that keeps the issue about the walk.
_ISSUE = re.compile(r"(^|/)\.github/workflows/roll\.ya?ml(@|$)")

#: The action that a downstream's own job may use instead, and its inputs for tokens.
_ACTION = re.compile(r"/actions/integrate(@|$)")
_INPUTS = ("token", "export-token")

_REFERENCE = re.compile(r"\b(secrets|vars)(?:\.([A-Za-z_][\w-]*)|\[\s*'([^']+)'\s*\])")
_OUTPUT = re.compile(r"\bsteps\.([A-Za-z_][\w-]*)\.outputs\b")

#: Permissions that the caller's job must have (a called workflow gets no more), and inputs of dispatched rounds.
_PERMISSIONS = ("contents", "pull-requests", "actions")
_ROUND_INPUTS = frozenset({"branch", "strategy", "width"})

#: The inputs about runners and images that GitHub, or nobody, would complain of only when probes begin.
_KINDS = {
    "runs-on": "a label, a JSON list of labels, or a JSON object with group or labels",
    "container": "an image, or a JSON object with image",
}

_Word = Annotated[str, msgspec.Meta(min_length=1)]


class _Runners(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The object in ``runs-on``."""

    group: str = ""
    labels: str | list[_Word] = ""


class _Image(msgspec.Struct, frozen=True, kw_only=True):
    """The object in ``container``, as far as it must be."""

    image: _Word


class TokenSource(NamedTuple):
    """The secrets and variables that a token is made from. No secrets: it is the job's own, or there is no token."""

    secrets: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class IntegrateJob:
    """A job that runs integrate."""

    path: str  #: of its workflow
    name: str
    workflow: Workflow
    job: Job
    token: TokenSource  #: for the branch and its pull request
    export: TokenSource = field(default_factory=TokenSource)  #: for the remotes that patched commits are pushed to
    called: bool = False  #: whether it calls the workflow, and does not use the action

    @property
    def where(self) -> str:
        """For people."""
        return f"{self.path.rpartition('/')[2]} ({self.name})"


def uses_of(contents: Contents) -> tuple[IntegrateJob, ...]:
    """Every job that runs integrate and can push."""
    found, own = [], []
    for path, workflow in contents.workflows.items():
        ours = _CALLED.search(path) is not None
        made = partial(IntegrateJob, path=path, workflow=workflow)
        inherited = TokenSource(frozenset({_INHERITED}))
        if ours and "workflow_dispatch" in workflow.triggers():
            name, job = next(iter(workflow.jobs.items()))
            own.append(made(name=name, job=job, token=inherited))
        for name, job in workflow.jobs.items():
            if _CALLED.search(job.uses):
                given = job.secrets if isinstance(job.secrets, dict) else {}
                token, export = (_source(job, given.get(secret)) for secret in _SECRETS)
                token = inherited if job.secrets == "inherit" else token
                found.append(made(name=name, job=job, token=token, export=export, called=True))
            elif not (ours and "workflow_call" in workflow.triggers()):
                for step in job.steps or ():
                    given = step.inputs or {}
                    if _ACTION.search(step.uses) and given.get("token"):
                        token, export = (_source(job, given.get(each)) for each in _INPUTS)
                        found.append(made(name=name, job=job, token=token, export=export))
    return tuple(found or own)


def _source(job: Job, expression: object) -> TokenSource:
    """The secrets and variables in a job's expression, also through steps whose outputs it uses (an App's token)."""
    made_by = _OUTPUT.findall(str(expression))
    texts = [expression]
    texts += [value for step in job.steps or () if step.id in made_by for value in (step.inputs or {}).values()]
    names: dict[str, set[str]] = {"secrets": set(), "vars": set()}
    for kind, dotted, quoted in _REFERENCE.findall(" ".join(map(str, texts))):
        names[kind].add((dotted or quoted).upper())  # GitHub ignores case in names
    secrets = names["secrets"] - {"GITHUB_TOKEN"}
    return TokenSource(frozenset(secrets), frozenset(names["vars"] if secrets else ()))


def _availability(seen: Observations, job: Job, source: TokenSource) -> tuple[Level, str]:
    """Whether a token's secrets and variables exist; and which they are, or which are missing, for people."""
    secrets = {name.upper() for name in seen.secrets.seen}
    complete = seen.secrets.complete
    place = job.environment.get("name", "") if isinstance(job.environment, dict) else job.environment
    if place:
        own = seen.environment_secrets.get(str(place))
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


def _tokens(known: Examined) -> list[tuple[Level, str]]:
    """Whether each job has a token whose pushes start CI."""
    found: list[tuple[Level, str]] = []
    for use in uses_of(known.contents):
        if use.token.secrets:
            level, words = _availability(known.seen, use.job, use.token)
            found.append((level, f"{use.where} takes its token from {words}"))
        else:
            found.append(("problem", f"{use.where} has only the job's own token, which starts no CI"))
    return found


def pull_request_token(known: Examined) -> Iterator[Answer]:
    """Whether pull requests start CI: by every job's token, or by a dispatch."""
    tokens = _tokens(known)
    dispatched, how = _dispatched(known)
    levels = {level for level, _ in tokens}
    remedy = (
        "store a token whose pushes start CI (contents, pull requests and actions: write) as a secret and pass it to "
        "integrate.yml as app_token, or name a workflow in integrate.toml: [ci] workflow (docs/integrate.md)"
    )
    if levels == {"ok"}:
        yield ok("; ".join(text for _, text in tokens))
    elif dispatched == "ok":
        yield ok(how)
    elif not tokens:
        yield unknown(f"no workflow here runs integrate, so its token is unknown; {how}", remedy)
    else:
        if "unknown" in levels:
            remedy = f"use a token that has secrets and variables: read; if the secret is missing, {remedy}"
        sure = "problem" in levels and dispatched == "problem"
        text = "; ".join([*(text for level, text in tokens if level != "ok"), how])
        yield (problem if sure else unknown)(f"CI on pull requests: {text}", remedy)


def _dispatched(known: Examined) -> tuple[Level, str]:
    """Level and text: whether integrate.toml's own workflow can be dispatched."""
    contents, states = known.contents, known.seen.workflows
    if contents.config is None:
        return "unknown", "integrate.toml can't be read"
    name = contents.config.ci.workflow
    if not name:
        return "problem", "integrate.toml names no workflow ([ci])"
    path = WORKFLOW_FOLDER + name
    workflow = contents.workflows.get(path)
    if workflow is None:
        return "problem", f"integrate.toml's {name} is not in {WORKFLOW_FOLDER}, or can't be read"
    if "workflow_dispatch" not in workflow.triggers():
        return "problem", f"integrate.toml's {name} has no workflow_dispatch"
    if states is None:
        return "unknown", f"whether integrate.toml's {name} is active is hidden"
    if states.get(path) != "active":
        return "problem", f"integrate.toml's {name} is disabled"
    return "ok", f"integrate dispatches {name} on its branch"


def pull_request_creation(known: Examined) -> Iterator[Answer]:
    """Whether the job's own token may open the pull request, if there is no other."""
    tokens, defaults = _tokens(known), known.seen.defaults
    if tokens and all(level == "ok" for level, _ in tokens):
        return
    if defaults is None:
        yield None
        return
    yield verdict(
        defaults.pull_requests,
        f"jobs' own tokens {'may' if defaults.pull_requests else 'may not'} create pull requests",
        "Settings > Actions > General > Workflow permissions: Allow GitHub Actions to create and approve pull requests "
        "(if it is greyed out, change it in the organization's settings)",
    )


def export_token(known: Examined) -> Iterator[Answer]:
    """Whether jobs may push patched commits to the remotes that they are fetched from."""
    config = known.contents.config
    targets = [*(table.export for table in config.upstreams), *config.export.also] if config else []
    remotes = {target.remote for target in targets if target is not None}
    foreign = sorted(r for r in remotes if not r.removesuffix(".git").endswith(f"/{known.seen.repository}"))
    remedy = "store a token that may push there as a secret, and pass it to integrate.yml as export_token"
    for use in uses_of(known.contents) if foreign else ():
        where = f"{use.where} pushes to {', '.join(foreign)} with"
        if use.export.secrets:
            level, words = _availability(known.seen, use.job, use.export)
            yield Finding("", level, f"{where} {words}", "" if level == "ok" else remedy)
        elif use.token.secrets:
            text = f"{where} its app_token; only its owner can see whether it may"
            yield unknown(text, f"check it; if it may not, {remedy}")
        else:
            yield problem(f"{where} the job's own token, which may write to this repository alone", remedy)


def callers(known: Examined) -> Iterator[Answer]:
    """Whether a workflow that calls integrate.yml gives it the permissions it needs, and can start its next round."""
    defaults, workflows = known.seen.defaults, known.contents.workflows
    by_default = "write" if defaults is None or defaults.write else "read"
    for use in uses_of(known.contents):
        if not use.called:
            continue
        lacking = [name for name in _PERMISSIONS if (use.workflow.access(use.job, name) or by_default) != "write"]
        if lacking:
            asked = ", ".join(f"{name}: write" for name in lacking)
            yield problem(f"{use.path} ({use.name}) lacks {asked}", "add them to the job's permissions")
        name = str((use.job.inputs or {}).get("next-workflow", "integrate.yml"))
        following = workflows.get(WORKFLOW_FOLDER + name)
        startable = following is not None and "workflow_dispatch" in following.triggers()
        if following is None or not startable or not following.dispatch_inputs() >= _ROUND_INPUTS:
            inputs = ", ".join(sorted(_ROUND_INPUTS))
            lacks = "is missing" if following is None else f"has no workflow_dispatch with the inputs {inputs}"
            own = use.path.rpartition("/")[2]
            yield problem(
                f"{use.path} starts its next round with {name}, which {lacks}",
                f"set next-workflow: {own}, and declare the inputs there",
            )
            continue
        given, well = use.job.inputs or {}, not lacking
        for name, kind in _KINDS.items():
            if not _is_usable(name, given.get(name, "")):
                well = False
                text = f"{use.where} gives {name}: {given[name]}"
                yield problem(text, f"give it {kind} (docs/integrate.md, On GitHub)")
        if well:
            yield ok(f"{use.path} gives integrate what it needs")


def _is_usable(name: str, value: object) -> bool:
    """Whether GitHub can run jobs with it. An expression may have any value."""
    if not isinstance(value, str):
        return False
    if "${{" in value or not value.startswith(("[", "{")):
        return "\n" not in value.rstrip("\n")
    if value.startswith("["):  # the same labels in an object
        value = f'{{"labels": {value}}}' if name == "runs-on" else value
    try:
        data = from_json(value, _Image if name == "container" else _Runners)
    except MalformedError:
        return False
    return not isinstance(data, _Runners) or bool(data.group or data.labels)


def roller(known: Examined) -> Iterator[Answer]:
    """Whether the variable that switches the roller names a mode, and the issue about the walk can be kept."""
    value = known.seen.variables.seen.get(ROLL_VARIABLE, "").strip()
    if value:
        try:
            mode, why = switched_to(value)
            yield ok(f"{ROLL_VARIABLE}: the roller is {mode}{f' ({why})' if why else ''}")
        except UsageError as error:
            yield problem(f"{error.what}: nothing is walked", error.remedy)
    defaults = known.seen.defaults
    by_default = "write" if defaults is None or defaults.write else "read"
    for path, workflow in known.contents.workflows.items():
        walks = {name for name, job in workflow.jobs.items() if _CALLED.search(job.uses)}
        for name, job in workflow.jobs.items():
            if not _ISSUE.search(job.uses):
                continue
            needs = {job.needs} if isinstance(job.needs, str) else {*(job.needs or ())}
            where = f"{path.rpartition('/')[2]} ({name})"
            if (workflow.access(job, "issues") or by_default) != "write":
                yield problem(f"{where} lacks issues: write", "add it to the job's permissions")
            elif not walks & needs:
                yield problem(f"{where} does not wait for a walk", f"give it needs: {min(walks, default='the walk')}")
            else:
                yield ok(f"{where} keeps the issue about the walk")
