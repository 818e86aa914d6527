"""S10: whoever controls the served pages writes ``manifests.json.gz``, from which the next index begins."""

from __future__ import annotations

import gzip
import hashlib
import json
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from mlir_release.release.forge.base import ReleaseRow
from mlir_release.release.index.observe import ARCHIVE_NAME
from mlir_release.release.provenance.trust import TRUST_VARIABLE
from tests.attacks.bombs import ALLOWED, gzip_bomb, run_measured
from tests.paper_forge import PaperForge, make_index, make_manifest
from tests.release_stage import make_stage
from tests.sigstore.instance import COMMIT, REPOSITORY, MadeSigstore, statement_of, workflow_claims

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

TAG = "snapshot-20261120.01"
OLDER = "snapshot-20261119.01"
EVIL = "e" * 64
SMALL: dict[str, Any] = {"platforms": ("win_amd64",), "pythons": ("cp312",)}


@contextmanager
def changing(site: Path) -> Iterator[list[dict[str, str]]]:
    """The rows of the archive, which are written as they are then."""
    place = site / ARCHIVE_NAME
    data = json.loads(gzip.decompress(place.read_bytes()))
    yield data["releases"]
    place.write_bytes(gzip.compress(json.dumps(data).encode()))


def poison(site: Path, **changes: str) -> None:
    """Put another digest of a wheel into the archive, with a digest of the row that fits."""
    with changing(site) as (row,):
        text = row["manifest"].replace(json.loads(row["manifest"])["wheels"][0]["sha256"], EVIL)
        row |= {"manifest": text, "sha256": hashlib.sha256(text.encode()).hexdigest()} | changes


def shown(site: Path) -> str:
    return "".join(path.read_text() for path in site.rglob("*.html"))


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeSigstore:
    sigstore = MadeSigstore()
    (tmp_path / "root.json").write_text(json.dumps(sigstore.trusted_root()))
    monkeypatch.setenv(TRUST_VARIABLE, str(tmp_path / "root.json"))
    return sigstore


def test_a_poisoned_row_is_not_believed_where_the_forge_lists_digests(tmp_path: Path) -> None:
    forge = PaperForge()
    forge.add(make_manifest(TAG, **SMALL))
    make_index(forge, tmp_path / "site")
    honest = shown(tmp_path / "site")
    poison(tmp_path / "site")
    outcome = make_index(forge, tmp_path / "site")
    assert outcome.new == (TAG,)
    assert EVIL not in shown(tmp_path / "site")
    assert shown(tmp_path / "site") == honest


def test_a_row_of_another_publication_is_not_believed(tmp_path: Path) -> None:
    """The repository was made anew, and so was the release of that tag; its date is what the forge says."""
    forge = PaperForge()
    forge.add(make_manifest(TAG, **SMALL))
    make_index(forge, tmp_path / "site")
    with changing(tmp_path / "site") as (row,):
        row["published_at"] = "2026-11-19T00:00:00Z"
    assert make_index(forge, tmp_path / "site").new == (TAG,)
    with changing(tmp_path / "site") as (row,):
        assert row["published_at"] != "2026-11-19T00:00:00Z"


class Listless(PaperForge):
    """As GitHub: a list of releases shows no digests."""

    services = SimpleNamespace(  # type: ignore[assignment]
        address=f"github:{REPOSITORY}", location=f"github.com/{REPOSITORY}", url=f"https://github.com/{REPOSITORY}"
    )

    def recent(self, count: int | None) -> Sequence[ReleaseRow]:  # type: ignore[override]
        fields = ReleaseRow.__dataclass_fields__
        return [ReleaseRow(**{name: getattr(row, name) for name in fields}) for row in super().recent(count)]


def sign(forge: PaperForge, made: MadeSigstore, tag: str) -> None:
    """Publish a signed release."""
    address = f"https://github.com/{REPOSITORY}"
    manifest = structs.replace(make_manifest(tag, **SMALL, provenance="required", repository=address), commit=COMMIT)
    forge.add(manifest)
    digest = hashlib.sha256(manifest.to_text().encode()).hexdigest()
    (release,) = (release for release in forge.release_list if release.tag == tag)
    bundle = made.bundle(statement_of(("release.json", digest)), workflow_claims(tag))
    forge.contents[release.id, "release.json.sigstore.json"] = bundle


@pytest.mark.parametrize("changes", [{}, {"bundle": ""}, {"bundle": "{}"}], ids=["another's", "none", "nonsense"])
def test_a_poisoned_row_is_not_believed_without_its_signature(
    tmp_path: Path, made: MadeSigstore, capsys: pytest.CaptureFixture[str], changes: dict[str, str]
) -> None:
    forge = Listless()
    sign(forge, made, TAG)
    make_index(forge, tmp_path / "site")
    assert make_index(forge, tmp_path / "site").new == ()  # the row proves itself, and nothing is fetched again
    poison(tmp_path / "site", **changes)
    assert make_index(forge, tmp_path / "site").new == (TAG,)
    assert EVIL not in shown(tmp_path / "site")
    assert "its manifest is read again" in capsys.readouterr().err


def test_a_row_with_the_signed_manifest_of_another_release_is_not_believed(tmp_path: Path, made: MadeSigstore) -> None:
    forge = Listless()
    for tag in (TAG, OLDER):
        sign(forge, made, tag)
    make_index(forge, tmp_path / "site")
    with changing(tmp_path / "site") as rows:
        older, newer = sorted(rows, key=lambda row: row["tag"])
        newer |= {name: older[name] for name in ("manifest", "sha256", "bundle")}
    assert make_index(forge, tmp_path / "site").new == (TAG,)


@pytest.mark.slow
def test_three_gigabytes_of_manifests_take_no_memory_and_all_is_read_again(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    site = tmp_path / "site"
    site.mkdir()
    begin = b'{"schema": 1, "source": "local", "releases": [], "more": "'
    (site / ARCHIVE_NAME).write_bytes(gzip_bomb(begin, 3 << 30))
    done, peak = run_measured(
        *("index", "--forge", f"local:{stage.forge.root}", "--output", site, "--base-url", "https://mlir.example"),
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert f"{ARCHIVE_NAME} is not believed" in done.stderr
    assert peak < ALLOWED
    assert (site / ARCHIVE_NAME).stat().st_size < 1000
