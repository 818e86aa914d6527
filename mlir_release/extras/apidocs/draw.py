"""Draw an API section: a page for each module, the passes, a list of dialects, and the search, in one folder.

Upstream's docstrings are Markdown, and have Google's sections for parameters, results and errors. References from one
description to another become links; those that lead nowhere are counted.
"""

from __future__ import annotations

import builtins
import collections.abc
import json
import re
import typing
from collections import Counter
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any

from griffe import Expr, ExprAttribute, ExprName, Function
from markupsafe import Markup, escape

from mlir_release.extras.apidocs.describe import PARTS, Api, ClassDoc, with_marks
from mlir_release.ground.console import format_bytes
from mlir_release.ground.storage.files import write_all
from mlir_release.release.index.documents import render
from mlir_release.release.index.drawing import icon, make_templates, style, without_empty_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from griffe import Docstring

    from mlir_release.extras.apidocs.reference import Reference

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


#: Longest summary in a list of operations.
_SUMMARY = 160


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The site that a section is part of; by default it is on its own."""

    root: str = ""  #: the site's folder, as the pages of the section link it
    release: str = ""  #: the release's own page, likewise
    site: Mapping[str, Any] = field(default_factory=dict)  #: what the main navigation shows (base.html.j2)


@dataclass(frozen=True, kw_only=True)
class DrawnSection:
    """A section that was drawn."""

    output: Path
    title: str
    modules: int
    dialects: int
    operations: int
    passes: int
    references: int  #: between descriptions
    broken: Mapping[str, int]  #: names of the bindings, and links, that lead nowhere; how often each
    unseen: tuple[str, ...]  #: compiled modules without stubs
    size: int  #: bytes

    def text(self) -> str:
        """The figures; what leads nowhere, because upstream wrote it so, is shown as text, and ``--json`` names it."""
        lines = [
            f"{self.output}: {self.title}: {self.modules} modules, {self.operations} operations of {self.dialects} "
            f"dialects, {self.passes} passes, {format_bytes(self.size)}",
            f"references: {self.references}; names without a description of their own, shown as text: "
            f"{sum(self.broken.values())}",
        ]
        lines += [f"without stubs, so not described: {', '.join(self.unseen)}"] if self.unseen else []
        return "\n".join(lines)


def draw(api: Api, reference: Reference, output: Path, title: str, frame: Frame) -> DrawnSection:
    """Write the pages of ``api`` into ``output``. The same wheel gives the same bytes.

    :param title: for example ``mlir 20261122.1``
    """
    links = LinkMaker(api)
    files: dict[str, str] = {}
    templates = make_templates("mlir_release.extras.apidocs")
    summaries, passes, dialects = reference.summaries, reference.groups("pass"), reference.groups("operation")
    templates.globals |= {
        "root": frame.root,
        "site": frame.site,
        "section": {"title": title, "release": frame.release, "passes": passes},
        "annotation": links.annotation,
        "signature": links.signature,
        "file_of": file_of,
        "parts": PARTS,
        "summary": lambda entry: summaries.get(getattr(entry, "operation", "")) or _summary(entry.docstring),
        "google": lambda docstring, heading: _google(docstring, links.broken, heading),
        "markdown": lambda text, heading: _to_html(text, links.broken, heading),
    }
    for module in api.modules:
        page = templates.get_template("module.html.j2").render(module=module)
        files[file_of(module.path)] = without_empty_lines(page)
    described = templates.get_template("reference.html.j2")
    if passes:
        files["passes.html"] = without_empty_lines(described.render(title="Passes", groups=passes))
    for name, entries in dialects.items():
        groups = {f"The dialect {name}": entries}
        files[f"dialect.{name}.html"] = without_empty_lines(described.render(title=f"Dialect {name}", groups=groups))
    others = [module for module in api.modules if not module.dialects]
    page = templates.get_template("section.html.j2").render(dialects=api.dialects, others=others, unbound=dialects)
    files["index.html"] = without_empty_lines(page)
    names = json.dumps([*_described(reference), *_names(api, summaries)], separators=(",", ":"))
    files["names.js"] = f"const names = {names};\n"
    folder = resources.files("mlir_release.extras.apidocs") / "templates"
    files["icon.svg"] = icon()
    files["search.js"] = (folder / "search.js").read_text(encoding="utf-8")
    files["style.css"] = style() + (folder / "api.css").read_text(encoding="utf-8")
    write_all(output, files)
    return DrawnSection(
        output=output,
        title=title,
        modules=len(api.modules),
        dialects=len(api.dialects),
        operations=sum(len(module.operations) for module in api.modules),
        passes=sum(map(len, reference.groups("pass").values())),
        references=links.made,
        broken=dict(links.broken),
        unseen=tuple(sorted({path for module in api.modules for path in module.unseen})),
        size=sum(len(content.encode()) for content in files.values()),
    )


# -- docstrings -----------------------------------------------------------------------------------------------------


def _to_html(text: str, broken: Counter[str], heading: str) -> Markup:
    """Markdown as HTML, with headings of one tag, below the page's own.

    A link that leads nowhere from here is shown as its text, and counted in ``broken``."""

    def follow(href: str) -> str | None:
        if href.startswith(("https:", "http:")):
            return href
        broken[href] += 1
        return None

    return render(text, follow, heading=heading)


def _google(docstring: Docstring, broken: Counter[str], heading: str) -> Iterator[tuple[str, list[tuple[str, Markup]]]]:
    """A docstring of Google's style: headings (empty for text), each with rows of a name and a description.

    Text has one row without a name.
    """
    for section in docstring.parse("google", warnings=False):
        kind = section.kind.value
        title = "" if kind == "text" else section.title or kind.capitalize()
        if kind == "text":
            rows = [("", section.value)]
        elif kind == "examples":
            rows = [("", "\n\n".join(text for _, text in section.value))]
        elif kind in ("admonition", "deprecated"):
            rows = [("", section.value.description)]
        else:
            rows = [(getattr(row, "name", "") or str(row.annotation or ""), row.description) for row in section.value]
        yield title, [(name, _to_html(description, broken, heading)) for name, description in rows]


def _summary(docstring: Docstring | None) -> str:
    """The first sentence, on one line and without marks; empty if it has none."""
    paragraph = docstring.value.strip().partition("\n\n")[0] if docstring else ""
    if not paragraph or paragraph.startswith(("```", "#", "|", "Syntax:")):
        return ""
    line = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split())).replace("`", "")
    match = re.match(r"(.+?[.:;])(?:\s|$)", line)
    sentence = match[1] if match else line
    return sentence if len(sentence) <= _SUMMARY else sentence[: _SUMMARY - 1].rstrip() + "…"


# -- search ---------------------------------------------------------------------------------------------------------


def _described(reference: Reference) -> Iterator[tuple[str, ...]]:
    """The entries of the search that the reference has: a name, its address, its kind, and words to find it by."""
    for kind, page in (("pass", "passes.html"), ("operation", "dialect.{}.html")):
        for group, entries in reference.groups(kind).items():
            for entry in entries:
                place = f"{page.format(group)}#{entry.name}"
                yield entry.name, place, kind, entry.summary
                for option, about in entry.options:
                    yield f"{entry.name} {option}", place, "option", about


def _names(api: Api, summaries: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """The entries of the search that the modules have, likewise."""
    for module in api.modules:
        page = file_of(module.path)
        yield module.path, page, "module"
        short = module.path.removeprefix("mlir.").removeprefix("dialects.")
        for operation in module.operations:
            kind, about = f"operation {short}.{operation.name}", summaries.get(operation.operation, "")
            yield operation.operation, f"{page}#{operation.anchor}", kind, about
            yield from _members(operation, short, page)
            if operation.adaptor:
                yield f"{short}.{operation.adaptor}", f"{page}#{operation.adaptor}", "class"
            for function in operation.builders:
                if function.name != operation.operation.rpartition(".")[2]:
                    yield f"{short}.{function.name}", f"{page}#{function.name}", "function"
        for entry in module.classes:
            yield f"{short}.{entry.name}", f"{page}#{entry.name}", "class"
            yield from _members(entry, short, page)
        for function in module.functions:
            yield f"{short}.{function.name}", f"{page}#{function.name}", "function"
        for value in module.values:
            yield f"{short}.{value.name}", f"{page}#{value.name}", "value"


def _members(entry: ClassDoc, short: str, page: str) -> Iterator[tuple[str, str, str]]:
    for method in entry.methods:
        if not method.name.startswith("_"):
            yield f"{short}.{entry.name}.{method.name}", f"{page}#{entry.name}.{method.name}", "method"
    for value in entry.others:
        yield f"{short}.{entry.name}.{value.name}", f"{page}#{entry.name}.{value.name}", "attribute"
