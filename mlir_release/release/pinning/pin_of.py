"""The LLVM commit that another project pins: policy ``pin-of:PROJECT[@REF][#PATH]``.

The project and its fork of LLVM are others': what they say is data, and only upstream's commits are pinned. Where a
project pins a fork, the commit of upstream that the fork is based on is taken, and the patches on top are listed. But a
release repository whose upstream is that fork takes the pin as it is, with its patches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.ground.errors import VerificationError
from mlir_release.ground.foreign import visible
from mlir_release.ground.llvm.pin import SHA_PATTERN
from mlir_release.ground.llvm.recogniser import RecognisedProject, parse
from mlir_release.release.pinning.reachable import Base, ForkCommit, base_of

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.llvm.upstream import Upstream


@dataclass(frozen=True, kw_only=True)
class ProjectPin:
    """What a project pins, and the commit of upstream's that stands for it."""

    project: str
    ref: str
    commit: str  #: of the project
    path: str
    pin: str  #: LLVM's commit, as the project has it
    revision: str  #: upstream's commit that it is, or is based on
    carried: tuple[ForkCommit, ...]  #: patches of the project's fork that upstream lacks, oldest first

    def text(self) -> str:
        """A line."""
        return f"{self.project} at {self.commit[:12]} pins llvm-project {self.pin[:12]} in {self.path}"

    def notes(self) -> list[str]:
        """What a person should know about the patches."""
        if not self.carried:
            return []
        count = f"{len(self.carried)} patch{'es' * (len(self.carried) > 1)}"
        head = f"{self.text()}: upstream's {self.revision[:12]} with {count} that these wheels won't have"
        return [head, *(f"patch {each.sha[:12]} {each.subject}" for each in self.carried)]

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        carried = [{"commit": each.sha, "subject": visible(each.subject)} for each in self.carried]
        names = ("project", "ref", "commit", "path", "pin", "revision")
        return {**{name: getattr(self, name) for name in names}, "carried": carried}


def pin_of(policy: str, upstream: Upstream, *, exact: bool = False, cache: Path | None = None) -> ProjectPin:
    """The pin that a policy means, and upstream's commit for it.

    :param exact: refuse a pin that is not upstream's own
    :raises UsageError: ``option-invalid``, ``pin-invalid``, ``revision-unknown``
    :raises VerificationError: ``revision-not-upstream``
    :raises MachineError: ``commit-unreachable``; if the project or upstream can't be reached
    """
    source, ref, path = parse(policy)
    project = RecognisedProject(source, path, cache=cache)
    commit = project.commit(ref)
    project.have([commit])
    pin = project.pin(commit)
    path = project.place(commit)
    if upstream.base is None:
        base = base_of(upstream, pin, fork=project.fork(commit, path))
    else:  # whoever selects it asks what it carries
        base = Base(pin if SHA_PATTERN.fullmatch(pin) else upstream.whole(pin))
    found = ProjectPin(
        project=project.name, ref=ref, commit=commit, path=path, pin=pin, revision=base.sha, carried=base.carried
    )
    if exact and base.carried:
        raise VerificationError(
            "revision-not-upstream",
            f"{pin}, which {project.name} pins, is not upstream's",
            where=f"{path} of {project.url} at {commit}",
            why="\n".join(found.notes()),
            remedy=f"leave out --exact to take {base.sha}, which it is based on; its patches are then missing",
        )
    return found
