"""Draw an API section: a page for each module, a list of dialects, and the search; all links within one folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from mlir_release.console import format_bytes
from mlir_release.extras.apidocs import text
from mlir_release.extras.apidocs.describe import PARTS
from mlir_release.extras.apidocs.links import Links, file_of
from mlir_release.host.files import write_all
from mlir_release.index.drawing import make_templates, style

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from griffe import Docstring
    from markupsafe import Markup

    from mlir_release.extras.apidocs.describe import Api, ClassDoc

#: Broken references that are named one by one.
_NAMED = 10


@dataclass(frozen=True, kw_only=True)
class Section:
    """What was drawn."""

    output: Path
    title: str
    modules: int
    dialects: int
    operations: int
    references: int  #: between descriptions
    broken: Mapping[str, int]  #: names of the bindings, and links, that lead nowhere; how often each
    unseen: tuple[str, ...]  #: compiled modules without stubs
    size: int  #: bytes

    def text(self) -> str:
        """The figures, then what is broken or not seen."""
        count = sum(self.broken.values())
        lines = [
            f"{self.output}: {self.title}: {self.modules} modules, {self.operations} operations of {self.dialects} "
            f"dialects, {format_bytes(self.size)}",
            f"references: {self.references}, broken: {count}" + (":" if count else ""),
        ]
        worst = sorted(self.broken.items(), key=lambda row: (-row[1], row[0]))
        lines += [f"  {name} ({times}×)" for name, times in worst[:_NAMED]]
        lines += [f"  and {len(worst) - _NAMED} more (--json names all)"] if len(worst) > _NAMED else []
        lines += [f"without stubs, so not described: {', '.join(self.unseen)}"] if self.unseen else []
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Heading:
    """What the pages say about themselves, and where they lead."""

    title: str  #: for example ``mlir 20261122.1``
    home: str = ""  #: the site's landing page, as these pages link it; empty: they are on their own
    release: str = ""  #: the release's own page, likewise


def draw(api: Api, output: Path, heading: Heading) -> Section:
    """Write the pages of ``api`` into ``output``. The same wheel gives the same bytes."""
    links = Links(api)
    files = dict(_files(api, links, heading))
    write_all(output, files)
    return Section(
        output=output,
        title=heading.title,
        modules=len(api.modules),
        dialects=len(api.dialects),
        operations=sum(len(module.operations) for module in api.modules),
        references=links.made,
        broken=dict(links.broken),
        unseen=tuple(sorted({path for module in api.modules for path in module.unseen})),
        size=sum(len(content.encode()) for content in files.values()),
    )


def _files(api: Api, links: Links, heading: Heading) -> Iterator[tuple[str, str]]:
    templates = make_templates("mlir_release.extras.apidocs")
    templates.globals |= {
        "root": "",
        "heading": heading,
        "annotation": links.annotation,
        "signature": links.signature,
        "file_of": file_of,
        "parts": PARTS,
        "summary": text.summary,
        "google": lambda docstring: _google(docstring, links),
        "markdown": lambda docstring: text.to_html(docstring.value, links.broken),
    }
    for module in api.modules:
        page = templates.get_template("module.html.j2").render(module=module)
        yield file_of(module.path), _without_empty_lines(page)
    others = [module for module in api.modules if not module.dialects]
    page = templates.get_template("section.html.j2").render(dialects=api.dialects, others=others)
    yield "index.html", _without_empty_lines(page)
    yield "names.js", f"const names = {json.dumps(list(_names(api)), separators=(',', ':'))};\n"
    yield "search.js", _resource("search.js")
    yield "style.css", style() + _resource("api.css")


def _resource(name: str) -> str:
    return (resources.files("mlir_release.extras.apidocs") / "templates" / name).read_text(encoding="utf-8")


def _without_empty_lines(page: str) -> str:
    """The page without the lines that template tags leave, except in preformatted text."""
    kept, inside = [], False
    for line in page.splitlines():
        inside = (inside or "<pre" in line) and "</pre>" not in line[max(line.rfind("<pre"), 0) :]
        if inside or line.strip():
            kept.append(line)
    return "\n".join(kept) + "\n"


def _google(docstring: Docstring, links: Links) -> list[tuple[str, list[tuple[str, Markup]]]]:
    return [
        (title, [(name, text.to_html(description, links.broken)) for name, description in rows])
        for title, rows in text.sections(docstring)
    ]


# -- search ---------------------------------------------------------------------------------------------------------


def _names(api: Api) -> Iterator[tuple[str, str, str]]:
    """What can be found: a name, where it is, and what it is."""
    for module in api.modules:
        page = file_of(module.path)
        yield module.path, page, "module"
        short = module.path.removeprefix("mlir.").removeprefix("dialects.")
        for operation in module.operations:
            yield operation.operation, f"{page}#{operation.anchor}", f"operation {short}.{operation.name}"
            yield from _members(operation, short, page)
            for function in operation.builders:
                if function.name != operation.operation.rpartition(".")[2]:
                    yield f"{short}.{function.name}", f"{page}#{function.name}", "function"
        for entry in module.classes:
            yield f"{short}.{entry.name}", f"{page}#{entry.name}", "class"
            yield from _members(entry, short, page)
        for function in module.functions:
            yield f"{short}.{function.name}", f"{page}#{function.name}", "function"


def _members(entry: ClassDoc, short: str, page: str) -> Iterator[tuple[str, str, str]]:
    for method in entry.methods:
        if not method.name.startswith("_"):
            yield f"{short}.{entry.name}.{method.name}", f"{page}#{entry.name}.{method.name}", "method"
    if not entry.operation:
        for value in entry.values:
            yield f"{short}.{entry.name}.{value.name}", f"{page}#{entry.name}.{value.name}", "attribute"
