"""What differs between two APIs: added, removed or changed, and whether that breaks who uses it. Pure.

Griffe says which changes of a signature break a call. It compares one signature with one, and looks for public names in
the modules that define them. So operations, overloads, renamed parameters and additions are matched here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from griffe import BreakageKind, Function, Module, Parameter, ParameterKind, Parameters, find_breaking_changes
from msgspec import structs

from mlir_release.extras.apidocs.changes import ApiChange, Detail, How

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.extras.apidocs.outline import CallSignature, Entry, Outline

#: What precedes the names of parameters. A type that is gone from the result breaks no call.
_SAID = {
    BreakageKind.PARAMETER_REMOVED: "gone",
    BreakageKind.PARAMETER_ADDED_REQUIRED: "new and required",
    BreakageKind.PARAMETER_CHANGED_REQUIRED: "required now",
    BreakageKind.PARAMETER_CHANGED_KIND: "passed in another way",
    BreakageKind.PARAMETER_CHANGED_DEFAULT: "another default",
    BreakageKind.PARAMETER_MOVED: "moved",
}


def find_changes(old: Outline, new: Outline) -> tuple[list[ApiChange], list[str]]:
    """The changes; and the names that can't be compared, because one wheel has no stubs of their modules."""
    found: dict[object, ApiChange] = {}
    uncompared = []
    for name in sorted(old.entries.keys() | new.entries.keys()):
        before, after = old.entries.get(name), new.entries.get(name)
        entry = after or before
        assert entry is not None
        how: How = "added" if before is None else "removed" if after is None else "changed"
        if before is not None and after is not None:
            details = tuple(_differences(before, after))
            if not details:
                continue
        else:
            other = old if before is None else new
            if entry.source.rpartition(".")[0] in other.unseen:
                uncompared.append(name)
                continue
            if entry.kind != "operation" and entry.module and entry.module not in other.entries:
                continue  # what the module's own row says
            details = ()
        group = name.partition(".")[0] if entry.kind == "operation" else entry.module or name
        change = ApiChange(how=how, kind=entry.kind, name=name, group=group, path=entry.path, details=details)
        # Several modules may show one thing. It is counted once.
        key = (how, entry.kind, details, entry.source)
        first = found.setdefault(key, change)
        if first is not change:
            found[key] = structs.replace(first, also=(*first.also, name))
    return list(found.values()), uncompared


def _differences(before: Entry, after: Entry) -> Iterator[Detail]:
    became = f"{_kind(before)} became {_kind(after)}"
    if before.kind != after.kind:
        yield Detail(level="breaking", text=became)
        return
    if before.path != after.path:
        yield Detail(level="breaking", text="another class", before=before.path, after=after.path)
    if before.label != after.label:  # an instance has class methods, too; and what could be set can be read
        is_wider = (before.label, after.label) in (("", "staticmethod"), ("", "classmethod"), ("read-only", ""))
        yield Detail(level="compatible" if is_wider else "breaking", text=became)
    if gone := [base for base in before.bases if base not in after.bases]:
        bases = {"before": ", ".join(before.bases), "after": ", ".join(after.bases)}
        yield Detail(level="breaking", text=f"no longer a kind of: {', '.join(gone)}", **bases)
    if before.type != after.type:
        yield Detail(level="types", text="another type", before=before.type, after=after.type)
    if before.value != after.value:
        yield Detail(level="compatible", text="another value", before=before.value, after=after.value)
    yield from _calls(before.signatures, after.signatures, inherits=bool(after.bases))
    yield from _members(before, after)


def _kind(entry: Entry) -> str:
    word = " ".join(filter(None, (entry.label, entry.kind)))
    return f"{'an' if word[0] in 'aeio' else 'a'} {word}"


def _members(before: Entry, after: Entry) -> Iterator[Detail]:
    """What differs in the members. A change that an operation's class and its function share is named once."""
    said = {detail.text for detail in _calls(before.signatures, after.signatures)}
    for name in sorted(before.members.keys() | after.members.keys()):
        old, new = before.members.get(name), after.members.get(name)
        if new is None:
            is_iterable = name == "__iter__" and "__getitem__" in after.members
            yield Detail(level="compatible" if is_iterable else "breaking", text="gone", member=name)
        elif old is None:
            yield Detail(level="compatible", text="new", member=name)
        else:
            for detail in _differences(old, new):
                if not (name.endswith("()") and detail.text in said):
                    yield structs.replace(detail, member=name)


# -- signatures -----------------------------------------------------------------------------------------------------


def _calls(
    old: tuple[CallSignature, ...], new: tuple[CallSignature, ...], *, inherits: bool = False
) -> Iterator[Detail]:
    """What differs in how something is called. An old way that one of the new ones accepts is not broken.

    :param inherits: from a class whose ways to call it may count
    """
    if old == new or not (old or new):
        return
    if not old or not new:
        text, is_fine = ("a constructor of its own", True) if new else ("no constructor of its own", inherits)
        yield Detail(level="compatible" if is_fine else "breaking", text=text, before=_text(old), after=_text(new))
        return
    broken = []
    for way in old:
        problems, best = min(((_broken(way, each), each) for each in new), key=lambda found: len(found[0]))
        if problems:
            forms = [each.text(types=False) for each in (way, best)]
            broken.append(Detail(level="breaking", text="; ".join(problems), before=forms[0], after=forms[1]))
    yield from broken or [_extended(old, new)]


def _text(signatures: tuple[CallSignature, ...]) -> str:
    return " or ".join(signature.text() for signature in signatures)


def _broken(old: CallSignature, new: CallSignature) -> list[str]:
    """Why calls of ``old`` fail, or mean something else, with ``new``."""
    old = _aligned(old, new)
    names: dict[BreakageKind, list[str]] = {}
    for breakage in find_breaking_changes(_as_module(old), _as_module(new)):
        if breakage.kind in _SAID:
            parameter = breakage.old_value or breakage.new_value
            defaults = (getattr(breakage.old_value, "default", None), getattr(breakage.new_value, "default", None))
            if breakage.kind is not BreakageKind.PARAMETER_CHANGED_DEFAULT or "..." not in defaults:  # as stubs have it
                names.setdefault(breakage.kind, []).append(parameter.name)
    gone, required = (names.get(kind, []) for kind in list(_SAID)[:2])
    renamed, taken = [], {argument.name for argument in old.arguments}
    for index, argument in enumerate(old.arguments):
        other = new.arguments[index] if index < len(new.arguments) else None
        is_alike = other is not None and other.kind == argument.kind != "keyword-only"
        if other is not None and is_alike and argument.name in gone and other.name not in taken:
            renamed.append(f"{argument.name} → {other.name}")
            gone.remove(argument.name)
            if other.name in required:
                required.remove(other.name)
    said = {"renamed": renamed, **{_SAID[kind]: names.get(kind) for kind in _SAID}}
    return [f"{word}: {', '.join(found)}" for word, found in said.items() if found]


def _aligned(old: CallSignature, new: CallSignature) -> CallSignature:
    """``old`` with the names of ``new`` for what is passed by position only, where no caller uses the names."""
    taken = {argument.name for argument in old.arguments}
    arguments = list(old.arguments)
    for index, (argument, other) in enumerate(zip(old.arguments, new.arguments, strict=False)):
        is_passed_alike = argument.kind == "positional-only" and other.kind.startswith("positional")
        if is_passed_alike and other.name not in taken:
            arguments[index] = structs.replace(argument, name=other.name)
    return structs.replace(old, arguments=tuple(arguments))


def _as_module(signature: CallSignature) -> Module:
    """As griffe compares it."""
    parameters = (
        Parameter(each.name, kind=ParameterKind(each.kind), default=each.default) for each in signature.arguments
    )
    module = Module("module")
    module.set_member("call", Function("call", parameters=Parameters(*parameters)))
    return module


def _extended(old: tuple[CallSignature, ...], new: tuple[CallSignature, ...]) -> Detail:
    """What may be called in addition; if that is nothing, only types differ."""
    alike = [_aligned(way, each) for way in old for each in new]
    plain = [[each.text(types=False) for each in ways] for ways in (alike, old, new)]
    if {*plain[0]} >= {*plain[2]}:  # overloads by type, at most
        forms = {"before": _text(old), "after": _text(new)}
        if len(old) == len(new):
            return Detail(level="types", text="other types", **forms)
        return Detail(level="compatible", text="takes other types, too", **forms)
    known = {argument.name for each in alike for argument in each.arguments}
    added = dict.fromkeys(argument.name for each in new for argument in each.arguments if argument.name not in known)
    text = f"new: {', '.join(added)}" if added else "can be called in more ways"
    return Detail(level="compatible", text=text, before=" or ".join(plain[1]), after=" or ".join(plain[2]))
