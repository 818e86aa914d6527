"""Repositories that pin one of our upstreams themselves, as StableHLO and torch-mlir pin LLVM.

They are others': their pins are read from git, and nothing of theirs is run.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.errors import MachineError, UsageError
from mlir_release.ground.git.carriers import submodule_settings
from mlir_release.ground.git.remotes import try_fetch, upstream_unreachable
from mlir_release.ground.git.repository import Git, GitError
from mlir_release.ground.git.trees import entry_at, is_ancestor
from mlir_release.ground.llvm.places import pinned_in, said_at
from mlir_release.ground.llvm.recipes import FollowedProject, recipes
from mlir_release.ground.llvm.recogniser import PREFIX, RecognisedProject, parse
from mlir_release.integrate.patches.ledger import carried
from mlir_release.integrate.pins.submodules import repository
from mlir_release.integrate.upstream import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.integrate.project import Integration
    from mlir_release.integrate.upstream import UpstreamRepository


@dataclass(frozen=True)
class Dependency:
    """A repository with its own pin of ``upstream``. Find one with :func:`dependency`."""

    title: str
    git: Git
    path: str  #: where it pins the upstream, in its own tree
    upstream: UpstreamRepository
    followed: FollowedProject

    def pin(self, commit: str) -> str:
        """The upstream's commit that its ``commit`` pins. :raises UsageError: if there is none"""
        said = said_at(self.git, commit, self.path, self.followed, where=self.title)
        return self.upstream.pinned(said, where=self.title)

    def contains(self, commit: str, wanted: str) -> bool:
        """Whether what its ``commit`` pins has the upstream's commit ``wanted``. A pin that can't be had has not."""
        try:
            pin = self.pin(commit)
            if self.upstream.resolve(pin) is None:
                self.upstream.require(pin)
        except (UsageError, MachineError, GitError):
            return False
        return is_ancestor(self.upstream, wanted, pin)

    def first_with(self, wanted: str, base: str, head: str) -> str | None:
        """Its first commit after ``base`` and up to ``head`` that pins an upstream with ``wanted``.

        Pins go forward but for a few, so this halves the commits that move the pin.
        """
        listed = ("rev-list", "--first-parent", "--reverse", f"{base}..{head}", "--", self.path)
        commits = self.git.text(*listed).split()
        index = bisect_left(commits, True, key=lambda commit: self.contains(commit, wanted))
        return commits[index] if index < len(commits) and self.contains(commits[index], wanted) else None


def dependency(
    git: Git, commit: str, upstream: UpstreamRepository, *, title: str, url: str = "", path: str = ""
) -> Dependency:
    """The repository ``git`` as one that pins ``upstream`` at its ``commit``.

    :param url: its address, by which projects are known that pin LLVM in an unusual place
    :param path: where it pins the upstream; empty: recognised
    :raises UsageError: ``pin-invalid``, if it doesn't, or in several places
    """
    followed = recipes().followed(upstream.config.title, upstream.config.url)
    known = recipes().pins(followed.name).get("/".join(re.split("[/:]", url.removesuffix(".git"))[-2:]), "")
    remedy = "name the submodule or the file in it after a #: PATH#WHERE"
    where = os.fspath(git.directory)
    found = path or pinned_in(git, commit, followed, [known], title=title, where=where, remedy=remedy)
    made = Dependency(title, git, found, upstream, followed)
    made.pin(commit)
    return made


@dataclass(frozen=True)
class Carried:
    """A dependency as the downstream carries it. Find it with :func:`carried_dependency`."""

    dependency: Dependency
    commit: str  #: the dependency's own, at the downstream's commit
    path: str  #: of its submodule or pin file in the downstream
    project: Integration | None  #: the downstream with it, if it is followed, too

    def head(self, *, fetch: bool = True) -> str:
        """The newest commit of the branch that it is taken from; without ``fetch``, as it was last seen.

        :raises MachineError: if it can't be fetched
        """
        if self.project is not None:
            return self.project.upstream.fetch() if fetch else self.project.upstream.head()
        git = self.dependency.git
        if fetch or git.resolve(_HEAD) is None:
            fetched, said = try_fetch(git, "origin", f"+HEAD:{_HEAD}")
            if not fetched:
                raise upstream_unreachable(
                    self.path, why=said.strip(), configured_in=".gitmodules", title=f"{self.path}'s"
                )
        return git.resolve(_HEAD) or self.commit


#: Where the head of a submodule's remote is remembered.
_HEAD = "refs/mlir-release/dependency-head"


def carried_dependency(project: Integration, target: str, commit: str = "HEAD") -> Carried:
    """The dependency that ``target`` names: a submodule of the downstream's, or another upstream, that pins ours.

    :param target: its path or, of an upstream, its name; after a ``#``, the place of the pin in its own tree
    :raises UsageError: if it is neither, or pins nothing
    :raises MachineError: if it can't be fetched
    """
    outer, (path, _, where) = project.outer, target.partition("#")
    for each in project.everyone:
        if path in (each.upstream.config.carrier, each.slug) and each is not project:
            base = each.upstream.base_of(each.pin(commit), each.upstream.head())
            git, title, url = each.upstream, each.upstream.config.title, each.upstream.config.url
            found = dependency(git, base, project.upstream, title=title, url=url, path=where)
            return Carried(found, base, each.upstream.config.carrier, each)
    names = {path: name for name, path in submodule_settings(outer, "path", commit).items()}
    entry = entry_at(outer, commit, path) if path in names else None
    if entry is None or entry.kind != "commit":
        raise UsageError(
            "option-invalid",
            f"{path!r} is no submodule of this repository, and no other upstream of it",
            where=f"{outer.directory} at {commit}",
            remedy=f"choose of: {', '.join(sorted(names))}" if names else f"give one with {PREFIX}OWNER/REPO",
        )
    inner = repository(outer, path)
    for refspec in ("+refs/heads/*:refs/remotes/origin/*", entry.oid):
        if inner.resolve(entry.oid) is None:
            try_fetch(inner, "origin", refspec)
    if inner.resolve(entry.oid) is None:
        raise MachineError(
            "commit-unreachable",
            f"the commit of {path!r} can't be fetched",
            where=entry.oid,
            remedy=f"git submodule update --init {path}, on the machine that made the commit; push it from there",
        )
    url = submodule_settings(outer, "url", commit).get(names[path], "")
    title = path.rpartition("/")[2]
    return Carried(
        dependency(inner, entry.oid, project.upstream, title=title, url=url, path=where), entry.oid, path, None
    )


# -- ``--align``: the commit of our upstream that another project pins, to walk to it ----------------------------------


def aligned(projects: Sequence[Integration], target: str) -> str:
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


def _pin(project: Integration, target: str) -> tuple[str, str]:
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
