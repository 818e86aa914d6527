"""Moves that are tested at once, and taken as one advance; and those that are due where the branch is.

A dependency's own pin says what it follows. Once its pin has the commit that a patch picks or reverts, "move the
dependency there, and drop the patch" is due ("drop the revert once torch-mlir has it"). So is another build of the
release that is pinned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from mlir_release.ground import strategy as st
from mlir_release.ground.console import console
from mlir_release.ground.documents.trailers import format_message
from mlir_release.ground.errors import MachineError, ReleaseError, UsageError
from mlir_release.ground.foreign import in_commit
from mlir_release.ground.git.trees import GitEntry, commit_tree, is_ancestor, tree_with
from mlir_release.integrate.patches.patches import PatchConflict, Stack, without
from mlir_release.integrate.pins.dependency import carried_dependency
from mlir_release.integrate.pins.refresh import refreshed
from mlir_release.integrate.pins.submodules import update
from mlir_release.integrate.upstream import UpstreamCommit, shown
from mlir_release.integrate.walk.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mlir_release.ground.git.patch import Patch
    from mlir_release.integrate.pins.generated import Generated
    from mlir_release.integrate.project import Integration
    from mlir_release.integrate.state import Record
    from mlir_release.integrate.walk.observe import Observation


class Move(NamedTuple):
    """An upstream at another commit, or with other patches."""

    walk: Walk
    seen: Observation  #: the branch as it is
    commit: str
    stack: Stack  #: of patches on the commit


@dataclass(frozen=True, kw_only=True)
class Step:
    """Moves that are tested at once. The test is about the upstream of the first."""

    moves: tuple[Move, ...]
    spelled: str  #: how a plan names its probe
    subject: str  #: of the advance
    begun: str = ""  #: the branch with what else moves

    def there(self, generated: Generated | None = None) -> Observation:
        """The branch as the first walk would see it, with the others moved.

        :param generated: takes what their refresh commands make; None: they don't run
        """
        (_, seen, commit, stack), *others = self.moves
        head = self.begun or seen.head
        for walk, _, to, placed in others:
            if generated is not None:
                generated |= refreshed(walk.project, head, placed.tip)
            head = walk.project.pin_commit(head, placed.tip, f"Try {walk.project.upstream.config.title} at {to}\n")
        there = replace(seen, head=head)
        return replace(there, pin=stack.tip, patches=stack.kept) if commit == seen.base else there

    @property
    def question(self) -> Record:
        """The record of its test, without an answer yet."""
        return self.moves[0].walk.observer.question(self.there(), self.moves[0].commit)

    def probe(self) -> Record:
        """Test it, and record the verdict."""
        generated: Generated = {}
        console.say(f"    at once: {self.spelled}")
        walk = self.moves[0].walk
        record = walk.probe(self.there(generated), self.moves[0].commit, generated=generated)
        if walk.publish:
            walk.store.push(walk.project.config.downstream.remote)
        return record

    def take(self, generated: Generated) -> None:
        """Commit it, as one advance, with the ``generated`` files that were tested."""
        lines, trailers = [], dict[str, object]()
        for walk, seen, commit, stack in self.moves:
            told, own = walk.advance_text(seen, walk.project.upstream.commit(commit), stack, str(st.Verdict.GOOD))
            lines += told
            trailers |= own
        first, project = self.moves[0], self.moves[0].walk.project
        tree = project.tree_with_pin(self.there().head, first.stack.tip, generated)
        message = format_message(self.subject, "\n".join(lines), trailers)
        head = project.outer.text("rev-parse", "--verify", f"refs/heads/{first.walk.branch}")
        project.move_branch(first.walk.branch, project.commit(tree, [head], message))
        console.say(f"    {self.subject[0].lower()}{self.subject[1:]}")
        if first.walk.publish:
            first.walk.push_branch()
        if self.begun:
            update(project)


#: Begin the names of the probes of what is due.
DROP, BUILD = "drop@", "build@"


def due(walk: Walk) -> Iterator[Step]:
    """What may be moved where the branch is, likeliest first. A dependency that can't be read is left out."""
    project, seen = walk.project, walk.observer.look(fetch=False)
    table = project.upstream.config
    version = project.upstream.releases.version(seen.base) if table.releases else ""
    if version not in ("", project.version(seen.head, seen.pin)):
        begun = project.pin_commit(seen.head, seen.pin, f"Try {version}\n")
        move = Move(walk, seen, seen.base, Stack(seen.base, seen.pin, ()))
        subject = f"Take {in_commit(version)} of {table.title}, another build of {seen.base[:12]}"
        yield Step(moves=(move,), spelled=f"{BUILD}{version}", subject=subject, begun=begun)
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
            title, dropped = in_commit(pinning.title), in_commit(repr(shown(patch.subject)))
            reason = f"{pinning.title} has {patch.of[:12]}"
            moves = [Move(walk, seen, seen.base, replace(stack, dropped=((patch, reason),), asleep=seen.asleep))]
            for commit in commits:
                others, begun, subject = list[Move](), "", f"Advance {title} to {commit[:12]} and drop {dropped}"
                if commit == found.commit:
                    subject = f"Drop {dropped}"
                elif found.project is not None:
                    other = Walk(found.project, branch=walk.branch)
                    here = other.observer.look(fetch=False)
                    others = [Move(other, here, commit, other.observer.stack_at(here, commit))]
                else:
                    tree = tree_with(project.outer, seen.head, {found.path: GitEntry("160000", "commit", commit)})
                    text = f"Try {pinning.title} at {commit}\n"
                    begun = commit_tree(project.outer, tree, [seen.head], text, project.signature())
                spelled = f"{DROP}{patch.sha}+{commit}"
                yield Step(moves=(*moves, *others), spelled=spelled, subject=subject, begun=begun)
        except (UsageError, MachineError, PatchConflict) as error:
            console.warn(str(error))


def take_what_is_due(walks: Sequence[Walk], *, probing: bool) -> bool | None:
    """Test what is due, and commit what passes. Returns whether the branch moved; None: a test is needed."""
    moved = False
    while True:
        for step in (step for walk in walks for step in due(walk)):
            record = walks[0].store.load().get(step.question.key)
            if record is None and not probing:
                return None
            record = record or step.probe()
            if record.verdict is st.Verdict.GOOD:
                step.take(record.generated)
                moved = True
                break  # the branch is another one now
        else:
            return moved


def check_waiting(project: Integration, seen: Observation, commit: UpstreamCommit, until: str) -> str:
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


def outlook(project: Integration, seen: Observation, patch: Patch, *, fetch: bool) -> str:
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
