"""A published wheel, made again: of the miniature SDK, whose wheels are really packed in a second."""

from __future__ import annotations

import json
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner
from msgspec import structs

from mlir_release.builder.projects.mlir import SDK_WHEEL, sdk_members
from mlir_release.builder.projects.mlir.sdk_wheels import pack
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.cli.app import app
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.release.model.schemas import read_schemas
from mlir_release.release.pinning.state import find_state
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from mlir_release.use import rebuild as module
from mlir_release.use.rebuild import check_toolkit, find_sdk, rebuild
from tests.attacks.hostile_repository import git
from tests.prefix_factory import make_sdk
from tests.refusals import refused
from tests.release_stage import Stage, make_stage
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import PYTHON, REVISION, TAG, VERSION, make_report

if TYPE_CHECKING:
    from mlir_release.builder.model.orders import SdkOrder
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.release.model.manifest import Manifest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the miniature programs are Linux's /bin/true")

TARGET = "mlir-sdk-linux-x86_64-py3"
TARGETS = make_targets(make_row(), make_row("mlir-sdk", suites=["sdk"]), pythons=[PYTHON])


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Sdk:
    return make_sdk(tmp_path_factory.mktemp("made"))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path, targets=TARGETS)


def published(stage: Stage, sdk: Sdk) -> Manifest:
    """The manifest of a release with the SDK's own wheel, and small ones of the bindings."""
    stage.fill(pythons=[PYTHON])
    request = WheelRequest.of_order(stage.matrix.wheel(TARGET).order(tag=TAG, version=VERSION), sdk)
    (wheel,) = pack([request], output=stage.dist / TAG)
    make_report(stage.dist / TAG, wheel, suite="sdk", target=f"sdk-{TARGET}")
    upload(Draft.load(stage.forge, TAG), stage.dist / TAG)
    return publish(Draft.load(stage.again(), TAG)).manifest


def test_the_same_toolkit_and_sdk_give_the_published_bytes(stage: Stage, sdk: Sdk, tmp_path: Path) -> None:
    manifest = published(stage, sdk)
    command = ["wheels", "rebuild", TAG, TARGET, "--forge", f"local:{stage.forge.root}", "--sdk", str(sdk.root)]
    done = CliRunner().invoke(app, [*command, "--output", str(tmp_path / "again"), "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    (row,) = (wheel for wheel in manifest.wheels if wheel.target == TARGET)
    assert (answer["equal"], answer["differences"]) == (True, [])
    assert answer["published_sha256"] == answer["rebuilt_sha256"] == row.sha256
    assert (answer["sdk"], answer["image"]) == (sdk.info.digest, "")
    assert Path(answer["rebuilt"]).parent == tmp_path / "again"
    assert set(answer) == set(json.loads(read_schemas()["rebuilt.schema.json"])["properties"])


def test_from_source_its_sdk_is_made_again_and_must_be_the_same(stage: Stage, sdk: Sdk, tmp_path: Path) -> None:
    published(stage, sdk)
    made = [make_sdk(tmp_path / "other", revision="b" * 40), sdk]
    asked = []

    def provide(order: SdkOrder, **others: object) -> Sdk:
        asked.append((order.floor, order.revision))
        return made.pop()

    again = partial(rebuild, stage.forge, TAG, TARGET, output=tmp_path / "again", sdk=provide)
    assert again().equal
    assert asked == [("manylinux_2_28", REVISION)]
    refused(again, "sdk-mismatch")

    command = ["wheels", "rebuild", TAG, TARGET, "--sdk", str(sdk.root), "--from", "source"]
    done = CliRunner().invoke(app, [*command, "--forge", f"local:{stage.forge.root}"], standalone_mode=False)
    assert isinstance(done.exception, click.UsageError)


def test_what_was_made_otherwise_is_told_member_by_member(
    stage: Stage, sdk: Sdk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published by a toolkit with another text in the package, and one file more."""
    other = shutil.copytree(SDK_WHEEL, tmp_path / "sdk-wheel")
    (other / "mlir_sdk" / "__main__.py").write_text("print('other')\n", encoding="utf-8")
    (other / "mlir_sdk" / "more.py").write_text("", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(sdk_members, "SDK_WHEEL", other)
        published(stage, sdk)
    rebuilt = rebuild(stage.forge, TAG, TARGET, output=tmp_path / "again", sdk=sdk.root)
    assert not rebuilt.equal
    assert rebuilt.published_sha256 != rebuilt.rebuilt_sha256
    found = [(one.member, one.what) for one in rebuilt.differences]
    size = (SDK_WHEEL / "mlir_sdk" / "__main__.py").stat().st_size
    assert found[:2] == [
        ("mlir_sdk/__main__.py", f"byte 0; 15 and {size} bytes"),
        ("mlir_sdk/more.py", "only in the release"),
    ]
    assert [name for name, _ in found[2:]] == [f"mlir_sdk-{VERSION}.dist-info/RECORD"]
    assert "differs" in rebuilt.text()

    command = ["wheels", "rebuild", TAG, TARGET, "--forge", f"local:{stage.forge.root}", "--sdk", str(sdk.root)]
    done = CliRunner().invoke(app, [*command, "--output", str(tmp_path / "again")])
    assert done.exit_code == VerificationError.exit_code
    assert "mlir_sdk/more.py: only in the release" in done.stdout


def test_a_tag_that_is_not_published(stage: Stage, tmp_path: Path) -> None:
    refused(lambda: rebuild(stage.forge, TAG, TARGET, output=tmp_path), "release-not-published")


def test_a_target_that_the_release_does_not_have(stage: Stage, sdk: Sdk, tmp_path: Path) -> None:
    published(stage, sdk)
    wrong = "mlir-sdk-linux-x86_64"
    error = refused(lambda: rebuild(stage.forge, TAG, wrong, output=tmp_path), "release-unsuitable", "has no wheel of")
    assert f"did you mean '{TARGET}'?" in error.remedy


def test_the_sdk_is_the_very_one(stage: Stage, sdk: Sdk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = published(stage, sdk)
    row = next(wheel for wheel in manifest.wheels if wheel.target == TARGET)
    cache = tmp_path / "cache"
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(cache))

    bindings = f"mlir-linux-x86_64-{PYTHON}"  # these small wheels do not say it
    said = "nothing says which SDK"
    refused(lambda: rebuild(stage.forge, TAG, bindings, output=tmp_path), "release-unsuitable", said)
    other = make_sdk(tmp_path / "other", revision="b" * 40).root
    refused(lambda: find_sdk(row, manifest, other), "sdk-mismatch")
    refused(lambda: find_sdk(row, manifest, None), "input-missing")
    shutil.copytree(sdk.root, cache / "sdks" / "some-name", symlinks=True)
    assert find_sdk(row, manifest, None).root == cache / "sdks" / "some-name"
    (cache / "sdks" / "some-name" / "licenses" / "another.txt").write_text("", encoding="utf-8")
    refused(lambda: find_sdk(row, manifest, None), "file-damaged")


def test_an_image_that_can_not_be_had(stage: Stage, sdk: Sdk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = published(stage, sdk)
    row = structs.replace(manifest.wheels[0], image="localhost/none@sha256:0")
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refused(lambda: module._backend(row), "machine-unsuitable")
    assert row.filename in error.remedy


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that the toolkit runs from."""
    folder = tmp_path / "checkout"
    (folder / "mlir_release").mkdir(parents=True)
    (folder / "mlir_release" / "__init__.py").write_text("", encoding="utf-8")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--quiet", "--message=Toolkit")
    return folder


def test_the_toolkit_is_that_of_the_release(stage: Stage, sdk: Sdk, checkout: Path) -> None:
    manifest, state = published(stage, sdk), find_state(stage.forge, TAG)

    def why_not(found: Manifest) -> str:
        said = "was made by another toolkit than this one"
        error = refused(lambda: check_toolkit(stage.forge, state, found, checkout), "release-unsuitable", said)
        assert f"git worktree add DIRECTORY {TAG}" in error.remedy
        return error.why

    # The local forge's commits have no toolkit.
    assert check_toolkit(stage.forge, state, manifest, checkout) == manifest.toolkit_version
    assert "version 0.0.9 made it" in why_not(structs.replace(manifest, toolkit_version="0.0.9"))

    commit = git(checkout, "rev-parse", "HEAD")
    ours = structs.replace(manifest, commit=commit)
    assert check_toolkit(stage.forge, state, ours, checkout) == commit
    (checkout / "mlir_release" / "__init__.py").write_text("changed = 1\n", encoding="utf-8")
    assert "the first is mlir_release/__init__.py" in why_not(ours)


def test_a_checkout_without_the_releases_commit(tmp_path: Path, sdk: Sdk, checkout: Path) -> None:
    """The repository's commits have the toolkit, as on GitHub."""
    stage = make_stage(tmp_path, targets=TARGETS)
    head = stage.forge.head("main")
    stage.forge.commit("main", expected=head, files={"mlir_release/__init__.py": b""}, message="Toolkit\n")
    stage.add_tag("snapshot-20261120.03", "20261120.3", revision=REVISION)
    state = find_state(stage.forge, "snapshot-20261120.03")
    manifest = structs.replace(published(stage, sdk), commit=state.commit)
    with pytest.raises(UsageError, match="made by another toolkit") as caught:
        check_toolkit(stage.forge, state, manifest, checkout)
    assert f"does not have {state.commit}" in caught.value.why
