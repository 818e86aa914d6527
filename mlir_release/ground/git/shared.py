"""Git in a repository that people and several of our processes use at once, and in which any of them may be killed.

One git process of this toolkit at a time writes to a repository's refs, index or configuration, under a lock. Git
inherits the lock, so it lasts as long as git works, even if the process that started it is killed. The lock file names
the running command until its end. A process that takes the lock and finds a command there knows that git was killed. It
removes git's own lock files, and repairs half-replaced files of the work tree. It never touches lock files of a git
that a person runs, unless one of our own was killed.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.git import locks
from mlir_release.ground.git.repository import Git, folders_of
from mlir_release.ground.storage.files import read_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlir_release.ground.programs.process import Finished

#: The toolkit's folder in a repository's own; it has its own locks.
STATE = "mlir-release"

#: Commands that take git's own locks (status, to refresh the index).
_WRITING = frozenset(
    {
        *("branch", "checkout", "clean", "config", "fetch", "merge", "push", "status", "submodule", "switch"),
        *("update-ref", "worktree"),
    }
)
#: Those that replace files of the work tree by those of a commit.
_MOVING = frozenset({"checkout", "merge", "switch"})


class SharedGit(Git):
    """See the module. ``directory`` may be a work tree or a bare repository.

    :param folders: the repository's folder and this work tree's own in it, where they are known already
    """

    def __init__(self, directory: Path, *, lazy: bool = False, folders: tuple[Path, Path] | None = None) -> None:
        super().__init__(directory, lazy=lazy)
        if folders is not None:
            self._folders = folders

    @property
    def common(self) -> Path:
        """The repository's folder, shared by all its work trees."""
        return self._folders[0]

    def run(
        self,
        *args: str,
        input: bytes | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        pass_fds: tuple[int, ...] = (),
        remote: str | None = None,
    ) -> Finished:
        """Run one git command, under the lock if it writes. :raises GitError: if it fails and ``check`` is set."""
        if args[0] not in _WRITING or any(option.startswith("--get") for option in args):
            return super().run(*args, input=input, env=env, check=check, pass_fds=pass_fds, remote=remote)
        held = os.open(self._folders[0] / "mlir-release.lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            locks.lock(held)
            os.lseek(held, 0, os.SEEK_SET)
            if interrupted := os.read(held, 1 << 20):
                self._clean_up(interrupted)
            os.ftruncate(held, 0)
            os.lseek(held, 0, os.SEEK_SET)
            os.write(held, json.dumps([os.fspath(self.directory), *args]).encode())
            done = super().run(*args, input=input, env=env, check=False, pass_fds=(*pass_fds, held), remote=remote)
            if done.returncode >= 0:  # else it was killed, and the next process cleans up
                os.ftruncate(held, 0)
        finally:
            os.close(held)
        if check and done.returncode != 0:
            raise self.failure(args, done)
        return done

    @cached_property
    def _folders(self) -> tuple[Path, Path]:
        """See :func:`~mlir_release.ground.git.repository.folders_of`."""
        if (found := folders_of(self.directory)) is not None:
            return found
        done = super().run("rev-parse", "--path-format=absolute", "--git-common-dir", "--git-dir")
        shared, private = os.fsdecode(done.stdout).splitlines()
        return Path(shared), Path(private)

    # -- after a kill -----------------------------------------------------------------------------------------------

    def _clean_up(self, interrupted: bytes) -> None:
        stale = list(self._folders[1].glob("*.lock"))
        for folder, inside, names in os.walk(self._folders[0]):
            # Other work trees are locked by the processes that use them; objects have no lasting locks.
            inside[:] = [name for name in inside if name not in ("objects", "worktrees")]
            if Path(folder) == self._folders[0] and STATE in inside:
                inside.remove(STATE)
            stale += [Path(folder, name) for name in names if name.endswith(".lock")]
        for path in stale:
            if path.name != "mlir-release.lock":
                path.unlink(missing_ok=True)
        try:
            directory, command, *args = parse_json(interrupted)
        except (ValueError, TypeError):  # killed before it was written: before git began
            return
        if command in _MOVING and directory == os.fspath(self.directory):
            self._put_back(args)

    def _put_back(self, args: Sequence[str]) -> None:
        """Give files that a killed git was replacing the content that HEAD has, so that the command can be repeated.

        Only files that are a prefix of the new content are replaced, so a person's later changes stay.
        """
        target = args[args.index("--") - 1] if "--" in args else args[-1]
        changes = super().run("diff", "--name-status", "--no-renames", "-z", "HEAD", target, "--", check=False).stdout
        replaced = dict(zip(*[iter(reversed(changes.split(b"\0")[:-1]))] * 2, strict=True))
        if "--" in args:
            replaced |= {os.fsencode(path): b"M" for path in args[args.index("--") + 1 :]}
        for path, status in replaced.items():
            if not self._half_written(os.fsdecode(path), target):
                continue
            if status == b"A":
                with suppress(OSError):
                    (self.directory / os.fsdecode(path)).unlink()
                # Else, if git had already replaced the index, it would take the file for one that a person removed.
                super().run("update-index", "--force-remove", "--", os.fsdecode(path), check=False)
            else:
                super().run("checkout", "--quiet", "HEAD", "--", f":(literal){os.fsdecode(path)}", check=False)

    def _half_written(self, path: str, target: str) -> bool:
        file = self.directory / path
        if file.is_dir():
            return False
        if not os.path.lexists(file):
            return True
        done = super().run("cat-file", "--filters", f"{target}:{path}", check=False)
        new = done.stdout if done.returncode == 0 else b""
        return new.startswith(
            os.fsencode(file.readlink()) if file.is_symlink() else read_document(file, limit=len(new))
        )
