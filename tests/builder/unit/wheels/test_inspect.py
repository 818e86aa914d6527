from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.wheels.inspect import WheelReport, inspect
from mlir_release.release.transaction.assets import read_wheel
from tests.refusals import refused
from tests.wheel_factory import PYTHON, make_wheel, pack

if TYPE_CHECKING:
    from pathlib import Path

#: Of the wheels that are made here.
RECORD = "mlir-20261120.2.dist-info/RECORD"

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="compiles a small library")


def problems(report: WheelReport) -> set[str]:
    return {problem.id for problem in report.problems}


def compile_library(folder: Path, source: str, *flags: str, name: str = "libx.so") -> bytes:
    (folder / "x.c").write_text(source)
    library = folder / name
    command = ["cc", "-shared", "-fPIC", "-o", str(library), str(folder / "x.c"), f"-Wl,-soname,{name}", *flags]
    subprocess.run(command, check=True, capture_output=True)
    return library.read_bytes()


def rewrite(wheel: Path, change: dict[str, bytes]) -> Path:
    """The wheel with members replaced, and RECORD left as it was."""
    with zipfile.ZipFile(wheel) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**members, **change}.items():
            archive.writestr(name, data)
    return wheel


def test_a_sound_wheel(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, requires=("numpy>=1.19.5",), padding=5000)
    report = inspect(path)
    assert report.problems == ()
    assert (report.distribution, report.version) == ("mlir", "20261120.2")
    assert report.requires_python == ">=3.10"
    assert report.requires_dist == ("numpy>=1.19.5",)
    assert report.tags == (f"{PYTHON}-{PYTHON}-manylinux_2_28_x86_64",)
    assert report.size == path.stat().st_size
    assert report.release is not None
    assert report.release.target == f"mlir-linux-x86_64-{PYTHON}"
    assert report.files[0].name == "mlir/padding.bin"
    assert report.parts[0].name == "other"
    assert sum(part.size for part in report.parts) == report.unpacked_size
    assert sum(part.files for part in report.parts) == len(report.files)
    assert json.loads(json.dumps(report.to_json()))["true_platform_tag"] == "manylinux_2_28_x86_64"


@pytest.mark.parametrize(
    ("others", "known"), [((), True), (("deeper/than/_release.json",), True), (("clang/_release.json",), False)]
)
def test_a_wheel_belongs_to_the_release_that_its_one_package_names(
    tmp_path: Path, others: tuple[str, ...], known: bool
) -> None:
    """Two packages may say two things: whoever reads either would be misled."""
    path = make_wheel(tmp_path, files=dict.fromkeys(others, b"{}"))
    report = inspect(path)
    assert (report.release is not None) == known
    if not known:
        refused(lambda: read_wheel(path), "wheel-unsuitable", "does not say which release it belongs to")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("mlir-1-py3-none-any.whl", None, "input-missing"),
        ("mlir.whl", b"", "input-invalid"),
        ("mlir-1.0.zip", b"", "input-invalid"),
        ("mlir-x-py3-none-any.whl", b"", "input-invalid"),
        ("mlir-1.0-py3-none-any.whl", b"x" * 1000, "file-damaged"),
    ],
)
def test_no_file_no_wheels_name_and_no_archive(tmp_path: Path, name: str, content: bytes | None, expected: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    refused(lambda: inspect(tmp_path / name), expected)


@pytest.mark.parametrize("member", ["mlir/__init__.py", "mlir-1.0.dist-info/METADATA"])
def test_an_archive_that_is_no_wheel(tmp_path: Path, member: str) -> None:
    path = tmp_path / "mlir-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, "")
    error = refused(lambda: inspect(path), "input-invalid", "no wheel")
    assert ("RECORD" in error.why) == member.endswith("METADATA")


@pytest.mark.parametrize("keep", [0, 10, 400, -30, None])
def test_a_wheel_that_is_cut_off_or_has_a_flipped_bit(tmp_path: Path, keep: int | None) -> None:
    path = make_wheel(tmp_path, padding=20_000)
    data = bytearray(path.read_bytes())
    if keep is None:
        data[len(data) // 2] ^= 1
    path.write_bytes(data[:keep])
    refused(lambda: inspect(path), "file-damaged")


@pytest.mark.parametrize(
    ("member", "content", "found"),
    [
        ("mlir/__init__.py", b"evil = 1\n", {"record-digest"}),
        ("mlir/extra.py", b"", {"record-missing"}),
        (RECORD, b"mlir/gone.py,sha256=x,1\n", {"record-extra"}),
        (RECORD, b"mlir/gone.py,sha256=x\n", {"record-invalid"}),
        (RECORD, b"mlir/gone.py,sha256=x,many\n", {"record-invalid"}),
        (RECORD, b"mlir/gone.py,x,1\n", {"record-invalid"}),
        (RECORD, b"mlir/gone.py,sha257=x,1\n", {"record-invalid"}),
        (RECORD, b"\xff,sha256=x,1\n", {"record-extra"}),
        (RECORD, b"\n\n", set()),
    ],
)
def test_record_and_members_are_held_against_each_other(
    tmp_path: Path, member: str, content: bytes, found: set[str]
) -> None:
    path = make_wheel(tmp_path)
    if member == RECORD:  # lines after its own
        with zipfile.ZipFile(path) as archive:
            content = archive.read(RECORD) + content
    assert problems(inspect(rewrite(path, {member: content}))) == found


@pytest.mark.parametrize(
    ("said", "other", "found"),
    [
        ("20261120.2", "20261120.3", "version-mismatch"),
        ("mlir-", "rlim-", "name-mismatch"),
        ("2_28", "2_17", "wheel-tags-mismatch"),
    ],
)
def test_a_file_name_that_contradicts_what_is_in_the_wheel(tmp_path: Path, said: str, other: str, found: str) -> None:
    path = make_wheel(tmp_path)
    assert found in problems(inspect(path.rename(path.with_name(path.name.replace(said, other)))))


def test_invalid_metadata(tmp_path: Path) -> None:
    metadata = b"Metadata-Version: 2.4\nName: mlir\nVersion: 20261120.2\nRequires-Python: three\n"
    report = inspect(rewrite(make_wheel(tmp_path), {"mlir-20261120.2.dist-info/METADATA": metadata}))
    assert "metadata-invalid" in problems(report)
    assert report.distribution == "mlir"


def test_an_extension_of_another_interpreter(tmp_path: Path) -> None:
    name = "mlir/_mlir_libs/_mlir.cpython-312-x86_64-linux-gnu.so"
    report = inspect(make_wheel(tmp_path, files={name: b"no ELF at all"}))
    assert problems(report) == {"interpreter-tag-untrue"}


def test_extensions_that_fit(tmp_path: Path) -> None:
    files = {
        f"mlir/_mlir.cpython-{PYTHON[2:]}-x86_64-linux-gnu.so": b"",
        "mlir/_other.abi3.so": b"",
        f"mlir/_x.{PYTHON}-win_amd64.pyd": b"",
    }
    assert inspect(make_wheel(tmp_path, files=files)).problems == ()


def test_a_member_twice_is_no_wheel_that_two_readers_see_alike(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("mlir/__init__.py", "")
    assert refused(lambda: inspect(path), "file-damaged").why == "mlir/__init__.py is in the archive twice"


@needs_compiler
def test_a_platform_tag_that_is_older_than_the_binaries(tmp_path: Path) -> None:
    # fexecve's and others' versions are old; getrandom's is 2.25.
    source = "#include <sys/random.h>\nlong f(void *p) { return getrandom(p, 1, 0); }\n"
    library = compile_library(tmp_path, source)
    report = inspect(make_wheel(tmp_path, platform="manylinux_2_17_x86_64", files={"mlir/libx.so": library}))
    assert problems(report) == {"platform-tag-untrue"}
    assert report.system == ("libc.so.6",)
    honest = inspect(make_wheel(tmp_path, platform="manylinux_2_28_x86_64", files={"mlir/libx.so": library}))
    assert honest.problems == ()
    assert honest.elf["mlir/libx.so"].glibc is not None
    assert honest.elf["mlir/libx.so"].glibc >= (2, 25)


@needs_compiler
def test_a_library_that_is_needed_and_not_there(tmp_path: Path) -> None:
    compile_library(tmp_path, "int other(void) { return 1; }", name="libother.so")
    flags = [f"-L{tmp_path}", "-lother"]
    library = compile_library(tmp_path, "int other(void); int f(void) { return other(); }", *flags)
    report = inspect(make_wheel(tmp_path, files={"mlir/libx.so": library}))
    assert report.external == ("libother.so",)
    assert problems(report) == {"platform-tag-untrue"}


@needs_compiler
def test_a_library_that_the_wheel_carries_is_no_outside_one(tmp_path: Path) -> None:
    other = compile_library(tmp_path, "int other(void) { return 1; }", name="libother.so")
    flags = [f"-L{tmp_path}", "-lother", "-Wl,-rpath,$ORIGIN"]
    library = compile_library(tmp_path, "int other(void); int f(void) { return other(); }", *flags)
    report = inspect(make_wheel(tmp_path, files={"mlir/libx.so": library, "mlir/libother.so": other}))
    assert report.external == ()
    assert report.problems == ()
    assert {part.name for part in report.parts} >= {"shared libraries"}


@needs_compiler
def test_a_build_path_in_a_library(tmp_path: Path) -> None:
    library = compile_library(tmp_path, "int f(void) { return 1; }", "-Wl,-rpath,/home/me/build:$ORIGIN")
    report = inspect(make_wheel(tmp_path, files={"mlir/libx.so": library}))
    assert problems(report) == {"runpath-absolute"}


def test_half_an_elf_file(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files={"mlir/libx.so": b"\x7fELF\x02\x01\x01" + bytes(9)})
    refused(lambda: inspect(wheel), "file-damaged")


def test_a_pure_wheel(tmp_path: Path) -> None:
    dist_info = "tool-1.0.dist-info"
    members = {
        "tool.py": b"",
        f"{dist_info}/METADATA": b"Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n",
        f"{dist_info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = tmp_path / "tool-1.0-py3-none-any.whl"
    path.write_bytes(pack(members, f"{dist_info}/RECORD"))
    report = inspect(path)
    assert report.problems == ()
    assert report.true_platform_tag == "any"
    assert report.release is None
