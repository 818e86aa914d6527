"""What a wheel's build writes down of passes and operations, with a stand-in for mlir-tblgen."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[5] / "mlir_release/builder/projects/mlir/wheel/cmake/make_reference.py"

PASSES = """\
### `-canonicalize`

_Canonicalize
operations_

It folds.

#### Options

```
-top-down : Seed the worklist
```

### `-cse`

Without a summary.
"""
OPERATIONS = """\
# 'arith' Dialect

## Operations

### `arith.addi` (arith::AddIOp)

_Integer addition operation_

Adds.

### `bare.nop` (bare::Nop)

_Does nothing_

### Of its own

Nothing.

## Attributes

### Flags
"""


def test_passes_and_operations_are_written_down(tmp_path: Path) -> None:
    include = tmp_path / "mlir" / "include"
    (tmp_path / "mlir" / "python").mkdir(parents=True)
    include.mkdir()
    (tmp_path / "mlir" / "python" / "CMakeLists.txt").write_text("  DIALECT_NAME arith)\n")
    listed = ["Passes General ./ -gen-pass-doc", "Ops Ops Dialects/ -gen-dialect-doc -dialect=arith"]
    listed += ("Bad Bad ./ -gen-op-doc", "Types Types ./ -gen-typedef-doc")
    (include / "CMakeLists.txt").write_text("".join(f"add_mlir_doc({words})\n" for words in listed))
    said = {"Passes.td": PASSES, "Ops.td": OPERATIONS}
    program = tmp_path / "mlir-tblgen"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        f"text = {said!r}.get(os.path.basename(sys.argv[-1]))\n"
        "assert '-gen-typedef-doc' not in sys.argv\n"
        "assert text is None or ('-dialect=arith' in sys.argv) == ('-gen-dialect-doc' in sys.argv)\n"
        "sys.exit('no such file') if text is None else print(text)\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    output = tmp_path / "_reference.json"
    command: list[str | Path] = [sys.executable, SCRIPT, program, tmp_path / "mlir", include, output]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "note: mlir-tblgen can't describe" in done.stdout
    assert "no such file" in done.stdout
    addi, nop, canonicalize, cse = json.loads(output.read_text())["entries"]
    summary = "Integer addition operation"  # its Python module has the rest
    assert addi == {"kind": "operation", "group": "arith", "name": "arith.addi", "summary": summary}
    assert (nop["group"], nop["text"]) == ("bare", "### Of its own\n\nNothing.")
    assert (canonicalize["group"], canonicalize["summary"]) == ("General", "Canonicalize operations")
    assert canonicalize["text"].startswith("It folds.\n\n#### Options")
    assert (cse["name"], cse["summary"], cse["text"]) == ("cse", "", "Without a summary.")
