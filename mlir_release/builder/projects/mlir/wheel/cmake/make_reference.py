"""Write what the sources say of each pass and each operation, for pages that describe them.

Usage: make_reference.py TBLGEN UPSTREAM INCLUDE OUTPUT

TBLGEN is ``mlir-tblgen``; UPSTREAM the folder ``mlir`` of llvm-project; INCLUDE has the files ``.td`` that LLVM's build
generates. OUTPUT becomes a JSON document: the wheel has no other list of its passes. Of operations that Python modules
describe, it has the summary alone, because those modules have the rest.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What upstream's own documentation is made of: the file, the name of its page, and mlir-tblgen's options.
DOCUMENTED = re.compile(r"^\s*add_mlir_doc\(\s*(\S+)\s+(\S+)\s+\S+\s+-gen-(pass|op|dialect)-doc([^)]*)\)", re.MULTILINE)
#: The name in an entry's heading, its summary and the rest, up to the next entry or part of the page.
ENTRY = re.compile(
    r"^### `-{0,2}([\w.-]+)`[^\n]*\n+(?:_(.*?)_\n)?(.*?)(?=^### `|^## (?:Operations|Attributes|Types|Enums)$|\Z)",
    re.MULTILINE | re.DOTALL,
)


def main() -> None:
    """See the module."""
    tblgen, output = sys.argv[1], Path(sys.argv[4])
    upstream, include = Path(sys.argv[2]), Path(sys.argv[3])
    bound = set(re.findall(r"DIALECT_NAME\s+(\w+)", read(upstream / "python" / "CMakeLists.txt")))
    found: dict[tuple[str, str], dict[str, str]] = {}
    for listing in sorted((upstream / "include").rglob("CMakeLists.txt"), key=Path.as_posix):
        for source, page, kind, options in DOCUMENTED.findall(read(listing)):
            file = listing.parent / f"{source}.td"
            folders = [f"-I{folder}" for folder in (upstream / "include", include, file.parent)]
            command = [tblgen, f"-gen-{kind}-doc", *options.split(), *folders, str(file)]
            done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
            if done.returncode:  # a wheel does not wait for its description
                print(f"note: mlir-tblgen can't describe {file}: {done.stderr.strip()[-500:]}")
            for entry in entries(done.stdout, "pass" if kind == "pass" else "operation", page):
                if entry["kind"] == "operation" and entry["group"] in bound:
                    del entry["text"]
                found.setdefault((entry["kind"], entry["name"]), entry)
    document = {"schema": 1, "entries": [found[key] for key in sorted(found)]}
    output.write_text(json.dumps(document, indent=0, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


def entries(text: str, kind: str, page: str) -> Iterator[dict[str, str]]:
    """The entries of a page of mlir-tblgen's. A pass belongs to its page, an operation to its dialect."""
    for name, summary, rest in ENTRY.findall(text):
        group = page if kind == "pass" else name.partition(".")[0]
        yield {"kind": kind, "group": group, "name": name, "summary": " ".join(summary.split()), "text": rest.strip()}


def read(path: Path) -> str:
    """A text file of upstream's; empty if that revision lacks it."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


if __name__ == "__main__":
    main()
