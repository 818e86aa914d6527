"""Archives of an SDK's parts: there and back, and every way in which one can be damaged or misplaced."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from typing import TYPE_CHECKING

import pytest
import zstandard

from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.sdk.packing import pack, unpack
from mlir_release.builder.sdk.parts import BUILD, DESCRIPTION, TOOLS, list_of
from mlir_release.ground.documents.digests import sha256_of
from tests.builder.pretence import fill_disk, leave_free
from tests.prefix_factory import REVISION, make_sdk
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.errors import ReleaseError


@pytest.fixture(scope="module")
def packed(sdk: Sdk, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    pack(sdk, folder)
    return folder


def test_both_parts_in_one_folder_are_the_whole_sdk(sdk: Sdk, packed: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in packed.iterdir()) == ["build.tar.zst", "sdk.json", "tools.tar.zst"]
    again = unpack([packed], tmp_path / "sdk")
    assert again.info == sdk.info
    assert again.parts == [BUILD, TOOLS]
    again.verify()
    names = {path.relative_to(sdk.root) for path in sdk.root.rglob("*")}
    assert {path.relative_to(again.root) for path in again.root.rglob("*")} == names
    assert os.access(again.tools / "mlir-opt", os.X_OK)
    assert (again.tools / "ld.lld").readlink().name == "lld"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".sdk.unpack.lock", "sdk"]


@pytest.mark.parametrize("order", [(BUILD, TOOLS), (TOOLS, BUILD)])
def test_parts_come_one_by_one_in_any_order(packed: Path, tmp_path: Path, order: tuple[str, str]) -> None:
    first = unpack([packed / f"{order[0]}.tar.zst"], tmp_path / "sdk")
    assert first.parts == [order[0]]
    first.verify()
    second = unpack([packed / f"{order[1]}.tar.zst"], tmp_path / "sdk")
    assert sorted(second.parts) == [BUILD, TOOLS]
    second.verify()


def test_a_description_alone_is_an_sdk_without_parts(sdk: Sdk, packed: Path, tmp_path: Path) -> None:
    (tmp_path / "packed").mkdir()
    shutil.copy(packed / DESCRIPTION, tmp_path / "packed")
    alone = unpack([tmp_path / "packed"], tmp_path / "sdk")
    assert (alone.info, alone.parts) == (sdk.info, [])


def test_a_part_that_is_there_is_replaced(packed: Path, tmp_path: Path) -> None:
    found = unpack([packed / "build.tar.zst"], tmp_path / "sdk")
    (found.root / "include" / "mlir" / "IR" / "Header.h").write_text("changed")
    unpack([packed / "build.tar.zst"], tmp_path / "sdk").verify()


def test_the_same_sdk_gives_the_same_archives(sdk: Sdk, packed: Path, tmp_path: Path) -> None:
    for archive in pack(sdk, tmp_path):
        assert archive.read_bytes() == (packed / archive.name).read_bytes()


class TestBadInput:
    def unpacks_nothing(self, given: Path, output: Path, id: str, said: str = "") -> ReleaseError:
        error = refused(lambda: unpack([given], output), id, said)
        assert not output.with_name(f".{output.name}.unpack").exists()
        return error

    def test_nothing_packed(self, tmp_path: Path) -> None:
        self.unpacks_nothing(tmp_path, tmp_path / "sdk", "input-missing")
        self.unpacks_nothing(tmp_path / "build.tar.zst", tmp_path / "sdk", "input-missing")

    def test_a_part_of_another_sdk(self, packed: Path, tmp_path: Path) -> None:
        other = make_sdk(tmp_path, revision="0" * 40)
        pack(other, tmp_path / "packed")
        unpack([packed / "build.tar.zst"], tmp_path / "out")
        error = self.unpacks_nothing(tmp_path / "packed" / "tools.tar.zst", tmp_path / "out", "sdk-mismatch")
        assert "0" * 40 in error.why
        assert REVISION in error.why
        kept = Sdk.load(tmp_path / "out")
        assert kept.parts == [BUILD]
        kept.verify()

    @pytest.mark.parametrize("kept", [0, 10, 0.3, 0.9, None])
    def test_an_archive_that_is_cut_off_or_has_other_bits(
        self, packed: Path, tmp_path: Path, kept: float | None
    ) -> None:
        content = bytearray((packed / "build.tar.zst").read_bytes())
        if kept is None:
            content[len(content) // 2] ^= 0xFF
        else:
            del content[int(len(content) * kept if kept < 1 else kept) :]
        archive = tmp_path / "build.tar.zst"
        archive.write_bytes(content)
        self.unpacks_nothing(archive, tmp_path / "sdk", "file-damaged", "is not a complete part of an SDK")
        assert not (tmp_path / "sdk").exists()

    def test_an_archive_of_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("precious")
        archive = tmp_path / "build.tar.zst"
        with (
            zstandard.ZstdCompressor().stream_writer(archive.open("wb")) as stream,
            tarfile.open(fileobj=stream, mode="w|") as tar,
        ):
            tar.add(tmp_path / "thesis.tex", "thesis.tex")
        self.unpacks_nothing(archive, tmp_path / "sdk", "file-damaged", "is not a complete part of an SDK")

    @pytest.mark.parametrize(
        ("name", "kind", "target"),
        [
            ("../actions/setup/action.yml", tarfile.REGTYPE, ""),
            ("include/../../outside", tarfile.REGTYPE, ""),
            ("/etc/outside", tarfile.REGTYPE, ""),
            ("C:/outside", tarfile.REGTYPE, ""),
            ("..\\outside", tarfile.REGTYPE, ""),
            ("lib/link", tarfile.SYMTYPE, "/etc/passwd"),
            ("lib/link", tarfile.SYMTYPE, "../../outside"),
            ("link/outside", tarfile.REGTYPE, ""),  # through a link that is there
            ("hard", tarfile.LNKTYPE, "sdk.json"),
            ("pipe", tarfile.FIFOTYPE, ""),
            ("folder", tarfile.DIRTYPE, ""),
        ],
    )
    def test_an_entry_that_leads_outside(self, sdk: Sdk, tmp_path: Path, name: str, kind: bytes, target: str) -> None:
        archive = tmp_path / "jobs" / "build.tar.zst"
        archive.parent.mkdir()
        with (
            zstandard.ZstdCompressor().stream_writer(archive.open("wb")) as stream,
            tarfile.open(fileobj=stream, mode="w|") as tar,
        ):
            tar.add(sdk.root / DESCRIPTION, DESCRIPTION)
            inside, entry = tarfile.TarInfo("link"), tarfile.TarInfo(name)
            inside.type, inside.linkname = tarfile.SYMTYPE, "include"
            entry.type, entry.linkname = kind, target
            tar.addfile(inside)
            tar.addfile(entry)
        before = sorted(tmp_path.rglob("*"))
        said = "has an entry that would be unpacked elsewhere"
        error = self.unpacks_nothing(archive, tmp_path / "jobs" / "sdk", "file-damaged", said)
        assert name in error.why
        assert [path for path in sorted(tmp_path.rglob("*")) if not path.name.endswith(".lock")] == before

    def test_a_folder_that_holds_something_else(self, packed: Path, tmp_path: Path) -> None:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "thesis.tex").write_text("precious")
        self.unpacks_nothing(packed / "build.tar.zst", tmp_path / "home", "output-in-the-way")
        assert [path.name for path in (tmp_path / "home").iterdir()] == ["thesis.tex"]

    def test_no_room_is_found_out_before_anything_is_unpacked(
        self, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        leave_free(0, monkeypatch)
        self.unpacks_nothing(packed / "build.tar.zst", tmp_path / "sdk", "disk-full")

    def test_room_that_ends_half_way_leaves_what_was_there(
        self, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unpack([packed / "build.tar.zst"], tmp_path / "sdk")
        fill_disk("tarfile.TarFile.extract", monkeypatch, lambda _, member, *__: member.name.startswith("source/"))
        self.unpacks_nothing(packed / "tools.tar.zst", tmp_path / "sdk", "disk-full")
        kept = Sdk.load(tmp_path / "sdk")
        assert kept.parts == [BUILD]
        kept.verify()

    def test_no_room_for_the_archives(self, sdk: Sdk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fill_disk("mlir_release.builder.sdk.packing._add", monkeypatch)
        refused(lambda: pack(sdk, tmp_path), "disk-full")
        assert [path.name for path in tmp_path.iterdir()] == [DESCRIPTION]  # nothing half-done

    def test_an_unfinished_move_is_no_part(self, packed: Path, tmp_path: Path) -> None:
        """The list is moved last; a run that is killed before that is repeated."""
        found = unpack([packed / "build.tar.zst"], tmp_path / "sdk")
        (found.root / "parts" / "build.txt").unlink()
        refused(lambda: Sdk.load(tmp_path / "sdk").require(BUILD, purpose="building a wheel"), "input-missing")
        unpack([packed / "build.tar.zst"], tmp_path / "sdk").verify()


def test_a_list_that_names_what_is_elsewhere_is_not_packed(sdk: Sdk, tmp_path: Path) -> None:
    foreign = sdk.copy_to(tmp_path / "sdk")
    (tmp_path / "secret").write_text("of this machine\n")
    listed = list_of(foreign.root, TOOLS)
    listed.write_text(listed.read_text() + f"file {'0' * 64} ../secret\n")
    description = json.loads((foreign.root / DESCRIPTION).read_text())
    description["parts"][TOOLS]["digest"] = f"sha256:{sha256_of(listed)}"
    (foreign.root / DESCRIPTION).write_text(json.dumps(description))
    said = "the SDK's files are not those that it was made with"
    refused(lambda: pack(Sdk.load(foreign.root), tmp_path / "packed"), "file-damaged", said)
    assert not (tmp_path / "packed" / "tools.tar.zst").exists()
