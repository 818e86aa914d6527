"""S3: a forge's record names files outside of its folder, or has links that lead there."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from mlir_release.release.forge.base import Asset, Release
from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.transaction.release_assets import RemoteRelease
from tests.attacks.hostile_mirror import FILES, Mirror, run
from tests.refusals import refused
from tests.release.integration.signed_stage import TAG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Every spelling of a way out, on any system.
NAMES = [
    "../../../home/.bashrc",
    "..",
    ".forge.json",
    ".hidden",
    "/etc/passwd",
    "a/b.whl",
    "a\\b.whl",
    "C:evil.whl",
    "-rf",
    "",
    "new\nline.whl",
    "nul\0.whl",
    "x" * 300,
]


def commands(mirror: Mirror, output: Path) -> list[tuple[str, ...]]:
    return [
        ("mirror", mirror.address, f"local:{output}"),
        ("verify", TAG, "--forge", mirror.address),
        ("install", "latest", "--forge", mirror.address, "--python", sys.executable, "--dry-run"),
        ("release", "list", "--forge", mirror.address),
    ]


def refuses(mirror: Mirror, output: Path) -> None:
    destination = LocalForge.create(output, FILES)
    for command in commands(mirror, output):
        answer = run(*command)
        assert (answer.code, answer.id) == (5, "forge-damaged"), command
    assert (destination.tags(), destination.releases()) == ([], [])


@pytest.mark.parametrize("name", NAMES)
def test_a_record_cannot_name_a_file_elsewhere(honest: Mirror, tmp_path: Path, name: str) -> None:
    mine = tmp_path / "home" / ".bashrc"
    mine.parent.mkdir()
    mine.write_text("mine")
    theirs = json.loads((honest.folder / ".forge.json").read_bytes())["assets"]["release.json"]
    honest.record(lambda data: data["assets"].update({name: theirs}))
    refuses(honest, tmp_path / "output")
    assert mine.read_text() == "mine"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tag", "snapshot-20261120.02"),
        *((key, value) for key in ("id", "tag") for value in ("../../x", "..", "", 7, None)),
    ],
)
def test_a_record_cannot_give_another_place_than_its_own(
    honest: Mirror,
    tmp_path: Path,
    key: str,
    value: object,
) -> None:
    honest.record(lambda data: data.update({key: value}))
    refuses(honest, tmp_path / "output")


@pytest.mark.parametrize("text", ["{", "[]", "null", "{}", '{"assets": ' * 100_000, '{"id": 1e999999}', "\xff"])
def test_a_record_that_is_none_is_refused(honest: Mirror, tmp_path: Path, text: str) -> None:
    (honest.folder / ".forge.json").write_text(text, "latin-1")
    refuses(honest, tmp_path / "output")


def link_asset(mirror: Mirror, secret: Path) -> None:
    content = secret.read_bytes()
    mirror.put("leak.tests.json", content)
    (mirror.folder / "leak.tests.json").unlink()
    (mirror.folder / "leak.tests.json").symlink_to(secret)


def link_record(mirror: Mirror, secret: Path) -> None:
    record = mirror.folder / ".forge.json"
    secret.write_bytes(record.read_bytes())
    record.unlink()
    record.symlink_to(secret)


def link_release(mirror: Mirror, secret: Path) -> None:
    mirror.folder.rename(secret.with_name("elsewhere"))
    mirror.folder.symlink_to(secret.with_name("elsewhere"))


def pipe(mirror: Mirror, secret: Path) -> None:
    """Who opens it waits for ever."""
    wheel = mirror.wheel
    wheel.unlink()
    os.mkfifo(wheel)


def link_nowhere(mirror: Mirror, secret: Path) -> None:
    name = mirror.wheel.name
    mirror.wheel.unlink()
    (mirror.folder / name).symlink_to(secret.with_name("nothing"))


@pytest.mark.parametrize("attack", [link_asset, link_record, link_release, link_nowhere, pipe])
def test_a_link_out_of_the_forge_is_not_followed(
    honest: Mirror, tmp_path: Path, attack: Callable[[Mirror, Path], None]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"token": "ghp_secret"}')
    attack(honest, secret)
    refuses(honest, tmp_path / "output")


def test_a_draft_that_is_a_link_is_not_followed(honest: Mirror, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("mine")
    (honest.root / "drafts" / "000099").symlink_to(elsewhere)
    for command in [("mirror", honest.address, honest.address), ("release", "list", "--forge", honest.address)]:
        assert run(*command).id == "forge-damaged"
    assert (elsewhere / "precious").read_text() == "mine"


def test_a_forge_that_is_reached_through_a_link_is_used(honest: Mirror, tmp_path: Path) -> None:
    """Whoever names the forge has chosen that link; only what lies in the folder is someone else's."""
    (tmp_path / "link").symlink_to(honest.root)
    address = f"local:{tmp_path / 'link'}"
    assert run("verify", TAG, "--forge", address, *honest.named["both"]).code == 0
    destination = LocalForge.create(tmp_path / "output", FILES)
    (tmp_path / "other").symlink_to(destination.root)
    assert run("mirror", address, f"local:{tmp_path / 'other'}", *honest.named["both"]).code == 0
    assert destination.published(TAG) is not None


# -- every forge -------------------------------------------------------------------------------------------------------


class AnyForge:
    """A forge that gives whatever name its server says, and writes what it is asked for."""

    description = "a forge"

    def download(self, release: Release, asset: Asset, destination: Path) -> None:
        raise AssertionError("nothing may be downloaded")


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_fetched_under_a_name_that_leads_elsewhere(tmp_path: Path, name: str) -> None:
    now = datetime(2026, 11, 20, tzinfo=UTC)
    asset = Asset(name=name, size=1, sha256="0" * 64, complete=True, url="https://example.org/a")
    release = Release(
        id="1", tag=TAG, title="", body="", draft=False, prerelease=False, created_at=now, published_at=now,
        assets=(asset,),
    )  # fmt: skip
    refused(lambda: RemoteRelease(AnyForge(), release).fetch(asset, tmp_path), "forge-refused")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES)
def test_no_address_is_made_of_a_name_that_leads_elsewhere(tmp_path: Path, name: str) -> None:
    forge = GitHubForge.open("octo/releases", environ={"GITHUB_API_URL": "http://127.0.0.1:1"})
    refused(lambda: forge.fetch_published(TAG, name, tmp_path / "file"), "forge-refused")


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_gives_no_file_that_is_not_in_it(honest: Mirror, tmp_path: Path, name: str) -> None:
    forge = LocalForge(honest.root)
    release = forge.published(TAG)
    assert release is not None
    asset = Asset(name=name, size=1, sha256="0" * 64, complete=True, url="")
    refused(lambda: forge.download(release, asset, tmp_path / "file"), "forge-refused")
    assert not forge.fetch_published(TAG, name, tmp_path / "file")
    assert not (tmp_path / "file").exists()
