"""Which carried patches upstream makes unnecessary, judged by the commits that they name.

The number of git processes is the same for any number of patches: a stack is judged as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.integrate.ledger import reverts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mlir_release.git.repository import Git
    from mlir_release.integrate.ledger import Patch

#: How often a revert may be reverted again before we stop asking.
_DEPTH = 8


def superseded(git: Git, patches: Sequence[Patch], base: str, target: str) -> dict[str, str]:
    """Why patches that are carried on ``base`` are not needed at ``target``, by id; the others are left out.

    ``target`` may be older than ``base``: a revert means nothing where what it reverts came later.
    """
    known = _resolved(git, (patch.of for patch in patches if patch.of))
    if not known:
        return {}
    missing = _missing(git, {base, *known.values()}, target)
    came_later = missing - _missing(git, missing, base) if base in missing else set()
    reverters = _reverters(git, base, target)
    found = {}
    for patch in patches:
        of = known.get(patch.of, "")
        reverted = _effective_revert(reverters, of) if of else ""
        if patch.kind == "revert":
            if reverted:
                found[patch.sha] = f"upstream reverts it too, in {reverted[:12]}"
            elif of in came_later:
                found[patch.sha] = f"what it reverts came later: {of[:12]}"
        elif of and of not in missing and not reverted:
            found[patch.sha] = f"upstream has it: {of[:12]}"
    return found


def _resolved(git: Git, revisions: Iterable[str]) -> dict[str, str]:
    """The commits that ``revisions`` name, for those that exist here."""
    names = list(dict.fromkeys(name for name in revisions if not name.startswith("-")))
    if not names:
        return {}
    asked = "".join(f"{name}^{{commit}}\n" for name in names).encode(errors="surrogateescape")
    answers = git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", input=asked).stdout.splitlines()
    pairs = zip(names, (answer.split() for answer in answers), strict=True)
    return {name: fields[0].decode() for name, fields in pairs if fields[1:] == [b"commit"]}


def _missing(git: Git, commits: set[str], target: str) -> set[str]:
    """Those of ``commits`` that ``target`` does not contain."""
    output = git.run("rev-list", "--stdin", input="\n".join([*commits, f"^{target}", ""]).encode()).stdout
    return commits & set(output.decode().split())


def _reverters(git: Git, base: str, target: str) -> dict[str, list[str]]:
    """The commits in ``base..target`` that revert one, by what they revert, newest first."""
    search = ("--fixed-strings", "--grep=This reverts commit ", f"{base}..{target}")
    fields = git.run("log", "-z", "--format=%H%x00%B", *search).stdout.split(b"\0")
    found: dict[str, list[str]] = {}
    for commit, message in zip(fields[0::2], fields[1::2], strict=False):
        for reverted in reverts(message.decode(errors="replace")):
            found.setdefault(reverted, []).append(commit.decode())
    return found


def _effective_revert(reverters: Mapping[str, Sequence[str]], commit: str, depth: int = 0) -> str:
    """The commit that reverts ``commit`` and is not itself reverted; or an empty string."""
    for found in reverters.get(commit, ()):
        if depth > _DEPTH or not _effective_revert(reverters, found, depth + 1):
            return found
    return ""
