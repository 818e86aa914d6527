"""Wheels without files for the names that clients of libclang require: pip then leaves these names alone."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs
from packaging.pylock import Pylock

from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.python import venv
from mlir_release.release.index.simple import beside, stand_ins
from mlir_release.release.instructions.lockfiles import pylock, requirements
from tests.paper_forge import PaperForge, make_index, make_manifest
from tests.wheel_factory import TAG, pack

if TYPE_CHECKING:
    from mlir_release.release.model.manifest import Manifest

NAME = "llvm-libclang"
#: As ctypeslib2, which ends without a distribution that is called clang.
PROGRAM = "import clang.cindex, importlib.metadata as m; print(clang.cindex.ours, m.version('clang'))"


def with_libclang(llvm_version: str = "22.1.8") -> Manifest:
    manifest = make_manifest(
        TAG,
        distributions=("mlir", NAME),
        projects={NAME: "clang"},
        platforms=("manylinux_2_28_x86_64",),
        llvm_version=llvm_version,
    )
    wheels = [
        structs.replace(each, profile="libclang") if each.project == "clang" else each for each in manifest.wheels
    ]
    return structs.replace(manifest, wheels=tuple(wheels))


def test_they_have_the_version_of_llvm_and_nobody_else_gets_them() -> None:
    assert list(stand_ins(with_libclang(), NAME)) == [
        "clang-22.1.8-py3-none-any.whl",
        "libclang-22.1.8-py3-none-any.whl",
    ]
    assert next(iter(stand_ins(with_libclang("23.0.0git"), NAME))) == "clang-23.0.0-py3-none-any.whl"
    assert not stand_ins(with_libclang(), "mlir")
    # Locks of users name this digest: later toolkits write the same bytes.
    (first, *_) = stand_ins(with_libclang(), NAME).values()
    assert sha256_of(first) == "094c5979dfdafa50d86e3f10e199278551e86bee26ac5aa2b727b9d02831b4a8"


def test_no_list_of_links_has_them(tmp_path: Path) -> None:
    """An installer that saw them there would take them for the distributions of those names."""
    forge = PaperForge()
    forge.add(with_libclang())
    make_index(forge, tmp_path)
    files = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {name for name, content in files.items() if b"/beside/clang-22.1.8-py3-none-any.whl" in content} == {
        f"snapshots/{TAG}/requirements-{TAG}-llvm-libclang.txt",
        f"snapshots/{TAG}/pylock.llvm-libclang.toml",
        "snapshots/latest/requirements-llvm-libclang.txt",
    }
    assert files["beside/clang-22.1.8-py3-none-any.whl"] in stand_ins(with_libclang(), NAME).values()


def test_a_client_of_clang_gets_nothing_that_overwrites_libclang(tmp_path: Path) -> None:
    """As pip is told on the pages. Without the stand-ins, it would look for clang, which is not here."""
    manifest = with_libclang()
    for name, content in stand_ins(manifest, NAME).items():
        (tmp_path / "beside").mkdir(exist_ok=True)
        (tmp_path / "beside" / name).write_bytes(content)
    urls = {}
    for name, files, more in (
        (NAME, {"clang/cindex.py": b"ours = 1\n"}, ""),
        ("client", {}, "Requires-Dist: clang>=14\nRequires-Dist: libclang>=16.0.0\n"),
    ):
        stem = f"{name.replace('-', '_')}-{manifest.version}"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {manifest.version}\n{more}".encode()
        wheel = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        members = {**files, f"{stem}.dist-info/METADATA": metadata, f"{stem}.dist-info/WHEEL": wheel}
        urls[name] = tmp_path / f"{stem}-py3-none-any.whl"
        urls[name].write_bytes(pack(members, f"{stem}.dist-info/RECORD"))
    ours = next(wheel for wheel in manifest.wheels if wheel.distribution == NAME)
    ours = structs.replace(ours, platforms=("any",), filename=urls[NAME].name)
    manifest = structs.replace(manifest, wheels=(structs.replace(ours, sha256=sha256_of(urls[NAME].read_bytes())),))
    others = beside(manifest, NAME, f"{tmp_path.as_uri()}/")
    given = {ours.filename: urls[NAME].as_uri()}
    text = requirements(manifest, NAME, given, beside=others)
    (tmp_path / "requirements.txt").write_text(text)
    locked = Pylock.from_dict(tomllib.loads(pylock(manifest, NAME, given, beside=others))).packages
    assert [package.name for package in locked] == [NAME, "clang", "libclang"]
    environment = venv.create(tmp_path / "environment", Path(sys.executable))
    environment.install("--no-index", "-r", tmp_path / "requirements.txt")
    environment.install("--no-index", urls["client"])
    assert {"clang": "22.1.8", "libclang": "22.1.8"}.items() <= environment.installed().items()
    done = subprocess.run([environment.python, "-c", PROGRAM], capture_output=True)
    assert done.stdout.split() == [b"1", b"22.1.8"]
    # uv, as docs/choosing.md says, for a project that caps a name, too.
    docs = (Path(__file__).parents[4] / "docs/choosing.md").read_text(encoding="utf-8")
    (said,) = (each for each in docs.split("```") if each.startswith("toml\n") and "/beside/" in each)
    said = said.removeprefix("toml").replace("https://OWNER.github.io/REPOSITORY", tmp_path.as_uri())
    needed = [f"{name} @ {path.as_uri()}" for name, path in urls.items()]
    project = f"[project]\nname='p'\nversion='1'\nrequires-python='>=3.11'\ndependencies={[*needed, 'libclang<19']}\n"
    (tmp_path / "pyproject.toml").write_text(project + said)
    uv = str(Path(sys.executable).with_name("uv"))
    command = [uv, "run", "--quiet", "--no-index", "--python", sys.executable, "python", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path)
    assert done.stdout.split() == [b"1", b"22.1.8"], done.stderr
