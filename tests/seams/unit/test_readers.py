"""One place parses JSON and TOML, and one opens archives: there are the bounds, and nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "mlir_release"

#: Runs inside a wheel, or in its build, where the toolkit is not installed; it reads what the wheel itself carries.
CARRIED = PACKAGE / "builder" / "projects"

#: Calls that read -> the modules that may make them.
READERS = {
    "json.load": (),
    "json.loads": (),
    "msgspec.json.decode": ("ground/documents/decode.py",),
    "tomllib.load": (),
    "tomllib.loads": ("ground/documents/decode.py",),
    "zipfile.ZipFile": ("builder/wheels/archive.py", "builder/wheels/platform_tags.py"),  # these two write
    "tarfile.open": ("builder/sdk/packing.py",),  # writes
    "tarfile.TarFile": ("ground/storage/archives.py",),
    "gzip.decompress": (),
    "zlib.decompress": (),
    "shutil.unpack_archive": (),
}


def calls(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def test_documents_and_archives_are_read_in_one_place_each() -> None:
    found = {
        (name, path.relative_to(PACKAGE).as_posix())
        for path in PACKAGE.rglob("*.py")
        if not path.is_relative_to(CARRIED)
        for name in calls(path) & READERS.keys()
    }
    assert found == {(name, module) for name, modules in READERS.items() for module in modules}
