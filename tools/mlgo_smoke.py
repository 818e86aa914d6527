"""Run the smoke test of the wheel that is installed, but with another library; print what is the same each time.

    python mlgo_smoke.py SMOKE_TEST LIBRARY

LIBRARY has the name of the wheel's own, so whatever asks for that finds it loaded. tools/mlgo_demo.py has its
instructions counted.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import runpy
import sys
from pathlib import Path

#: The wheel's own library, wherever the wheel is installed.
OWN = "/_mlir_libs/libMLIRPythonCAPI"


def main(smoke: str, library: str) -> str | None:
    """Run it; returns what failed, or None."""
    ctypes.CDLL(library)
    sys.argv = [smoke, "host"]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        runpy.run_path(smoke, run_name="__main__")
    checks = [json.loads(line) for line in said.getvalue().splitlines()]
    print(*(check["name"] for check in checks))
    loaded = Path("/proc/self/maps").read_text(encoding="utf-8")
    if "/_mlir_libs/_mlir." not in loaded or OWN in loaded:
        return f"the wheel was not used, or not with {library}"
    return "".join(check["message"] for check in checks) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
