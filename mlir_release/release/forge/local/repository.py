"""The git half of a local forge: a bare repository with branches, tags and pin commits."""

from __future__ import annotations

import getpass
import glob
import re
import weakref
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from mlir_release.ground.errors import ForgeError, UsageError
from mlir_release.ground.git.repository import NO_OBJECT, Git, Signature, check_ordinary
from mlir_release.ground.git.trees import commit_files, entries_at, files_in, is_ancestor
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.ground.storage.files import read_document, sync_folder
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.forge.base import Tag, parents_of, tag_of
from mlir_release.release.forge.local.store import Store, answering
from mlir_release.release.forge.refusals import branch_moved, tag_taken
from mlir_release.release.model.pin_commit import PARENTS, PLAIN, PinFacts, TreeEntry, changed_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path


def utc_now() -> datetime:
    """This machine's clock."""
    return datetime.now(UTC)


def make_repository(store: Store, files: Mapping[str, bytes], identity: str | None, when: datetime) -> None:
    """Make the repository of a forge, whose branch ``main`` begins with ``files``; nothing if it is there."""
    repository = store.root / "repository.git"
    with store.exclusive():
        if repository.exists():
            return
        made = store.scratch / repository.name
        git = Git(made)
        made.mkdir()
        formats = {"GIT_DEFAULT_REF_FORMAT": "files", "GIT_DEFAULT_HASH": "sha1"}  # what every git reads
        git.run("init", "--quiet", "--bare", "--template=", "--initial-branch=main", env=formats)
        git.run("config", "core.fsync", "committed,reference")
        signature = signature_of(identity or git_identity(git), when)
        first = commit_files(git, None, files, "Begin the release repository\n", signature)
        git.update_ref("refs/heads/main", first, expected=NO_OBJECT)
        made.rename(repository)
        sync_folder(store.root)


class LocalRepository:
    """Branches and tags in ``<root>/repository.git``. See :class:`~mlir_release.release.forge.base.Forge`.

    :raises ForgeError: if there is no forge in ``root``
    """

    def __init__(self, root: Path, clock: Callable[[], datetime], identity: str | None) -> None:
        self.root = root.absolute()
        self.repository = self.root / "repository.git"
        if not self.repository.is_dir():
            raise ForgeError(
                "not-on-forge",
                "there is no local forge in this folder",
                where=str(self.root),
                remedy="check the path, or make one: mlir-release forge init FOLDER",
            )
        self._store = Store(self.root)
        self._clock = clock
        self._identity = identity

    @property
    def description(self) -> str:
        return f"local forge {self.root}"

    @cached_property
    def _git(self) -> Git:
        stack = ExitStack()
        weakref.finalize(self, stack.close)
        return stack.enter_context(foreign(self.repository))

    def now(self) -> datetime:
        """The clock, in whole seconds of UTC, as GitHub's has them."""
        return self._clock().astimezone(UTC).replace(microsecond=0)

    def whoami(self) -> str:
        return self._identity or git_identity(self._git)

    @property
    def default_branch(self) -> str:
        with answering(self.root, "tell its default branch"):
            return self._git.text("symbolic-ref", "HEAD").removeprefix("refs/heads/")

    def head(self, branch: str) -> str | None:
        with answering(self.root, f"read its branch {branch}"):
            return self._git.resolve(f"refs/heads/{branch}")

    def read(self, path: str, *, commit: str) -> bytes | None:
        with answering(self.root, f"read {path} at {commit}"):
            return self._git.read(commit, path)

    def files(self, folder: str, *, commit: str) -> Sequence[str]:
        with answering(self.root, f"list {folder} at {commit}"):
            return files_in(self._git, commit, folder)

    def commit(
        self,
        branch: str,
        *,
        expected: str | None,
        files: Mapping[str, bytes],
        message: str,
        base: str | None = None,
        keep: str = "",
    ) -> str:
        parents = parents_of(expected, base)
        with answering(self.root, f"commit to {branch}"):
            signature = signature_of(self.whoami(), self.now())
            there = entries_at(self._git, expected) if keep and expected is not None else {}
            kept = {keep: there[keep]} if keep in there and there[keep].kind == "tree" else {}
            made = commit_files(self._git, parents[-1], files, message, signature, parents=parents, entries=kept)
            if not self._set_ref(f"refs/heads/{branch}", made, expected=expected or NO_OBJECT):
                raise branch_moved(branch, expected, where=self.description)
        return made

    def pin_facts(self, commit: str) -> PinFacts | None:
        with answering(self.root, f"read commit {commit}"):
            git = self._git
            if git.resolve(commit) != commit:
                return None
            parents = tuple(git.text("rev-list", "-n1", "--parents", commit).split()[1:])
            entries = _entries(git, commit)
            entry = next((entry for entry in entries if entry.name == PIN_FILE), None)
            told = len(parents) in PARENTS
            return PinFacts(
                commit=commit,
                parents=parents,
                branch=self.default_branch,
                base_on_branch=told and is_ancestor(git, parents[-1], "HEAD"),
                changed=changed_names(entries, _entries(git, parents[-1])) if told else (),
                entry=entry,
                pin=git.read(commit, PIN_FILE) if entry is not None and entry.mode == PLAIN else None,
            )

    def _set_ref(self, ref: str, new: str, *, expected: str) -> bool:
        with self._store.exclusive() as lock:
            return self._git.update_ref(ref, new, expected=expected, lock=lock)

    def tags(self) -> Sequence[Tag]:
        with answering(self.root, "list its tags"):
            refs = self._git.refs("refs/tags")
        return [tag_of(ref) for ref in refs]

    def tag(self, name: str) -> Tag | None:
        with answering(self.root, f"read tag {name}"):
            refs = self._git.refs(f"refs/tags/{glob.escape(name)}")
        # The pattern also matches tags below a folder of that name.
        found = [ref for ref in refs if ref.name == f"refs/tags/{name}"]
        return tag_of(found[0]) if found else None

    def create_tag(self, name: str, commit: str, message: str) -> Tag:
        with answering(self.root, f"create tag {name}"):
            signature = signature_of(self.whoami(), self.now())
            made = self._git.make_tag_object(name, commit, message, signature)
            if not self._set_ref(f"refs/tags/{name}", made, expected=NO_OBJECT):
                raise tag_taken(name, where=self.description)
        return Tag(name=name, commit=commit, message=message, created_at=signature.when)


def _entries(git: Git, commit: str) -> list[TreeEntry]:
    found = entries_at(git, commit)
    return [TreeEntry(name=name, mode=entry.mode, kind=entry.kind, oid=entry.oid) for name, entry in found.items()]


def git_identity(git: Git) -> str:
    """``user.name <user.email>`` of git's configuration, else the login name."""
    name, email = (
        git.run("config", "--get", key, check=False).stdout.decode(errors="replace").strip()
        for key in ("user.name", "user.email")
    )
    if not name:
        try:
            name = getpass.getuser()
        except (KeyError, OSError):  # a user id without a name, as in some containers
            name = "unknown"
    return f"{name} <{email}>"


def signature_of(identity: str, when: datetime) -> Signature:
    """The signature of ``Name <email>``. :raises UsageError: ``option-invalid``"""
    match = re.fullmatch(r"(?P<name>[^<>\n]*[^<>\s]) <(?P<email>[^<>\n]*)>", identity)
    if match is None:
        raise UsageError(
            "option-invalid", f"{identity!r} is not an identity", remedy="give it as Name <email@example.org>"
        )
    return Signature(name=match["name"], email=match["email"], when=when)


_CONFIGURATION = "[core]\n\trepositoryformatversion = {}\n\tbare = true\n\tfsync = committed,reference\n"
_REFTABLE = "[extensions]\n\trefStorage = reftable\n"


@contextmanager
def foreign(repository: Path) -> Iterator[Git]:
    """Git in a bare repository that others may have written, without the configuration and the hooks that are in it.

    A repository's configuration can name programs that git starts, and addresses that it contacts. Git can't ignore it.
    So git works in a repository of ours, with our configuration and only the objects and refs of the other, which
    receives whatever this git writes. Git refuses folders of other users because of their configuration
    (``safe.directory``); here such a folder can be read.

    :raises OSError: if the repository, or a folder in it, can't be read, or git would wait for a file in it
    """
    check_ordinary(repository)
    with scratch_folder("repository") as ours:
        for name in ("objects", "refs", "packed-refs"):
            (ours / name).symlink_to(repository / name)
        tables = (repository / "reftable").is_dir()
        if tables:
            (ours / "reftable").symlink_to(repository / "reftable")
        (ours / "HEAD").write_bytes(read_document(repository / "HEAD", limit=1000))
        configuration = _CONFIGURATION.format(int(tables)) + (_REFTABLE if tables else "")
        (ours / "config").write_text(configuration, encoding="utf-8")
        yield Git(ours)
