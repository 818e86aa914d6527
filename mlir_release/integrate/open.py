"""Opening a downstream: its configuration, the upstream's repository (cloned if missing), and its integrate branch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.errors import UsageError
from mlir_release.ground.git import locks
from mlir_release.ground.git.remotes import make_bare
from mlir_release.ground.git.repository import Git, GitError
from mlir_release.ground.git.shared import STATE, SharedGit
from mlir_release.ground.git.worktrees import current_branch
from mlir_release.integrate.config import CONFIG_FILE, Config, load_config
from mlir_release.integrate.pins.submodules import clone
from mlir_release.integrate.project import Clock, Integration, utc_now
from mlir_release.integrate.upstream import UpstreamRepository

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.integrate.tables import UpstreamTable
    from mlir_release.integrate.walk.observe import Observer
    from mlir_release.integrate.walk.together import JointWalk
    from mlir_release.integrate.walk.walk import Walk


def open_project(directory: Path, upstream: str = "", *, clock: Clock = utc_now) -> Integration:
    """The downstream repository around ``directory``.

    :param upstream: the name of the upstream that is meant; default: the one whose integrate branch is checked out, or
        else the first in ``integrate.toml``
    :raises UsageError: if there is no repository, or it is not configured
    """
    asked = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir", "--git-dir")
    try:
        done = Git(directory).run(*asked) if directory.is_dir() else None
    except GitError as error:
        if "not a git repository" not in error.stderr and "must be run in a work tree" not in error.stderr:
            raise
        done = None
    if done is None:
        raise UsageError(
            "input-missing",
            "this is not inside a git work tree",
            where=str(directory),
            remedy="run the command in a checkout of the downstream repository (or give it with -C)",
        )
    top, common, private = (Path(path) for path in os.fsdecode(done.stdout).rstrip("\n").split("\n"))
    outer = SharedGit(top, lazy=True, folders=(common, private))
    config = load_config(outer.directory)
    if upstream:
        found = [table for table in config.upstreams if upstream.lower() in (table.title.lower(), table.slug)]
    elif len(config.upstreams) == 1:
        found = [*config.upstreams]
    else:
        found = [*config.walked(current_branch(outer) or ""), config.upstreams[0]]
    if not found:
        raise UsageError(
            "option-invalid",
            f"{CONFIG_FILE} follows no upstream {upstream!r}",
            where=os.fspath(outer.directory),
            remedy=f"choose of: {', '.join(table.title for table in config.upstreams)}",
        )
    everyone = tuple(follow(outer, config, table, clock=clock) for table in config.upstreams)
    for project in everyone:
        project.everyone = everyone
    return next(project for project in everyone if project.upstream.config is found[0])


def open_projects(directory: Path, upstream: str = "") -> tuple[Integration, ...]:
    """The downstream with the upstream of that name; for an empty one, with all that the checked-out branch walks."""
    project = open_project(directory, upstream)
    alone = upstream or len(project.everyone) == 1
    return (project,) if alone else project.walked(current_branch(project.outer) or "")


def follow(outer: SharedGit, config: Config, table: UpstreamTable, *, clock: Clock = utc_now) -> Integration:
    """The downstream in ``outer`` with one of its upstreams, whose repository is cloned if it is missing."""
    if submodule := table.submodule:
        upstream = UpstreamRepository(outer.directory / submodule, table)
        project = Integration(config, outer, upstream, clock)
        if not (upstream.directory / ".git").exists():
            project.pin()  # fails if it is not a submodule
        clone(outer, submodule, finish=project.check_out_pin)  # its own remote may lack the carried commits
        if any("tree:" in left_out for left_out in upstream.left_out.values()):
            raise UsageError(
                "clone-incomplete",
                "this clone of the upstream has no trees (--filter=tree:…)",
                where=str(upstream.directory),
                why="listing the commits that touch a path would fetch every commit's trees one by one: minutes, not "
                "milliseconds",
                remedy="use a full clone, or one without blobs: git clone --filter=blob:none",
            )
        return project
    # A private clone, bare and without blobs. With several upstreams each has its own; one that was the only one keeps
    # its.
    folder = outer.common / STATE / "upstream.git"
    if len(config.upstreams) > 1 and not (
        folder.is_dir() and Git(folder).text("config", "--get", "remote.origin.url") == table.url
    ):
        folder = folder.with_name(f"{table.slug}.git")
    if not folder.is_dir():
        with locks.exclusive(folder.with_suffix(".lock")):
            if not folder.is_dir():  # else another process made it
                make_bare(folder, table.url)
    return Integration(config, outer, UpstreamRepository(folder, table), clock)


def open_walks(directory: Path, upstream: str = "", *, push: bool = False) -> tuple[Walk, ...]:
    """The integrate branch that is checked out there, to be walked along one upstream, or each that it is of.

    :raises UsageError: if it is another branch
    """
    from mlir_release.integrate.walk.risk import weigher
    from mlir_release.integrate.walk.walk import Walk

    projects = open_projects(directory, upstream)
    return tuple(Walk(project, publish=push, weigh=weigher(project)) for project in projects)


def open_walk(directory: Path, upstream: str = "", *, push: bool = False) -> Walk:
    """The only one of :func:`open_walks`. :raises UsageError: if the branch walks several upstreams"""
    walks = open_walks(directory, upstream, push=push)
    the_only([walk.project for walk in walks])
    return walks[0]


def the_only(projects: Sequence[Integration]) -> Integration:
    """The one that a command is about. :raises UsageError: if there are several"""
    if len(projects) > 1:
        raise UsageError(
            "option-invalid",
            "there are several upstreams: which one is meant?",
            where="--upstream",
            remedy="name one, before the command: mlir-release integrate --upstream NAME …; choose of: "
            f"{', '.join(project.upstream.config.title for project in projects)}",
        )
    return projects[0]


def open_joint(directory: Path, upstream: str = "", *, push: bool = False) -> JointWalk:
    """All of :func:`open_walks` as one walk."""
    from mlir_release.integrate.walk.together import JointWalk

    return JointWalk(open_walks(directory, upstream, push=push))


def open_observers(directory: Path, upstream: str = "") -> tuple[Observer, ...]:
    """Whatever is checked out there, only to be read, an upstream each.

    They weigh no commits: that takes longer than all the rest.
    """
    from mlir_release.integrate.walk.observe import Observer

    projects = open_projects(directory, upstream)
    branch = current_branch(projects[0].outer) or "HEAD"
    return tuple(Observer(project, branch) for project in projects)
