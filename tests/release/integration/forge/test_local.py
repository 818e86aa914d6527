"""The local forge: conformance, and what only a folder can do or suffer."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

import pytest

from mlir_release.ground.errors import ForgeError
from mlir_release.ground.git.repository import NO_OBJECT, STALE_LOCK_AGE, Git
from mlir_release.release.forge.files import head_of
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.forge.local.store import Store
from tests.refusals import refused
from tests.release.integration.forge.conformance import TAG, ForgeConformance, Setting
from tests.serving import serve
from tests.wheel_factory import PYTHON, VERSION, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlir_release.release.forge.base import Release

NOW = datetime(2026, 11, 20, 12, 0, 0, 123, tzinfo=UTC)
WHO = "Ada Lovelace <ada@example.org>"


def fetch_file(url: str) -> bytes | None:
    path = Path(unquote(urlparse(url).path))
    return path.read_bytes() if path.exists() else None


class TestConformance(ForgeConformance):
    @pytest.fixture
    def setting(self, tmp_path: Path) -> Setting:
        root = tmp_path / "a forge"
        create(root)
        message = Git(root / "repository.git").message
        return Setting(forge=client(root), again=lambda: client(root), stranger=fetch_file, message=message)


def create(root: Path) -> LocalForge:
    return LocalForge.create(root, {"README.md": b"hello\n"}, clock=lambda: NOW, identity=WHO)


def client(root: Path) -> LocalForge:
    return LocalForge(root, clock=lambda: NOW, identity=WHO)


@pytest.fixture
def forge(tmp_path: Path) -> LocalForge:
    return create(tmp_path / "forge")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.whl"
    path.write_bytes(b"0123456789" * 100_000)
    return path


def head(forge: LocalForge) -> str:
    return head_of(forge, "main")


def draft_of(forge: LocalForge, tag: str = TAG) -> Release:
    if tag not in [known.name for known in forge.tags()]:
        forge.create_tag(tag, head(forge), "A tag\n")
    return forge.create_draft(tag, title=tag, body="", prerelease=False)


def files(root: Path) -> list[str]:
    """Everything but git's objects, which a failed command may leave behind without harm."""
    return sorted(
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and "objects" not in path.parts
    )


# -- making and finding a forge ---------------------------------------------------------------------------------------


def test_a_forge_is_made_once(tmp_path: Path) -> None:
    first = create(tmp_path)
    commit = first.commit("main", expected=head(first), files={"a": b"1"}, message="m\n")
    again = LocalForge.create(tmp_path, {"README.md": b"other\n"}, identity=WHO)
    assert head(again) == commit
    assert again.read("README.md", commit=commit) == b"hello\n"


def test_no_forge(tmp_path: Path) -> None:
    error = refused(lambda: LocalForge(tmp_path / "nowhere"), "not-on-forge")
    assert "forge init" in error.remedy
    assert not (tmp_path / "nowhere").exists()


def test_who_acts_comes_from_the_configuration_of_who_acts(
    forge: LocalForge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = Git(forge.repository)
    git.run("config", "user.name", "Mallory")  # the forge's folder doesn't say who acts
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    (tmp_path / "gitconfig").write_text("[user]\n\tname = Bob\n\temail = bob@example.org\n")
    other = LocalForge(forge.root)
    assert other.whoami() == "Bob <bob@example.org>"
    commit = other.commit("main", expected=head(forge), files={"a": b"1"}, message="m\n")
    assert git.text("log", "-1", "--format=%an <%ae>", commit) == "Bob <bob@example.org>"


def test_an_identity_that_git_could_not_record(forge: LocalForge) -> None:
    refused(lambda: LocalForge(forge.root, identity="Bob").create_tag("t", head(forge), "m\n"), "option-invalid")
    assert not forge.tags()


def test_drafts_keep_the_order_of_their_creation_when_the_clock_goes_back(tmp_path: Path) -> None:
    create(tmp_path)
    made = [
        draft_of(LocalForge(tmp_path, clock=lambda hours=hours: NOW - timedelta(hours=hours), identity=WHO)).id  # type: ignore[misc]
        for hours in range(3)
    ]
    assert [release.id for release in client(tmp_path).releases()] == made


# -- what strangers see -----------------------------------------------------------------------------------------------


def test_pip_installs_from_the_page(forge: LocalForge, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "dist")
    draft = draft_of(forge)
    asset = forge.upload(draft, wheel.name, wheel)
    metadata = tmp_path / "metadata"
    with zipfile.ZipFile(wheel) as archive:
        metadata.write_bytes(archive.read(f"mlir-{VERSION}.dist-info/METADATA"))
    forge.upload(draft, f"{wheel.name}.metadata", metadata)
    forge.edit_release(draft, title="T", body=f"[{wheel.name}]({asset.url}#sha256={asset.sha256})\n")
    forge.publish(draft)
    page = forge.root / "releases" / TAG / "index.html"
    with serve(forge.root / "releases") as served:
        for number, address in enumerate((str(page), page.as_uri(), f"{served.url}/{TAG}/index.html")):
            target = tmp_path / f"target{number}"
            pip(["install", "--target", str(target), "--no-index", "-f", address, "mlir>=20200101"])
            assert (target / "mlir" / "_release.json").is_file()
        assert served.paths(".whl") == [f"/{TAG}/{wheel.name}"]
        assert served.paths(".metadata") == [f"/{TAG}/{wheel.name}.metadata"]


def pip(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "--no-cache-dir", *arguments]
    platform = ["--only-binary=:all:", "--platform=manylinux_2_28_x86_64", f"--python-version={PYTHON[2:]}"]
    done = subprocess.run([*command, *platform], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_links_in_the_page_are_relative_and_quoted(forge: LocalForge, source: Path) -> None:
    draft = draft_of(forge)
    asset = forge.upload(draft, "mlir-1+a.whl", source)
    forge.edit_release(
        draft, title="<b>T</b>", body=f"[w]({asset.url}) [o](https://example.org/) [bad](javascript:alert(1))\n"
    )
    forge.publish(draft)
    page = (forge.root / "releases" / TAG / "index.html").read_text()
    assert re.findall(r'href="([^"]*)"', page) == [
        "mlir-1%2Ba.whl",
        "https://example.org/",
        f"mlir-1%2Ba.whl#sha256={asset.sha256}",
    ]
    assert "<b>T" not in page


def test_a_release_appears_whole(forge: LocalForge, source: Path) -> None:
    draft = draft_of(forge)
    names = [f"{number}.whl" for number in range(20)]
    for name in names:
        forge.upload(draft, name, source)
    seen: list[set[str]] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            folder = forge.root / "releases" / TAG
            if folder.exists():
                seen.append({path.name for path in folder.iterdir()})

    reader = threading.Thread(target=look)
    reader.start()
    forge.publish(draft)
    while not seen:
        time.sleep(0.001)
    done.set()
    reader.join()
    assert {frozenset(names_seen) for names_seen in seen} == {frozenset([*names, "index.html", ".forge.json"])}


# -- what a crash leaves ----------------------------------------------------------------------------------------------


def test_what_dead_writers_left_is_swept_and_what_living_ones_write_is_not(forge: LocalForge, source: Path) -> None:
    scratch = forge.root / "scratch"
    (scratch / "dead").write_bytes(b"half")
    (scratch / "000009").mkdir()
    (scratch / "000009" / ".forge.json").write_bytes(b"{")
    (scratch / "living").write_bytes(b"half")
    with (scratch / "living").open("rb") as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        forge.upload(draft_of(forge), "a.whl", source)
        assert [path.name for path in scratch.iterdir()] == ["living"]
    forge.create_tag("another", head(forge), "m\n")
    assert not list(scratch.iterdir())


def test_a_dead_gits_lock_does_not_block_the_branch(forge: LocalForge) -> None:
    for lock in ("refs/heads/main.lock", "HEAD.lock"):
        path = forge.repository / lock
        path.touch()
        os.utime(path, (time.time() - 2, time.time() - 2))
    commit = forge.commit("main", expected=head(forge), files={"a": b"1"}, message="m\n")
    assert head(forge) == commit
    assert not (forge.repository / "refs/heads/main.lock").exists()


def test_a_fresh_lock_of_a_repository_without_our_lock_is_respected(forge: LocalForge) -> None:
    """Git in a repository that others write to as well: only a lock that is really old is broken."""
    git = Git(forge.repository)
    path = forge.repository / "refs" / "heads" / "other.lock"
    path.touch()
    releaser = threading.Timer(0.5, path.unlink)
    releaser.start()
    assert git.update_ref("refs/heads/other", head(forge), expected=NO_OBJECT)
    releaser.join()
    path.touch()
    os.utime(path, (time.time() - STALE_LOCK_AGE - 1,) * 2)
    assert git.update_ref("refs/heads/other", head(forge), expected=head(forge))


def test_a_lock_that_git_inherited_outlives_the_process_that_took_it(
    forge: LocalForge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process's git may still be moving a ref: nobody else may begin before it has ended."""
    slow, real = tmp_path / "bin" / "git", shutil.which("git")
    slow.parent.mkdir()
    wait = f"case $* in *update-ref*) touch {tmp_path}/inside; sleep 1;; esac"
    slow.write_text(f'#!/bin/sh\n{wait}\nexec {real} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}{os.pathsep}{os.environ['PATH']}")
    context = multiprocessing.get_context("fork")
    process = context.Process(target=lambda: forge.create_tag("slow", head(forge), "m\n"))
    process.start()
    while not (tmp_path / "inside").exists():
        time.sleep(0.01)
    process.kill()
    process.join()
    monkeypatch.undo()
    forge.create_tag("next", head(forge), "m\n")
    assert [tag.name for tag in forge.tags()] == ["next", "slow"], "the orphan had not ended yet"


def test_an_asset_that_somebody_cut_off_is_incomplete(forge: LocalForge, source: Path) -> None:
    draft = draft_of(forge)
    forge.upload(draft, "a.whl", source)
    os.truncate(forge.root / "drafts" / draft.id / "a.whl", 10)
    (listed,) = forge.releases()
    assert [(asset.name, asset.complete, asset.sha256) for asset in listed.assets] == [("a.whl", False, "")]
    forge.delete_asset(listed, listed.assets[0])
    assert forge.upload(draft, "a.whl", source).complete


def test_a_record_that_somebody_changed(forge: LocalForge) -> None:
    draft = draft_of(forge)
    (forge.root / "drafts" / draft.id / ".forge.json").write_text(json.dumps({"id": 1}))
    error = refused(forge.releases, "forge-damaged", "a record of the local forge can't be read")
    assert draft.id in error.where


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["index.html", ".forge.json", "../a.whl", "a/b.whl", "", ".", "a b.whl", "a\n.whl"])
def test_names_that_no_asset_can_have(forge: LocalForge, source: Path, name: str) -> None:
    draft = draft_of(forge)
    before = files(forge.root)
    refused(lambda: forge.upload(draft, name, source), "forge-refused")
    assert files(forge.root) == before


def test_a_file_that_is_not_there(forge: LocalForge, tmp_path: Path) -> None:
    draft = draft_of(forge)
    with pytest.raises(FileNotFoundError):  # as of any forge; a command says system-refused
        forge.upload(draft, "a.whl", tmp_path / "missing.whl")
    assert not forge.releases()[0].assets


def in_child(action: Callable[[], object]) -> str:
    """Run ``action`` in a process of its own; id and reason of the ForgeError that ends it, or what went wrong."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "no error"
        try:
            action()
        except ForgeError as error:
            answer = f"{error.id}: {error.why}"
        except BaseException:
            answer = traceback.format_exc()
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return answer


def with_little_space(size: int, action: Callable[[], object]) -> Callable[[], object]:
    """As on a full disk: no file can grow beyond ``size`` bytes."""

    def limited() -> object:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return action()

    return limited


def test_a_full_disk(forge: LocalForge, source: Path, tmp_path: Path) -> None:
    draft = draft_of(forge)
    asset = forge.upload(draft, "there.whl", source)
    before = files(forge.root)
    (tmp_path / "out").mkdir()
    actions: list[tuple[int, Callable[[], object]]] = [
        (100_000, lambda: forge.upload(draft, "a.whl", source)),
        (100_000, lambda: forge.download(draft, asset, tmp_path / "out" / "a.whl")),
        (10, lambda: forge.edit_release(draft, title="t", body="b")),
        (10, lambda: forge.publish(draft)),
        (10, lambda: forge.dispatch("release.yml", ref="main", inputs={})),
        (0, lambda: forge.create_draft(TAG, title="t", body="b", prerelease=False)),
    ]
    for size, action in actions:
        answer = in_child(with_little_space(size, action))
        assert (answer.startswith("local-forge-failed"), "File too large" in answer) == (True, True)
        assert files(forge.root) == before
    assert not list((tmp_path / "out").iterdir())
    (listed,) = forge.releases()
    assert listed.assets == (asset,)


def test_a_full_disk_under_git(forge: LocalForge) -> None:
    before = (head(forge), forge.tags())
    commit = lambda: forge.commit("main", expected=before[0], files={"a": os.urandom(10_000)}, message="m\n")  # noqa: E731
    assert in_child(with_little_space(5_000, commit)).startswith("local-forge-failed")
    tag = lambda: forge.create_tag("t", before[0], "m\n")  # noqa: E731
    assert in_child(with_little_space(0, tag)).startswith("local-forge-failed")
    assert (head(forge), forge.tags()) == before
    Git(forge.repository).run("fsck", "--strict")


def test_a_forge_of_somebody_else(forge: LocalForge, source: Path) -> None:
    draft = draft_of(forge)
    asset = forge.upload(draft, "a.whl", source)
    before = files(forge.root)

    def as_nobody(action: Callable[[], object]) -> Callable[[], object]:
        def switched() -> object:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            return action()

        return switched

    for parent in forge.root.parents:
        if parent.stat().st_uid == os.getuid() and not parent.stat().st_mode & 0o001:
            parent.chmod(0o711)
    for path in [forge.root, *forge.root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        actions: list[Callable[[], object]] = [
            lambda: forge.upload(draft, "b.whl", source),
            lambda: forge.edit_release(draft, title="t", body="b"),
            lambda: forge.publish(draft),
            lambda: forge.delete_draft(draft),
            lambda: forge.dispatch("release.yml", ref="main", inputs={}),
        ]
        for action in actions:
            # Git refuses to work in another user's repository at all.
            assert in_child(as_nobody(action)).startswith(("local-forge-failed", "local-forge-failed", "not-on-forge"))
        assert in_child(as_nobody(lambda: check(forge.releases()[0].assets == (asset,)))) == "no error"
    finally:
        for path in [forge.root, *forge.root.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert files(forge.root) == before


def check(truth: bool) -> None:
    assert truth


class Impatient(LocalForge):
    """It waits but a moment for others."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._store = Store(root, patience=0.2)


def test_a_forge_that_somebody_holds(forge: LocalForge) -> None:
    forge = Impatient(forge.root)
    descriptor = os.open(forge.root, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        for action in (forge.releases, lambda: forge.create_tag("t", head(forge), "m\n")):
            refused(action, "forge-unreachable")
    finally:
        os.close(descriptor)
    assert not forge.tags()


def test_a_tag_that_would_be_a_folder_of_another(forge: LocalForge) -> None:
    forge.create_tag("abandoned", head(forge), "m\n")
    refused(lambda: forge.create_tag("abandoned/x", head(forge), "m\n"), "local-forge-failed")


# -- workflow runs ----------------------------------------------------------------------------------------------------


def test_a_runner_takes_and_finishes_runs_oldest_first(forge: LocalForge) -> None:
    assert forge.take_run() is None
    for number in range(2):
        forge.dispatch("release.yml", ref="main", inputs={"n": str(number)})
    forge.dispatch("other.yml", ref="main", inputs={})
    run = forge.take_run("release.yml")
    assert run is not None
    assert run.inputs == {"n": "0"}
    others = client(forge.root)
    assert [found.status for found in others.runs("release.yml", ref="main")] == ["queued", "in_progress"]
    second = others.take_run("release.yml")
    assert second is not None
    assert second.inputs == {"n": "1"}
    assert others.take_run("release.yml") is None
    with pytest.raises(ForgeError):
        others.finish_run(run, "success")
    forge.finish_run(run, "success")
    others.finish_run(second, "failure")
    assert [(found.status, found.conclusion) for found in forge.runs("release.yml", ref="main")] == [
        ("completed", "failure"),
        ("completed", "success"),
    ]
    assert [found.status for found in forge.runs("other.yml", ref="main")] == ["queued"]


def test_a_run_whose_runner_died_has_failed(forge: LocalForge) -> None:
    forge.dispatch("release.yml", ref="main", inputs={})
    assert in_child(lambda: check(forge.take_run() is not None)) == "no error"
    (run,) = forge.runs("release.yml", ref="main")
    assert (run.status, run.conclusion) == ("completed", "failure")
    assert forge.take_run() is None


def test_no_tag_leads_out_of_the_folder_of_releases(forge: LocalForge) -> None:
    forge.create_tag(TAG, str(forge.head("main")), "x\n")
    draft = forge.create_draft(TAG, title="", body="", prerelease=False)
    assert forge.published(f"../drafts/{draft.id}") is None
