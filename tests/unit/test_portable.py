"""What runs on Windows, too, needs nothing that only POSIX has."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import mlir_release

#: Modules of CPython that Windows' has not.
POSIX = ("fcntl", "grp", "pwd", "resource", "termios")

#: The local forge says that it needs POSIX.
EXCEPT = "mlir_release.forge.local"


def test_every_module_can_be_imported_without_them() -> None:
    names = [
        module.name
        for module in pkgutil.walk_packages(mlir_release.__path__, "mlir_release.")
        if not module.name.startswith(EXCEPT) and not module.name.endswith("__main__")
    ]
    assert "mlir_release.snapshot.upstream" in names
    program = f"""
import sys, importlib, types
sys.modules["mlir_release.git.locks"] = types.ModuleType("locks")  # made of either system's own
for name in {POSIX!r}:
    sys.modules[name] = None
failed = []
for name in {names!r}:
    try:
        importlib.import_module(name)
    except ImportError as error:
        failed.append(f"{{name}}: {{error}}")
print("\\n".join(failed))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
