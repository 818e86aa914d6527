"""S4: a mirror serves other files than those that its manifest names, or more. None of them is copied or installed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.model.test_report import REPORT_SUFFIX
from mlir_release.ground.git.repository import Git
from mlir_release.ground.llvm.llvm_facts import FactsError, LlvmFacts
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.transaction import decisions
from mlir_release.use.mirror import mirror
from tests.attacks.hostile_mirror import FILES, Answer, Mirror, run
from tests.refusals import check_error
from tests.release.integration.signed_stage import REPORT, TAG
from tests.release_stage import NOW, make_stage
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import OTHER_PYTHON, PYTHON, make_report, make_wheel
from tests.wheel_factory import TAG as OTHER_TAG

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.errors import ReleaseError

EVIL = "mlir-99999999.9-py3-none-any.whl"


def copy(source: Mirror, root: Path, *options: str) -> tuple[Answer, LocalForge]:
    destination = LocalForge.create(root, FILES)
    return run("mirror", source.address, f"local:{root}", *options), destination


def is_not_copied(
    source: Mirror, root: Path, id: str = "release-tampered", said: str = "'s release.json says", *, begun: bool = False
) -> ReleaseError:
    """Check that nothing of a mirror is copied by whoever asks for its signatures, and return the error.

    :param begun: a draft may be there, which nobody sees
    """
    answer, destination = copy(source, root, *source.named["both"])
    assert answer.code == (5 if id == "forge-damaged" else 6)
    assert destination.published(TAG) is None
    assert begun or (destination.tags(), destination.releases()) == ([], [])
    return check_error(answer.error, id, said)


@pytest.mark.parametrize("suffix", ["", ".metadata"])
def test_a_file_that_is_not_the_manifests_is_not_copied(honest: Mirror, tmp_path: Path, suffix: str) -> None:
    name = honest.wheel.name + suffix
    honest.put(name, b'{"a": 1}')
    assert name in is_not_copied(honest, tmp_path / "copy").why
    rows = json.loads(run("verify", TAG, "--forge", honest.address, *honest.named["both"], "--json").output)["files"]
    assert [row["error"]["error"] for row in rows if row["name"] == name] == ["release-tampered"]


def test_a_file_whose_record_lies_is_not_copied(honest: Mirror, tmp_path: Path) -> None:
    """The record has the manifest's digest, and the file other bytes of the same length."""
    content = honest.wheel.read_bytes()
    honest.wheel.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    is_not_copied(honest, tmp_path / "copy", "forge-damaged", "", begun=True)
    assert run("verify", TAG, "--forge", honest.address, *honest.named["both"]).code == 5
    install = ("install", TAG, "--forge", honest.address, "--python", sys.executable, "--dry-run")
    assert run(*install, *honest.named["both"]).id == "forge-damaged"


@pytest.mark.parametrize(
    ("name", "id", "said"),
    [
        (".provenance", "release-tampered", "is not what"),
        (".sigstore.json", "signature-invalid", "its bundle can't be read"),
        (REPORT, "signature-invalid", "what was signed is another content of the file"),
        (f"{REPORT}.sigstore.json", "signature-invalid", "its bundle can't be read"),
        (f"smoke-another{REPORT_SUFFIX}", "provenance-missing", "nobody signed it"),
    ],
)
def test_what_lies_beside_a_wheel_must_be_made_from_its_signature(
    honest: Mirror, tmp_path: Path, name: str, id: str, said: str
) -> None:
    honest.put(name if name.startswith("smoke") else honest.wheel.name + name, b'{"a": 1}')
    assert said in str(is_not_copied(honest, tmp_path / "copy", id, "", begun=True))


def test_every_file_that_nothing_lists_is_named_and_none_is_copied(honest: Mirror, tmp_path: Path) -> None:
    added = [EVIL, f"{EVIL}.sigstore.json", "setup.exe", f"{honest.wheel.name}.asc"]
    for name in added:
        honest.put(name, b"evil")
    error = is_not_copied(honest, tmp_path / "copy")
    assert all(f"it does not list {name}" in error.why for name in added)
    answer = run("verify", TAG, "--forge", honest.address, *honest.named["both"], "--json")
    refused = [row["name"] for row in json.loads(answer.output)["files"] if row["result"] == "refused"]
    assert (answer.code, refused) == (6, sorted(added))


def test_a_file_of_the_release_that_is_gone_is_named(honest: Mirror, tmp_path: Path) -> None:
    name = honest.wheel.name
    honest.wheel.unlink()
    honest.record(lambda data: data["assets"].pop(name))
    is_not_copied(honest, tmp_path / "copy")


def test_an_unlisted_wheel_is_refused_where_nothing_is_signed(honest: Mirror, tmp_path: Path) -> None:
    honest.unsign()
    honest.put(EVIL, b"evil")
    answer, destination = copy(honest, tmp_path / "copy", "--provenance", "skip")
    assert (answer.code, answer.id) == (6, "release-tampered")
    assert "'s release.json says" in str(answer.error)
    assert destination.releases() == []


def test_what_an_earlier_copy_took_too_much_of_is_removed(honest: Mirror, tmp_path: Path) -> None:
    destination = LocalForge.create(tmp_path / "copy", FILES)
    source = LocalForge(honest.root)
    tag = source.tag(TAG)
    head = destination.head("main")
    assert tag is not None
    assert head is not None
    destination.create_tag(TAG, head, tag.message)
    draft = destination.create_draft(TAG, title=TAG, body="", prerelease=True)
    evil = tmp_path / "evil"
    evil.write_bytes(b"evil")
    destination.upload(draft, EVIL, evil)
    answer, _ = copy(honest, tmp_path / "copy", *honest.named["both"])
    assert answer.code == 0
    published = destination.published(TAG)
    assert published is not None
    assert published.asset(EVIL) is None


def test_a_bundle_that_would_fill_the_memory_is_not_read(honest: Mirror, tmp_path: Path) -> None:
    name, size = f"{honest.wheel.name}.sigstore.json", 3_000_000_000
    os.truncate(honest.folder / name, size)  # a hole: it takes no space on the disk
    honest.record(lambda data: data["assets"][name].update(size=size))
    error = is_not_copied(honest, tmp_path / "copy", said="", begun=True)
    assert "is larger than such a file can be" in str(error)
    install = ("install", TAG, "--forge", honest.address, "--python", sys.executable, "--dry-run")
    assert "is larger than such a file can be" in str(run(*install, *honest.named["both"]).error)


# -- of another release ------------------------------------------------------------------------------------------------


def test_a_signed_wheel_of_another_release_is_refused(honest: Mirror, tmp_path: Path) -> None:
    """Of the same repository, made by the same workflow: an older one with a hole, say."""
    content = honest.swap_wheel()
    stage, name = honest.stage, honest.wheel.name
    honest.put(f"{name}.sigstore.json", stage.bundle(name, content, tag="snapshot-20261119.01"))
    manifest = (honest.folder / "release.json").read_bytes()
    honest.put("release.json.sigstore.json", stage.bundle("release.json", manifest, tag="snapshot-20261119.01"))
    for command in (
        ("verify", TAG, "--forge", honest.address),
        ("install", TAG, "--forge", honest.address, "--python", sys.executable, "--dry-run"),
    ):
        assert "it was signed for another release" in str(run(*command, *honest.named["both"]).error)
    error = is_not_copied(honest, tmp_path / "copy", "signature-invalid", "")
    assert "it was signed for another release" in str(error)


def test_the_manifest_of_another_release_is_refused(honest: Mirror, tmp_path: Path) -> None:
    """All of it is properly signed; only the release's name is another."""
    newer = "snapshot-20261121.01"
    honest.folder.rename(honest.root / "releases" / newer)
    record = honest.root / "releases" / newer / ".forge.json"
    record.write_text(record.read_text().replace(f'"tag": "{TAG}"', f'"tag": "{newer}"'))
    forge = ("--forge", honest.address, *honest.named["both"])
    for command in (
        ("verify", newer, *forge),
        ("install", "latest", *forge, "--python", sys.executable, "--dry-run"),
        ("conda", "recipe", newer, *forge, "-o", str(tmp_path / "recipe")),
    ):
        answer = run(*command)
        assert (answer.id, f"the release.json of {newer} is that of {TAG}" in str(answer.error)) == (
            "release-tampered",
            True,
        ), command
    assert not (tmp_path / "recipe").exists()
    # The pages leave it out, and would show the others.
    assert run("index", *forge, "-o", str(tmp_path / "site")).id == ""
    pages = "".join(page.read_text() for page in (tmp_path / "site").rglob("*.html"))
    assert pages
    assert newer not in pages
    assert ".whl" not in pages


# -- tags, which nobody signs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [("LLVM-Revision", "d" * 40), ("Wheel-Version", "99999999.9"), None], ids=str)
def test_a_tag_that_says_something_else_is_not_copied(
    honest: Mirror, tmp_path: Path, change: tuple[str, str] | None
) -> None:
    tag = LocalForge(honest.root).tag(TAG)
    assert tag is not None
    git = Git(honest.root / "repository.git")
    git.run("update-ref", "-d", f"refs/tags/{TAG}")
    if change is not None:
        lines = [line for line in tag.message.splitlines() if not line.startswith(change[0])]
        message = "\n".join([*lines, ": ".join(change)]) + "\n"
        LocalForge(honest.root).create_tag(TAG, tag.commit, message)
    is_not_copied(honest, tmp_path / "copy")
    rebuild = ("wheels", "rebuild", TAG, f"mlir-linux-x86_64-{PYTHON}", "--forge", honest.address)
    answer = run(*rebuild, *honest.named["both"], "-o", str(tmp_path / "rebuilt"))
    assert answer.id == ("tag-missing" if change is None else "release-tampered")
    assert not (tmp_path / "rebuilt").exists()


def test_a_tag_names_no_address_that_a_downstream_would_install_from() -> None:
    facts = LlvmFacts(
        version="22.1.8", minimum_python="3.10", binding_requirements=("nanobind>=2.9",), runtime_requirements=(),
        has_stable_abi=True, has_python_sources=True, build_tools=(),
    )  # fmt: skip
    trailers = facts.trailers()
    assert LlvmFacts.from_trailers(trailers) == facts
    address = "nanobind @ https://evil.example/n.whl"
    evil = {key: value.replace("nanobind>=2.9", address) for key, value in trailers.items()}
    with pytest.raises(FactsError, match="it names an address"):
        LlvmFacts.from_trailers(evil)


# -- honest releases ---------------------------------------------------------------------------------------------------


def digests(forge: LocalForge, tag: str) -> dict[str, str]:
    """Of the files of a release."""
    release = forge.published(tag)
    assert release is not None
    return {asset.name: asset.sha256 for asset in release.assets}


def test_a_signed_release_is_copied_whole(honest: Mirror, tmp_path: Path) -> None:
    answer, destination = copy(honest, tmp_path / "copy", *honest.named["both"])
    assert answer.code == 0
    assert f"signed by {honest.signer}" in answer.output
    ours = digests(LocalForge(honest.root), TAG)
    assert digests(destination, TAG) == ours
    assert len(ours) == 10


def test_waivers_and_reports_that_no_row_names_are_copied(tmp_path: Path) -> None:
    """A release keeps waivers that it did not need, and the failing reports of its experimental targets."""
    targets = make_targets(
        make_row(), make_row("mlir-core", pythons=[PYTHON], required=False), pythons=[OTHER_PYTHON, PYTHON]
    )
    stage = make_stage(tmp_path, targets=targets)
    folder = stage.fill(pythons=[PYTHON])
    core = make_wheel(folder, distribution="mlir-core", profile="core")
    make_report(folder, core, target=f"smoke-mlir-core-linux-x86_64-{PYTHON}", passed=False)
    stage.upload(folder)
    for target in (f"mlir-linux-x86_64-{OTHER_PYTHON}", f"smoke-mlir-linux-x86_64-{PYTHON}"):
        decisions.waive(stage.forge, OTHER_TAG, target, "the runner is gone")
    done = stage.publish()
    assert [waiver.target for waiver in done.manifest.waivers] == [f"mlir-linux-x86_64-{OTHER_PYTHON}"]
    there = LocalForge.create(tmp_path / "copy", FILES, clock=lambda: NOW)
    mirror(stage.forge, there)
    ours = digests(stage.forge, OTHER_TAG)
    assert digests(there, OTHER_TAG) == ours
    assert len([name for name in ours if name.startswith("waiver-")]) == 2
    assert f"smoke-mlir-core-linux-x86_64-{PYTHON}.tests.json" in ours


@pytest.mark.parametrize("text", [b"never mind", b'"}'])
def test_a_waiver_that_the_manifest_does_not_have_so_is_refused(tmp_path: Path, text: bytes) -> None:
    stage = make_stage(tmp_path, targets=make_targets(make_row(), pythons=[OTHER_PYTHON, PYTHON]))
    stage.upload(stage.fill(pythons=[PYTHON]))
    target = f"mlir-linux-x86_64-{OTHER_PYTHON}"
    decisions.waive(stage.forge, OTHER_TAG, target, "the runner is gone")
    stage.publish()
    path = stage.forge.root / "releases" / OTHER_TAG / f"waiver-{target}.json"
    content = path.read_bytes().replace(b"the runner is gone", text)
    path.write_bytes(content)
    record = path.with_name(".forge.json")
    data = json.loads(record.read_bytes())
    data["assets"][path.name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    record.write_text(json.dumps(data))
    answer = run("mirror", f"local:{stage.forge.root}", f"local:{LocalForge.create(tmp_path / 'copy', FILES).root}")
    assert answer.code == 6
    assert answer.id in ("release-tampered", "file-damaged")
    assert re.search("is not what .* says|a waiver can't be read", str(answer.error))


def test_a_yanked_release_of_a_mirror_is_named_so_and_is_not_the_latest(
    honest: Mirror, capsys: pytest.CaptureFixture[str]
) -> None:
    decisions.yank(LocalForge(honest.root), TAG, "miscompiles", branch="main")
    install = ("--forge", honest.address, "--python", sys.executable, "--dry-run", *honest.named["both"])
    answer = run("install", TAG, *install)
    assert answer.code == 0
    assert f"{TAG} is yanked: miscompiles" in answer.output + capsys.readouterr().err
    assert run("install", "latest", *install).id == "release-not-published"
