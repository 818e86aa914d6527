"""A release with a source distribution: published as a file, and offered to no installer."""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from mlir_release.builder.model.wheel_info import WHEEL_INFO
from mlir_release.builder.testing.run import run_suites
from mlir_release.builder.wheels.compare import compare
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.builder.wheels.source import write_source
from mlir_release.ground.errors import UsageError
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.index.generate import generate
from mlir_release.release.instructions.install_check import run_pip
from mlir_release.release.judging.check import check_release
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.transaction.assets import METADATA_SUFFIX, read_source
from mlir_release.use.mirror import mirror
from mlir_release.use.rebuild import rebuild
from tests.prefix_factory import make_sdk
from tests.refusals import refused
from tests.release.integration.signed_stage import signed_stage
from tests.release_stage import Stage, find_release, make_stage
from tests.targets_factory import SOURCE, make_row, make_targets
from tests.wheel_factory import PYTHON, TAG, VERSION, make_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.release.model.manifest import Manifest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the miniature programs are Linux's /bin/true")

TARGET = f"{SOURCE}-linux-x86_64-py3"
FILE = f"source-mlir-{VERSION}.tar.gz"
TARGETS = make_targets(make_row(), make_row(SOURCE, suites=["source"]), pythons=[PYTHON])


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Sdk:
    return make_sdk(tmp_path_factory.mktemp("made"))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path, targets=TARGETS)


@pytest.fixture
def source(stage: Stage, sdk: Sdk) -> Path:
    request = WheelRequest.of_order(stage.matrix.wheel(TARGET).order(tag=TAG, version=VERSION), sdk)
    return write_source(request, output=stage.dist / TAG)


def published(stage: Stage, source: Path) -> Manifest:
    stage.fill(pythons=[PYTHON])
    make_report(stage.dist / TAG, source, suite="source", target=f"source-{TARGET}")
    return stage.publish(stage.dist / TAG).manifest


def test_it_is_a_file_of_the_release_and_no_wheel(stage: Stage, source: Path, tmp_path: Path) -> None:
    assert source.name == FILE
    assert stage.draft().card().lacking_wheels[-1] == TARGET
    manifest = published(stage, source)
    assert [(entry.filename, entry.target, entry.distribution) for entry in manifest.sources] == [
        (FILE, TARGET, "mlir")
    ]
    assert all(wheel.filename.endswith(".whl") for wheel in manifest.wheels)
    assert [test.wheel for test in manifest.tests] == [manifest.wheels[0].filename, FILE]
    names = {asset.name for asset in find_release(stage.forge, TAG).assets}
    assert FILE in names
    assert FILE + METADATA_SUFFIX not in names
    assert FILE in [row.name for row in check_release(stage.forge, TAG).files]
    there = LocalForge.create(tmp_path / "mirror", {})
    assert mirror(stage.forge, there).copied == (TAG,)
    assert FILE in {asset.name for asset in find_release(there, TAG).assets}


def test_no_page_leads_an_installer_to_it(stage: Stage, source: Path, tmp_path: Path) -> None:
    published(stage, source)
    site = tmp_path / "site"
    generate(stage.forge, site, base_url=site.as_uri(), matrix=stage.matrix)
    pages = [path for path in site.rglob("*") if path.is_file() and path.suffix != ".gz"]
    naming = {path.relative_to(site).as_posix() for path in pages if FILE in path.read_text(errors="replace")}
    assert naming == {f"snapshots/{TAG}/index.html", f"snapshots/{TAG}/release.json"}
    assert f"{FILE}#" not in (page := (site / "snapshots" / TAG / "index.html").read_text())
    assert f'{FILE}"' not in page
    body = find_release(stage.forge, TAG).body
    assert f"`{FILE}`" in body
    assert f"({FILE}" not in body


def test_pip_does_not_take_it_from_a_page_that_lists_all_files(stage: Stage, source: Path, tmp_path: Path) -> None:
    """As GitHub's ``expanded_assets`` does, and the page of a local forge."""
    published(stage, source)
    page = stage.forge.page_url(TAG)
    assert f'href="{FILE}#' in Path(unquote(urlsplit(page).path)).read_text(encoding="utf-8")
    options = ("--no-deps", "--no-index", "--no-build-isolation", "--target", str(tmp_path / "there"))
    done = run_pip(Path(sys.executable), "install", *options, "-f", page, "--no-binary", "mlir", "mlir")
    assert "No matching distribution" in done.stderr
    assert FILE not in done.stdout + done.stderr


def test_it_is_signed_as_a_wheel_is(sdk: Sdk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = make_targets(make_row(), make_row(SOURCE, suites=["source"]), pythons=[PYTHON], provenance="")
    with signed_stage(tmp_path, monkeypatch, targets=targets) as stage:
        stage.build()
        target = Matrix.parse(targets).wheel(TARGET)
        request = WheelRequest.of_order(target.order(tag=stage.tag, version=stage.version), sdk)
        source = write_source(request, output=stage.dist)
        report = make_report(stage.dist, source, suite="source", target=f"source-{TARGET}")
        refused(stage.upload, "provenance-missing")
        stage.sign(source)
        stage.sign(report)
        stage.upload()
        stage.approve()
        (entry,) = stage.publish().manifest.sources
        assert {entry.filename, f"{entry.filename}.sigstore.json", entry.provenance} <= stage.names()
        assert entry.provenance == f"{source.name}.provenance"
        rows = {row.name: row.result for row in check_release(stage.forge, stage.tag).files}
        assert rows[source.name] == "signed"


def test_the_same_request_gives_the_same_bytes(stage: Stage, source: Path, sdk: Sdk, tmp_path: Path) -> None:
    published(stage, source)
    again = rebuild(stage.forge, TAG, TARGET, output=tmp_path / "again", sdk=sdk.root)
    assert again.equal, again.differences
    repack(source, lambda name, text: text + b"\n" if name.endswith("/CMakeLists.txt") else text)
    found = [(one.member, one.what) for one in compare(source, Path(again.rebuilt))]
    assert found[0][0] == f"mlir-{VERSION}/CMakeLists.txt"
    assert found[0][1].startswith("byte ")


def repack(source: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    """Rewrite the archive: ``change`` gives the new content of a member, None to leave it out."""
    buffer = io.BytesIO()
    with tarfile.open(source) as old, tarfile.open(fileobj=buffer, mode="w") as new:
        for member in old:
            file = old.extractfile(member)
            content = change(member.name, file.read() if file else b"")
            if content is not None:
                member.size = len(content)
                new.addfile(member, io.BytesIO(content))
    source.write_bytes(gzip.compress(buffer.getvalue(), mtime=0))


def leave_out(name: str) -> Callable[[str, bytes], bytes | None]:
    return lambda member, content: None if member.endswith(f"/{name}") else content


@pytest.mark.parametrize(
    ("spoil", "error", "why"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:2000]), "file-damaged", "end"),
        (lambda path: path.write_bytes(b"no archive"), "file-damaged", "gzip"),
        (lambda path: repack(path, leave_out("PKG-INFO")), "file-damaged", "PKG-INFO"),
        (lambda path: repack(path, leave_out(WHEEL_INFO)), "wheel-unsuitable", "_release.json"),
        (
            lambda path: repack(path, lambda name, text: text.replace(b"\nName: mlir\n", b"\nName: other\n")),
            "file-damaged",
            "its PKG-INFO says other",
        ),
    ],
)
def test_an_unsound_file_is_refused(source: Path, spoil: Callable[[Path], None], error: str, why: str) -> None:
    spoil(source)
    found_error = refused(lambda: read_source(source), error)
    assert why in found_error.why


def test_it_has_a_suite_of_its_own(source: Path, sdk: Sdk, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"the suite smoke does not test {source.name}"):
        run_suites(source, sdk=sdk, workdir=tmp_path, suites=["smoke"])
