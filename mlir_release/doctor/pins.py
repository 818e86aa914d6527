"""Whether the actions that run are named by their commits, and run on a Node that GitHub's runners keep."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mlir_release.doctor.results import Finding, hidden, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mlir_release.doctor.uses import Use
    from mlir_release.forge.github.observations import Observations

#: The oldest Node that GitHub's runners keep. They ran actions for Node 20 on 24 from June 2026, and dropped 20 that
#: autumn (github.blog, changelog of 2025-09-19, "Deprecation of Node 20 on GitHub Actions runners").
OLDEST_NODE = 24

_NODE = re.compile(r"node(\d+)")


def examine_pins(seen: Observations, used: Sequence[Use]) -> Iterator[Finding]:
    """One finding for each cause: not named by commit, an old Node, a file that can't be read."""
    actions = [use for use in used if use.foreign and not use.is_workflow]
    if actions:
        yield _named(seen, actions)
        yield _runtimes(actions)
    unread = [use for use in used if use.foreign and use.runtime is None]
    if unread:
        remedy = "use a token that may read them; nested actions and the Node that they need were not looked at"
        yield Finding("action-files", "unknown", f"can't be read: {_listed(unread)}", remedy)


def _named(seen: Observations, actions: Sequence[Use]) -> Finding:
    check = "pinned-actions"
    loose = [use for use in actions if not use.pinned]
    if not loose:
        return Finding(check, "ok", f"all {len(actions)} actions are named by their commits, nested ones too")
    if seen.commits_required is None:
        what = f"whether {_listed(loose)} may be named by a tag or branch"
        return hidden(seen, check, what, asked="permissions", usual="administration: read")
    demand = "and the repository requires that" if seen.commits_required else "which the repository does not require"
    return verdict(
        check,
        not seen.commits_required,
        f"not named by a full commit, {demand}: {_listed(loose)}",
        "name the commit (uses: OWNER/NAME@COMMIT # TAG); if it is inside another action, update that one",
    )


def _runtimes(actions: Sequence[Use]) -> Finding:
    old = [use for use in actions if (node := _NODE.fullmatch(use.runtime or "")) and int(node[1]) < OLDEST_NODE]
    named = ", ".join(f"{use.label}: {use.runtime}" for use in old)
    return verdict(
        "action-runtimes",
        not old,
        f"GitHub's runners drop what these run on: {named}" if old else "no action runs on an old Node",
        "update them (Dependabot and Renovate do, see the toolkit's .github/dependabot.yml and renovate.json)",
    )


def _listed(uses: Sequence[Use]) -> str:
    return ", ".join(use.label for use in uses)
