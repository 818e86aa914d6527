"""How the API of one wheel differs from that of another: what is kept of it, and its text and Markdown."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct, structs, to_builtins

from mlir_release.extras.apidocs.outline import Kind
from mlir_release.ground import foreign

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

How = Literal["removed", "changed", "added"]

#: How far a difference goes: what callers did fails, still works, or is only declared with other types.
Level = Literal["breaking", "compatible", "types"]


class Detail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One difference of something that both wheels have."""

    level: Level
    text: str  #: for example ``gone: lhs; moved: rhs``
    member: str = ""  #: of a class; empty: the thing itself
    before: str = ""
    after: str = ""


class ApiChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that only one of two wheels has, or that differs."""

    how: How
    kind: Kind
    name: str  #: ``arith.addi``, ``mlir.ir.Operation``
    group: str  #: a dialect or a module
    path: str = ""  #: of an operation's class, as Python imports it
    details: tuple[Detail, ...] = ()
    also: tuple[str, ...] = ()  #: names of the same thing in other modules

    @property
    def level(self) -> Level:
        """The most serious one of what differs."""
        levels = {detail.level for detail in self.details} | {"breaking" if self.how == "removed" else "types"}
        return "breaking" if "breaking" in levels else "types" if levels == {"types"} and self.details else "compatible"


class Side(Struct, frozen=True, kw_only=True):
    """What was compared."""

    name: str  #: a release's tag, or a file
    wheel: str  #: the file's name
    sha256: str


class Comparison(Struct, frozen=True, kw_only=True):
    """How the API of one wheel differs from that of another."""

    old: Side
    new: Side
    changes: tuple[ApiChange, ...]
    uncompared: tuple[str, ...]  #: names of compiled modules that one of the wheels has no stubs for

    def text(self) -> str:
        """The counts, then each change; those that break come first."""
        lines = [f"the Python API, {self.old.name} → {self.new.name}: {self.summary()}", *self.counts()]
        for title, rows in self.parts():
            lines += ["", title]
            for row in rows:
                lines.append(f"  {', '.join(row.names)}{row.about}")
                for members, detail in row.details:
                    lines.append(f"      {f'{members}: ' if members else ''}{detail.text}")
                    lines += [f"        - {detail.before}"] * bool(detail.before)
                    lines += [f"        + {detail.after}"] * bool(detail.after)
        return "\n".join(lines + self._notes())

    def markdown(self) -> str:
        """The same in Markdown."""
        code, plain = foreign.code, foreign.markdown
        summary = self.summary()
        lines = [f"## What changed for Python: {code(self.old.name)} → {code(self.new.name)}", ""]
        lines += [f"{summary[:1].upper()}{summary[1:]}.", *[f"- {line}" for line in self.counts()]]
        for title, rows in self.parts():
            lines += ["", f"### {title}"]
            for row in rows:
                lines.append(f"- {', '.join(map(code, row.names))}{plain(row.about)}")
                for members, detail in row.details:
                    forms = " → ".join(code(form) for form in (detail.before, detail.after) if form)
                    said = f"{code(members)}: {plain(detail.text)}" if members else plain(detail.text)
                    lines.append(f"  - {said}" + (f"; {forms}" if forms else ""))
        return "\n".join([*lines, *map(plain, self._notes())]) + "\n"

    def to_json(self) -> dict[str, Any]:
        """All of it, and how far each change goes."""
        changes = [{**to_builtins(change), "level": change.level} for change in self.changes]
        return {**to_builtins(self), "changes": changes, "breaking": self.breaking}

    @property
    def breaking(self) -> int:
        """How many changes break who uses the API."""
        return sum(change.level == "breaking" for change in self.changes)

    def summary(self) -> str:
        """``no change``; ``12 changes, 3 of them breaking``."""
        count = len(self.changes)
        return (
            f"{count} change{'s' * (count > 1)}, {self.breaking or 'none'} of them breaking" if count else "no change"
        )

    def counts(self) -> list[str]:
        """A line for each kind of thing: ``operations: 2 added, 5 changed (3 breaking, 1 in types only)``."""
        found = Counter((change.kind, change.how) for change in self.changes)
        levels = Counter((change.kind, change.level) for change in self.changes if change.how == "changed")
        lines = []
        for kind, plural in _PLURALS.items():
            counts = [f"{found[kind, how]} {how}" for how in ("added", "removed", "changed") if found[kind, how]]
            said = {"breaking": levels[kind, "breaking"], "in types only": levels[kind, "types"]}
            which = ", ".join(f"{count} {word}" for word, count in said.items() if count)
            if counts:
                lines.append(f"{plural}: {', '.join(counts)}" + (f" ({which})" if which else ""))
        return lines

    def parts(self) -> Iterator[tuple[str, Sequence[ChangeRow]]]:
        """The changes as they are shown, by title. What is alike is one row, as of operations that differ in a type."""
        order = list(_PLURALS)
        ordered = sorted(self.changes, key=lambda each: (order.index(each.kind), each.group, each.name))
        for title, of in _PARTS.items():
            found = [each for each in ordered if ("added" if each.how == "added" else each.level) == of]
            rows: dict[object, list[ApiChange]] = {}
            for change in found if of != "types" or len(found) <= _LISTED else ():
                rows.setdefault((change.kind, change.group, change.how, _shown(change)), []).append(change)
            shown = []
            for first, *more in rows.values():
                also = [name for change in (first, *more) for name in change.also]
                about = f" ({first.path})" if first.path and not more else ""
                about += f", also as {', '.join(also)}" if also else ""
                about += ": removed" if first.how == "removed" else ""
                shown.append(ChangeRow(tuple(change.name for change in (first, *more)), about, _shown(first)))
            if found:
                yield f"{title} ({len(found)})", shown

    def _notes(self) -> list[str]:
        if not self.uncompared:
            return []
        names = ", ".join(self.uncompared)
        return ["", f"not compared, because one of the two wheels has no stubs of their modules: {names}"]


class ChangeRow(NamedTuple):
    """Changes that are shown together, because the same is to be said of them."""

    names: tuple[str, ...]
    about: str  #: what follows the names
    details: tuple[tuple[str, Detail], ...]  #: names of members, and what is to be said of them


#: Changes of types that are shown one by one: a release that declares types for the first time has thousands.
_LISTED = 40

#: In this order: what everybody uses comes before operations, of which most people use few.
_PLURALS: Mapping[Kind, str] = {
    "module": "modules",
    "class": "classes",
    "function": "functions",
    "attribute": "attributes",
    "operation": "operations",
}
_PARTS = {
    "Breaking": "breaking",
    "Changed; what worked before still works": "compatible",
    "Added": "added",
    "Only declared with other types": "types",
}


def _shown(change: ApiChange) -> tuple[tuple[str, Detail], ...]:
    """What is shown of a change. Members of which the same is to be said are named together.

    Types are shown only where nothing else differs.
    """
    alike: dict[Detail, list[str]] = {}
    for detail in change.details:
        if detail.level != "types" or change.level == "types":
            key = structs.replace(detail, member="a member" if detail.member else "")
            alike.setdefault(key, []).append(detail.member)
    return tuple((", ".join(filter(None, members)), detail) for detail, members in alike.items())
