"""Make carried commits reachable for everyone, before anything points at them.

The export branch in a fork only ever moves forward, so every state that was ever pinned can still be fetched. A splice
commit joins each new stack to the branch. It has the new stack's tree; its parents are the new stack and the old head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.ground.errors import MachineError, UsageError
from mlir_release.ground.git.remotes import NO_SUCH_REF, push
from mlir_release.ground.git.trees import commit_tree, entry_at, is_ancestor, tree_of
from mlir_release.ground.programs.races import Races
from mlir_release.integrate.credentials import export_ref, fetch_export, for_export
from mlir_release.integrate.pins.submodules import repository

if TYPE_CHECKING:
    from mlir_release.ground.git.repository import Git, Signature
    from mlir_release.integrate.project import Integration
    from mlir_release.integrate.tables import ExportTarget


def export_commit(git: Git, tip: str, target: ExportTarget, signature: Signature) -> str:
    """Make ``tip`` reachable from ``target``'s branch, unless it is; returns the branch's head there.

    :raises MachineError: if the remote can't be read
    :raises ConflictError: if the remote refuses the push, or the branch keeps moving
    """
    env = for_export(git, target.remote)
    races = Races(where=f"{target.branch} at {target.remote}")
    while True:
        remote_head = _remote_head(git, target)
        if remote_head is not None and is_ancestor(git, tip, remote_head):
            return remote_head
        new = tip
        if remote_head is not None and not is_ancestor(git, remote_head, tip):
            message = f"Splice {tip[:12]} into {target.branch}\n\nKeeps every commit that was ever pinned reachable.\n"
            new = commit_tree(git, tree_of(git, tip), [tip, remote_head], message, signature)
        # A plain push: fails unless it is a fast-forward of the remote's branch at that moment.
        if push(git, target.remote, f"{new}:refs/heads/{target.branch}", env=env):
            git.run("update-ref", export_ref(target), new)
            return new
        races.retry("extend the export branch")


def _remote_head(git: Git, target: ExportTarget) -> str | None:
    """Fetch the head of the export branch; None before the branch exists."""
    fetched, said = fetch_export(git, target)
    if fetched:
        return git.resolve(export_ref(target))
    if NO_SUCH_REF in said:
        return None
    raise MachineError(
        "network-failed",
        "the export remote can't be read",
        where=target.remote,
        why=said.strip(),
        remedy="check the export in integrate.toml, the network and your rights; nothing was committed",
    )


def export_stack(project: Integration, tip: str) -> str:
    """Export the upstream's carried stack. :raises UsageError: if ``integrate.toml`` has no place for it."""
    check_fork(project, tip)
    assert project.upstream.config.export is not None
    return export_commit(project.upstream, tip, project.upstream.config.export, project.signature())


def check_fork(project: Integration, tip: str, base: str = "") -> None:
    """Refuse a carried stack that has no place to be exported to. :raises UsageError: ``config-invalid``

    :param base: where it is ``tip``, nothing is carried
    """
    target = project.upstream.config.export
    if target is None and tip != base:
        raise UsageError(
            "config-invalid",
            f"patches are carried, but integrate.toml names no fork of {project.upstream.config.title}",
            where=tip,
            why="a commit of the downstream may only point at what others can fetch",
            remedy="add [upstream.export] with remote (a fork of the upstream) and branch",
        )


def export_others(project: Integration, commit: str = "HEAD", *, cloned: bool = False) -> dict[str, str]:
    """Export the other submodules that ``[[export.also]]`` names; path -> head of the export branch.

    :param cloned: only those that are cloned here: the others can't have new commits
    :raises UsageError: if one is no submodule
    :raises MachineError: if one lacks the commit that the branch points at
    """
    heads = {}
    for target in project.config.export.also:
        if cloned and not (project.outer.directory / target.path / ".git").exists():
            continue
        entry = entry_at(project.outer, commit, target.path)
        if entry is None or entry.kind != "commit":
            raise UsageError(
                "config-invalid",
                f"{target.path!r} in [[export.also]] is not a submodule at {commit}",
                where=str(project.outer.directory),
                remedy="correct the path in integrate.toml",
            )
        inner = repository(project.outer, target.path)
        if inner.resolve(entry.oid) is None:  # it may have been made and exported on another machine
            _remote_head(inner, target)
        if inner.resolve(entry.oid) is None:
            raise MachineError(
                "commit-unreachable",
                f"the submodule {target.path!r} lacks the commit that the branch points at",
                where=entry.oid,
                remedy=f"git submodule update --init {target.path}, on the machine that made the commit",
            )
        heads[target.path] = export_commit(inner, entry.oid, target, project.signature())
    return heads


def export_all(project: Integration) -> dict[str, str]:
    """Make every carried state that HEAD points at reachable, in all submodules. Path -> export branch's head."""
    heads = export_others(project)
    for each in project.everyone:
        pin = each.pin()
        if pin != each.upstream.base_of(pin, each.upstream.fetch()):
            heads[each.upstream.config.carrier] = export_stack(each, pin)
    return heads
