"""The templates and the style that all pages of the site share."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

_PACKAGE = "mlir_release.index"


def make_templates(*packages: str) -> Environment:
    """The templates of this room, and those in the folder ``templates`` of other packages, which come first."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, _PACKAGE)]),
        autoescape=True,  # every template is HTML or XML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def style() -> str:
    """``style.css``."""
    return (resources.files(_PACKAGE) / "templates" / "style.css").read_text(encoding="utf-8")
