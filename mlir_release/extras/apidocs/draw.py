"""Draw an API section: a page for each module, the passes, a list of dialects, and the search, in one folder.

Upstream's docstrings are Markdown, and have Google's sections for parameters, results and errors.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any

from mlir_release.extras.apidocs.describe import PARTS, Api, ClassDoc
from mlir_release.extras.apidocs.links import LinkMaker, file_of
from mlir_release.ground.console import format_bytes
from mlir_release.ground.storage.files import write_all
from mlir_release.release.index.documents import render
from mlir_release.release.index.drawing import icon, make_templates, style, without_empty_lines

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from griffe import Docstring
    from markupsafe import Markup

    from mlir_release.extras.apidocs.reference import Reference

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
