"""Where a repository says which commit of another one it is built with: the one recogniser of pins.

``integrate init``, ``pin-of:`` and ``--align`` ask it. The repository may be others': what it says is data.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from mlir_release.ground.errors import UsageError
from mlir_release.ground.foreign import visible
from mlir_release.ground.git.carriers import carried_at, submodule_settings
from mlir_release.ground.git.remotes import have_objects
from mlir_release.ground.git.trees import entry_at
from mlir_release.ground.llvm.recipes import AlsoForm, FollowedProject, Form, recipes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from mlir_release.ground.git.repository import Git

#: Bytes of a file that is looked into.
LIMIT = 1 << 20

#: Files that are read in one go.
_AT_ONCE = 200

_COMMIT = re.compile("[0-9a-f]{7,40}")


@dataclass(frozen=True)
class Place:
    """A place that says an upstream's commit."""

    followed: FollowedProject
    path: str
    value: str  #: as it is written: a commit, whole or abbreviated, a tag, or a version with a commit
    form: Form | None = None  #: None: a submodule
    pattern: str = ""
    lines: tuple[int, ...] = ()  #: of the file; several: it says the same so often, and no pattern fits once
    url: str = ""  #: of the submodule, or of a fork that the file names
    branch: str = ""  #: of the submodule, as ``.gitmodules`` has it
    beside: tuple[AlsoForm, ...] = ()

    @property
    def commit(self) -> str:
        """What :attr:`value` says of the commit."""
        return self.value.rpartition("+")[2]

    @property
    def copies(self) -> bool:
        """Whether it is never the pin itself."""
        return bool(self.form and self.form.copy)

    @property
    def shown(self) -> str:
        """For errors and notes."""
        return f"{self.path}{f':{self.lines[0]}' if self.lines else ''} says {visible(self.value)}"

    def agrees(self, other: Place) -> bool:
        """Whether both say one commit, and can be written together: two submodules can't."""
        same = self.commit.startswith(other.commit) or other.commit.startswith(self.commit)
        return same and bool(self.form or other.form)


def recognise(git: Git, commit: str, upstreams: Collection[FollowedProject], notes: list[str]) -> list[Place]:
    """The places at which a commit of a repository says the commits of upstreams: the likeliest pin of each first.

    Files that only look like a pin are read where an upstream has no other place. What a partial clone lacks is
    fetched at once.

    :param notes: takes what a person should know of files that can't be read as a pin
    :raises GitError: if files can't be had
    """
    listed = git.run("ls-tree", "-r", "-z", "--full-tree", commit).stdout.split(b"\0")
    rows = (row.partition(b"\t") for row in listed if row)
    files = {os.fsdecode(name): record.split()[2].decode() for record, _, name in rows}
    settings = {key: submodule_settings(git, key, commit) for key in ("path", "url", "branch")}
    places = []
    for followed, (name, url) in product(upstreams, settings["url"].items()):
        same = re.search(rf"(?:^|[/:]){re.escape(followed.repository)}(?:\.git)?/?$", url)
        path = settings["path"].get(name, "")
        if same and path in files:
            places.append(Place(followed, path, files[path], url=url, branch=settings["branch"].get(name, "")))
        elif same and path:
            notes.append(f".gitmodules lists {visible(path)}, and the tree does not hold it")
    places += _in_files(git, commit, files, upstreams, notes)
    named = {place.followed.name for place in places if not place.copies}
    without = [each for each in upstreams if each.name not in named]
    return [*places, *_in_files(git, commit, files, without, notes, guessed=True)]


def chosen(places: Iterable[Place], wanted: Collection[str] = ()) -> tuple[Place, list[Place]]:
    """The pin among the places of one upstream, and those that say another commit.

    :param wanted: paths that come first
    """
    real = [place for place in places if not place.copies]
    pin = next((place for place in real if place.path in wanted), real[0])
    return pin, [place for place in real if place is not pin and not place.agrees(pin)]


def pinned_in(
    git: Git,
    commit: str,
    followed: FollowedProject,
    wanted: Collection[str] = (),
    *,
    title: str,
    where: str,
    remedy: str,
) -> str:
    """The path at which a commit of a repository pins an upstream.

    :param wanted: paths that come first
    :param title: the repository's name; ``where``: its address; ``remedy``: what to do if there is no single one
    :raises UsageError: ``pin-invalid``: there is none, or several say different commits
    """
    known = next((path for path in wanted if path and entry_at(git, commit, path) is not None), "")
    if known:
        return known
    notes: list[str] = []
    places = recognise(git, commit, [followed], notes)
    others: list[Place] = []
    if any(not place.copies for place in places):
        pin, others = chosen(places)
        if not others:
            return pin.path
    raise UsageError(
        "pin-invalid",
        f"{title} may pin {followed.name} in several places" if others else f"{title} shows no pin of {followed.name}",
        where=f"{where} at {commit}",
        why="; ".join([*(place.shown for place in (others and places)), *notes][:10])
        or f"it has no submodule {followed.repository}, no file like {followed.word.lower()}_version.txt, and nothing "
        "that looks like a pin",
        remedy=remedy,
    )


def said_at(git: Git, commit: str, path: str, followed: FollowedProject, *, where: str = "") -> str:
    """The upstream's commit, whole or abbreviated, that is said at ``path``, a submodule or a file of any known form.

    :param where: the repository's address, for errors
    :raises UsageError: ``pin-invalid``
    """
    text = (git.read(commit, path) or b"")[:LIMIT].decode("utf-8", "surrogateescape")
    for form in recipes().form:
        place = in_text(path, text, followed, form, [])
        if place is not None and not place.copies and _COMMIT.fullmatch(place.commit):
            return place.commit
    return carried_at(git, commit, path, where=where)


def in_text(path: str, text: str, followed: FollowedProject, form: Form, notes: list[str]) -> Place | None:
    """The place in a file, if it is of that form and says one commit."""
    if form.upstream not in ("", followed.name):
        return None
    paths, pattern, also = form.for_(followed)
    if not paths.fullmatch(path):
        return None
    fits = list(re.compile(pattern, re.MULTILINE).finditer(text))
    lines = tuple(text.count("\n", 0, fit.start(1)) + 1 for fit in fits)
    if len({fit[1] for fit in fits}) > 1:
        notes.append(f"{path} may pin {followed.name} in lines {', '.join(map(str, lines[:5]))}: {FITS_ONCE}")
    if form.plain and not fits:
        notes.append(f"{visible(path)} does not hold a full commit of {followed.name} alone")
    if len({fit[1] for fit in fits}) != 1:
        return None
    beside = tuple(each for each in also if len(re.findall(each.pattern, text, re.MULTILINE)) == 1)
    addresses = re.findall(rf"https://github\.com/[\w-]+/{re.escape(followed.repository)}\b", text)
    fork = next((each for each in addresses if f"{each}.git".lower() != followed.url.lower()), "")
    return Place(followed, path, fits[0][1], form, pattern, lines, fork, beside=beside)


#: What to do about a file in which no pattern fits once.
FITS_ONCE = "write a pattern that fits once"


def _in_files(
    git: Git,
    commit: str,
    files: Mapping[str, str],
    upstreams: Collection[FollowedProject],
    notes: list[str],
    *,
    guessed: bool = False,
) -> Iterator[Place]:
    """The places in text files, in the order of the forms."""
    forms = [form for form in recipes().form if form.guess == guessed]
    wanted = [(form, each) for form in forms for each in upstreams if form.upstream in ("", each.name)]
    named = [[path for path in files if form.for_(each)[0].fullmatch(path)] for form, each in wanted]
    ids = list(dict.fromkeys(files[path] for paths in named for path in paths))
    have_objects(git, commit, ids)
    texts: dict[str, str] = {}
    for few in range(0, len(ids), _AT_ONCE):
        for found in filter(None, git.objects(ids[few : few + _AT_ONCE])):
            if len(found[1]) <= LIMIT:
                texts[found[0]] = found[1].decode("utf-8", "surrogateescape")
    for (form, each), paths in zip(wanted, named, strict=True):
        for path in paths:
            place = in_text(path, texts.get(files[path], ""), each, form, notes)
            if place is not None:
                yield place
