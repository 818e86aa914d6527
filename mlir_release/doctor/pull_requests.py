"""Whether CI runs on integrate's pull requests: what a job does with its own token starts no workflows.

Either integrate uses another token, from a secret or of an App, or ``integrate.toml`` names a workflow that is
dispatched on the branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.doctor.integrate_tokens import Use, availability, uses_of
from mlir_release.doctor.results import Finding, hidden, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.doctor.repository_files import Contents
    from mlir_release.doctor.results import Level
    from mlir_release.forge.github.observations import Observations
    from mlir_release.integrate.config import Config

_WORKFLOWS = ".github/workflows/"

#: Permissions that the caller's job must have (a called workflow gets no more), and inputs of dispatched rounds.
_PERMISSIONS = ("contents", "pull-requests", "actions")
_ROUND_INPUTS = frozenset({"branch", "strategy", "width"})


def examine_pull_requests(seen: Observations, contents: Contents) -> Iterator[Finding]:
    """Every check of integrate; none if there is no integrate.toml."""
    if not contents.integrates:
        return
    check, uses = "pull-request-token", uses_of(contents)
    dispatched, why_not = _dispatched(seen, contents)
    tokens = [_token(seen, use) for use in uses]
    remedy = (
        "store a token whose pushes start CI (contents, pull requests and actions: write) as a secret and pass it to "
        "integrate.yml as app_token, or name a workflow in integrate.toml: [ci] workflow (docs/integrate.md)"
    )
    if tokens and all(level == "ok" for level, _ in tokens):
        yield Finding(check, "ok", "; ".join(text for _, text in tokens))
    elif dispatched == "ok":
        yield Finding(check, "ok", why_not)
    elif not tokens:
        text = f"no workflow here runs integrate, so its token is unknown; {why_not}"
        yield Finding(check, "unknown", text, remedy)
    else:
        levels = {level for level, _ in tokens if level != "ok"}
        if "unknown" in levels:
            remedy = f"use a token that has secrets and variables: read; if the secret is missing, {remedy}"
        text = "; ".join([*(text for level, text in tokens if level != "ok"), why_not])
        level: Level = "problem" if "problem" in levels and dispatched == "problem" else "unknown"
        yield Finding(check, level, f"CI on pull requests: {text}", remedy)
    yield from _own_token(seen, [level for level, _ in tokens])
    for use in uses:
        yield from _caller(seen, use, contents)
        if contents.config is not None:
            yield from _export(seen, use, contents.config)


def _token(seen: Observations, use: Use) -> tuple[Level, str]:
    """Whether a job has a token whose pushes start CI."""
    if not use.token.secrets:
        return "problem", f"{use.where} has only the job's own token, which starts no CI"
    level, words = availability(seen, use, use.token)
    return level, f"{use.where} takes its token from {words}"


def _export(seen: Observations, use: Use, config: Config) -> Iterator[Finding]:
    """Whether a job may push patched commits to the remotes that they are fetched from."""
    remotes = {config.export.remote, *(target.remote for target in config.export.also)} - {""}
    foreign = sorted(r for r in remotes if not r.removesuffix(".git").endswith(f"/{seen.repository}"))
    if not foreign:
        return
    check, where = "export-token", f"{use.where} pushes to {', '.join(foreign)} with"
    remedy = "store a token that may push there as a secret, and pass it to integrate.yml as export_token"
    if use.export.secrets:
        level, words = availability(seen, use, use.export)
        yield Finding(check, level, f"{where} {words}", "" if level == "ok" else remedy)
    elif use.token.secrets:
        text = f"{where} its app_token; only its owner can see whether it may"
        yield Finding(check, "unknown", text, f"check it; if it may not, {remedy}")
    else:
        yield Finding(
            check, "problem", f"{where} the job's own token, which may write to this repository alone", remedy
        )


def _dispatched(seen: Observations, contents: Contents) -> tuple[Level, str]:
    """Level and text: whether integrate.toml's own workflow can be dispatched."""
    if contents.config is None:
        return "unknown", "integrate.toml can't be read"
    name = contents.config.ci.workflow
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


def _own_token(seen: Observations, levels: list[Level]) -> Iterator[Finding]:
    """Whether the job's own token may open the pull request, if there is no other."""
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
        "(if it is greyed out, change it in the organization's settings)",
    )


def _caller(seen: Observations, use: Use, contents: Contents) -> Iterator[Finding]:
    """Whether a workflow that calls integrate.yml gives it the permissions it needs, and can start its next round."""
    if not use.called:
        return
    check, path = "integrate-caller", use.workflow.path
    by_default = "write" if seen.defaults is None or seen.defaults.write else "read"
    lacking = [name for name in _PERMISSIONS if (use.job.may(name) or by_default) != "write"]
    if lacking:
        asked = ", ".join(f"{name}: write" for name in lacking)
        yield Finding(check, "problem", f"{path} ({use.job.name}) lacks {asked}", "add them to the job's permissions")
    name = str(use.job.inputs.get("next-workflow", "integrate.yml"))
    following = contents.workflows.get(_WORKFLOWS + name)
    takes = following.dispatch_inputs if following else frozenset()
    if following is None or "workflow_dispatch" not in following.triggers or not takes >= _ROUND_INPUTS:
        inputs = ", ".join(sorted(_ROUND_INPUTS))
        lacks = "is missing" if following is None else f"has no workflow_dispatch with the inputs {inputs}"
        text = f"{path} starts its next round with {name}, which {lacks}"
        remedy = f"set next-workflow: {use.workflow.name}, and declare the inputs there"
        yield Finding(check, "problem", text, remedy)
    elif not lacking:
        yield Finding(check, "ok", f"{path} gives integrate what it needs")
