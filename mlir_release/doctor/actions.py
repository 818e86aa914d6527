"""Whether GitHub Actions may run the workflows and the actions that they use, and what jobs may do."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from mlir_release.doctor.integrate_tokens import uses_of
from mlir_release.doctor.repository_files import required
from mlir_release.doctor.results import Finding, hidden, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mlir_release.doctor.repository_files import Contents
    from mlir_release.doctor.results import Level
    from mlir_release.doctor.uses import Use
    from mlir_release.forge.github.observations import AllowedActions, Observations

#: Owners whose actions count as GitHub's own.
_GITHUBS = frozenset({"actions", "github"})


def examine_actions(seen: Observations, contents: Contents, used: Sequence[Use]) -> Iterator[Finding]:
    """Whether Actions is enabled, the workflows are active, and what jobs without permissions of their own may do.

    :param used: what the workflows use, nested actions too
    """
    if seen.actions_enabled is None:
        yield hidden(seen, "actions", "whether Actions is enabled", asked="permissions", usual="administration: read")
    else:
        state = "enabled" if seen.actions_enabled else "disabled"
        remedy = "Settings > Actions > General: allow actions"
        yield verdict("actions", seen.actions_enabled, f"Actions is {state}", remedy)
        if seen.actions_enabled:
            yield _allowed(seen, used)
    if seen.workflows is None:
        yield hidden(seen, "workflows", "which workflows are active", asked="workflows", usual="actions: read")
    else:
        ours = {*required(contents), *(use.workflow.path for use in uses_of(contents))}
        inactive = [path for path, state in sorted(seen.workflows.items()) if state != "active" and path in ours]
        yield verdict(
            "workflows",
            not inactive,
            f"disabled: {', '.join(inactive)}" if inactive else "all workflows that are needed are active",
            "Actions > the workflow > Enable workflow (GitHub disables schedules after 60 days without activity)",
        )
    yield _defaults(seen, contents)


def _defaults(seen: Observations, contents: Contents) -> Finding:
    check = "default-permissions"
    if seen.defaults is None:
        what = "the default permissions of jobs"
        return hidden(seen, check, what, asked="workflow", usual="administration: read")
    if not seen.defaults.write:
        return Finding(check, "ok", "a job without permissions of its own may only read")
    silent = sorted({w.name for w in contents.workflows.values() if any(job.permissions is None for job in w.jobs)})
    text = "a job without permissions of its own may write"
    return verdict(
        check,
        not silent,
        f"{text}, and {', '.join(silent)} {'has' if len(silent) == 1 else 'have'} such jobs"
        if silent
        else f"{text}; every job has its own, so read would do",
        "Settings > Actions > General > Workflow permissions: Read repository contents; let each job set its own",
    )


def _allowed(seen: Observations, used: Sequence[Use]) -> Finding:
    """Whether every action that a workflow uses may run. Those of the same owner always may."""
    check = "allowed-actions"
    if seen.allowed_actions is None:
        return hidden(seen, check, "which actions may run", asked="selected-actions", usual="administration: read")
    owner = seen.repository.partition("/")[0]
    foreign = {use.name for use in used if use.foreign and not use.name.startswith(f"{owner}/")}
    levels = {uses: _level(seen.allowed_actions, uses) for uses in sorted(foreign)}
    names = [uses.partition("@")[0] for uses, level in levels.items() if level != "ok"]
    if not names:
        return Finding(check, "ok", f"the {len(foreign)} actions of others that workflows use may run, nested ones too")
    sure = "problem" in levels.values()
    return Finding(
        check,
        "problem" if sure else "unknown",
        f"{'' if sure else 'possibly '}not allowed to run: {', '.join(dict.fromkeys(names))}",
        "Settings > Actions > General > Actions permissions: allow all, or GitHub's own and others by name",
    )


def _level(allowed: AllowedActions, uses: str) -> Level:
    if allowed.policy == "all":
        return "ok"
    if allowed.policy == "local_only":
        return "problem"
    name = uses.lower()  # GitHub ignores case here
    patterns = [pattern.lower() for pattern in allowed.patterns]
    if any(fnmatchcase(name, pattern[1:]) for pattern in patterns if pattern.startswith("!")):
        return "problem"
    if any(fnmatchcase(name, pattern) for pattern in patterns):
        return "ok"
    if allowed.github_owned and uses.partition("/")[0] in _GITHUBS:
        return "ok"
    return "unknown" if allowed.verified else "problem"  # GitHub publishes no list of verified creators
