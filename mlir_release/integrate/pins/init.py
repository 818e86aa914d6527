"""``integrate init``: recognise where a repository pins its upstreams, and write ``integrate.toml``."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import structs

from mlir_release.ground.errors import UsageError
from mlir_release.ground.foreign import visible
from mlir_release.ground.git.carriers import submodule_settings
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.worktrees import current_branch
from mlir_release.ground.llvm.recipes import recipes
from mlir_release.integrate.config import CONFIG_FILE, read_config
from mlir_release.integrate.tables import TRACKED, AlsoTable, UpstreamTable, github_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from mlir_release.ground.llvm.recipes import AlsoForm, Followed, Form

#: Bytes of a file that is looked into.
_LIMIT = 1 << 20

#: In place of a smoke command: no verdict comes from it.
_NO_COMMAND = ("sh", "-c", f"echo 'write the smoke command into {CONFIG_FILE} ([smoke] command)' >&2; exit 127")


@dataclass(frozen=True)
class Place:
    """A place that says an upstream's commit."""

    followed: Followed
    path: str
    value: str
    form: Form | None = None  #: None: a submodule
    pattern: str = ""
    line: int = 0
    url: str = ""  #: of the submodule
    beside: tuple[AlsoTable, ...] = ()

    @property
    def shown(self) -> str:
        """For errors and notes."""
        return f"{self.path}{f':{self.line}' if self.line else ''} says {visible(self.value)}"


@dataclass(frozen=True)
class Recognised:
    """What ``integrate.toml`` says, and what a person should know."""

    tables: tuple[UpstreamTable, ...]
    notes: list[str] = field(default_factory=list)


def init(
    directory: Path, *, upstreams: Sequence[str] = (), pins: Sequence[str] = (), smoke: str = "", dry_run: bool = False
) -> tuple[Path, str, Recognised]:
    """Write ``integrate.toml`` into the repository around ``directory``; returns its path and its text.

    :param upstreams: names of those to follow; default: all that are pinned
    :param pins: paths of pins, where several places say different commits
    :param smoke: the smoke command; default: one that fails and says what to do
    :param dry_run: write nothing
    :raises UsageError: ``output-in-the-way``, ``input-missing``, ``option-invalid``
    """
    asked = Git(directory).run("rev-parse", "--show-toplevel", check=False) if directory.is_dir() else None
    if asked is None or asked.returncode != 0:
        raise _missing("this is not inside a git work tree", directory, "run it in a checkout, or give one with -C")
    git = Git(type(directory)(os.fsdecode(asked.stdout).rstrip("\n")))
    path = git.directory / CONFIG_FILE
    if not dry_run and os.path.lexists(path):
        raise UsageError(
            "output-in-the-way",
            f"there is already an {CONFIG_FILE}",
            where=str(path),
            why="nothing is overwritten",
            remedy="mlir-release integrate init --print shows what would be written",
        )
    found = recognise(git, upstreams=upstreams, pins=pins)
    text = configuration(found.tables, smoke=smoke, branch=_main_branch(git), notes=found.notes)
    read_config(text.encode(), where=CONFIG_FILE)
    if not dry_run:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return path, text, found


def _missing(what: str, where: Path, remedy: str, why: str = "") -> UsageError:
    return UsageError("input-missing", what, where=str(where), why=why, remedy=remedy)


def _main_branch(git: Git) -> str:
    done = git.run("symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD", check=False)
    return os.fsdecode(done.stdout).strip().removeprefix("origin/") or current_branch(git) or "main"


# -- recognising -------------------------------------------------------------------------------------------------------


def recognise(git: Git, *, upstreams: Sequence[str] = (), pins: Sequence[str] = ()) -> Recognised:
    """The upstreams that HEAD of a repository pins. See :func:`init`."""
    if git.resolve("HEAD") is None:
        raise _missing("this repository has no commit yet", git.directory, "commit the pin first")
    notes: list[str] = []
    files = {
        os.fsdecode(name): record.split()[2].decode()
        for record, _, name in (
            row.partition(b"\t") for row in git.run("ls-tree", "-r", "-z", "--full-tree", "HEAD").stdout.split(b"\0")
        )
        if record
    }
    places = [*_submodules(git, files), *_in_files(git, files, notes)]
    _note_what_is_gone(git, files, notes)
    names = list(dict.fromkeys(place.followed.name for place in places if not (place.form and place.form.copy)))
    unknown = [name for name in upstreams if name.lower() not in map(str.lower, names)]
    strange = [path for path in pins if path not in {place.path for place in places}]
    if unknown or strange:
        raise UsageError(
            "option-invalid",
            f"nothing was recognised as a pin {f'of {unknown[0]!r}' if unknown else f'in {strange[0]!r}'}",
            where=str(git.directory),
            why="; ".join(notes),
            remedy=f"recognised: {'; '.join(f'{place.followed.name}: {place.shown}' for place in places) or 'nothing'}",
        )
    chosen = [name for name in names if not upstreams or name.lower() in map(str.lower, upstreams)]
    if not chosen:
        raise _missing(
            "no place in this repository was recognised as the pin of an upstream",
            git.directory,
            f"write {CONFIG_FILE} by hand: docs/integrate.md begins with a template; pin-file and pattern describe any "
            "text file",
            "; ".join(notes),
        )
    tables = [_table([place for place in places if place.followed.name == name], pins, notes) for name in chosen]
    return Recognised(tuple(tables), notes)


def _submodules(git: Git, files: Mapping[str, str]) -> Iterator[Place]:
    paths, urls = submodule_settings(git, "path", "HEAD"), submodule_settings(git, "url", "HEAD")
    for followed in recipes().upstream:
        for name, url in urls.items():
            same = re.search(rf"(?:^|[/:]){re.escape(followed.repository)}(?:\.git)?/?$", url)
            if same and paths.get(name) in files:
                yield Place(followed, paths[name], files[paths[name]], url=url)


def _in_files(git: Git, files: Mapping[str, str], notes: list[str]) -> Iterator[Place]:
    """The places in text files, in the order of the forms."""
    for form in recipes().form:
        for followed in recipes().upstream:
            if form.upstream not in ("", followed.name):
                continue
            paths, pattern, also = form.for_(followed)
            named = [path for path in files if paths.fullmatch(path)]
            for path, found in zip(named, git.objects([files[path] for path in named]), strict=True):
                if found is None or len(found[1]) > _LIMIT:
                    continue
                text = found[1].decode("utf-8", "surrogateescape")
                fits = list(re.compile(pattern, re.MULTILINE).finditer(text))
                lines = [text.count("\n", 0, fit.start(1)) + 1 for fit in fits]
                if len(fits) > 1:
                    shown = ", ".join(map(str, lines[:5]))
                    notes.append(f"{path} may pin {followed.name} in lines {shown}: write a pattern that fits once")
                elif fits:
                    beside = tuple(_beside(path, text, also))
                    yield Place(followed, path, fits[0][1], form, pattern, lines[0], beside=beside)


def _beside(path: str, text: str, also: Iterable[AlsoForm]) -> Iterator[AlsoTable]:
    for each in also:
        if len(re.findall(each.pattern, text, re.MULTILINE)) == 1:
            yield AlsoTable(file=path, pattern=each.pattern, value=each.value)


def _note_what_is_gone(git: Git, files: Mapping[str, str], notes: list[str]) -> None:
    done = git.run("config", "--get", "remote.origin.url", check=False)
    name = github_name(os.fsdecode(done.stdout).strip()).lower()
    for project in recipes().project:
        if project.name.lower() == name:
            gone = [(upstream, path) for upstream, path in project.pins.items() if path not in files]
            notes += [f"{project.name} had its pin of {upstream} in {path}, which is gone" for upstream, path in gone]


def _table(places: Sequence[Place], pins: Sequence[str], notes: list[str]) -> UpstreamTable:
    """One upstream's table: the first place, or the one that was asked for, is the pin; the others are copies."""
    real = [place for place in places if not (place.form and place.form.copy)]
    pin = next((place for place in real if place.path in pins), real[0])
    also = list(pin.beside)
    for place in places:
        if place is pin or not place.form:
            same = place is pin
        else:
            same = bool(place.form.copy) or place.value.startswith(pin.value) or pin.value.startswith(place.value)
        if place is not pin and same and place.form:
            also.append(AlsoTable(file=place.path, pattern=place.pattern, value=place.form.copy or "commit"))
            also += place.beside
        elif not same and pin.path not in pins:
            raise UsageError(
                "option-invalid",
                f"two places may be the pin of {pin.followed.name}",
                where=f"{pin.path} and {place.path}",
                why=f"{pin.shown}, {place.shown}",
                remedy=f"say which with --pin {pin.path} or --pin {place.path}",
            )
        elif not same:
            notes.append(f"left out: {place.shown}")
    form = pin.form
    if form and form.note:
        notes.append(f"{pin.path}: {form.note}")
    if pin.url and github_name(pin.url).lower() not in ("", github_name(pin.followed.url).lower()):
        notes.append(f"{pin.path} is the fork {pin.url}: patches can be carried there, see export")
    return UpstreamTable(
        url=pin.followed.url,
        submodule="" if form else pin.path,
        pin_file=pin.path if form else "",
        pattern="" if form is None or form.plain else pin.pattern,
        releases=form.releases if form else "",
        distribution=form.distribution if form else "",
        also=tuple(also),
        paths=pin.followed.paths or TRACKED,
    )


# -- writing -----------------------------------------------------------------------------------------------------------


def configuration(
    tables: Sequence[UpstreamTable],
    *,
    smoke: str | Sequence[str] = "",
    branch: str = "main",
    notes: Sequence[str] = (),
    schema: str = "",
) -> str:
    """The text of ``integrate.toml``.

    :param smoke: the smoke command; empty: one that fails and says what to do
    :param branch: the downstream's main branch
    :param notes: for people, as comments
    :param schema: the address of its JSON Schema
    """
    lines = [f"#:schema {schema}"] if schema else []
    lines += ["# Which upstream commits this project can follow: docs/integrate.md of mlir-release."]
    lines += [f"# {visible(note)}" for note in notes]
    header = "[upstream]" if len(tables) == 1 else "[[upstream]]"
    for table in tables:
        lines += ["", header, *_keys(table, but=("also", "refresh", "export"))]
        for also in table.also:
            lines += ["", "[[upstream.also]]", *_keys(also)]
    if branch != "main":
        lines += ["", "[downstream]", f"branch = {_value(branch)}"]
    lines += ["", "[smoke]"]
    if not smoke:
        lines += [
            "# Build and test what upstream may break. Exit code 0: good, 125: upstream itself is broken, else bad."
        ]
    lines += [f"command = {_value(smoke or _NO_COMMAND)}", ""]
    return "\n".join(lines)


def _keys(table: UpstreamTable | AlsoTable, but: Sequence[str] = ()) -> Iterator[str]:
    """The keys that don't have their default value."""
    for each in structs.fields(table):
        value = getattr(table, each.name)
        if each.name not in but and (each.required or value != each.default):
            yield f"{each.encode_name} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, str):
        literal = "\\" in value and "'" not in value and value.isprintable()
        return f"'{value}'" if literal else json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"[{', '.join(map(_value, value))}]"
