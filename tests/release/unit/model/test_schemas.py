"""The JSON Schemas are up to date, accept every document that there is, and refuse mistakes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from mlir_release.ground.python.cpython import CPython
from mlir_release.release.model.schemas import read_schemas, schema_of
from mlir_release.release.rehearsal.world import make_targets
from tests.paper_forge import make_manifest

ROOT = Path(__file__).resolve().parents[4]
DATA = Path(__file__).parent / "data"
SCHEMAS = read_schemas()
PYTHON: Any = SimpleNamespace(cpython=CPython(3, 14, free_threaded=True))
TARGETS = (ROOT / "targets.toml").read_text(encoding="utf-8")
#: The template that the page begins with.
PAGE = (ROOT / "docs" / "integrate.md").read_text(encoding="utf-8")
INTEGRATE = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]


def mistakes(name: str, document: object) -> list[str]:
    validator = Draft202012Validator(json.loads(SCHEMAS[f"{name}.schema.json"]))
    return [error.message for error in validator.iter_errors(document)]


def test_they_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "schemas.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_cpython_makes_the_same() -> None:
    """From 3.13 on, docstrings have no indentation."""
    texts = []
    for indentation in ("", "    "):
        text = f"A document.\n\n{indentation}Of two paragraphs."
        part = msgspec.defstruct("Part", [("size", int)], namespace={"__doc__": text})
        whole = msgspec.defstruct("Whole", [("part", part)], namespace={"__doc__": text})
        texts.append(schema_of("whole.json", whole)[1])
    assert texts[0] == texts[1]
    assert texts[0].count("A document.\\n\\nOf two paragraphs.") == 2


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_says_what_it_is(name: str) -> None:
    schema = json.loads(SCHEMAS[name])
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:mlir-release:schema:{name.partition('.')[0]}"
    assert schema["title"].partition(".")[0] == name.partition(".")[0]
    assert schema["description"]


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("targets", tomllib.loads(TARGETS)),
        ("targets", tomllib.loads((DATA / "targets.toml").read_text(encoding="utf-8"))),
        ("targets", tomllib.loads(make_targets("/srv/llvm.git", [PYTHON], {"mlir": ["host", "core"]}).decode())),
        ("integrate", tomllib.loads(INTEGRATE)),
        ("integrate", tomllib.loads(INTEGRATE.replace("\n# ", "\n").replace("submodule =", "pin-file ="))),
        ("release", json.loads((DATA / "release.json").read_bytes())),
        ("release", json.loads(make_manifest("snapshot-20261120.02").to_text())),
        ("release", json.loads(make_manifest("llvm-22.1.8.01", version="22.1.8").to_text())),
    ],
)
def test_a_document_is_valid(name: str, document: object) -> None:
    assert mistakes(name, document) == []


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("targets", ("schema",), 2),
        ("targets", ("surprise",), 1),
        ("targets", ("llvm", "mlir", "profile"), "Host"),
        ("targets", ("llvm", "mlir", "distribution"), "MLIR"),
        ("targets", ("runtime", "linux-x86_64", "os"), "linx"),
        ("targets", ("runtime", "linux-x86_64", "pythons"), ["cp39"]),
        ("targets", ("target", 0, "suites"), ["regresion"]),
        ("targets", ("target", 0, "required"), "yes"),
        ("release", ("schema",), 2),
        ("release", ("revision",), "abc"),
        ("release", ("wheels", 0, "size"), -1),
        ("release", ("wheels", 0, "filename"), "../x.whl"),
        ("release", ("wheels", 0, "sha256"), "0" * 63),
    ],
)
def test_a_mistake_is_refused(name: str, path: tuple[Any, ...], value: object) -> None:
    document = tomllib.loads(TARGETS) if name == "targets" else json.loads((DATA / "release.json").read_bytes())
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert len(mistakes(name, document)) == 1


def test_our_own_matrix_names_its_schema() -> None:
    assert TARGETS.startswith("#:schema ./mlir_release/release/model/schemas/targets.schema.json\n")
    assert (ROOT / "mlir_release/release/model/schemas/targets.schema.json").is_file()
