"""A release that was asked for: which revision, of which kind, for whom; and what its pin commit and tag say."""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mlir_release import __version__
from mlir_release.ground.documents.trailers import format_message
from mlir_release.ground.errors import UsageError
from mlir_release.ground.llvm.llvm_version import base_version
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.ground.python.cpython import DEFAULT_PYTHON
from mlir_release.ground.python.locked import read_lock
from mlir_release.release.model.matrix import Matrix, compiler_too_old
from mlir_release.release.model.pin_commit import numbered_branch
from mlir_release.release.model.release_tags import (
    TRAILER_REQUEST,
    TRAILER_REVISION,
    TRAILER_TOOLKIT,
    NumberedTag,
    SnapshotTag,
)
from mlir_release.release.pinning.installable import IndexAnswers, ask
from mlir_release.release.pinning.reachable import need_upstream
from mlir_release.release.pinning.state import TagState, tag_message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.ground.llvm.llvm_facts import LlvmFacts
    from mlir_release.ground.llvm.upstream import Revision
    from mlir_release.release.model.release_tags import ReleaseTag
    from mlir_release.release.model.stack import CarriedStack

_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,99}")


def default_request_id() -> str:
    """The id of the GitHub run (which re-runs keep), else a unique one."""
    run = os.environ.get("GITHUB_RUN_ID")
    return f"run-{run}" if run else f"local-{uuid.uuid4().hex[:16]}"


def check_request_id(given: str) -> None:
    """Refuse what can't be a request id. :raises UsageError: ``option-invalid``"""
    if not _REQUEST_ID.fullmatch(given):
        raise UsageError(
            "option-invalid",
            f"{given!r} can't be a request id",
            why="it is recorded on one line of the tag",
            remedy="use up to 100 letters, digits and . _ : @ / + -",
        )


def tools_of_all_jobs() -> Mapping[str, str]:
    """The versions of the tools that configure LLVM in every job, by the names in ``model.llvm_facts.BUILD_TOOLS``."""
    (cmake,) = (pin.version for pin in read_lock() if pin.name == "cmake")
    return {"CMake": cmake, "Python": DEFAULT_PYTHON.version}


def check_tools(matrix: Matrix, facts: LlvmFacts, sha: str) -> tuple[str, ...]:
    """Refuse a revision that the jobs' tools can't build for something required, or for no target at all.

    :param sha: of the revision
    :returns: notes about demands that could not be read, and so refuse nothing
    :raises UsageError: ``revision-unsuitable``
    """
    found = [f"LLVM {facts.version} needs {demand}" for demand in facts.unmet(tools_of_all_jobs())]
    too_old = {runtime.name: compiler_too_old(runtime, facts) for runtime in matrix.runtimes}
    required = {wheel.runtime.name for wheel in matrix.wheels if wheel.required}
    if all(too_old.values()):
        required = set(too_old)
    found += [reason for name, reason in too_old.items() if reason and name in required]
    if found:
        raise UsageError(
            "revision-unsuitable",
            f"llvm-project {sha[:12]} demands newer tools than the jobs have; nothing is tagged",
            where=matrix.file,
            why="; ".join(found),
            remedy="lock a newer CMake (requirements/builds.in, then tools/lock_builds.py), use a runner or an image "
            f"with a newer compiler and write its version into {matrix.file}, or choose an older revision",
        )
    unread = facts.unread_tools
    return (f"its tree does not say which {', '.join(unread)} it needs; nothing is refused for that",) if unread else ()


@dataclass(kw_only=True, eq=False)
class Request:
    """A request for a release. ``version``: the canonical LLVM version of a numbered release; None: a snapshot."""

    revision: Revision
    matrix: Matrix  #: of the protected branch; of the version's line
    request_id: str
    version: str | None = None
    force: bool = False
    only: str = ""  #: a filter of the targets that the run it dispatches builds; empty: all

    @property
    def branch(self) -> str:
        """The branch for the pin commit: that of all snapshots, or the numbered version's own."""
        return self.matrix.release.pins if self.version is None else numbered_branch(self.version)

    def concerns(self, state: TagState) -> bool:
        """Whether ``state`` is of this request's kind: a snapshot, or a numbered release of the same version."""
        if self.version is None:
            return isinstance(state.tag, SnapshotTag)
        return isinstance(state.tag, NumberedTag) and state.tag.version == self.version

    def is_for(self, state: TagState) -> bool:
        """Whether ``state`` is this job: the same revision, or, where another is forced, the same request."""
        same = state.request_id == self.request_id if self.force else state.revision == self.revision.sha
        return self.concerns(state) and same

    @cached_property
    def facts(self) -> LlvmFacts:
        """The facts of the revision. They are read from upstream if a tag is to be made, before anything is made.

        :raises UsageError: ``revision-unsuitable``, and those of :meth:`Revision.facts`
        """
        facts, version = self.revision.facts(), self.version
        if version is not None and base_version(version) != base_version(facts.version):
            raise UsageError(
                "revision-unsuitable",
                f"llvm-project {self.revision.sha[:12]} is LLVM {facts.version}, not {version}",
                why="the tag and the wheels would carry a version that their content is not",
                remedy=f"number it {'.'.join(map(str, base_version(facts.version)))}, or give another --revision",
            )
        return facts

    @cached_property
    def stack(self) -> CarriedStack | None:
        """What the revision carries, where the upstream is a fork; None: nothing.

        :raises VerificationError: ``revision-not-upstream``
        """
        config = self.matrix.release
        return need_upstream(Upstream.of(config), self.revision.sha) if config.base else None

    @cached_property
    def answers(self) -> IndexAnswers:
        """The index's answers on where the wheels' requirements can be met. It is asked when :attr:`facts` are read."""
        return ask(self.matrix.of_revision(self.facts), self.facts)

    @cached_property
    def exclusions(self) -> tuple[str, ...]:
        """Which CPythons of the matrix get no wheel, and why.

        :raises UsageError: ``revision-unsuitable``
        """
        unread = check_tools(self.matrix, self.facts, self.revision.sha)
        matrix = self.matrix.of_revision(self.facts).drop_unresolvable(self.answers.reasons).with_abi3(self.facts)
        reasons: dict[str, dict[str, None]] = {}
        for row in matrix.excluded:
            reasons.setdefault(row.reason, {})[row.wheel.interpreter] = None
        shown = tuple(f"no wheels for {', '.join(pythons)}: {reason}" for reason, pythons in reasons.items())
        if shown and not matrix.wheels:
            raise UsageError(
                "revision-unsuitable",
                f"no target of the build matrix can be made of llvm-project {self.revision.sha[:12]}",
                where=matrix.file,
                why="; ".join(shown),
                remedy=f"add a CPython that this revision supports to {matrix.file}, relax a requirement in its "
                "[requires], or choose another revision",
            )
        return (*shown, *unread, *self.answers.unknown)

    def pin_message(self) -> str:
        """The message of the pin commit."""
        sha = self.revision.sha
        trailers = {TRAILER_REVISION: sha, TRAILER_REQUEST: self.request_id, TRAILER_TOOLKIT: __version__}
        return format_message(f"Pin llvm-project {sha[:12]}", self.revision.subject, trailers)

    def tag_message(self, tag: ReleaseTag, wheel_version: str) -> str:
        """The message of the tag, which makes it ours. Upstream is read for it."""
        return tag_message(
            tag,
            revision=self.revision.sha,
            request_id=self.request_id,
            wheel_version=wheel_version,
            revision_date=self.revision.date,
            facts=self.facts,
            excluded=self.answers.reasons,
            stack=self.stack,
        )
