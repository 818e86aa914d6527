"""References from one description to another, as HTML; those that lead nowhere are counted."""

from __future__ import annotations

import builtins
import collections.abc
import re
import typing
from collections import Counter
from dataclasses import dataclass, field

from griffe import Expr, ExprAttribute, ExprName, Function
from markupsafe import Markup, escape

from mlir_release.extras.apidocs.describe import Api, with_marks

#: Names of the extension's ``ir`` in the bindings' modules. ``mlir.ir`` shows it.
_IR = re.compile(r"(?:.*\.)?(?:_ods_ir|_ods_cext\.ir|_cext\.ir|_ir)\.(\w+)$")
#: Python's own names, which modules also have through ``from ..ir import *``, where griffe does not follow them.
_PYTHONS = frozenset({*dir(builtins), *typing.__all__, *collections.abc.__all__})
#: Longer signatures have a line for each parameter.
WIDE = 96


def file_of(module: str) -> str:
    """The page of a module."""
    return f"{module}.html"


@dataclass
class LinkMaker:
    """Makes links, and counts them."""

    api: Api
    made: int = 0
    broken: Counter[str] = field(default_factory=Counter)  #: names without a description, and how often they occur

    # -- names in annotations -----------------------------------------------------------------------------------

    def annotation(self, expression: str | Expr | None) -> Markup:
        """An annotation, a base or a default, with its names linked."""
        if expression is None:
            return Markup()
        if isinstance(expression, str):
            return escape(expression)
        if isinstance(expression, ExprName | ExprAttribute):
            return self._name(expression)
        return Markup().join(self.annotation(part) for part in expression.iterate(flat=False))

    def _name(self, name: ExprName | ExprAttribute) -> Markup:
        shown = str(name).rpartition(".")[2].lstrip("_")
        path = name.canonical_path
        if of_ir := _IR.match(path):
            path = f"mlir.ir.{of_ir[1]}"
        home = self.api.homes.get(path) or self.api.homes.get(self.api.aliases.get(path, ""))
        if home is not None:
            self.made += 1
            module, anchor = home
            return Markup('<a href="{}#{}">{}</a>').format(file_of(module), anchor, shown)
        # What griffe can't resolve at all has no dot in its path.
        is_ours = path.startswith("mlir.") or "." not in path
        # An imported name may be from outside the package, or a type variable.
        first = name.first if isinstance(name, ExprAttribute) else name
        origin = self.api.aliases.get(getattr(first, "canonical_path", ""), "mlir.")
        if is_ours and shown not in _PYTHONS and origin.startswith("mlir."):
            self.broken[str(name)] += 1
        return escape(shown)

    # -- signatures ---------------------------------------------------------------------------------------------

    def signature(self, function: Function, name: str, *, bound: bool) -> Markup:
        """How ``name`` is called. ``bound``: without its first parameter, ``self`` or ``cls``."""
        found: list[tuple[str, Markup]] = []
        for index, parameter in enumerate(function.parameters):
            if not (bound and index == 0 and parameter.name in ("self", "cls")):
                kind = str(parameter.kind.value)
                stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
                text, annotation = escape(stars + parameter.name), parameter.annotation
                if annotation is not None:
                    text += ": " + self.annotation(annotation)
                if parameter.default is not None and not stars:
                    text += (" = " if annotation is not None else "=") + escape(str(parameter.default))
                found.append((kind, text))
        shown = [escape(each) for each in with_marks(found)]
        end = Markup(" → ") + self.annotation(function.returns) if function.returns else Markup()
        width = len(name) + sum(len(each.striptags()) + 2 for each in shown) + len(end.striptags())
        if width <= WIDE or len(shown) < 2:
            return escape(name) + "(" + Markup(", ").join(shown) + ")" + end
        return escape(name) + "(\n" + Markup("").join(Markup("    ") + each + ",\n" for each in shown) + ")" + end
