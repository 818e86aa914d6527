"""The API to document: the public modules with their operations, classes and functions, under their public names.

A module's own members are those that it defines, and those that it takes from a private module (``_arith_ops_gen``, the
extension's ``_mlir_libs``), which nobody imports by name. A class's own members are, likewise, its own and those of its
private bases: ``class ConstantOp(ConstantOp)`` of ``mlir.dialects.arith`` refines the generated class of the same name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from griffe import Alias, AliasResolutionError, Attribute, Class, CyclicAliasError, Function, Module

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from griffe import Docstring, Expr, Object

T = TypeVar("T")

#: Private, and of use to the bindings' own modules only.
_HELPERS = "_ods_common"
#: In the names of modules that mlir-tblgen writes.
_GENERATED = "_ops_gen"
#: The parts that a generated property reads. mlir-tblgen writes it so (OpPythonBindingGen.cpp).
_READS = re.compile(r"self\.(?:operation\.)?(operands|attributes|results|regions|successors)\b")
#: The class that a generated function builds.
_BUILDS = re.compile(r"return (?:_get_op_result_or_op_results\()?(\w+)\(")

#: The parts of an operation, in the order in which ODS declares them.
PARTS = ("operands", "attributes", "results", "regions", "successors")


@dataclass(frozen=True, kw_only=True)
class FunctionDoc:
    """A function or method: one signature, or several overloads, each with what it says."""

    name: str
    overloads: tuple[Function, ...]
    label: str = ""  #: how it is called where that is not on an instance: ``classmethod``, ``staticmethod``


@dataclass(frozen=True, kw_only=True)
class ValueDoc:
    """A property, an attribute or a module's variable."""

    name: str
    of: Attribute
    annotation: str | Expr | None
    part: str = ""  #: that a property of an operation reads: one of :data:`PARTS`, or empty


@dataclass(frozen=True, kw_only=True)
class ClassDoc:
    """A class with its own members."""

    name: str
    path: str
    bases: tuple[str | Expr, ...]
    docstring: Docstring | None
    init: FunctionDoc | None
    values: tuple[ValueDoc, ...]
    methods: tuple[FunctionDoc, ...]
    source: str = ""  #: the path of its definition, public or not
    operation: str = ""  #: of ODS, for example ``arith.addi``; empty: no operation
    anchor: str = ""  #: of an operation: that name, except where another class of the module has it
    builders: tuple[FunctionDoc, ...] = ()  #: the module's functions that build this operation
    adaptor: str = ""  #: the class by which a rewrite sees its operands: their names again, so not described itself

    @property
    def dialect(self) -> str:
        """The operation's dialect."""
        return self.operation.partition(".")[0]

    def part(self, name: str) -> tuple[ValueDoc, ...]:
        """Its properties that read ``name`` of :data:`PARTS`."""
        return tuple(value for value in self.values if value.part == name)

    @property
    def others(self) -> tuple[ValueDoc, ...]:
        """Its values that are neither parts of an operation nor details of its generated class."""
        return tuple(value for value in self.values if not value.part and value.name != "OPERATION_NAME")


@dataclass(frozen=True, kw_only=True)
class ModuleDoc:
    """A public module."""

    path: str
    docstring: Docstring | None
    operations: tuple[ClassDoc, ...]
    classes: tuple[ClassDoc, ...]
    functions: tuple[FunctionDoc, ...]
    values: tuple[ValueDoc, ...]
    unseen: tuple[str, ...] = ()  #: compiled modules that it takes names from, and that have no stubs

    @property
    def dialects(self) -> tuple[str, ...]:
        """The dialects of its operations."""
        return tuple(sorted({operation.dialect for operation in self.operations}))


@dataclass(frozen=True, kw_only=True)
class Api:
    """The API of a wheel."""

    modules: tuple[ModuleDoc, ...]
    #: The place of each class and function: its path, public and private -> (module, name).
    homes: Mapping[str, tuple[str, str]]
    #: Imported names: the path in the module that imports it -> the path of its target.
    aliases: Mapping[str, str]

    @property
    def dialects(self) -> Mapping[str, list[ModuleDoc]]:
        """The modules of each dialect, by its name."""
        found: dict[str, list[ModuleDoc]] = {}
        for module in self.modules:
            for dialect in module.dialects:
                found.setdefault(dialect, []).append(module)
        return dict(sorted(found.items()))


def describe(package: Module) -> Api:
    """The public modules of a package, and where their members are shown. Pure."""
    homes: dict[str, tuple[str, str]] = {}
    modules = []
    for module in sorted(_public_modules(package), key=lambda module: module.path):
        found = _describe_module(module, homes)
        if found.operations or found.classes or found.functions or found.values or found.unseen:
            modules.append(found)
    return Api(modules=tuple(modules), homes=homes, aliases=dict(_aliases(package)))


def _aliases(module: Module) -> Iterator[tuple[str, str]]:
    for member in module.members.values():
        if isinstance(member, Alias):
            target = _target(member)
            yield member.path, target.path if target is not None else member.target_path
        elif isinstance(member, Module):
            yield from _aliases(member)
        elif isinstance(member, Attribute) and _is_type_variable(member):
            yield member.path, "typing.TypeVar"


def with_marks(parameters: Iterable[tuple[str, T]]) -> Iterator[T | str]:
    """Parameters as Python writes them: with ``/`` and ``*`` where those that are passed in one way end or begin.

    :param parameters: each with griffe's name of its kind
    """
    before = ""
    for kind, parameter in parameters:
        if before == "positional-only" != kind:
            yield "/"
        if kind == "keyword-only" and before not in ("keyword-only", "variadic positional"):
            yield "*"
        yield parameter
        before = kind
    if before == "positional-only":
        yield "/"


def is_private(path: str) -> bool:
    """Whether a part of a dotted path begins with an underscore."""
    return any(part.startswith("_") for part in path.split("."))


def _public_modules(module: Module) -> Iterator[Module]:
    for name, member in module.members.items():
        if not name.startswith("_") and isinstance(member, Module):
            yield member
            yield from _public_modules(member)


def _target(member: Object | Alias) -> Object | None:
    """The target of a name; None if the wheel has no source or stub of it."""
    if not isinstance(member, Alias):
        return member
    try:
        return member.final_target
    except (AliasResolutionError, CyclicAliasError, KeyError):
        return None


def _at(module: Object, path: str) -> Object | Alias | None:
    """What the wheel has at a path."""
    try:
        found: Object | Alias = module.modules_collection[path]
        return found
    except (KeyError, AliasResolutionError, CyclicAliasError):
        return None


def _is_adopted(module: Module, name: str, member: Alias, target: Object | None) -> bool:
    """Whether an imported name belongs to the module that imports it, because nobody imports the other by name.

    What a private module has itself imported, as stubs import the classes that they name, belongs to neither.
    """
    source, _, original = member.target_path.rpartition(".")
    if name.endswith("*") or original.startswith("_"):
        return False
    is_defined_there = target is None or target.path == member.target_path
    return (module.exports is not None and name in module.exports) or (
        is_private(source) and source.startswith("mlir.") and not source.endswith(_HELPERS) and is_defined_there
    )


def _describe_module(module: Module, homes: dict[str, tuple[str, str]]) -> ModuleDoc:
    classes, functions, values = [], {}, []
    for name, member in module.members.items():
        target = _target(member)
        if name.startswith("_") or (isinstance(member, Alias) and not _is_adopted(module, name, member, target)):
            continue
        if isinstance(target, Class):
            for entry, of in _with_nested(module, name, target):
                classes.append(entry)
                homes |= {each.path: (module.path, entry.name) for each in of if each.path not in homes}
        elif isinstance(target, Function):
            functions[name] = _function(name, target)
            homes.setdefault(target.path, (module.path, name))
        elif isinstance(target, Attribute) and not _is_type_variable(target):
            values.append(ValueDoc(name=name, of=target, annotation=target.annotation))
        else:
            continue
        homes[f"{module.path}.{name}"] = (module.path, name)
    found: dict[str, list[FunctionDoc]] = {}  # by the names of the classes that they build
    for function in functions.values():
        if builds := _BUILDS.search(_source(function.overloads[-1])):
            found.setdefault(builds[1], []).append(function)
    adaptors = {entry.operation: entry.name for entry in classes if entry.operation and _is_adaptor(entry)}
    own = [entry for entry in classes if entry.operation and not _is_adaptor(entry)]
    builders = {function.name for entry in own for function in found.get(entry.name, ())}
    # linalg has two classes of linalg.generic, of which one builds by a decorator.
    first = {entry.operation: entry.name for entry in reversed(own)}
    operations = [
        replace(
            entry,
            builders=tuple(found.get(entry.name, ())),
            anchor=entry.operation if first[entry.operation] == entry.name else f"{entry.operation}.{entry.name}",
            adaptor=adaptors.get(entry.operation, "") if first[entry.operation] == entry.name else "",
        )
        for entry in own
    ]
    paths = {
        member.target_path if name.endswith("*") else member.target_path.rpartition(".")[0]
        for name, member in module.members.items()
        if isinstance(member, Alias) and _target(member) is None
    }
    compiled = sorted(path for path in paths if re.fullmatch(r"mlir\._mlir_libs\._\w+", path))
    return ModuleDoc(
        path=module.path,
        docstring=module.docstring,
        operations=tuple(sorted(operations, key=lambda entry: entry.operation)),
        classes=tuple(entry for entry in classes if not entry.operation),
        functions=tuple(entry for name, entry in functions.items() if name not in builders),
        values=tuple(values),
        # A stub that is there leads to names outside of the wheel, too, such as collections.abc.Sequence.
        unseen=tuple(path for path in compiled if _at(module, path) is None),
    )


def _is_type_variable(value: Attribute) -> bool:
    return str(value.value).startswith(("TypeVar(", "ParamSpec("))


def _is_adaptor(entry: ClassDoc) -> bool:
    return any(str(base).endswith("OpAdaptor") for base in entry.bases)


def _source(thing: Object) -> str:
    return "\n".join(thing.lines)


# -- classes --------------------------------------------------------------------------------------------------------


def _with_nested(module: Module, name: str, of: Class) -> Iterator[tuple[ClassDoc, list[Class]]]:
    """A class and those that it defines, each with the classes that make it up."""
    chain = [of]  # and after it the private bases that it stands for
    while (base := _private_base(module, chain[-1])) and base not in chain:
        chain.append(base)
    yield _describe_class(module, name, chain), chain
    for key, member in of.members.items():
        if isinstance(member, Class) and not key.startswith("_"):
            yield from _with_nested(module, f"{name}.{key}", member)


def _describe_class(module: Module, name: str, chain: list[Class]) -> ClassDoc:
    members: dict[str, Object] = {}
    generated: dict[str, Attribute] = {}
    overloaded: dict[str, tuple[Function, ...]] = {}
    for each in reversed(chain):
        for key, member in each.members.items():
            target = _target(member)
            if target is not None:
                members[key] = target
                overloaded.pop(key, None)
            if isinstance(target, Attribute) and _part(target):
                generated[key] = target
        overloaded |= {key: tuple(group) for key, group in each.overloads.items() if group and key not in each.members}
    functions = {key: _function(key, member) for key, member in members.items() if isinstance(member, Function)}
    functions |= {key: _function(key, *group) for key, group in overloaded.items()}
    values = []
    for key, member in members.items():
        if isinstance(member, Attribute) and not key.startswith("_"):
            own = generated.get(key)  # of the generated class: another one may have replaced it
            annotation = member.annotation or (own.annotation if own else None)
            values.append(ValueDoc(name=key, of=member, annotation=annotation, part=_part(own) if own else ""))
    # Special methods are shown that say how a class is used.
    shown = {"__call__", "__enter__", "__getitem__", "__iter__", "__len__"}
    operation = members.get("OPERATION_NAME")
    docstrings = [each.docstring for each in chain if each.docstring]
    return ClassDoc(
        name=name,
        path=f"{module.path}.{name}",
        source=chain[0].path,
        bases=tuple(chain[-1].bases),
        # Of an operation, what ODS says: the refined class says only that it is one.
        docstring=docstrings[-1 if isinstance(operation, Attribute) else 0] if docstrings else None,
        init=functions.get("__init__"),
        values=tuple(values),
        methods=tuple(entry for key, entry in functions.items() if key in shown or not key.startswith("_")),
        operation=str(operation.value).strip("'\"") if isinstance(operation, Attribute) else "",
    )


def _private_base(module: Module, of: Class) -> Class | None:
    for base in of.bases:
        path = base if isinstance(base, str) else base.canonical_path
        found = _shadowed(module, of.name) if path == of.path else _at(of, path)
        target = _target(found) if found is not None else None
        if not isinstance(target, Class) or not is_private(target.path):
            continue
        if target.name.startswith("_") or target.name == of.name or _GENERATED in target.path:
            return target  # any other is described by its own public name
    return None


def _shadowed(module: Module, name: str) -> Class | None:
    """The generated class that a class of the same name refines: of the generated module that ``module`` imports."""
    for member in module.members.values():
        if isinstance(member, Alias) and _GENERATED in member.target_path:
            found = _at(module, f"{member.target_path.rpartition('.')[0]}.{name}")
            if isinstance(found, Class):
                return found
    return None


def _part(value: Attribute) -> str:
    """The part that a generated property reads; empty for any other."""
    if "property" not in value.labels or _GENERATED not in value.path:
        return ""
    match = _READS.search(_source(value))
    return match[1] if match else ""


def _function(name: str, *group: Function) -> FunctionDoc:
    if len(group) == 1:
        group = (*(group[0].overloads or ()), *group)
    labels = group[-1].labels & {"classmethod", "staticmethod"}
    # The implementation of overloads is no way to call it.
    overloads = tuple(each for each in group if any(str(by.value).endswith("overload") for by in each.decorators))
    return FunctionDoc(name=name, overloads=overloads or group, label=next(iter(labels), ""))
