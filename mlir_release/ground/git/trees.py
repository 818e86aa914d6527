"""Trees and commits as objects: made, merged and replayed without an index, a work tree or a ref.

A process that is killed leaves unreachable objects and nothing else; a work tree can be made from them at any time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from mlir_release.ground.errors import MachineError
from mlir_release.ground.git.repository import Git, Signature, names_nothing
from mlir_release.ground.git.signing import encoded, signed_commit, signed_off
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mlir_release.ground.programs.process import Finished


@dataclass(frozen=True)
class GitEntry:
    """One entry of a tree: ``mode`` as git prints it (``160000`` is a submodule's commit)."""

    mode: str
    kind: str
    oid: str


def entry_at(git: Git, treeish: str, path: str) -> GitEntry | None:
    """The tree entry at ``path``, or None. ``path`` has no trailing slash."""
    return entries_at(git, treeish, path).get(path)


def _entries(git: Git, treeish: str, *paths: str) -> dict[bytes, bytes]:
    """The entries of a tree (or those at ``paths``) as ``mktree`` reads them, by name."""
    output = git.run("ls-tree", "-z", "--full-tree", "--end-of-options", treeish, *paths).stdout
    return {record.partition(b"\t")[2]: record for record in output.split(b"\0")[:-1]}


def entries_at(git: Git, treeish: str, *paths: str) -> dict[str, GitEntry]:
    """The entries at those of ``paths`` that are there, by path; without paths, those of the root folder."""
    found = _entries(git, treeish, *paths)
    return {os.fsdecode(name): GitEntry(*row.partition(b"\t")[0].decode().split()) for name, row in found.items()}


def files_in(git: Git, treeish: str, folder: str) -> list[str]:
    """The paths of the files right in a folder of the root, sorted; none without the folder."""
    found = _entries(git, treeish, f"{folder}/")
    return sorted(os.fsdecode(path) for path, row in found.items() if b" blob " in row.partition(b"\t")[0])


def tree_with(git: Git, treeish: str | None, changes: Mapping[str, GitEntry | None]) -> str:
    """The tree of ``treeish`` (None: an empty one) with the entries at some paths replaced; None removes one."""
    entries = _entries(git, treeish) if treeish is not None else {}
    folders: dict[str, dict[str, GitEntry | None]] = {}
    for path, entry in changes.items():
        name, slash, rest = path.partition("/")
        key = os.fsencode(name)
        if slash:
            folders.setdefault(name, {})[rest] = entry
        elif entry is None:
            entries.pop(key, None)
        else:
            entries[key] = f"{entry.mode} {entry.kind} {entry.oid}\t".encode() + key
    for name, inside in folders.items():
        key = os.fsencode(name)
        old = entries.get(key, b"")
        below = old.partition(b"\t")[0].split()[2].decode() if old.startswith(b"040000") else None
        entries[key] = f"040000 tree {tree_with(git, below, inside)}\t".encode() + key
    # --missing: a submodule's commit is in another repository, and a partial clone may lack blobs.
    data = b"".join(record + b"\0" for record in entries.values())
    return git.run("mktree", "-z", "--missing", input=data).stdout.decode().strip()


def make_blob(git: Git, content: bytes) -> GitEntry:
    """Store a file's content; returns the entry of a plain file."""
    oid = git.run("hash-object", "-w", "--stdin", input=content).stdout.decode().strip()
    return GitEntry("100644", "blob", oid)


def tree_of(git: Git, commit: str) -> str:
    """The tree id of a commit."""
    return git.text("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")


def commit_tree(git: Git, tree: str, parents: Sequence[str], message: str, signature: Signature) -> str:
    """Make a commit object; no ref moves. The signature says whether it is signed, and signed off."""
    if signature.sign_off:
        message = signed_off(message, signature)
    if signature.signing is not None:
        return signed_commit(git, tree, parents, message, signature)
    options = [option for parent in parents for option in ("-p", parent)]
    done = git.run("commit-tree", tree, *options, input=encoded(message), env=signature.environment())
    return done.stdout.decode().strip()


def commit_files(
    git: Git,
    base: str | None,
    files: Mapping[str, bytes],
    message: str,
    signature: Signature,
    *,
    parents: Sequence[str] | None = None,
    entries: Mapping[str, GitEntry] = MappingProxyType({}),
) -> str:
    """Make a commit object with the tree of ``base``, in which ``files`` are set; no ref moves. Returns its id.

    :param parents: None: ``base`` alone
    :param entries: files and folders of other commits, to be set before ``files``
    """
    blobs = {path: make_blob(git, content) for path, content in files.items()}
    tree = tree_with(git, base, {**entries, **blobs})
    if parents is None:
        parents = [base] if base is not None else []
    return commit_tree(git, tree, parents, message, signature)


def replay_commit(git: Git, commit: str, tree: str, parent: str, *, message: bytes | None = None) -> str:
    """The same commit with another tree and one parent: author, committer, encoding and message stay byte for byte.

    Being a function of its arguments alone, it gives the same id on every machine.
    """
    head, _, body = git.run("cat-file", "commit", commit).stdout.partition(b"\n\n")
    kept: list[bytes] = []
    skipping = False
    for line in head.split(b"\n"):
        if line.startswith(b" "):
            if not skipping:
                kept.append(line)
            continue
        # A signature would not match the new content.
        skipping = line.split(b" ", 1)[0] in (b"tree", b"parent", b"gpgsig", b"gpgsig-sha256", b"mergetag")
        if not skipping:
            kept.append(line)
    lines = [f"tree {tree}".encode(), f"parent {parent}".encode(), *kept]
    data = b"\n".join(lines) + b"\n\n" + (body if message is None else message)
    return git.run("hash-object", "-t", "commit", "-w", "--stdin", input=data).stdout.decode().strip()


def alike(git: Git, one: str, other: str) -> bool:
    """Whether two commits have the same tree, parents and message: who made them, and when, may differ.

    Unknown commits are not.
    """
    found = []
    for content in filter(None, git.objects([one, other])):
        head, _, message = content[1].partition(b"\n\n")
        said = [line for line in message.split(b"\n") if not line.startswith(b"Signed-off-by: ")]
        made_of = [line for line in head.split(b"\n") if line.startswith((b"tree ", b"parent "))]
        found.append((made_of, b"\n".join(said).rstrip()))
    return len(found) == 2 and found[0] == found[1]


@dataclass(frozen=True)
class Merge:
    """A three-way merge's tree, or the paths that conflict (then ``tree`` is empty)."""

    tree: str
    conflicts: tuple[str, ...] = ()


_ANONYMOUS = Signature(name="mlir-release", email="mlir-release@localhost", when=datetime.fromtimestamp(10**9, UTC))


def merge_trees(git: Git, base: str, ours: str, theirs: str) -> Merge:
    """Merge two trees whose common ancestor is the commit ``base``; nothing is checked out.

    Git 2.39 has no option for the merge base, so both sides become (unreachable) children of ``base`` first.
    """
    sides = [commit_tree(git, tree, [base], "side\n", _ANONYMOUS) for tree in (ours, theirs)]
    return merge_commits(git, *sides)


def merge_commits(git: Git, ours: str, theirs: str) -> Merge:
    """Merge two commits as ``git merge`` would, without a work tree."""
    return merge_each(git, [(ours, theirs)])[0]


def merge_each(git: Git, pairs: Iterable[tuple[str, str]]) -> list[Merge]:
    """Merge pairs of commits, each pair for itself, in one process."""
    asked = "".join(f"{ours} {theirs}\n" for ours, theirs in pairs).encode()
    done = git.run("merge-tree", "--stdin", "--name-only", "--no-messages", input=asked, check=False)
    if done.returncode not in (0, 1):
        raise MachineError(
            "program-failed",
            "git could not merge two commits in memory",
            where=str(git.directory),
            why=done.stderr.decode(errors="replace").strip(),
            remedy="git ≥ 2.39 is needed, and the objects of both commits",
        )
    fields = iter(done.stdout.split(b"\0"))
    merges = []
    for clean, tree in zip(fields, fields, strict=False):  # then the names, up to an empty one
        names = {os.fsdecode(name) for name in iter(fields.__next__, b"")}
        merges.append(Merge(tree.decode()) if clean == b"1" else Merge("", tuple(sorted(names))))
    return merges


def pick_each(git: Git, tree: str, line: Sequence[str]) -> list[Merge]:
    """Pick the commits of ``line`` after its first onto ``tree``, each for itself, in two processes.

    :param line: ids of a straight line of commits, each the parent of the next
    """
    side = "tree {}\nparent {}\nauthor {who}\ncommitter {who}\n\nside\n"
    who = f"{_ANONYMOUS.name} <{_ANONYMOUS.email}> {int(_ANONYMOUS.when.timestamp())} +0000"
    with scratch_folder("sides") as folder:
        paths = [folder / str(index) for index in range(len(line) - 1)]
        for path, parent in zip(paths, line, strict=False):
            path.write_bytes(side.format(tree, parent, who=who).encode())
        asked = "".join(f"{path}\n" for path in paths).encode()
        sides = git.run("hash-object", "-w", "-t", "commit", "--stdin-paths", input=asked).stdout.decode().split()
    return merge_each(git, zip(sides, line[1:], strict=True))


def merge_base(git: Git, one: str, other: str) -> str:
    """The best common ancestor of two commits; empty if they share no history, or one is not here."""
    return _common(git, one, other).stdout.decode().strip()


def is_ancestor(git: Git, ancestor: str, descendant: str) -> bool:
    """Whether ``ancestor`` is reachable from ``descendant`` (or is it). Unknown commits are not."""
    return _common(git, "--is-ancestor", ancestor, descendant).returncode == 0


def _common(git: Git, *args: str) -> Finished:
    asked = ("merge-base", *args)
    done = git.run(*asked, check=False)
    if done.returncode not in (0, 1) and not names_nothing(done):
        raise git.failure(asked, done)
    return done
