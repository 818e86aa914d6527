"""Where another project pins LLVM, recognised in its repository.

The project is others': what it says is data.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from mlir_release.ground.errors import UsageError
from mlir_release.ground.git.carriers import submodule_settings
from mlir_release.ground.git.reach import may_lead_to
from mlir_release.ground.git.repository import GitError
from mlir_release.ground.git.shared import SharedGit
from mlir_release.ground.llvm.pin import SHA_PATTERN
from mlir_release.ground.llvm.places import pinned_in, said_at
from mlir_release.ground.llvm.recipes import FollowedProject, recipes
from mlir_release.ground.llvm.remote import Remote

if TYPE_CHECKING:
    from collections.abc import Iterable


PREFIX = "pin-of:"

#: A ref of a project: the newest commit of its default branch before a time.
BEFORE = "before:"

#: A project on GitHub, by its name.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")

#: The user in front of a host, ``git@``, is no ref.
_POLICY = re.compile(
    r"(?P<source>(?:[a-z][a-z+]*://[^/#]*/|[\w.-]+@[\w.-]+:)?[^-@#][^@#]*)(?:@(?P<ref>[^-#][^#]*))?(?:#(?P<path>[^/:-].*))?"
)

_SHORT = re.compile(r"[0-9a-f]{7,39}")


class RecognisedProject(Remote):
    """A project that pins LLVM.

    :param source: ``OWNER/NAME`` on GitHub, the address of a git repository, or a folder: absolute, or ``./…``
    :param path: of its submodule or file; empty: as :meth:`known` says, or recognised
    :param upstream: what it pins; default: LLVM
    """

    title = "the project"
    named_in = "pin-of:"

    def __init__(
        self, source: str, path: str = "", *, upstream: FollowedProject | None = None, cache: Path | None = None
    ) -> None:
        self.name = source.removesuffix("/")
        if _NAME.fullmatch(source):
            url = f"https://github.com/{source}.git"
        elif source.startswith(("/", "./", "../")):
            url = str(Path(source).absolute())
        elif "://" in source or re.match(r"[\w.-]+@", source):
            url = source
        else:
            raise UsageError(
                "option-invalid",
                f"{source!r} names no project",
                where=PREFIX,
                remedy="give OWNER/NAME on GitHub, the address of a git repository, or a folder: /… or ./…",
            )
        super().__init__(url, cache=cache)
        self._path = path
        self.upstream = upstream or recipes().upstream[0]
        self._known = self.known().get(url.removeprefix("https://github.com/").removesuffix(".git"), "")
        self._reading = SharedGit(self.git.directory, lazy=True)  # files come when they are read
        self._places: dict[str, str] = {}

    def known(self) -> dict[str, str]:
        """Where projects pin the upstream: the path of a submodule, or of a file."""
        return recipes().pins(self.upstream.name)

    def commit(self, ref: str) -> str:
        """The project's commit that a ref means.

        :param ref: a branch, a tag, a commit, ``before:`` and a time (ISO 8601, UTC unless it says otherwise); empty:
            the head of the default branch. A time and an abbreviated commit need the history, but no folders and files.
        :raises UsageError: ``revision-unknown``, ``option-invalid``
        :raises MachineError: if the project can't be reached
        """
        if SHA_PATTERN.fullmatch(ref):
            return ref
        if not ref:
            found = self._head
        else:
            found = "" if ref.startswith(BEFORE) else self.named(ref) or ""
            if not found and (ref.startswith(BEFORE) or _SHORT.fullmatch(ref)):
                found = self.in_history(ref)
        if not found:
            raise UsageError(
                "revision-unknown",
                f"{self.name} has no commit {ref!r}" if ref else f"{self.name} has no commit",
                where=self.url,
                remedy="give a branch, a tag or a commit of the project, or before:2026-11-20",
            )
        return found

    def in_history(self, ref: str) -> str:
        """As :meth:`commit`, in the project's history, which is fetched once; empty if it is not there."""
        if ref.startswith(BEFORE):
            text, remedy = ref.removeprefix(BEFORE), "give one like 2026-11-20 or 2026-11-20T11:00Z"
            try:
                when = datetime.fromisoformat(text)
            except ValueError:
                raise UsageError("option-invalid", f"{text!r} is not a time", where=BEFORE, remedy=remedy) from None
            seconds = int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())
            listed = ("rev-list", "--max-count=1", "--first-parent", f"--min-age={seconds}", self._head)
            return self._whole.text(*listed) if self._head else ""
        names = (f"refs/tags/{ref}", f"refs/heads/{ref}", *([ref] if _SHORT.fullmatch(ref) else []))
        return next(filter(None, map(self._whole.resolve, names)), "")

    @cached_property
    def _head(self) -> str:
        return self.refs("HEAD").get("HEAD", "")

    @cached_property
    def _whole(self) -> SharedGit:
        return self.history()

    def have(self, commits: Iterable[str]) -> None:
        """Fetch commits of the project with their folders, in two requests: each takes one by itself else.

        :raises UsageError: ``revision-unknown``
        :raises MachineError: if the project can't be reached
        """
        asked = list(dict.fromkeys(commits))
        self.fetch(*asked)
        try:
            self.objects(dict.fromkeys(self.git.text("log", "--no-walk=unsorted", "--format=%T", *asked).split()))
        except GitError as error:
            raise self.unreachable(error) from error

    def pin(self, commit: str) -> str:
        """The upstream's commit that a commit of the project pins, as it says: it may be abbreviated.

        :raises UsageError: ``pin-invalid``
        :raises MachineError: if the project can't be reached
        """
        try:
            return said_at(self._reading, commit, self.place(commit), self.upstream, where=self.url)
        except GitError as error:
            raise self.unreachable(error) from error

    def place(self, commit: str) -> str:
        """Where a commit of the project pins the upstream. :raises UsageError: ``pin-invalid``"""
        if self._path:
            return self._path
        if commit not in self._places:
            self._places[commit] = pinned_in(
                self._reading,
                commit,
                self.upstream,
                [self._known],
                title=self.name,
                where=self.url,
                remedy=f"name the submodule or the file: {PREFIX}{self.name}#PATH",
            )
        return self._places[commit]

    def fork(self, commit: str, path: str) -> str:
        """The address of the submodule at ``path``, if it may be contacted; else empty."""
        names = {where: name for name, where in submodule_settings(self._reading, "path", commit).items()}
        url = submodule_settings(self._reading, "url", commit).get(names.get(path, ""), "")
        if url.startswith(("./", "../")):  # relative to the project's own address, as git has it
            base = f"{self.url.rstrip('/')}/"
            url = urljoin(base, url) if urlsplit(base).scheme in ("http", "https") else str(Path(base, url).resolve())
        return url if may_lead_to(self.url, url) else ""


def parse(policy: str) -> tuple[str, str, str]:
    """Project, ref and path of a policy; the last two may be empty. :raises UsageError: ``option-invalid``"""
    match = _POLICY.fullmatch(policy.removeprefix(PREFIX))
    if match is None:
        raise UsageError(
            "option-invalid",
            f"{policy!r} can't be read",
            why=f"it is written {PREFIX}PROJECT, {PREFIX}PROJECT@REF or {PREFIX}PROJECT@REF#PATH",
            remedy=f"for example {PREFIX}llvm/torch-mlir@main",
        )
    return match["source"], match["ref"] or "", match["path"] or ""
