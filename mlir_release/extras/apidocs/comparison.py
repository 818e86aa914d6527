"""The API difference of two releases or wheels, for people and programs: the hook ``mlir_release.comparisons``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from mlir_release import foreign
from mlir_release.console import console, format_bytes
from mlir_release.errors import UsageError, VerificationError
from mlir_release.extras.apidocs.outline import Outline, read_outline
from mlir_release.extras.apidocs.published import best_described
from mlir_release.extras.apidocs.read import need_griffe
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.digests import sha256_of
from mlir_release.release.latest import read_release
from mlir_release.release.signed import AS_DECLARED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mlir_release.extras.apidocs.compare import Change
    from mlir_release.forge.base import Forge
    from mlir_release.release.signed import SignedBy


class Side(Struct, frozen=True, kw_only=True):
    """What was compared."""

    name: str  #: a release's tag, or a file
    wheel: str  #: the file's name
    sha256: str


class Comparison(Struct, frozen=True, kw_only=True):
    """How the API of one wheel differs from that of another."""

    old: Side
    new: Side
    changes: tuple[Change, ...]
    uncompared: tuple[str, ...]  #: names of compiled modules that one of the wheels has no stubs for

    def text(self) -> str:
        """The counts, then each change; those that break come first."""
        lines = [f"the Python API, {self.old.name} → {self.new.name}: {self.summary()}", *self.counts()]
        for title, changes in self.parts():
            lines += ["", f"{title} ({len(changes)})"]
            lines += [line for change in changes for line in _lines(change)]
        return "\n".join(lines + self._notes())

    def markdown(self) -> str:
        """The same in Markdown."""
        lines = [
            f"## What changed for Python: {foreign.code(self.old.name)} → {foreign.code(self.new.name)}",
            "",
            f"{self.summary()[:1].upper()}{self.summary()[1:]}.",
            *[f"- {line}" for line in self.counts()],
        ]
        for title, changes in self.parts():
            lines += ["", f"### {title} ({len(changes)})"]
            for change in changes:
                lines.append(f"- {foreign.code(change.name)}{foreign.markdown(_about(change))}")
                for detail in change.details:
                    member = f"{foreign.code(detail.member)}: " if detail.member else ""
                    forms = " → ".join(foreign.code(form) for form in (detail.before, detail.after) if form)
                    lines.append(f"  - {member}{foreign.markdown(detail.text)}" + (f"; {forms}" if forms else ""))
        return "\n".join([*lines, *(foreign.markdown(note) for note in self._notes())]) + "\n"

    def to_json(self) -> dict[str, Any]:
        """All of it, and with each change whether it breaks."""
        changes = [{**to_builtins(change), "breaking": change.breaking} for change in self.changes]
        return {**to_builtins(self), "changes": changes, "breaking": self.breaking}

    @property
    def breaking(self) -> int:
        """How many changes break who uses the API."""
        return sum(change.breaking for change in self.changes)

    def summary(self) -> str:
        """``no change``; ``12 changes, 3 of them breaking``."""
        count = len(self.changes)
        if not count:
            return "no change"
        return f"{count} change{'s' * (count > 1)}, {self.breaking or 'none'} of them breaking"

    def counts(self) -> list[str]:
        """A line for each kind of thing."""
        found = Counter((change.kind, change.how) for change in self.changes)
        breaking = Counter(change.kind for change in self.changes if change.breaking and change.how == "changed")
        lines = []
        for kind, plural in _PLURALS.items():
            counts = [f"{found[kind, how]} {how}" for how in ("added", "removed", "changed") if found[kind, how]]
            if counts:
                counts += [f"{breaking[kind]} of these breaking"] if breaking[kind] else []
                lines.append(f"{plural}: {', '.join(counts)}")
        return lines

    def parts(self) -> Iterator[tuple[str, list[Change]]]:
        """The changes as they are shown: a title, and those of it by what they belong to."""
        order = list(_PLURALS)
        ordered = sorted(self.changes, key=lambda each: (order.index(each.kind), each.group, each.name))
        for title, is_part in _PARTS.items():
            if found := [change for change in ordered if is_part(change)]:
                yield title, found

    def _notes(self) -> list[str]:
        if not self.uncompared:
            return []
        names = ", ".join(self.uncompared)
        return ["", f"not compared, because one of the two wheels has no stubs of their modules: {names}"]


_PLURALS = {"operation": "operations", "module": "modules", "class": "classes", "function": "functions"}
_PLURALS |= {"attribute": "attributes"}
_PARTS = {
    "Breaking": lambda change: change.breaking,
    "Changed, and what worked before works": lambda change: change.how == "changed" and not change.breaking,
    "Added": lambda change: change.how == "added",
}


def _about(change: Change) -> str:
    """What follows a change's name."""
    how = f": {change.how}" if change.how == "removed" else ""
    path = f" ({change.path})" if change.path else ""
    also = f", also as {', '.join(change.also)}" if change.also else ""
    return f"{path}{also}{how}"


def _lines(change: Change) -> Iterator[str]:
    """A change on lines of text."""
    yield f"  {change.name}{_about(change)}"
    for detail in change.details:
        yield f"      {f'{detail.member}: ' if detail.member else ''}{detail.text}"
        if detail.before or detail.after:
            yield from (f"        {sign} {form}" for sign, form in (("-", detail.before), ("+", detail.after)) if form)


# -- making one -----------------------------------------------------------------------------------------------------


def compare(
    forge: Forge | None,
    old_tag: str,
    new_tag: str,
    *,
    distribution: str = "mlir",
    signed_by: SignedBy = AS_DECLARED,
) -> Comparison:
    """Compare the API of two published releases. Their wheels are verified as ``install`` does it, and never run.

    :param forge: that has them; None: both are files
    :param old_tag: a tag, ``latest``, or the path of a wheel
    :param distribution: whose wheels are read; of one of them, since those for other machines have the same API
    :raises UsageError: ``option-invalid``, ``input-missing``, ``release-not-published``
    :raises VerificationError: ``no-fitting-wheel``, ``wheel-unsuitable``, and those of ``install``
    :raises MachineError: ``tool-missing``, ``network-failed``
    """
    need_griffe()
    old, new = (_read(forge, name, distribution, signed_by) for name in (old_tag, new_tag))
    if old[0] == new[0]:
        raise UsageError(
            "option-invalid",
            f"both names stand for the same: {old_tag}, {new_tag}",
            where=old[0].name,
            remedy="name two releases, or two wheels; `mlir-release release list` has the tags",
        )
    return make_comparison(*old, *new)


def make_comparison(old: Side, before: Outline, new: Side, after: Outline) -> Comparison:
    """Compare two APIs that were read."""
    from mlir_release.extras.apidocs.compare import find_changes

    changes, uncompared = find_changes(before, after)
    return Comparison(old=old, new=new, changes=tuple(changes), uncompared=tuple(uncompared))


def _read(forge: Forge | None, name: str, distribution: str, signed_by: SignedBy) -> tuple[Side, Outline]:
    if Path(name).is_file():
        path = Path(name)
        side = Side(name=name, wheel=path.name, sha256=sha256_of(path))
        return side, read_outline(side.sha256, lambda: path)
    if forge is None or name.endswith(".whl"):
        raise UsageError(
            "input-missing", f"there is no file {name}", remedy="correct its path, or name a release's tag"
        )
    with console.step(f"check who made {name}"):
        trusted = read_release(forge, name, signed_by)
    manifest = trusted.manifest
    wheel = best_described(wheel for wheel in manifest.wheels if wheel.distribution == distribution)
    if wheel is None:
        names = {wheel.distribution for wheel in manifest.wheels if wheel.pythons}
        raise VerificationError(
            "no-fitting-wheel",
            f"{manifest.tag} has no wheel of {distribution} with Python modules",
            where=forge.page_url(manifest.tag),
            why=f"it has {', '.join(sorted(names)) or 'no such wheels at all'}",
            remedy="name another one with --distribution",
        )
    trusted.check(wheel.filename, wheel.sha256)
    with scratch_folder("apidiff") as scratch:

        def fetch() -> Path:
            with console.step(f"fetch {wheel.filename}, {format_bytes(wheel.size)}"):
                return trusted.fetch_file(wheel, scratch)

        return Side(name=manifest.tag, wheel=wheel.filename, sha256=wheel.sha256), read_outline(wheel.sha256, fetch)
