"""Work trees and their changes; and slots, which are disposable work trees for foreign code.

Foreign code may change a slot's git folder, its configuration and its hooks. So git is never run on that folder.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from mlir_release.ground.git.repository import Git, folders_of, private_folder
from mlir_release.ground.llvm.pin import SHA_PATTERN
from mlir_release.ground.programs.surroundings import has_credentials
from mlir_release.ground.storage.files import copy_regular, read_document, read_if_there, remove_folder

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.git.shared import SharedGit
    from mlir_release.ground.programs.process import Finished


def changed_paths(git: Git, *, submodules: bool = True) -> list[str]:
    """Paths with uncommitted changes, untracked files left out, without asking submodules about their insides.

    :param submodules: whether a submodule at another commit is a change
    """
    ignored = f"--ignore-submodules={'dirty' if submodules else 'all'}"
    output = git.run("status", "--porcelain", "-z", "--untracked-files=no", ignored).stdout
    fields = output.split(b"\0")[:-1]
    paths, index = [], 0
    while index < len(fields):
        paths.append(os.fsdecode(fields[index][3:]))
        index += 2 if fields[index][:1] in (b"R", b"C") else 1
    return paths


#: What the file ``HEAD`` begins with while a branch is checked out.
_ON_BRANCH = b"ref: refs/heads/"


def current_branch(git: Git) -> str | None:
    """The short name of the branch that is checked out; None while HEAD is detached."""
    folders = folders_of(git.directory)
    written = (read_if_there(folders[1] / "HEAD") or b"") if folders is not None else b""
    if written.startswith(_ON_BRANCH) and b".invalid" not in written:  # a repository with a table of refs says that
        return os.fsdecode(written.removeprefix(_ON_BRANCH).strip())
    asked = ("symbolic-ref", "--quiet", "--short", "HEAD")
    done = git.run(*asked, check=False)
    if done.returncode not in (0, 1):
        raise git.failure(asked, done)
    return os.fsdecode(done.stdout.strip()) if done.returncode == 0 else None


# -- slots -------------------------------------------------------------------------------------------------------------


def place_slot(git: SharedGit, path: Path, commit: str, *, lock: int) -> None:
    """Give ``path`` the files of ``commit``, whatever was there; ignored files (builds) survive.

    It gets a new git folder each time, which borrows the objects of ``git``. Only programs in the slot read that
    folder; our own git does not (:func:`in_slot`).

    :param lock: descriptor of the lock (see :mod:`~mlir_release.ground.git.locks`) of the folder that ``path`` is in,
        which git inherits
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        path.mkdir(parents=True)
    _make_folder(git, path, commit)
    files = ("read-tree", "--reset", "-u", "--no-sparse-checkout", "--no-recurse-submodules", commit)
    if in_slot(git, path, *files, check=False, pass_fds=(lock,)).returncode != 0:
        for name in (_INDEX, "index.lock"):  # it may be what git stumbled over
            (path / ".git" / name).unlink(missing_ok=True)
        in_slot(git, path, *files, pass_fds=(lock,))
    in_slot(git, path, "clean", "-ffdq", pass_fds=(lock,))


def in_slot(git: SharedGit, path: Path, *args: str, check: bool = True, pass_fds: tuple[int, ...] = ()) -> Finished:
    """Run git on the files of a slot, but from the folder of ``git``. :raises GitError: if it fails, and ``check``

    From the slot's own folder git reads only the index.
    """
    options = ("-c", "core.splitIndex=false", "-c", "core.fsmonitor=false")  # or git in there could not read the index
    place = (f"--git-dir={git.common}", f"--work-tree={path}")
    env = {"GIT_INDEX_FILE": str(path / ".git" / _INDEX)}
    return git.run(*place, *options, *args, env=env, check=check, pass_fds=pass_fds)


#: The part of a slot's git folder that is kept: without git's record of the files, git would write all of them again.
_INDEX = "index"

#: The repository's settings that git in a slot needs and may know.
_KNOWN = (
    r"^(core\.(filemode|symlinks|ignorecase|precomposeunicode|autocrlf|eol|longpaths)|user\.(name|email)"
    r"|remote\..*\.(url|promisor|partialclonefilter))$"
)


def _make_folder(git: SharedGit, path: Path, commit: str) -> None:
    folder = path / ".git"
    if folder.is_symlink() or not folder.is_dir():
        # From a linked work tree, as slots once were, git's record of its files is kept.
        kept = folder.with_name(".git.index")
        if linked := folder.is_file():
            with suppress(OSError):
                copy_regular(private_folder(path) / _INDEX, kept)
        folder.unlink(missing_ok=True)
        if linked:
            git.run("worktree", "prune")
        folder.mkdir()
        if kept.exists():
            kept.replace(folder / _INDEX)
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            remove_folder(entry)
        elif entry.name != _INDEX or not entry.is_file() or entry.is_symlink():
            entry.unlink()
    (folder / "objects" / "info").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "HEAD").write_text(f"{commit}\n", encoding="ascii")
    (folder / "objects" / "info" / "alternates").write_bytes(_escaped(os.fsencode(git.common / "objects")) + b"\n")
    refs = git.run("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags", "refs/remotes")
    (folder / "packed-refs").write_bytes(refs.stdout)
    known = git.run("config", "-z", "--get-regexp", _KNOWN, check=False).stdout
    (folder / "config").write_bytes(b"[core]\n\tbare = false\n" + b"".join(map(_setting, known.split(b"\0")[:-1])))
    if (shallow := git.common / "shallow").is_file():
        copy_regular(shallow, folder / "shallow")


def _setting(record: bytes) -> bytes:
    """A record of ``git config -z`` as a file has it; empty for an address with credentials in it."""
    key, given, value = record.partition(b"\n")
    section, _, name = key.rpartition(b".")
    table, _, part = section.partition(b".")
    if has_credentials(os.fsdecode(value)):
        return b""
    header = b"[%s %s]" % (table, _escaped(part)) if part else b"[%s]" % table
    return b"%s\n\t%s%s\n" % (header, name, b" = " + _escaped(value) if given else b"")


def _escaped(text: bytes) -> bytes:
    """In quotes, as git's files have it."""
    return b'"%s"' % text.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")


def adopt(git: SharedGit, path: Path) -> None:
    """Make a linked work tree of ``git``, as slots once were, one with a git folder of its own, at the same commit."""
    file = path / ".git"
    if not file.is_file() or (private := private_folder(path)).parent != git.common / "worktrees":
        return
    head = git.resolve(os.fsdecode((read_if_there(private / "HEAD") or b"").removeprefix(b"ref: ").strip()))
    if head is not None:
        _make_folder(git, path, head)


def head_of(path: Path) -> str | None:
    """A slot's commit; None if it isn't a slot. Git is not asked: it would obey the slot's configuration."""
    return _tips(path).get("HEAD")


def _tips(path: Path) -> dict[str, str]:
    """The commits of a slot's refs and ``HEAD``."""
    folder = path / ".git"
    lines = (read_if_there(folder / "packed-refs") or b"").splitlines()
    found = {name: commit for commit, _, name in (line.partition(b" ") for line in lines)}
    for file in (folder / "refs").rglob("*"):
        if file.is_file():
            found[os.fsencode(file.relative_to(folder).as_posix())] = read_document(file, limit=1000).strip()
    head = (read_if_there(folder / "HEAD") or b"").strip()
    found[b"HEAD"] = found.get(head.removeprefix(b"ref: "), b"") if head.startswith(b"ref: ") else head
    texts = {os.fsdecode(name): commit.decode(errors="replace") for name, commit in found.items()}
    return {name: commit for name, commit in texts.items() if SHA_PATTERN.fullmatch(commit)}


#: Where commits that a person made in a slot are kept.
_TAKEN = "refs/mlir-release/fix"


def take_over(git: SharedGit, path: Path) -> bool:
    """Copy a slot's commits into the repository, and keep them there.

    Returns False if what they are based on is gone: the slot is of an earlier clone at the same place.

    :raises GitError: if they are incomplete
    """
    asked = "".join(f"{tip}\n" for tip in sorted(set(_tips(path).values()))).encode()
    lender = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": os.fsdecode(_escaped(os.fsencode(path / ".git" / "objects")))}
    listed = git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", input=asked, env=lender).stdout
    tips = [line.split()[0] for line in listed.decode().splitlines() if not line.endswith(" missing")]
    if head_of(path) not in tips:
        return False
    wanted = "".join(f"{tip}\n" for tip in tips).encode() + git.run("for-each-ref", "--format=^%(objectname)").stdout
    listing = ("rev-list", "--stdin")
    done = git.run(*listing, input=wanted, env=lender, check=False)
    if done.returncode != 0:
        if not any(words in done.stderr for words in (b"bad object", b"Could not read", b"Failed to traverse")):
            raise git.failure(listing, done)
        return False
    if new := done.stdout.decode().split():
        pack = git.run("pack-objects", "-q", "--revs", "--stdout", input=wanted, env=lender)
        git.run("index-pack", "--stdin", input=pack.stdout)
        kept = "".join(f"update {_TAKEN}/{tip} {tip}\n" for tip in tips if tip in new)
        git.run("update-ref", "--stdin", input=kept.encode())
    return True


def has_objects(path: Path) -> bool:
    """Whether somebody has committed in a slot, or prepared a commit, since its files were placed."""
    objects = path / ".git" / "objects"
    return any(entry.name != "info" for entry in objects.iterdir()) if objects.is_dir() else False
