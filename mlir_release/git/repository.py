"""The only place that runs git.

Plumbing commands with NUL-separated output; output is decoded only where a caller asks for text. Tags are made
without a work tree, so that a release repository can be bare and a checkout is never touched.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mlir_release.errors import ConflictError, MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: The object id that git reads as "this ref must not exist yet".
NO_OBJECT = "0" * 40


class GitError(MachineError):
    """A git command failed unexpectedly; see ``stderr`` and ``returncode``."""

    def __init__(self, args: tuple[str, ...], returncode: int, stderr: str, directory: Path) -> None:
        super().__init__(
            "git-failed",
            f"git {' '.join(args)} failed with exit code {returncode}",
            where=str(directory),
            why=stderr.strip(),
            remedy="run the command by hand in that folder to see more; no later step was run",
        )
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
    """Git in one repository. ``directory`` may be a work tree or a bare repository."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    # -- running ------------------------------------------------------------------------------------------------

    def run(
        self,
        *args: str,
        input: bytes | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        pass_fds: tuple[int, ...] = (),
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one git command. :raises GitError: if it fails and ``check`` is set."""
        command = ["git", "-C", str(self.directory), *args]
        environment = {
            **{key: value for key, value in os.environ.items() if key not in _REPOSITORY_VARIABLES},
            "LC_ALL": "C.UTF-8",
            "GIT_TERMINAL_PROMPT": "0",
            **(env or {}),
        }
        try:
            done = subprocess.run(
                command,
                input=input,
                capture_output=True,
                env=environment,
                check=False,
                pass_fds=pass_fds if sys.platform != "win32" else (),  # Windows has no way to
            )
        except FileNotFoundError as error:
            raise MachineError(
                "git-not-found",
                "git is not installed, or the folder to run it in is missing",
                where=str(self.directory),
                why=str(error),
                remedy="install git ≥ 2.34 and check the path",
            ) from error
        if check and done.returncode != 0:
            raise GitError(args, done.returncode, done.stderr.decode(errors="replace"), self.directory)
        return done

    def text(self, *args: str, **kwargs: Mapping[str, str]) -> str:
        """Standard output of a command, as text without the last newline."""
        return self.run(*args, **kwargs).stdout.decode(errors="surrogateescape").rstrip("\n")  # type: ignore[arg-type]

    # -- reading ------------------------------------------------------------------------------------------------

    def is_repository(self) -> bool:
        """Whether ``directory`` exists and is inside a git repository."""
        return self.directory.is_dir() and self.run("rev-parse", "--git-dir", check=False).returncode == 0

    def resolve(self, revision: str) -> str | None:
        """The 40-hex commit that ``revision`` names, or None."""
        if revision.startswith("-"):
            return None
        done = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", check=False)
        return done.stdout.decode().strip() or None if done.returncode == 0 else None

    def read(self, revision: str, path: str) -> bytes | None:
        """Content of ``path`` at ``revision``, or None if there is no such file."""
        done = self.run("cat-file", "blob", f"{revision}:{path}", check=False)
        return done.stdout if done.returncode == 0 else None

    def objects(self, names: Sequence[str]) -> list[tuple[str, bytes] | None]:
        """Id and content of the objects that ``names`` name, None for those that are not here; one process for all."""
        if not names:
            return []
        asked = "".join(f"{name}\n" for name in names).encode(errors="surrogateescape")
        output = self.run("cat-file", "--batch", input=asked).stdout
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
        """Refs that match any of ``patterns`` (``for-each-ref``'s own), sorted by name; one process for all."""
        fields = "%(refname)%00%(objecttype)%00%(objectname)%00%(*objectname)%00%(taggerdate:unix)%00%(contents)%00%01"
        output = self.run("for-each-ref", f"--format={fields}", *patterns).stdout.decode(errors="surrogateescape")
        found = []
        for record in output.split("\0\1\n"):
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
                if self._object_at(ref) != expected:
                    return False
                raise GitError(("update-ref", ref), done.returncode, stderr, self.directory)
            if time.monotonic() > deadline:
                break
            # The .lock file of a killed process would block the ref for ever; a living process removes its own soon.
            _break_stale_lock(self.directory / blocking["path"], stale_age)
        raise ConflictError(
            "ref-locked",
            f"{ref} stays locked by another process",
            where=str(self.directory),
            why=stderr.strip(),
            remedy="wait for the other command to end, then run this again",
        )

    def _object_at(self, ref: str) -> str:
        """What ``ref`` points at, unpeeled; :data:`NO_OBJECT` if it does not exist."""
        done = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", ref, check=False)
        return done.stdout.decode().strip() if done.returncode == 0 else NO_OBJECT


#: Variables that would redirect git into another repository, for example when run from a hook.
_REPOSITORY_VARIABLES = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX"}
)


#: Seconds after which a ``.lock`` file in a repository without another lock is taken to be a killed process's.
STALE_LOCK_AGE = 30.0

_LOCK_FILE = re.compile(r"Unable to create '(?P<path>[^']+\.lock)': File exists")


def _break_stale_lock(path: Path, stale_age: float) -> None:
    """Remove the lock file if it is older than a living process keeps one; else wait a little."""
    try:
        age = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return
    if age > stale_age:
        path.unlink(missing_ok=True)
    else:
        time.sleep(0.05)
