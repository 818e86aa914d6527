"""The API of a wheel as plain data that can be kept and compared: names, parameters, types, without any text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field, json, structs

from mlir_release.extras.apidocs.read import read_wheel
from mlir_release.ground.documents.decode import BUILD_LIMIT, MalformedError, from_large_json
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.ground.storage.files import read_if_there, write_atomically
from mlir_release.release.index.drawing import digest_of_code

if TYPE_CHECKING:
    from pathlib import Path

    from griffe import Expr

    from mlir_release.extras.apidocs.describe import Api, ClassDoc, FunctionDoc, ValueDoc

Kind = Literal["module", "operation", "class", "function", "method", "attribute"]

#: What a name in a type is qualified by: generated modules and stubs import the same classes under many names.
_QUALIFIER = re.compile(r"\b(?:[A-Za-z_]\w*\.)+_*(?=[A-Za-z])|\b_+(?=[A-Za-z])")

#: Wheels whose API is kept in the cache, each in four megabytes.
_KEPT = 32

#: Characters of a value that are kept: enumerators are short, and lists of names need not be shown.
_VALUE = 100


class Argument(Struct, frozen=True, omit_defaults=True, array_like=True):
    """A parameter."""

    name: str
    kind: str  #: of griffe's: ``positional or keyword``, …
    default: str | None = None
    type: str = ""

    def text(self, *, types: bool = True) -> str:
        """As Python writes it."""
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(self.kind, "")
        typed = f": {self.type}" if self.type and types else ""
        default = f"{' = ' if typed else '='}{self.default}" if self.default is not None and not stars else ""
        return f"{stars}{self.name}{typed}{default}"


class CallSignature(Struct, frozen=True, omit_defaults=True, array_like=True):
    """A way to call something, without ``self`` or ``cls``."""

    arguments: tuple[Argument, ...]
    returns: str = ""

    def text(self, *, types: bool = True) -> str:
        """As Python writes it: ``(lhs, rhs, *, loc=None) -> Value``."""
        from mlir_release.extras.apidocs.describe import with_marks

        shown = with_marks((argument.kind, argument.text(types=types)) for argument in self.arguments)
        return f"({', '.join(shown)})" + (f" -> {self.returns}" if self.returns and types else "")


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something with a name."""

    kind: Kind
    module: str = ""  #: that Python imports it from
    path: str = ""  #: of an operation's class, whose key is the operation's name
    source: str = ""  #: the path of its definition, public or not
    signatures: tuple[CallSignature, ...] = ()
    label: str = ""  #: of a method: ``classmethod``, ``staticmethod``; of a property without a setter: ``read-only``
    type: str = ""  #: of an attribute
    value: str = ""  #: of an attribute, such as an enumerator
    bases: tuple[str, ...] = ()
    members: Mapping[str, Entry] = field(default_factory=dict)  #: the functions that build an operation, too


class Outline(Struct, frozen=True, kw_only=True):
    """The API of a wheel."""

    #: By the names of modules, operations (``arith.addi``), and of everything else as Python imports it.
    entries: Mapping[str, Entry]
    unseen: tuple[str, ...]  #: compiled modules without stubs


def read_outline(sha256: str, fetch: Callable[[], Path]) -> Outline:
    """The API of the wheel with this digest. It is kept in the user's cache: reading a wheel takes five seconds.

    :param fetch: gets the wheel, if it has not been read before
    :raises VerificationError: ``wheel-unsuitable``
    :raises MachineError: ``tool-missing``
    """
    try:
        return from_large_json(read_if_there(_place(sha256), limit=BUILD_LIMIT) or b"", Outline)
    except MalformedError:
        package = read_wheel(fetch())
        from mlir_release.extras.apidocs.describe import describe

        return keep_outline(sha256, describe(package))


def keep_outline(sha256: str, api: Api) -> Outline:
    """Keep the API that was read of the wheel with this digest."""
    outline = outline_of(api)
    with suppress(OSError):  # a reader without a home of its own reads it again
        place = _place(sha256)
        write_atomically(place, json.encode(outline, order="sorted"))
        for path in sorted(place.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            path.unlink()
    return outline


def _place(sha256: str) -> Path:
    reader = digest_of_code("mlir_release.extras.apidocs", text=version("griffelib"))
    return cache_directory() / "apis" / f"{sha256}-{reader[:16]}.json"


def outline_of(api: Api) -> Outline:
    """The plain data of a described API. Pure."""
    entries: dict[str, Entry] = {}
    for module in api.modules:
        own = {operation.anchor: _class(operation) for operation in module.operations}
        own |= {found.path: _class(found) for found in module.classes}
        own |= {f"{module.path}.{found.name}": _function(found, "function") for found in module.functions}
        own |= {f"{module.path}.{found.name}": _value(found) for found in module.values}
        entries[module.path] = Entry(kind="module", source=module.path)
        entries |= {name: structs.replace(entry, module=module.path) for name, entry in own.items()}
    unseen = {path for module in api.modules for path in module.unseen}
    return Outline(entries=entries, unseen=tuple(sorted(unseen)))


def _class(of: ClassDoc) -> Entry:
    members = {value.name: _value(value) for value in of.values if value.name != "OPERATION_NAME"}
    members |= {method.name: _function(method, "method") for method in of.methods}
    members |= {f"{builder.name}()": _function(builder, "function") for builder in of.builders}
    return Entry(
        kind="operation" if of.operation else "class",
        path=of.path if of.operation else "",
        source=of.source,
        signatures=_function(of.init, "method").signatures if of.init else (),
        # Private ones are details: their members are the class's own.
        bases=tuple(name for base in of.bases if not (name := str(base).rpartition(".")[2]).startswith("_")),
        members=members,
    )


def _function(of: FunctionDoc, kind: Kind) -> Entry:
    signatures = []
    for each in of.overloads:
        is_compiled, arguments = each.path.startswith("mlir._mlir_libs."), []
        for index, parameter in enumerate(each.parameters):
            if kind == "method" and index == 0 and parameter.name in ("self", "cls"):
                continue
            how = parameter.kind.value if parameter.kind else "positional or keyword"
            if is_compiled and re.fullmatch(r"arg\d*", parameter.name):  # so stubs write one that has no name
                how = "positional-only"
            default = str(parameter.default) if parameter.default is not None else None
            arguments.append(Argument(parameter.name, how, default, _type(parameter.annotation)))
        signatures.append(CallSignature(tuple(arguments), _type(each.returns)))
    return Entry(kind=kind, source=of.overloads[-1].path, signatures=tuple(signatures), label=of.label)


def _value(of: ValueDoc) -> Entry:
    is_property = "property" in of.of.labels
    value = str(of.of.value) if of.of.value is not None and not is_property else ""
    return Entry(
        kind="attribute",
        source=of.of.path,
        label="read-only" if is_property and "writable" not in of.of.labels else "",
        type=_type(of.annotation),
        value="" if value == "..." else value[:_VALUE],  # in stubs
    )


def _type(annotation: str | Expr | None) -> str:
    return _QUALIFIER.sub("", str(annotation)) if annotation is not None else ""
