"""One module each downloads, runs programs, makes digests, parses documents, and opens archives or anybody's files.

CONTRIBUTING promises it: there are the bounds, and a second one fails here. Nor is a private module of sigstore used.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "mlir_release"

#: Runs inside a wheel, or in its build, where the toolkit is not installed.
CARRIED = PACKAGE / "builder" / "projects"

#: Module or name that does a thing -> the modules that may use it.
USERS = {
    "asyncio.create_subprocess_exec": (),
    "asyncio.create_subprocess_shell": (),
    "asyncio.subprocess": (),
    "gzip.decompress": (),
    "hashlib": ("ground/documents/digests.py", "ground/python/installed.py"),  # wheels have a copy of the second
    "http.client": (),
    "httpx": (),
    "json.load": (),
    "json.loads": ("ground/python/installed.py",),  # wheels have a copy of it, which imports nothing of the toolkit
    "msgspec.json.decode": ("ground/documents/decode.py",),
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
    "shutil.unpack_archive": (),
    "sigstore._internal": (),
    "sigstore._utils": (),
    "subprocess": ("ground/programs/process.py",),
    "tarfile.TarFile": ("builder/sdk/packing.py", "ground/storage/archives.py"),  # the first one writes
    "tarfile.open": ("builder/sdk/packing.py",),
    "tomllib.load": (),
    "tomllib.loads": ("ground/documents/decode.py",),
    "urllib.request.urlopen": (),
    "urllib.request.urlretrieve": (),
    "urllib3": (),
    "zipfile.ZipFile": (  # the first two write
        *("builder/wheels/archive.py", "builder/wheels/platform_tags.py"),
        "ground/storage/archives.py",
    ),
    "zlib.decompress": (),
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


# -- files -------------------------------------------------------------------------------------------------------------

#: A file of somebody else's folder may be a pipe, a device or huge: those of ``digests`` and ``files`` open it. Modules
#: that read a file themselves, or copy one, and why none of these is somebody else's.
OWN, LOG, MADE, LOCK = (
    "it is the package's own",
    "it is the log of a program that this process ran, of any size",
    "this process wrote it, or had it written, a moment ago",
    "it is opened to be locked or waited for, and never read",
)
PLAIN = {
    "builder/projects/mlir/llvm_config.py": OWN,
    "builder/projects/mlir/sdk_programs.py": OWN,
    "builder/projects/mlir/suites/behaviours.py": OWN,
    "builder/projects/mlir/suites/measuring.py": MADE,
    "builder/projects/mlir/suites/type_checks.py": OWN,
    "builder/sdk/build.py": "its project is the package's own, and the programs were built a moment ago",
    "builder/sdk/build_environment.py": MADE,
    "builder/sdk/progress.py": LOG,
    "builder/sdk/provision.py": OWN,
    "builder/tools/ninja.py": LOG,
    "builder/wheels/build.py": OWN,
    "builder/wheels/cibuildwheel.py": "logs, its own note in the cache, and the project's smoke test, which is run",
    "builder/wheels/compare.py": "members of wheels, which are unpacked within bounds",
    "builder/wheels/inspect.py": "members of wheels, which are unpacked within bounds",
    "builder/wheels/jobserver.py": LOCK,
    "builder/wheels/source.py": MADE,
    "builder/wheels/stage.py": OWN,
    "cli/app.py": "it is /dev/null, which is written to",
    "extras/apidocs/draw.py": OWN,
    "extras/conda/channel.py": MADE,
    "extras/mlgo/candidates.py": OWN,
    "extras/mlgo/conversation.py": "the pipe and the messages of the compiler that it talks to",
    "extras/mlgo/training/saved_model.py": MADE,
    "ground/documents/digests.py": "this is the one that opens regular files only",
    "ground/git/shared.py": LOCK,
    "ground/programs/process.py": LOG,
    "ground/python/installed.py": "wheels have a copy of it, which imports nothing of the toolkit",
    "ground/storage/files.py": "this copies what is open already",
    "release/forge/local/store.py": LOCK,
    "release/index/drawing.py": OWN,
    "release/index/simple.py": MADE,
    "release/model/schemas/__init__.py": OWN,
    "use/install_files.py": "filecmp.cmp says of what is no regular file that it differs, and reads it in pieces",
}


def opens(call: ast.Call) -> bool:
    """Whether a call reads a file that a module names; the package's own, by ``resources`` or ``__file__``, are out."""
    called, method = ast.unparse(call.func), getattr(call.func, "attr", "")
    if re.search(r"\bresources\.files\(|\b__file__\b", called):
        return False
    if re.match(r"shutil\.copy|filecmp\.|os\.open$", called):
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        return "O_DIRECTORY" not in ast.unparse(call) and given.get("copy_function") in (None, "shutil.copy2")
    if called != "open" and method != "open":
        return method in ("read_text", "read_bytes")
    modes = [*call.args[called == "open" :][:1], *(word.value for word in call.keywords if word.arg == "mode")]
    mode = ast.literal_eval(modes[0]) if modes and isinstance(modes[0], ast.Constant) else "" if modes else "r"
    return re.fullmatch("[rwxabt+]+", mode) is not None and ("r" in mode or "+" in mode)


def test_a_file_of_somebody_else_is_opened_in_one_place() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if all((folder / "__init__.py").is_file() for folder in path.parents if folder.is_relative_to(PACKAGE))
        if any(isinstance(node, ast.Call) and opens(node) for node in ast.walk(ast.parse(path.read_bytes())))
    }
    assert sorted(found) == sorted(PLAIN)


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ("open(path)", True),
        ("open(path, 'rb', opener=f)", True),
        ("open(path, 'w')", False),
        ("path.open()", True),
        ("path.open(mode='r+b')", True),
        ("(folder / name).open('ab')", False),
        ("tracker.open(key, title)", False),
        ("(folder / 'x').read_text('utf-8')", True),
        ("files.read_text(path)", True),
        ("read_text(path)", False),
        ("resources.files(__package__).joinpath('x.toml').read_text()", False),
        ("Path(__file__).with_name('x').read_bytes()", False),
        ("shutil.copyfile(one, other)", True),
        ("shutil.copytree(one, other)", True),
        ("shutil.copytree(one, other, copy_function=copy_regular)", False),
        ("filecmp.cmp(one, other)", True),
        ("os.open(path, os.O_RDONLY)", True),
        ("os.open(folder, os.O_RDONLY | os.O_DIRECTORY)", False),
    ],
)
def test_what_reads_a_file(code: str, reads: bool) -> None:
    assert opens(ast.parse(code, mode="eval").body) is reads  # type: ignore[arg-type]
