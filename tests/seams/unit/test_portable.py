"""What runs on Windows, too, needs nothing that only POSIX has."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
from pathlib import Path

import mlir_release

#: Modules of CPython that Windows' has not.
POSIX = ("fcntl", "grp", "pwd", "resource", "termios")

#: The local forge says that it needs POSIX.
EXCEPT = "mlir_release.release.forge.local"


def test_every_module_can_be_imported_without_them() -> None:
    names = [
        module.name
        for module in pkgutil.walk_packages(mlir_release.__path__, "mlir_release.")
        if not module.name.startswith(EXCEPT) and not module.name.endswith("__main__")
    ]
    assert "mlir_release.ground.llvm.upstream" in names
    program = f"""
import sys, importlib, types
sys.modules["mlir_release.ground.git.locks"] = types.ModuleType("locks")  # made of either system's own
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


ROOT = Path(__file__).parents[3]


def imported_at_once(file: Path) -> set[str]:
    """What a test module imports when it is imported itself."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found


def needs_the_local_forge(file: Path, seen: set[Path]) -> bool:
    seen.add(file)
    for name in imported_at_once(file):
        if name.startswith(EXCEPT):
            return True
        helper = ROOT.joinpath(*name.split(".")).with_suffix(".py")
        if (
            name.startswith("tests.")
            and helper.is_file()
            and helper not in seen
            and needs_the_local_forge(helper, seen)
        ):
            return True
    return False


def test_unit_tests_can_be_collected_on_windows() -> None:
    """One that can't be imported stops all of them there."""
    files = sorted((ROOT / "tests").glob("*/unit/**/test_*.py"))
    assert [str(file.relative_to(ROOT)) for file in files if needs_the_local_forge(file, set())] == []
    assert needs_the_local_forge(ROOT / "tests/release/integration/forge/test_local.py", set()), "the check finds one"
