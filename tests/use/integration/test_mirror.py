"""A mirror of a forge: the same releases under the same names, whatever happened on the way."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.errors import UsageError
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.forge.open import open_forge
from mlir_release.release.index.generate import generate
from mlir_release.release.judging.signed import SignedBy
from mlir_release.release.transaction import decisions
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from mlir_release.use.mirror import mirror
from tests.refusals import refused
from tests.release_stage import NOW, Stage, find_release, make_stage
from tests.serving import serve
from tests.wheel_factory import PYTHON, TAG, VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.forge.base import Asset, Release

NEWER = "snapshot-20261121.01"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A forge with two published releases, one of them yanked, and a draft."""
    stage = make_stage(tmp_path)
    stage.add_tag(NEWER, "20261121.1")
    for tag, version in ((TAG, VERSION), (NEWER, "20261121.1")):
        upload(Draft.load(stage.forge, tag), stage.fill(tag=tag, version=version))
        publish(Draft.load(stage.forge, tag))
    decisions.yank(stage.forge, TAG, "miscompiles", branch="main")
    stage.add_tag("snapshot-20261122.01", "20261122.1")
    return stage


@pytest.fixture
def there(tmp_path: Path) -> LocalForge:
    """A mirror that is empty as yet."""
    folder, files = tmp_path / "mirror", {"README": b"a mirror\n"}
    return LocalForge.create(folder, files, clock=lambda: NOW, identity="Mirror <m@example.org>")


def contents(forge: LocalForge) -> list[tuple[str, list[tuple[str, str]]]]:
    """Published tags with the digests of their assets."""
    return [(r.tag, sorted((a.name, a.sha256) for a in r.assets)) for r in forge.releases() if not r.draft]


def test_the_mirror_has_the_same_releases(stage: Stage, there: LocalForge) -> None:
    assert mirror(stage.forge, there, dry_run=True).copied == (TAG, NEWER)
    assert contents(there) == []
    outcome = mirror(stage.forge, there)
    assert (outcome.copied, outcome.yanks) == ((TAG, NEWER), True)
    assert contents(there) == contents(stage.forge)
    assert not any(release.draft for release in there.releases())
    messages = {tag.name: tag.message for tag in stage.forge.tags()}
    assert {tag.name: tag.message for tag in there.tags()} == {TAG: messages[TAG], NEWER: messages[NEWER]}
    again = mirror(stage.forge, there)
    assert (again.copied, again.present, again.yanks) == ((), 2, False)


def test_its_links_lead_to_itself_and_its_pages_show_the_yank(stage: Stage, there: LocalForge, tmp_path: Path) -> None:
    mirror(stage.forge, there)
    body = find_release(there, NEWER).body
    assert str(tmp_path / "mirror") in body
    assert str(stage.forge.root) not in body
    generate(there, tmp_path / "pages", base_url=(tmp_path / "pages").as_uri())
    assert "miscompiles" in (tmp_path / "pages" / "snapshots" / TAG / "index.html").read_text()


def test_files_that_the_source_has_not_are_told(
    stage: Stage, there: LocalForge, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that someone put into a mirrored release, and a release that only the mirror has."""
    mirror(stage.forge, there)
    place = there.root / "releases" / TAG
    record = json.loads((place / ".forge.json").read_text())
    (place / "more-1-py3-none-any.whl").write_bytes(b"more")
    record["assets"]["more-1-py3-none-any.whl"] = {"size": 4, "sha256": sha256(b"more").hexdigest()}
    (place / ".forge.json").write_text(json.dumps(record))
    error = refused(lambda: mirror(stage.forge, there), "release-tampered")
    assert error.why == f"{TAG}: more-1-py3-none-any.whl"
    own = "snapshot-20261121.09"
    there.create_tag(own, str(there.head("main")), "mine\n")
    there.publish(there.create_draft(own, title="", body="", prerelease=True))
    refused(lambda: mirror(stage.forge, there), "release-tampered")
    assert f"the mirror has {own}" in " ".join(capsys.readouterr().err.split())


class Cut(LocalForge):
    """A forge whose connection breaks before the upload number ``left``."""

    left = 0

    def upload(self, release: Release, name: str, source: Path) -> Asset:
        type(self).left -= 1
        if type(self).left < 0:
            raise ConnectionError("cut off")
        return super().upload(release, name, source)


@pytest.mark.parametrize("uploads", [0, 1, 3, 7])
def test_one_that_was_cut_off_goes_on(stage: Stage, there: LocalForge, uploads: int) -> None:
    Cut.left = uploads
    with pytest.raises(ConnectionError):
        mirror(stage.forge, Cut(there.root, clock=lambda: NOW))
    there = LocalForge(there.root, clock=lambda: NOW)
    mirror(stage.forge, there)
    assert contents(there) == contents(stage.forge)
    assert len(there.releases()) == 2


def test_a_tag_of_somebody_else_is_left_alone(stage: Stage, there: LocalForge) -> None:
    head = there.head("main")
    assert head is not None
    there.create_tag(TAG, head, "mine\n")
    refused(lambda: mirror(stage.forge, there), "tag-foreign")
    assert there.releases() == []


def test_a_branch_that_is_not_there(stage: Stage, there: LocalForge) -> None:
    refused(lambda: mirror(stage.forge, there, SignedBy(branch="trunk")), "branch-missing")


def test_a_folder_that_is_no_forge_is_told_with_what_makes_one(tmp_path: Path) -> None:
    error = refused(lambda: open_forge(f"local:{tmp_path}/a mirror"), "input-missing", "no local forge in that folder")
    assert f"mlir-release forge init '{tmp_path}/a mirror'" in error.remedy
    assert "--forge" not in error.remedy, "mirror has no such option"


def test_any_web_server_serves_a_mirror(stage: Stage, there: LocalForge, tmp_path: Path) -> None:
    mirror(stage.forge, there)
    with serve(tmp_path) as served:
        site = f"{served.url}/site"
        command = ["index", "--forge", f"local:{there.root}", "-o", str(tmp_path / "site"), "--base-url", site]
        urls = ["--files-url", f"{served.url}/mirror/releases"]
        done = CliRunner().invoke(app, [*command, *urls], standalone_mode=False)
        assert done.exception is None, done.output
        options = ["--no-index", "--no-deps", "--platform", "manylinux_2_28_x86_64", "--only-binary", ":all:"]
        options += ["--python-version", PYTHON.removeprefix("cp"), "--dest", str(tmp_path / "got")]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", *options]
        subprocess.run([*pip, "-f", f"{site}/snapshots/latest/", "mlir>=20200101"], check=True)
    (wheel,) = (tmp_path / "got").iterdir()
    assert served.paths(wheel.name)


def test_only_a_local_forges_files_can_be_served_elsewhere(tmp_path: Path) -> None:
    command = ["index", "--forge", "github:o/n", "-o", str(tmp_path / "site"), "--files-url", "https://example.org"]
    done = CliRunner().invoke(app, command, standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert done.exception.id == "option-invalid"
    assert not (tmp_path / "site").exists()


def test_eight_at_once_end_well_and_leave_no_draft(stage: Stage, there: LocalForge, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mlir_release", "mirror", f"local:{stage.forge.root}", f"local:{there.root}"]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) for _ in range(8)]
    said = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0] * 8, said
    assert contents(there) == contents(stage.forge)
    assert not any(release.draft for release in there.releases())
    assert mirror(stage.forge, there).copied == ()


def test_a_draft_that_a_killed_process_left_is_removed(stage: Stage, there: LocalForge) -> None:
    mirror(stage.forge, there)
    left = there.create_draft(TAG, title=TAG, body="Being copied.\n", prerelease=True)
    own = there.create_draft(TAG, title=TAG, body="Somebody's.\n", prerelease=True)
    mirror(stage.forge, there)
    assert (there.refresh(left), there.refresh(own)) == (None, own)
