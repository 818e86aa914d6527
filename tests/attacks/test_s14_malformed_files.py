"""S14: files that nobody should have written end in one message, take no memory, and leave nothing half-written."""

from __future__ import annotations

import errno
import gzip
import json
import re
import shutil
import sys
import tarfile
import warnings
import zipfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from mlir_release.builder.model.test_report import TestReport
from mlir_release.builder.model.wheel_info import WheelInfo
from mlir_release.builder.sdk.info import SdkInfo
from mlir_release.builder.sdk.packing import unpack
from mlir_release.builder.wheels.compare import compare
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.extras.apidocs.history import parse_history
from mlir_release.extras.apidocs.published import ApiSection
from mlir_release.extras.conda import channel
from mlir_release.extras.conda.recipe import write_recipe
from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import ReleaseError, UsageError, VerificationError
from mlir_release.ground.git.repository import NO_OBJECT, Git, Signature
from mlir_release.ground.git.trees import commit_files
from mlir_release.ground.storage.files import write_all
from mlir_release.ground.strategy import Verdict
from mlir_release.integrate.state import LogFinding, ProbeStore, Record
from mlir_release.release.index.observe import unpack as unpack_archive
from mlir_release.release.model.manifest import Manifest, Waiver
from mlir_release.release.provenance.bundle import is_about, parse_bundle, read_statement
from mlir_release.release.provenance.trust import TRUST_VARIABLE, load_trust, signing_config
from mlir_release.release.transaction.assets import read_built
from tests.attacks.bombs import ALLOWED, add_bomb, gzip_bomb, run_measured
from tests.paper_forge import PaperForge, make_manifest
from tests.refusals import refused
from tests.wheel_factory import VERSION, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable

DIST_INFO = f"mlir-{VERSION}.dist-info"

#: What is no document of any kind.
NONSENSE = {
    "nothing": b"",
    "not JSON": b"{",
    "not UTF-8": b'"\xff"',
    "a list": b"[]",
    "null": b"null",
    "not a number": b'{"schema": NaN}',
    "a long number": b'{"schema": 1' + b"0" * 100_000 + b"}",
    "deep lists": b"[" * 100_000,
    "deep lists that end": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "many values": b"[" + b"[]," * 4_000_000 + b"[]]",
    "NUL": b"\0" * 1000,
    "fields of other types": b'{"schema": 1, "tag": [], "dsseEnvelope": 7, "_type": {}, "platform": 3, "files": 1}',
    "an envelope without a payload": b'{"dsseEnvelope": {"payload": "!"}}',
}

#: Readers of documents; each refuses with an error of ours, or says that it is none.
READERS: dict[str, Callable[[bytes, Path], object]] = {
    "manifest": lambda content, _: Manifest.from_text(content, where="w"),
    "waiver": lambda content, _: Waiver.from_text(content, where="w"),
    "report": lambda content, _: TestReport.from_text(content, name="a.tests.json", where="w"),
    "wheel info": lambda content, _: WheelInfo.from_text(content),
    "record": lambda content, _: from_json(content, Record),
    "SDK": lambda content, _: SdkInfo.from_json(content, where="w"),
    "statement": lambda content, _: read_statement(content),
    "bundle": lambda content, _: parse_bundle(content),
    "trusted root": lambda content, folder: load_trust(_file(folder, content)),
    "trust configuration": lambda content, folder: signing_config({TRUST_VARIABLE: str(_file(folder, content))}),
    "API section": lambda content, _: _refuse_none(ApiSection.parse(content)),
    "API changes": lambda content, _: parse_history(content),
    "archive": lambda content, _: _refuse_none(unpack_archive(gzip.compress(content, 1), "local")),
    "what it is about": lambda content, _: _refuse_none(is_about(content, "a" * 64)),
    "conda channel": lambda content, folder: channel.serve_channels(_channel(folder, content), None, (), folder),
}  # fmt: skip


def _channel(folder: Path, content: bytes) -> Path:
    place = folder / "channels" / "releases" / "linux-64"
    place.mkdir(parents=True, exist_ok=True)
    (place / channel.REPODATA).write_bytes(content)
    return folder / "channels"


def _file(folder: Path, content: bytes) -> Path:
    path = folder / "file.json"
    path.write_bytes(content)
    return path


def _refuse_none(found: object) -> None:
    if not found:
        raise MalformedError("", "is none")


@pytest.mark.parametrize("reader", READERS)
def test_a_document_that_is_none_is_refused(tmp_path: Path, reader: str) -> None:
    for content in NONSENSE.values():
        with pytest.raises((ReleaseError, MalformedError)):
            READERS[reader](content, tmp_path)


def test_a_bad_verdict_does_not_stay(tmp_path: Path) -> None:
    git = Git(tmp_path)
    git.run("init", "--quiet", "--bare")
    who = Signature(name="x", email="x@example.com", when=datetime(2026, 11, 20, tzinfo=UTC))
    store = ProbeStore(git, "main", lambda: who)
    fields: dict[str, Any] = dict.fromkeys(("upstream", "upstream_tree", "pristine_tree", "outer", "setting"), "a" * 40)
    finding = LogFinding(kind="compiler", where="a.cpp", text="error: x")
    record = Record(verdict=Verdict.BAD, **fields, findings=(finding,))
    # A job of a walk pushed it: a finding without its place made every report fail, and nothing replaced the verdict.
    findings: tuple[Any, ...] = ([{}], [{"text": 1}], [{"kind": "a", "where": [], "text": ""}], 7)
    documents = [json.dumps({**fields, "verdict": "bad", "findings": found}).encode() for found in findings]
    for hostile in (*documents, b"[" * 100_000, b""):
        commit = commit_files(git, git.resolve(store.ref), {record.key: hostile}, "Push a verdict\n", who)
        assert git.update_ref(store.ref, commit, expected=git.resolve(store.ref) or NO_OBJECT)
        assert store.load() == {}
        store.record(record)
        assert store.load() == {record.key: record}


# -- archives ---------------------------------------------------------------------------------------------------------


def rewrite(wheel: Path, change: Callable[[zipfile.ZipFile], object]) -> None:
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(wheel, "a") as archive:
        change(archive)


def named(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("x")
    info.filename = name  # as it is: the constructor would cut it at a NUL
    return info


def encrypted(wheel: Path) -> None:
    content = bytearray(wheel.read_bytes())
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    wheel.write_bytes(content)


def of_method(wheel: Path, method: int) -> None:
    content = bytearray(wheel.read_bytes())
    content[content.rindex(b"PK\x01\x02") + 10] = method
    wheel.write_bytes(content)


#: Ways to damage a wheel that a person would take for a sound one.
WHEELS: dict[str, Callable[[Path], object]] = {
    "cut": lambda wheel: wheel.write_bytes(wheel.read_bytes()[:-100]),
    "empty": lambda wheel: wheel.write_bytes(b""),
    "a folder above": lambda wheel: rewrite(wheel, lambda zip: zip.writestr("../evil.py", "")),
    "an absolute path": lambda wheel: rewrite(wheel, lambda zip: zip.writestr("/tmp/evil.py", "")),
    "a drive": lambda wheel: rewrite(wheel, lambda zip: zip.writestr("C:evil.py", "")),
    "a backslash": lambda wheel: rewrite(wheel, lambda zip: zip.writestr("..\\evil.py", "")),
    "a NUL": lambda wheel: rewrite(wheel, lambda zip: zip.writestr(named("mlir/a\0.py"), "")),
    "a long name": lambda wheel: rewrite(wheel, lambda zip: zip.writestr("mlir/" + "a" * 300 + ".py", "")),
    "a long path": lambda wheel: rewrite(wheel, lambda zip: zip.writestr("mlir/" + "a/" * 1000 + "b.py", "")),
    "a file that is a folder": lambda wheel: rewrite(wheel, lambda zip: zip.writestr("mlir/__init__.py/b.py", "")),
    "a member twice": lambda wheel: rewrite(wheel, lambda zip: zip.writestr("mlir/__init__.py", "evil")),
    "the same member by another name": lambda wheel: rewrite(wheel, lambda zip: zip.writestr("mlir/./__init__.py", "")),
    "two METADATA": lambda wheel: rewrite(wheel, lambda zip: zip.writestr("a-1.dist-info/METADATA", "")),
    "encrypted": encrypted,
    "bzip2": partial(of_method, method=12),
    "LZMA": partial(of_method, method=14),
    "an unknown method": partial(of_method, method=99),
    "3 GB": lambda wheel: add_bomb(wheel, "mlir/zeros.py", 3 << 30),
    "3 GB that are declared as a few bytes": lambda wheel: add_bomb(wheel, "mlir/zeros.py", 3 << 30, declared=9),
}


@pytest.mark.parametrize("damage", WHEELS)
def test_a_damaged_wheel_is_refused_by_every_reader(tmp_path: Path, damage: str) -> None:
    from mlir_release.extras.apidocs.read import read_wheel

    wheel = make_wheel(tmp_path, platform="manylinux_2_28_x86_64")
    WHEELS[damage](wheel)
    other = make_wheel(tmp_path / "other", content="a = 1\n")
    before = sorted(tmp_path.rglob("*"))
    for read in (inspect, read_built, read_wheel, lambda path: channel._unpack(path, tmp_path / "root")):
        if (damage, read) in (("a file that is a folder", inspect), ("two METADATA", read_wheel)):
            continue  # it does no harm there
        refused(partial(read, wheel), kind=(UsageError, VerificationError))
        shutil.rmtree(tmp_path / "root", ignore_errors=True)
    if damage not in ("two METADATA", "a file that is a folder"):
        with pytest.raises(VerificationError):
            compare(wheel, other)
    assert sorted(tmp_path.rglob("*")) == before


MEMBERS = {
    "WHEEL not UTF-8": {f"{DIST_INFO}/WHEEL": b"Tag: \xff\n"},
    "WHEEL with a tag that is none": {f"{DIST_INFO}/WHEEL": b"Tag: a-b\n"},
    "WHEEL with a tag of millions": {
        f"{DIST_INFO}/WHEEL": b"Tag: " + b"-".join([b".".join(b"%d" % n for n in range(1000))] * 3) + b"\n"
    },
    "METADATA not UTF-8": {f"{DIST_INFO}/METADATA": b"\xff\xfe" * 1000},
    "METADATA with parts in parts": {
        f"{DIST_INFO}/METADATA": b"".join(
            b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (n, n) for n in range(2000)
        )
    },
    "METADATA with requirements that are none": {
        f"{DIST_INFO}/METADATA": f"Metadata-Version: 2.4\nName: mlir\nVersion: {VERSION}\nRequires-Dist: !!\n".encode()
    },
    "METADATA with a requirement of two lines": {
        f"{DIST_INFO}/METADATA": b"Metadata-Version: 2.4\nName: mlir\nRequires-Python: \n  >=3\n"
    },
    "_release.json in lists": {"mlir/_release.json": b"[" * 100_000},
    "_release.json with a target elsewhere": {
        "mlir/_release.json": json.dumps(
            {"schema": 1, "tag": "t", "revision": "a" * 40, "profile": "host", "target": "../x"}
        ).encode()
    },
    "half an ELF file": {"mlir/x.so": b"\x7fELF\x02\x01\x01" + bytes(9)},
    "a wild ELF file": {"mlir/x.so": b"\x7fELF\x02\x01\x01" + b"\xff" * 500},
    "a wild Mach-O file": {"mlir/x.so": b"\xcf\xfa\xed\xfe" + b"\xff" * 500},
    "a wild PE file": {"mlir/x.pyd": b"MZ" + b"\xff" * 500},
}


@pytest.mark.parametrize("members", MEMBERS)
def test_a_wheel_with_members_that_cannot_be_read_has_problems_or_is_refused(tmp_path: Path, members: str) -> None:
    wheel = make_wheel(tmp_path, files=MEMBERS[members])
    if members in (
        "half an ELF file",
        "a wild ELF file",
        "a wild Mach-O file",
        "a wild PE file",
        "METADATA with parts in parts",
    ):
        refused(lambda: inspect(wheel, ask_auditwheel=False), "file-damaged", "is damaged")
    else:
        assert inspect(wheel, ask_auditwheel=False).problems or "_release" in members
    if "WHEEL" not in members and "file" not in members:
        error = refused(lambda: read_built(wheel), kind=VerificationError)
        assert re.search("is damaged|does not say which release it belongs to", error.what)


def test_a_record_that_cannot_be_read_is_a_problem_of_the_wheel(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for record in (b"\xff\0,,\n", b'"' + b"a" * 200_000 + b'"\n', b"a,b,c,d\n", b"a,sha256,x\n", b"\n" * 9):
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, content in {**members, f"{DIST_INFO}/RECORD": record}.items():
                archive.writestr(name, content)
        assert inspect(wheel, ask_auditwheel=False).problems
        with pytest.raises(VerificationError):
            read_built(wheel)


def test_sources_that_python_cannot_parse_are_no_bindings(tmp_path: Path) -> None:
    from mlir_release.extras.apidocs.read import read_wheel

    for source in (b"a = '\0'", b"(" * 100_000, b"-" * 100_000 + b"1", b"\xff", b"x = 1" + b"0" * 5000, b"def"):
        wheel = make_wheel(tmp_path, files={"mlir/__init__.py": source})
        refused(partial(read_wheel, wheel), "wheel-unsuitable")


def header(type: bytes, size: int, *, name: str = "x") -> bytes:
    """A tar header that says what it likes."""
    info = tarfile.TarInfo(name)
    info.type, info.size = type, size
    return info.tobuf(tarfile.GNU_FORMAT)


TARS: dict[str, bytes] = {
    "nothing": b"",
    "a name of 3 GB": header(tarfile.GNUTYPE_LONGNAME, 3 << 30),
    "headers of 3 GB": header(tarfile.XHDTYPE, 3 << 30),
    "headers without end": header(tarfile.XHDTYPE, 512) + b"\0" * 512,
    "a name of a name of a name": header(tarfile.GNUTYPE_LONGNAME, 512) * 5000,
    "a member of 3 GB": header(tarfile.REGTYPE, 3 << 30, name=f"mlir-{VERSION}/PKG-INFO"),
    "a negative size": header(tarfile.REGTYPE, -512),
    "a sparse member": header(tarfile.GNUTYPE_SPARSE, 512),
    "a folder above": header(tarfile.REGTYPE, 0, name="../x"),
    "a member twice": header(tarfile.REGTYPE, 0) * 2,
}


@pytest.mark.parametrize("content", TARS)
def test_a_hostile_tar_archive_is_refused_as_a_source_distribution_and_as_an_sdk(tmp_path: Path, content: str) -> None:
    source = tmp_path / f"source-mlir-{VERSION}.tar.gz"
    source.write_bytes(gzip_bomb(TARS[content], 64 << 20))
    refused(lambda: read_built(source), "file-damaged", "is damaged")
    archive = tmp_path / "build.tar.zst"
    archive.write_bytes(zstandard.compress(TARS[content] + bytes(64 << 20)))
    error = refused(lambda: unpack([archive], tmp_path / "sdk"), kind=(VerificationError, UsageError))
    assert error.id in ("file-damaged", "input-invalid")
    said = "is not a complete part of an SDK|has an entry that would be unpacked elsewhere|description cannot be read"
    assert re.search(said, error.what)
    assert not (tmp_path / "sdk").exists()
    assert not list(tmp_path.glob(".sdk.unpack"))


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("declared", [None, 9, (1 << 30) - 1], ids=["honest", "tiny", "just allowed"])
def test_a_member_of_three_gigabytes_takes_no_memory(tmp_path: Path, declared: int | None) -> None:
    for name, command in (("zeros.so", ["wheels", "inspect"]), ("zeros.py", ["apidocs", "--output", "pages"])):
        wheel = make_wheel(tmp_path)
        add_bomb(wheel, f"mlir/{name}", 3 << 30, declared=declared)
        done, peak = run_measured(*command, wheel, folder=tmp_path)
        assert done.returncode == 6, done.stderr
        assert "Traceback" not in done.stderr
        assert peak < ALLOWED


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("size", [100_000_000, 3 << 30])
def test_a_huge_manifest_takes_no_memory(tmp_path: Path, size: int) -> None:
    from tests.release_stage import make_stage

    stage = make_stage(tmp_path)
    folder = stage.forge.root / "releases" / "snapshot-20261120.01"
    folder.mkdir(parents=True)
    with (folder / "release.json").open("wb") as file:
        file.write(b'{"schema": 1, "tag": "')
        file.truncate(size)
    record = {
        **dict.fromkeys(("tag", "title", "body"), folder.name), "id": "000099", "prerelease": True,
        **dict.fromkeys(("created_at", "published_at"), "2026-11-20T12:00:00+00:00"),
        "assets": {"release.json": {"size": size, "sha256": sha256_of(folder / "release.json")}},
    }  # fmt: skip
    (folder / ".forge.json").write_text(json.dumps(record))
    output = ("--output", tmp_path / "site")
    done, peak = run_measured("index", "--forge", f"local:{stage.forge.root}", *output, folder=tmp_path)
    assert done.returncode == 6, done.stderr
    assert "Traceback" not in done.stderr
    assert peak < ALLOWED


# -- full disks -------------------------------------------------------------------------------------------------------


def fill_after(monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """From now on the disk is full after so many files."""
    write, left = Path.write_bytes, [writes]

    def write_bytes(path: Path, data: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            write(path, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", write_bytes)


@pytest.mark.parametrize("writes", [0, 1])
def test_a_full_disk_leaves_the_recipe_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    forge, folder, manifest = PaperForge(), tmp_path / "recipe", make_manifest("snapshot-20261120.01")
    forge.add(manifest)
    write_all(folder, {"recipe.yaml": "old", "variants.yaml": "old"})
    fill_after(monkeypatch, 1 + writes)  # the first is that of the manifest
    refused(lambda: write_recipe(forge, "snapshot-20261120.01", folder), "disk-full")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"recipe.yaml": "old", "variants.yaml": "old"}


def test_a_full_disk_leaves_the_documentation_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlir_release.extras.apidocs.published import make_section

    wheel = make_wheel(tmp_path, content="def f() -> int: ...\n")
    make_section(wheel, tmp_path / "pages")
    before = {path.name: path.read_bytes() for path in (tmp_path / "pages").iterdir()}
    fill_after(monkeypatch, 2)
    refused(
        lambda: make_section(make_wheel(tmp_path / "other", content="def g() -> int: ...\n"), tmp_path / "pages"),
        "disk-full",
    )
    assert {path.name: path.read_bytes() for path in (tmp_path / "pages").iterdir()} == before
