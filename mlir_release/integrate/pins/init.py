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
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import entry_at
from mlir_release.ground.git.worktrees import current_branch
from mlir_release.ground.llvm.places import FITS_ONCE, Place, chosen, in_text, recognise
from mlir_release.ground.llvm.recipes import recipes
from mlir_release.integrate.config import CONFIG_FILE, read_config
from mlir_release.integrate.patches.files import changed_by, mentioned_alone
from mlir_release.integrate.tables import (
    TRACKED,
    AlsoTable,
    ExportTarget,
    PatchesTable,
    Table,
    UpstreamTable,
    github_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


#: Digits of a commit that are looked for in other files.
_ENOUGH = 9

#: In place of a smoke command: no verdict comes from it.
_NO_COMMAND = ("sh", "-c", f"echo 'write the smoke command into {CONFIG_FILE} ([smoke] command)' >&2; exit 127")


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
    found = tables_of(git, upstreams=upstreams, pins=pins)
    done = git.run("symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD", check=False)
    branch = os.fsdecode(done.stdout).strip().removeprefix("origin/") or current_branch(git) or "main"
    text = configuration(found.tables, smoke=smoke, branch=branch, notes=found.notes)
    read_config(text.encode(), where=CONFIG_FILE)
    if not dry_run:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return path, text, found


def _missing(what: str, where: Path, remedy: str, why: str = "") -> UsageError:
    return UsageError("input-missing", what, where=str(where), why=why, remedy=remedy)


# -- recognising -------------------------------------------------------------------------------------------------------


def tables_of(git: Git, *, upstreams: Sequence[str] = (), pins: Sequence[str] = ()) -> Recognised:
    """The upstreams that HEAD of a repository pins. See :func:`init`."""
    if git.resolve("HEAD") is None:
        raise _missing("this repository has no commit yet", git.directory, "commit the pin first")
    notes: list[str] = []
    places = recognise(git, "HEAD", recipes().upstream, notes)
    for place in [place for place in places if len(place.lines) > 1]:
        lines = ", ".join(map(str, place.lines[:5]))
        notes.append(f"{place.path} says {place.followed.name}'s commit in lines {lines}: {FITS_ONCE}")
        places.remove(place)
    origin = _origin(git).lower()
    for project in recipes().project:
        if project.name.lower() == origin:
            gone = [pin for pin in project.pins.items() if entry_at(git, "HEAD", pin[1]) is None]
            notes += [f"{project.name} had its pin of {upstream} in {path}, which is gone" for upstream, path in gone]
    names = list(dict.fromkeys(place.followed.name for place in places if not place.copies))
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
    followed = [name for name in names if not upstreams or name.lower() in map(str.lower, upstreams)]
    if not followed:
        raise _missing(
            "no place in this repository was recognised as the pin of an upstream",
            git.directory,
            f"write {CONFIG_FILE} by hand: docs/integrate.md begins with a template; pin-file and pattern describe any "
            "text file",
            "; ".join(notes),
        )
    tables = [_table(git, name, places, pins, notes) for name in followed]
    return Recognised(with_patches(git, tables, notes), notes)


def _table(git: Git, name: str, everything: Sequence[Place], pins: Sequence[str], notes: list[str]) -> UpstreamTable:
    """One upstream's table: the first place, or the one that was asked for, is the pin; the others are copies."""
    places = [place for place in everything if place.followed.name == name]
    pin, others = chosen(places, pins)
    if others and pin.path not in pins:
        raise UsageError(
            "option-invalid",
            f"two places may be the pin of {pin.followed.name}",
            where=f"{pin.path} and {others[0].path}",
            why=f"{pin.shown}, {others[0].shown}",
            remedy=f"say which with --pin {pin.path} or --pin {others[0].path}",
        )
    notes += [f"left out: {place.shown}" for place in others]
    copies = [place for place in places if place is not pin and place not in others and place.form]
    copies += _further(git, pin, everything, notes)
    also: list[AlsoTable] = []
    for place in (pin, *copies):
        value = (place.form and place.form.copy) or "commit"
        also += [AlsoTable(file=place.path, pattern=place.pattern, value=value)] if place is not pin else []
        also += [AlsoTable(file=place.path, pattern=each.pattern, value=each.value) for each in place.beside]
    form, forked = pin.form, github_name(pin.url).lower() not in ("", github_name(pin.followed.url).lower())
    if form and form.note:
        notes.append(f"{pin.path}: {form.note}")
    branch = pin.branch.strip(".")  # a single one: the name of the branch that is checked out
    if forked:
        notes.append(f"{pin.path} is the fork {visible(pin.url)}: patches can be carried there, see export")
    if forked and branch:
        notes.append(f"{pin.path} follows the fork's {visible(branch)}: is that on upstream's main? Else write branch")
    patched = f"{_origin(git).rpartition('/')[2]}-integrates".lstrip("-")  # in the fork, for what is carried here
    return UpstreamTable(
        url=pin.followed.url,
        branch="main" if forked or not branch else branch,
        submodule="" if form else pin.path,
        pin_file=pin.path if form else "",
        pattern="" if form is None or form.plain else pin.pattern,
        releases=form.releases if form else "",
        distribution=form.distribution if form else "",
        also=tuple(also),
        paths=pin.followed.paths or TRACKED,
        export=ExportTarget(remote=pin.url, branch=patched) if forked and not form else None,
    )


def _origin(git: Git) -> str:
    """``OWNER/NAME`` of this repository on GitHub, else empty."""
    done = git.run("config", "--get", "remote.origin.url", check=False)
    return github_name(os.fsdecode(done.stdout).strip())


def _further(git: Git, pin: Place, everything: Sequence[Place], notes: list[str]) -> Iterator[Place]:
    """The other places that say the pin's commit, if they look like a pin; notes of those that don't."""
    known = {(place.path, line) for place in everything for line in place.lines}
    forms = [form for form in recipes().form if form.guess]
    found = git.run("grep", "-n", "-z", "-I", "-F", pin.commit[:_ENOUGH], "HEAD", "--", check=False).stdout
    lines: dict[str, list[int]] = {}
    for row in found.split(b"\n"):
        said, number, *_ = (*row.split(b"\0", 2), b"")
        name = os.fsdecode(said.removeprefix(b"HEAD:"))
        if number.isdigit() and (name, int(number)) not in known:
            lines.setdefault(name, []).append(int(number))
    for path, at in lines.items():
        text = (git.read("HEAD", path) or b"").decode("utf-8", "surrogateescape")
        guessed = (in_text(path, text, pin.followed, form, []) for form in forms)
        place = next((each for each in guessed if each and list(each.lines) == at[:1] and each.agrees(pin)), None)
        if place is not None:
            yield place
        rest = at[1:] if place else at
        notes += [
            f"{visible(path)}:{line} says {pin.commit[:12]}, too, and is no copy in {CONFIG_FILE}" for line in rest
        ]


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
        lines += ["", header, *_keys(table, but=("also", "patches", "refresh", "export"))]
        if table.export is not None:
            lines += ["", "[upstream.export]", *_keys(table.export)]
        for name in ("also", "patches"):
            for each in getattr(table, name):
                lines += ["", f"[[upstream.{name}]]", *_keys(each)]
    if branch != "main":
        lines += ["", "[downstream]", f"branch = {_value(branch)}"]
    lines += ["", "[smoke]"]
    if not smoke:
        what = "Build and test what upstream may break."
        lines += [f"# {what} Exit code 0: good, 125: upstream itself is broken, else bad."]
    lines += [f"command = {_value(smoke or _NO_COMMAND)}", ""]
    return "\n".join(lines)


def _keys(table: Table, but: Sequence[str] = ()) -> Iterator[str]:
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


#: A path in a build file, as Bazel (``@repository//folder:name``) and CMake (``${folder}/name``) have it.
_PATH = re.compile(r"[\w./:@+-]+")


def with_patches(git: Git, tables: Sequence[UpstreamTable], notes: list[str]) -> tuple[UpstreamTable, ...]:
    """``tables`` with the patch files of HEAD that the files of their pins mention.

    :param notes: gets what a person should know
    """
    rows = git.run("ls-tree", "-r", "-z", "--full-tree", "HEAD").stdout.split(b"\0")[:-1]
    files = {os.fsdecode(name): row.split()[2].decode() for row, _, name in (row.partition(b"\t") for row in rows)}
    patches = [path for path in files if path.endswith((".patch", ".diff"))]
    found: dict[str, list[PatchesTable]] = {table.slug: [] for table in tables}
    others, what = {*patches}, "write [[upstream.patches]] if it is for one of them"
    for carrier in dict.fromkeys(path for table in tables for path in table.carriers if path in files and patches):
        sharing = [table for table in tables if carrier in table.carriers]
        plain = carrier not in {table.submodule for table in sharing}
        text = git.run("cat-file", "-p", files[carrier]).stdout if plain else b""
        words = (word.rstrip(".:") for word in _PATH.findall(text.decode(errors="replace")))
        named = [word.rpartition("//")[2].replace(":", "/") for word in words if word.endswith((".patch", ".diff"))]
        listed = dict.fromkeys(p for name in named for p in patches if f"/{p}".endswith(f"/{name.lstrip('/')}"))
        others -= {*listed}
        mine: dict[str, list[str]] = {}
        for path in listed:
            owners = [table for table in sharing if len(sharing) == 1 or _is_for(git, files[path], path, table)]
            if len(owners) == 1:
                mine.setdefault(owners[0].slug, []).append(path)
            else:
                notes.append(f"{visible(carrier)} mentions {visible(path)}: {what}")
        for slug, paths in mine.items():
            alone = any(mentioned_alone(text, path) for path in paths)
            found[slug].append(PatchesTable(files=tuple(paths), listed_in=(carrier,) if alone else ()))
    likely = [path for path in sorted(others) if any(_is_for(git, files[path], path, table) for table in tables)]
    for folder in dict.fromkeys(path.rpartition("/")[0] for path in likely):
        notes.append(
            f"{visible(folder)}/ has patch files that no pin's file mentions: [[upstream.patches]] names an upstream's"
        )
    return tuple(structs.replace(table, patches=tuple(found[table.slug])) for table in tables)


def _is_for(git: Git, blob: str, path: str, table: UpstreamTable) -> bool:
    """Whether the name of a patch file, or each path that it changes, tells that it is for this upstream."""
    tops = {folder.partition("/")[0] for folder in table.paths} | {table.slug}
    changed = changed_by(git.run("cat-file", "blob", blob).stdout)
    inside = bool(changed) and all(os.fsdecode(name).partition("/")[0] in tops for name in changed)
    return inside or bool(re.search(rf"(?<![a-z0-9]){re.escape(table.slug)}(?![a-z0-9])", path.lower()))
