"""One module each downloads, runs programs and makes digests, and no private module of sigstore-python is used.

CONTRIBUTING promises it. A second one fails here.
"""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "mlir_release"

#: Runs inside a wheel, or in its build, where the toolkit is not installed.
CARRIED = PACKAGE / "builder" / "projects"

#: Module or name that does a thing -> the modules that may use it.
USERS = {
    "asyncio.create_subprocess_exec": (),
    "asyncio.create_subprocess_shell": (),
    "asyncio.subprocess": (),
    "hashlib": ("ground/documents/digests.py", "ground/python/installed.py"),  # wheels have a copy of the second
    "http.client": (),
    "httpx": (),
    "multiprocessing": (),
    "os.execv": (),
    "os.fork": (),
    "os.popen": (),
    "os.posix_spawn": ("ground/programs/guard.py",),  # a script of its own, which starts once for each program
    "os.system": (),
    "pty": (),
    "requests.get": ("ground/storage/download.py",),
    "requests.Session": (),
    "requests.post": (),
    "requests.request": (),
    "sigstore._internal": (),
    "sigstore._utils": (),
    "subprocess": ("ground/programs/process.py",),
    "urllib.request.urlopen": (),
    "urllib.request.urlretrieve": (),
    "urllib3": (),
}


def uses(code: str) -> set[str]:
    """The dotted names that code imports or writes, by what they were imported as: ``requests.get``."""
    found: set[str] = set()
    known: dict[str, str] = {}
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.add(alias.name)
                known[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(str(node.module))
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    found |= set(known.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, _, rest = ast.unparse(node).partition(".")
            found.add(f"{known.get(first, first)}.{rest}")
    return found


def test_one_of_each() -> None:
    modules = [path for path in sorted(PACKAGE.rglob("*.py")) if not path.is_relative_to(CARRIED)]
    used = {path.relative_to(PACKAGE).as_posix(): uses(path.read_text(encoding="utf-8")) for path in modules}
    found = {
        name: tuple(path for path, names in used.items() if any(f"{each}.".startswith(f"{name}.") for each in names))
        for name in USERS
    }
    assert found == USERS


def test_another_spelling_is_seen() -> None:
    for code in (
        "import requests\nrequests.get(1)",
        "import requests as r\nr.get(1)",
        "def f():\n    from requests import get as g",
    ):
        assert "requests.get" in uses(code)


def test_provenance_uses_no_private_names() -> None:
    private = {
        f"{path.name}: {ast.unparse(node)}"
        for path in sorted((PACKAGE / "release" / "provenance").glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and ast.unparse(node.value) not in ("self", "cls")
    }
    assert not private
