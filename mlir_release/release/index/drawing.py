"""The templates and the style that all pages of the site share."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.foreign import visible

if TYPE_CHECKING:
    from jinja2 import Environment

_PACKAGE = "mlir_release.release.index"


def make_templates(*packages: str, **others: Any) -> Environment:
    """The templates of this room, and those in the folder ``templates`` of other packages, which come first.

    :param others: settings of jinja's, for templates that are neither HTML nor XML
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    settings = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    loader = ChoiceLoader([PackageLoader(package) for package in (*packages, _PACKAGE)])
    return Environment(loader=loader, finalize=_plain, undefined=StrictUndefined, **settings | others)


def _plain(value: object) -> object:
    """What a template shows: text that is not a template's own, as upstream's, reorders nothing and hides nothing."""
    return visible(value) if type(value) is str and not value.isprintable() else value


def as_link(url: str) -> str:
    """An address that a page may link, as others wrote it; empty for ``javascript:`` and all other schemes."""
    return url if url.startswith(("https://", "http://", "file://")) else ""


def end_of_links(base_url: str) -> str:
    """What a link to a folder ends in: a file system, unlike a server, shows no index.html by itself."""
    return "index.html" if base_url.startswith("file:") else ""


def without_empty_lines(page: str) -> str:
    """The page without the lines that template tags leave, except in preformatted text."""
    kept, inside = [], False
    for line in page.splitlines():
        inside = (inside or "<pre" in line) and "</pre>" not in line[max(line.rfind("<pre"), 0) :]
        if inside or line.strip():
            kept.append(line)
    return "\n".join(kept) + "\n"


def style() -> str:
    """``style.css``."""
    return _read("style.css")


def copy_script() -> str:
    """``copy.js``: the buttons beside commands."""
    return _read("copy.js")


def icon() -> str:
    """``icon.svg``: the pages' icon in a browser's tab."""
    return _read("icon.svg")


def _read(name: str) -> str:
    return (resources.files(_PACKAGE) / "templates" / name).read_text(encoding="utf-8")


def digest_of_code(*packages: str, text: str = "") -> str:
    """Digest of the code and templates of rooms that draw, and of a text: what another one drew is drawn again."""
    pieces = [text.encode()]
    for name in packages:
        package = resources.files(name)
        for folder, suffixes in ((package, (".py",)), (package / "templates", (".j2", ".css", ".js", ".svg"))):
            files = sorted(folder.iterdir(), key=lambda entry: entry.name)
            pieces += [file.read_bytes() for file in files if file.name.endswith(suffixes)]
    return sha256_of(pieces)
