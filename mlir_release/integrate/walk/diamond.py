"""Patches that are carried until a dependency follows the upstream: "drop the revert once torch-mlir has it".

A dependency's own pin says what it follows. Once its pin has the commit that a patch picks or reverts, "move the
dependency there, and drop the patch" is tested as one step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlir_release.ground import strategy as st
from mlir_release.ground.console import console
from mlir_release.ground.documents.trailers import format_message
from mlir_release.ground.errors import MachineError, ReleaseError, UsageError
from mlir_release.ground.foreign import in_commit
from mlir_release.ground.git.trees import GitEntry, commit_tree, is_ancestor, tree_with
from mlir_release.integrate.patches.export import export_stack
from mlir_release.integrate.patches.patches import PatchConflict, without
from mlir_release.integrate.pins.dependency import Carried, carried_dependency
from mlir_release.integrate.pins.refresh import refreshed
from mlir_release.integrate.pins.submodules import update
from mlir_release.integrate.state import T_PATCHES, T_PIN, T_UPSTREAM
from mlir_release.integrate.upstream import shown
from mlir_release.integrate.walk.observe import Observer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mlir_release.ground.git.patch import Patch
    from mlir_release.integrate.pins.generated import Generated
    from mlir_release.integrate.project import Project
    from mlir_release.integrate.state import Record
    from mlir_release.integrate.upstream import UpstreamCommit
    from mlir_release.integrate.walk.observe import Observation
    from mlir_release.integrate.walk.walk import Walk


@dataclass(frozen=True, kw_only=True)
class Bump:
    """A dependency moved to a commit of its own, and a patch dropped with it."""

    walk: Walk
    patch: Patch
    dependency: Carried
    commit: str  #: the dependency's; the present one: only the patch is dropped
    there: Observation  #: the branch as it would be; its pin and patches are those without the patch

    @property
    def spelled(self) -> str:
        """How a plan names the probe: ``drop@PATCH+COMMIT``."""
        return f"{DROP}{self.patch.sha}+{self.commit}"

    @property
    def question(self) -> Record:
        """The record of its test, without an answer yet."""
        return self.walk.observer.question(self.there, self.there.base)

    def probe(self) -> Record:
        """Test it, and record the verdict."""
        console.say(f"    {self.dependency.dependency.title} at {self.commit[:12]}, without {self.patch.sha[:12]}")
        follows, generated = self.dependency.project, {}
        if follows is not None and self.commit != self.dependency.commit:
            generated = refreshed(follows, f"{self.there.head}^", follows.pin(self.there.head))
        return self.walk.probe(self.there, self.there.base, generated=generated)

    def take(self, generated: Generated) -> None:
        """Commit it, as one advance, with the ``generated`` files that were tested."""
        walk, project, carried = self.walk, self.walk.project, self.dependency
        title = in_commit(carried.dependency.title)
        dropped = in_commit(repr(shown(self.patch.subject)))
        reason = f"{title} has {in_commit(self.patch.of[:12])}"
        trailers: dict[str, object] = project.named({T_PIN: self.there.pin, T_PATCHES: len(self.there.patches)})
        if self.there.patches:
            export_stack(project, self.there.pin)
        if self.commit == carried.commit:
            subject = f"Drop {dropped}"
        else:
            subject = f"Advance {title} to {self.commit[:12]} and drop {dropped}"
            if carried.project is not None:
                trailers |= carried.project.named({T_UPSTREAM: self.commit})
        lines = [f"drops {self.patch.sha[:12]} {dropped}: {reason}"]
        take(walk, self.there, self.there.pin, generated, subject, lines, trailers)
        if carried.project is None:
            update(project)


#: Begins the name of such a probe.
DROP = "drop@"


def take(
    walk: Walk,
    there: Observation,
    tip: str,
    generated: Generated,
    subject: str,
    lines: Sequence[str],
    trailers: Mapping[str, object],
) -> None:
    """Commit moves that tested good, as one advance, with the ``generated`` files that were tested.

    :param there: the branch as it would be; ``tip``: the commit of the walk's own upstream, patches included
    """
    project = walk.project
    tree = project.tree_with_pin(there.head, tip, generated)
    message = format_message(subject, "\n".join(lines), trailers)
    head = project.outer.text("rev-parse", "--verify", f"refs/heads/{walk.branch}")
    project.move_branch(walk.branch, project.commit(tree, [head], message))
    console.say(f"    {subject[0].lower()}{subject[1:]}")
    if walk.publish:
        walk.push_branch()


def bumps(walk: Walk) -> Iterator[Bump]:
    """What may be dropped now from the carried stack, likeliest first. A dependency that can't be read is left out."""
    project, seen = walk.project, walk.observer.look(fetch=False)
    for patch in seen.patches:
        if not patch.until:
            continue
        try:
            found = carried_dependency(project, patch.until, seen.head)
            pinning, commits = found.dependency, [found.commit]
            if not pinning.contains(found.commit, patch.of):
                head, first = found.head(), None
                if is_ancestor(pinning.git, found.commit, head):  # else it has its own commits, which a move would lose
                    first = pinning.first_with(patch.of, found.commit, head)
                commits = [*dict.fromkeys([first, head])] if first else []
            stack = without(project.upstream, seen.patches, seen.base, patch)
            for commit in commits:
                head, text = seen.head, f"Try {pinning.title} at {commit}\n"
                if commit != found.commit and found.project is not None:
                    other = Observer(found.project, seen.branch)
                    tip = other.stack_at(other.look(fetch=False), commit).tip
                    head = found.project.pin_commit(head, tip, text)
                elif commit != found.commit:
                    tree = tree_with(project.outer, head, {found.path: GitEntry("160000", "commit", commit)})
                    head = commit_tree(project.outer, tree, [head], text, project.signature())
                there = replace(seen, head=head, pin=stack.tip, patches=stack.kept)
                yield Bump(walk=walk, patch=patch, dependency=found, commit=commit, there=there)
        except (UsageError, MachineError, PatchConflict) as error:
            console.warn(str(error))


def drop_what_is_due(walks: Sequence[Walk], *, probing: bool) -> bool | None:
    """Test what may be dropped, and commit what passes. Returns whether the branch moved; None: a test is needed."""
    moved = False
    while True:
        for bump in (bump for walk in walks for bump in bumps(walk)):
            record = bump.walk.store.load().get(bump.question.key)
            if record is None and not probing:
                return None
            record = record or bump.probe()
            if record.verdict is st.Verdict.GOOD:
                bump.take(record.generated)
                moved = True
                break  # the branch is another one now
        else:
            return moved


def check_waiting(project: Project, seen: Observation, commit: UpstreamCommit, until: str) -> str:
    """When a patch that waits for a dependency can go, in words.

    :raises UsageError: if the dependency has no pin of this upstream, has the commit already, or can never have it
    :raises MachineError: if the dependency can't be fetched
    """
    found = carried_dependency(project, until, seen.head)
    pinning, title = found.dependency, project.upstream.config.title
    pin = pinning.pin(found.commit)
    otherwise = "carry it without --until-dependency"
    if not is_ancestor(project.upstream, commit.sha, seen.until):
        what = f"{commit.sha[:12]} is not in {title}'s history: no pin will ever have it"
        remedy = f"{otherwise}, and say when it can go with --drop-when"
        raise UsageError("revision-unsuitable", what, where=until, remedy=remedy)
    try:
        if project.upstream.resolve(pin) is None:
            project.upstream.require(pin)
        project.upstream.base_of(pin, seen.until)
    except ReleaseError as error:
        raise UsageError(
            "pin-invalid",
            f"{pinning.title} pins a commit that is not in {title}'s history",
            where=f"{pin}, in {pinning.path} of {found.path} at {found.commit}",
            why=error.what,
            remedy=f"{otherwise}, or name another dependency",
        ) from error
    if pinning.contains(found.commit, commit.sha):
        what, where = f"{pinning.title} follows {commit.sha[:12]} already", f"{found.path} at {found.commit}"
        remedy, why = f"{otherwise}: there is nothing to wait for", f"it pins {title} {pin[:12]}, which has it"
        raise UsageError("revision-unsuitable", what, where=where, why=why, remedy=remedy)
    return f"{pinning.title} pins {title} with {commit.sha[:12]}"


def outlook(project: Project, seen: Observation, patch: Patch, *, fetch: bool) -> str:
    """Whether the dependency that a patch waits for can be moved, for people; empty for a patch that waits for none."""
    if not patch.until:
        return ""
    what = "revert" if patch.kind == "revert" else "patch"
    try:
        found = carried_dependency(project, patch.until, seen.head)
        pinning = found.dependency
        if pinning.contains(found.commit, patch.of):
            return f"{pinning.title} {found.commit[:12]} contains it: the walk tries to drop the {what}"
        head = found.head(fetch=fetch)
        if pinning.contains(head, patch.of):
            return f"{pinning.title} HEAD {head[:12]} contains it: the walk tries to drop the {what} with it"
        return f"{pinning.title} HEAD {head[:12]} pins {pinning.pin(head)[:12]}, which does not contain it yet"
    except (UsageError, MachineError) as error:
        return error.what
