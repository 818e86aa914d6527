"""JSON Schemas of the documents that people write or programs read; ``tools/schemas.py`` makes them from the types.

The pages serve them. Editors complete and check a file that names its schema: ``#:schema URL`` at the top of TOML.
"""

from __future__ import annotations

import inspect
import json
from importlib import resources
from typing import Any

import msgspec

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SUFFIX = ".schema.json"


def read_schemas() -> dict[str, str]:
    """The schemas' texts by file name: ``targets.schema.json``, …"""
    files = sorted(resources.files(__name__).iterdir(), key=lambda file: file.name)
    return {file.name: file.read_text(encoding="utf-8") for file in files if file.name.endswith(_SUFFIX)}


def schema_of(document: str, kind: type) -> tuple[str, str]:
    """File name and text of a schema, made from the document's type.

    :param document: the document's file name, ``targets.toml``
    """
    name = document.partition(".")[0]
    schema: dict[str, Any] = msgspec.json.schema(kind)
    definitions = schema["$defs"]
    root = definitions.pop(schema["$ref"].rpartition("/")[2])
    own = {"schema", *inspect.get_annotations(kind)}  # come before those of a base
    root["properties"] = dict(sorted(root["properties"].items(), key=lambda item: item[0] not in own))
    for described in (root, *definitions.values()):
        if "description" in described:  # a docstring, which CPython 3.13 and later read without its indentation
            described["description"] = inspect.cleandoc(described["description"])
    whole = {"$schema": _DIALECT, "$id": f"urn:mlir-release:schema:{name}", **root, "title": document}
    text = json.dumps({**whole, "$defs": definitions}, indent=2, ensure_ascii=False) + "\n"
    # What Python's regular expressions need to match a whole string, and other dialects may not know.
    return name + _SUFFIX, text.replace(r"$(?!\n)", "$")
