"""The only place that runs git.

Plumbing commands with NUL-separated output; output is decoded only where a caller asks for text. Tags are made
without a work tree, so that a release repository can be bare and a checkout is never touched.

Others may have written a repository: :mod:`mlir_release.ground.git.reach` limits git's contacts, programs and secrets.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.errors import ConflictError, MachineError, UsageError
from mlir_release.ground.git.reach import NAMING, NOWHERE, PROGRAMS, Reach, folder_at, instead, reach_of
from mlir_release.ground.programs.process import Finished, run_bytes
from mlir_release.ground.storage.files import read_document, read_if_there

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


#: The object id that git reads as "this ref must not exist yet".
NO_OBJECT = "0" * 40


class GitError(MachineError):
    """A git command failed unexpectedly; see ``stderr`` and ``returncode``."""

    def __init__(self, args: tuple[str, ...], returncode: int, stderr: str, directory: Path) -> None:
        name, why = "program-failed", stderr.strip()
        what = f"git {' '.join(args)} failed with exit code {returncode}"
        remedy = "run the command by hand in that folder to see more; no later step was run"
        if _OF_ANOTHER.search(stderr):
            name, why = "system-refused", why.partition("\n")[0]
            what = "git refuses to work in a repository that belongs to another user"
            remedy = (
                "run this as its owner; or, if you trust everyone who can write there: "
                f"git config --global --add safe.directory {directory}"
            )
        elif os.strerror(errno.ENOSPC) in stderr:
            name, what = "disk-full", f"git {' '.join(args)} failed on a full disk"
            remedy = "make room, then run this again; no later step was run"
        super().__init__(name, what, where=str(directory), why=why, remedy=remedy)
        self.returncode = returncode
        self.stderr = stderr


@dataclass(frozen=True, kw_only=True)
class Ref:
    """A ref as ``for-each-ref`` shows it: ``commit`` is peeled; the rest is an annotated tag's own (else empty)."""

    name: str
    commit: str
    message: str
    tagged_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Signature:
    """Who and when, for commits and annotated tags."""

    name: str
    email: str
    when: datetime  #: timezone-aware
    sign_off: bool = False  #: commits say ``Signed-off-by``
    signing: tuple[str, ...] | None = None  #: settings for git, by which commits are signed; None: they are not

    def environment(self) -> dict[str, str]:
        """The variables that make git record this signature."""
        stamp = f"{int(self.when.timestamp())} +0000"
        return {
            "GIT_AUTHOR_NAME": self.name,
            "GIT_AUTHOR_EMAIL": self.email,
            "GIT_AUTHOR_DATE": stamp,
            "GIT_COMMITTER_NAME": self.name,
            "GIT_COMMITTER_EMAIL": self.email,
            "GIT_COMMITTER_DATE": stamp,
        }


class Git:
    """Git in one repository. ``directory`` may be a work tree or a bare repository.

    :param lazy: the repository is the user's own or a cache of ours. In a partial clone, git may fetch missing objects
        from their remote.
    :param reach: what git may do where a command names no remote
    """

    def __init__(self, directory: Path, *, lazy: bool = False, reach: Reach = NOWHERE) -> None:
        self.directory = directory
        self.lazy = lazy
        self._reach = reach

    # -- running ------------------------------------------------------------------------------------------------

    def run(
        self,
        *args: str,
        input: bytes | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        pass_fds: tuple[int, ...] = (),
        remote: str | None = None,
    ) -> Finished:
        """Run one git command.

        :param env: more variables, for example credentials
        :param remote: the remote that git may contact, a name or an address: by HTTPS, SSH or, where the address says
            so, on this machine. Empty: the remotes of submodules. None: it contacts nothing.
        :raises GitError: if it fails and ``check`` is set
        """
        if remote is not None:
            asked = ("config", "--get-all", f"remote.{remote}.pushurl")
            pushed = self._start(asked, NOWHERE).stdout if remote and "push" in args else b""
            named = [*([remote] if remote else []), *os.fsdecode(pushed).splitlines()]
            addresses = [self.address(name) for name in named]
            for folder in filter(None, map(folder_at, addresses)):
                _refuse_traps(self.directory / folder)
            reach = reach_of(*addresses)
        else:
            reach = self._owing if self.lazy else self._reach
        done = self._start(args, reach, input=input, env=env, pass_fds=pass_fds, inside=remote == "")
        if remote is not None:  # a fetch may have made this a partial clone
            self.__dict__.pop("left_out", None)
            self.__dict__.pop("_owing", None)
        if check and done.returncode != 0:
            raise self.failure(args, done)
        return done

    def _start(
        self,
        args: Sequence[str],
        reach: Reach,
        *,
        input: bytes | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: tuple[int, ...] = (),
        inside: bool = False,
    ) -> Finished:
        """:param inside: git works in submodules, too"""
        told = self._instead(args, reach, inside=inside)
        return self._launch(args, reach, reach.environment(env or {}, told), input=input, pass_fds=pass_fds)

    def _launch(
        self,
        args: Sequence[str],
        reach: Reach,
        environment: Mapping[str, str],
        *,
        input: bytes | None = None,
        pass_fds: tuple[int, ...] = (),
    ) -> Finished:
        _ = self._ordinary
        command = ["git", "-C", str(self.directory), *reach.options(), *args]
        limit = FILE_LIMIT if args[0] == "cat-file" else OUTPUT_LIMIT
        try:
            done, killed = run_bytes(
                command, environment=environment, seconds=reach.seconds, limit=limit, input=input, pass_fds=pass_fds
            )
        except FileNotFoundError as error:
            raise MachineError(
                "tool-missing",
                "git is not installed, or the folder to run it in is missing",
                where=str(self.directory),
                why=str(error),
                remedy="install git ≥ 2.34 and check the path",
            ) from error
        if killed:
            raise GitError(tuple(args), done.returncode, killed, self.directory)
        return done

    # -- the repository's own configuration -----------------------------------------------------------------------

    @cached_property
    def _ordinary(self) -> None:
        _refuse_traps(self.directory)

    def _instead(self, args: Sequence[str], reach: Reach, *, inside: bool = False) -> list[tuple[str, str]]:
        """What git is told instead of the programs that the repository's own configuration names.

        :raises UsageError: ``config-invalid``: git can't be told, and would contact another repository
        """
        place = list(takewhile(lambda word: word.startswith(("--git-dir=", "--work-tree=")), args))
        told, left = instead(self.programs(*place))
        asked = ("config", "-z", "-f", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$")
        records = os.fsdecode(Git(self.directory).run(*asked, check=False).stdout) if inside else ""
        places = (self.directory / record.partition("\n")[2] for record in records.split("\0")[:-1])
        for path in (submodule for submodule in places if (submodule / ".git").exists()):
            more, also = instead(Git(path).programs())
            told, left = told + more, left + also
        if reach.contacts and left:
            raise UsageError(
                "config-invalid",
                f"this repository's own configuration has {left[0]}",
                where=str(self.directory),
                why="whoever wrote the repository would choose a program, or a certificate, for git",
                remedy=f"if it is yours, move it to your own configuration: git config --global {left[0]} …; then "
                f"git config --unset-all {left[0]}",
            )
        noted = [name for name, _ in told if reach.contacts or name.startswith(("filter.", "merge."))]
        if noted and self.directory not in _noted:
            _noted.add(self.directory)
            console.warn(
                f"{self.directory}: this repository's own configuration may not set {', '.join(dict.fromkeys(noted))}; "
                "if you need that, set it in your own: git config --global (includeIf: for one folder)"
            )
        return told

    def programs(self, *place: str) -> list[tuple[str, str, str]]:
        """Scope, name and value of each setting that may name a program; empty if none is the repository's own."""
        if not NAMING.search(self._settings):
            return []
        asked = (*place, "config", "--show-scope", "-z", "--get-regexp", PROGRAMS)
        fields = iter(os.fsdecode(self._launch(asked, NOWHERE, NOWHERE.environment({})).stdout).split("\0"))
        records = ((scope, *record.partition("\n")) for scope, record in zip(fields, fields, strict=False))
        return [(scope, name, value if given else "true") for scope, name, given, value in records]

    @property
    def _settings(self) -> bytes:
        """The repository's own settings, without those of files that they include; where git has to tell: that."""
        _ = self._ordinary
        if (folders := folders_of(self.directory)) is None:
            return b"[include"
        files = (folders[0] / "config", folders[0] / "config.worktree", folders[1] / "config.worktree")
        return b"\n".join(read_if_there(file) or b"" for file in dict.fromkeys(files))

    def failure(self, args: Sequence[str], done: Finished) -> GitError:
        """The error for a command that failed here."""
        return GitError(tuple(args), done.returncode, done.stderr.decode(errors="replace"), self.directory)

    def text(self, *args: str, **kwargs: Mapping[str, str] | str | None) -> str:
        """Standard output of a command, as text without the last newline."""
        return self.run(*args, **kwargs).stdout.decode(errors="surrogateescape").rstrip("\n")  # type: ignore[arg-type]

    # -- remotes ------------------------------------------------------------------------------------------------

    def address(self, remote: str) -> str:
        """The address that git contacts for a remote, given by name or address."""
        done = self._start(("ls-remote", "--get-url", "--", remote), NOWHERE)
        return done.stdout.decode(errors="surrogateescape").rstrip("\n")

    @cached_property
    def left_out(self) -> dict[str, str]:
        """The remotes that owe this partial clone objects, with the filter (``blob:none``); empty for a whole one."""
        # Git writes these settings into the repository's own files: where they say nothing of it, git isn't asked.
        if not _OWING.search(self._settings):
            return {}
        asked = ("config", "-z", "--get-regexp", r"^remote\..*\.(promisor|partialclonefilter)$")
        found: dict[str, str] = {}
        for record in os.fsdecode(self._start(asked, NOWHERE).stdout).split("\0")[:-1]:
            key, _, value = record.partition("\n")
            name, _, setting = key.removeprefix("remote.").rpartition(".")
            found[name] = value if setting == "partialclonefilter" else found.get(name, "")
        return found

    @cached_property
    def _owing(self) -> Reach:
        """How git may reach the remotes that owe this clone objects."""
        return reach_of(*map(self.address, self.left_out)) if self.left_out else NOWHERE

    # -- reading ------------------------------------------------------------------------------------------------
    #
    # What is missing is None; where git can't tell, because the repository is damaged or closed to us, it is an error.

    def is_repository(self) -> bool:
        """Whether ``directory`` exists and is inside a git repository. :raises GitError: if git can't tell"""
        if not self.directory.is_dir():
            return False
        done = self.run("rev-parse", "--git-dir", check=False)
        if done.returncode != 0 and b"not a git repository" not in done.stderr:
            raise self.failure(("rev-parse", "--git-dir"), done)
        return done.returncode == 0

    def resolve(self, revision: str) -> str | None:
        """The 40-hex commit that ``revision`` names, or None. :raises GitError: if git can't tell"""
        return self._object_at(f"{revision}^{{commit}}")

    def _object_at(self, name: str) -> str | None:
        """The id of the object that ``name`` names, or None."""
        if name.startswith("-"):
            return None
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        done = self.run(*asked, check=False)
        if done.returncode == 0:
            return done.stdout.decode().strip()
        if done.returncode != 1 and done.stderr and not names_nothing(done):
            raise self.failure(asked, done)
        ref = name.partition("^")[0]
        if ref.startswith("refs/"):  # git is silent about one that is damaged, or leads to an object that is not there
            self.refs(glob.escape(ref))
        return None

    def read(self, revision: str, path: str) -> bytes | None:
        """Content of ``path`` at the commit ``revision``; None if there is no such file, or no such commit.

        :raises GitError: if git can't tell
        """
        asked = ("cat-file", "blob", f"{revision}:{path}")
        done = self.run(*asked, check=False)
        if done.returncode == 0:
            return done.stdout
        commit = self.resolve(revision)
        listed = self.run("ls-tree", "-z", "--full-tree", commit, "--", path).stdout if commit is not None else b""
        if b" blob " in listed.partition(b"\t")[0]:
            raise self.failure(asked, done)
        return None

    def objects(self, names: Sequence[str]) -> list[tuple[str, bytes] | None]:
        """Id and content of the objects that ``names`` name, None for those that are not here; one process for all.

        :raises GitError: also if one is damaged
        """
        if not names:
            return []
        asked = "".join(f"{name}\n" for name in names).encode(errors="surrogateescape")
        done = self.run("cat-file", "--batch", input=asked)
        if b"error: " in done.stderr:  # a damaged object is listed as missing, too
            raise self.failure(("cat-file", "--batch"), done)
        output = done.stdout
        found: list[tuple[str, bytes] | None] = []
        offset = 0
        for _ in names:
            end = output.index(b"\n", offset)
            fields = output[offset:end].split()
            offset = end + 1
            if len(fields) == 3 and fields[2].isdigit():  # id, type, size; otherwise "NAME missing", or "ambiguous"
                size = int(fields[2])
                found.append((fields[0].decode(), output[offset : offset + size]))
                offset += size + 1
            else:
                found.append(None)
        return found

    def refs(self, *patterns: str) -> list[Ref]:
        """Refs that match any of ``patterns`` (``for-each-ref``'s own), sorted by name; one process for all.

        :raises GitError: also if one is damaged
        """
        fields = "%(refname)%00%(objecttype)%00%(objectname)%00%(*objectname)%00%(taggerdate:unix)%00%(contents)%00%01"
        done = self.run("for-each-ref", f"--format={fields}", *patterns)
        if b"ignoring broken ref" in done.stderr:
            raise self.failure(("for-each-ref", *patterns), done)
        found = []
        for record in done.stdout.decode(errors="surrogateescape").split("\0\1\n"):
            if not record:
                continue
            name, kind, object_id, peeled, seconds, message = record.split("\0", 5)
            annotated = kind == "tag"
            commit, words = (peeled, message) if annotated else (object_id, "")
            when = datetime.fromtimestamp(int(seconds), UTC) if annotated and seconds else None
            found.append(Ref(name=name, commit=commit, message=words, tagged_at=when))
        return found

    def message(self, revision: str) -> str:
        """The full commit message of ``revision``."""
        return self.text("log", "-1", "--format=%B", "--end-of-options", revision)

    # -- writing without a work tree ----------------------------------------------------------------------------

    def make_tag_object(self, name: str, commit: str, message: str, signature: Signature) -> str:
        """Make an annotated tag object; no ref points at it yet. Returns its id."""
        tagger = f"{signature.name} <{signature.email}> {int(signature.when.timestamp())} +0000"
        content = f"object {commit}\ntype commit\ntag {name}\ntagger {tagger}\n\n{message}"
        return self.run("mktag", input=content.encode()).stdout.decode().strip()

    def update_ref(self, ref: str, new: str, *, expected: str, lock: int | None = None) -> bool:
        """Move ``ref`` to ``new`` if it still is at ``expected`` (:data:`NO_OBJECT`: must not exist).

        Returns whether it moved; a compare-and-swap under git's own ref lock, retried while another process holds it.

        :param lock: descriptor of a lock (``flock``) that the caller and every other writer of this repository's refs
            hold meanwhile. Git inherits it, so that it lasts as long as the last process that works under it. Git's own
            lock file is then taken for a dead process's after a second, else only after :data:`STALE_LOCK_AGE`.
        :raises GitError: if git could not write for another reason
        :raises ConflictError: if the ref stays locked
        """
        inherited = () if lock is None else (lock,)
        stale_age = STALE_LOCK_AGE if lock is None else 1.0
        deadline = time.monotonic() + stale_age + 10
        while True:
            done = self.run("update-ref", "--end-of-options", ref, new, expected, check=False, pass_fds=inherited)
            if done.returncode == 0:
                return True
            stderr = done.stderr.decode(errors="replace")
            blocking = _LOCK_FILE.search(stderr)
            if blocking is None:
                if (self._object_at(ref) or NO_OBJECT) != expected:
                    return False
                raise self.failure(("update-ref", ref), done)
            if time.monotonic() > deadline:
                break
            # The .lock file of a killed process would block the ref for ever; a living process removes its own soon.
            lock_file = self.directory / blocking["path"]
            with suppress(FileNotFoundError):
                if time.time() - lock_file.stat().st_mtime > stale_age:
                    lock_file.unlink(missing_ok=True)
                else:
                    time.sleep(0.05)
        raise ConflictError(
            "lost-race",
            f"{ref} stays locked by another process",
            where=str(self.directory),
            why=stderr.strip(),
        )


#: Bytes that git may print, and bytes of a file that it may print.
OUTPUT_LIMIT, FILE_LIMIT = 1 << 30, 1 << 27

#: Bytes that a file in a git folder may have, but for objects and what git maps into memory.
_FILE_OF_GIT = 1 << 26
_MAPPED = ("index", "packed-refs")

#: Bytes of a file that has the path of a folder.
_LINK = 10_000

#: Repositories whose settings a person has been told of.
_noted: set[Path] = set()


def _refuse_traps(directory: Path) -> None:
    """:raises UsageError: ``input-invalid``: see :func:`check_ordinary`"""
    try:
        check_ordinary(directory)
    except OSError as error:
        raise UsageError(
            "input-invalid",
            "git can't read this repository",
            where=str(error.filename or directory),
            why=str(error.strerror or error),
            remedy="find out who made that file; git clone makes a repository without it",
        ) from error


def check_ordinary(directory: Path) -> None:
    """Look whether git can read a repository without waiting for a pipe or a device, or for a file of gigabytes.

    :param directory: its top folder, one below that, or a bare one
    :raises OSError: if not; also if a folder can't be read, which git takes for an empty one
    """
    tops: tuple[Path, ...] | None = folders_of(directory)
    for above in (directory, *directory.absolute().parents):
        if tops is None and os.path.lexists(above / ".git"):
            tops = folders_of(above) or (private_folder(above),)
    for name in (".git", ".gitattributes", ".gitignore", ".gitmodules", ".mailmap"):
        _check_file(directory / name)
    for top in dict.fromkeys(tops or ()):
        if top.is_dir():
            _check_folder(top, only=("info", "objects", "refs"))
            for line in (read_if_there(top / "objects/info/alternates") or b"").splitlines():
                if (lent := top / "objects" / os.fsdecode(line)).is_dir():
                    _check_folder(lent, sized=False)


def _check_folder(folder: Path, *, only: Sequence[str] = (), sized: bool = True) -> None:
    """Its files, and those below it. ``only``: the folders in it to look into; ``sized``: sizes count"""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not only or entry.name in only:
                    with suppress(FileNotFoundError):  # git has just removed it
                        _check_folder(
                            Path(entry.path), sized=entry.name == "info" or (sized and entry.name != "objects")
                        )
            elif sized or not entry.is_file(follow_symlinks=False):  # no object is asked for its size
                _check_file(Path(entry.path), sized=sized and entry.name not in _MAPPED)


def _check_file(path: Path, *, sized: bool = True) -> None:
    """Of a file that git may open. A socket is none: git's monitor of file systems has one there."""
    try:
        found = path.stat()
    except OSError:  # not there, or as good as that
        return
    if stat.S_ISFIFO(found.st_mode) or stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device", str(path))
    if sized and stat.S_ISREG(found.st_mode) and found.st_size > _FILE_OF_GIT:
        raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes", str(path))


def folders_of(directory: Path) -> tuple[Path, Path] | None:
    """The folder of the repository whose top folder is ``directory``, and this work tree's own folder in it.

    They are the same but for linked work trees. Source: gitrepository-layout. It spares a process.

    :returns: None where git has to tell, for example below the top folder
    """
    try:
        private = private_folder(directory)
        if not os.path.lexists(private):
            private = directory  # a bare one
        if not (private / "HEAD").is_file():
            return None
        private = private.resolve()
        written = read_if_there(private / "commondir", limit=_LINK) or b"."
        common = (private / os.fsdecode(written.rstrip(b"\r\n"))).resolve()
        return (common, private) if (common / "objects").is_dir() else None
    except OSError:
        return None


def private_folder(directory: Path) -> Path:
    """Where ``.git`` of a work tree leads to, which is a file in submodules and linked work trees."""
    private = directory / ".git"
    if private.is_file():
        written = read_document(private, limit=_LINK)
        if written.startswith(b"gitdir: "):
            return directory / os.fsdecode(written.removeprefix(b"gitdir: ").rstrip(b"\r\n"))
    return private


def open_clone(path: Path | None) -> Git | None:
    """A clone that a person names; None: the repository of this folder, or no clone.

    :raises UsageError: ``input-invalid``
    """
    git = Git(path or Path.cwd())
    try:
        found = git.is_repository()
    except GitError:
        if path is not None:
            raise
        return None
    if not found and path is not None:
        raise UsageError("input-invalid", "that folder is no git repository", where=str(path), remedy="name a clone")
    return git if found else None


def names_nothing(done: Finished) -> bool:
    """Whether git failed because a name that it was given names nothing here."""
    return done.returncode == 128 and _UNKNOWN.search(done.stderr) is not None


#: The last: asked for an object that a partial clone lacks, an older git tries to fetch it.
_UNKNOWN = re.compile(
    rb"^fatal: (?:Not a valid (?:object|commit) name|bad revision|log for |could not fetch .* from promisor remote)",
    re.MULTILINE,
)

#: What a file of settings holds if this is a partial clone, or if it may name more files.
_OWING = re.compile(rb"promisor|partialclone|\[include", re.IGNORECASE)

_OF_ANOTHER = re.compile(r"detected dubious ownership|unsafe repository")


#: Seconds after which a ``.lock`` file in a repository without another lock is taken to be a killed process's.
STALE_LOCK_AGE = 30.0

_LOCK_FILE = re.compile(r"Unable to create '(?P<path>[^']+\.lock)': File exists")
