"""``--align``: the commit of our upstream that another project pins, to walk to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.errors import UsageError
from mlir_release.ground.git.remotes import try_fetch
from mlir_release.ground.git.trees import is_ancestor
from mlir_release.ground.llvm.recipes import recipes
from mlir_release.ground.llvm.recogniser import PREFIX, RecognisedProject, parse
from mlir_release.integrate.patches.ledger import carried
from mlir_release.integrate.pins.dependency import carried_dependency
from mlir_release.integrate.upstream import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.integrate.project import Project


def aligned(projects: Sequence[Project], target: str) -> str:
    """Where to walk for ``target``: a commit, with ``NAME@`` in front where there are several upstreams.

    A pin of a fork stands for upstream's commit that it is based on; its patches are named, and not taken.

    :param projects: the upstreams that are walked; ``target`` must pin one of them
    :param target: a submodule of the downstream's or another upstream, that has a pin of its own; or
        ``pin-of:PROJECT[@REF][#PATH]``
    :raises UsageError: if it pins none of them, or a commit that the branch has passed
    :raises MachineError: if it can't be fetched
    """
    pins, refusals, goals = [], [], []
    for project in projects:
        try:
            pins.append((project, *_pin(project, target)))
        except UsageError as refusal:
            refusals.append(refusal)
    if not pins:
        raise refusals[0]
    for project, said, pin in pins:
        upstream, title = project.upstream, project.upstream.config.title
        head = upstream.fetch()
        goal, here = upstream.base_of(pin, head), upstream.base_of(project.pin(), head)
        console.say(f"    {said} pins {title} {pin[:12]}")
        if goal != pin:
            patches = carried(upstream, goal, pin)
            console.say(f"    it is {goal[:12]} with {len(patches)} patches, which are not taken:")
            for patch in patches:
                console.say(f"    patch {patch.sha[:12]} {shown(patch.subject)}")
        if goal != here and is_ancestor(upstream, goal, here):
            ahead = len(upstream.affecting(goal, here))
            raise UsageError(
                "revision-unsuitable",
                f"{said} pins a {title} that is behind this branch",
                where=f"{goal} and {here}",
                why=f"{ahead} affecting commits lie between them, and a walk goes forward only",
                remedy="wait until it has moved on, or start an integrate from an older commit of this repository",
            )
        goals.append(f"{project.slug}@{goal}".removeprefix("@"))
    return "+".join(goals)


def _pin(project: Project, target: str) -> tuple[str, str]:
    """Who pins, and the upstream's commit as it says it, which is here then."""
    upstream, fork = project.upstream, ""
    if target.startswith(PREFIX):
        source, ref, path = parse(target)
        theirs = RecognisedProject(
            source, path, upstream=recipes().followed(upstream.config.title, upstream.config.url)
        )
        commit = theirs.commit(ref)
        theirs.have([commit])
        pin, fork = theirs.pin(commit), theirs.fork(commit, theirs.place(commit))
        pin = upstream.pinned(pin, where=theirs.url)
        said = f"{theirs.name} at {commit[:12]}"
    else:
        found = carried_dependency(project, target)
        pin, said = found.dependency.pin(found.commit), f"{found.dependency.title} at {found.commit[:12]}"
    if upstream.resolve(pin) is None and fork:
        try_fetch(upstream, fork, f"+{pin}:refs/mlir-release/pins/{pin}")
    if upstream.resolve(pin) is None:
        upstream.require(pin)
    return said, pin
