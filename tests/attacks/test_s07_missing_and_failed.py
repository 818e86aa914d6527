"""S7: what git can't read is taken for what is not there: yanks, and the demand for signatures, are lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.errors import ForgeError
from mlir_release.ground.git.repository import Git, GitError
from mlir_release.ground.git.trees import is_ancestor, merge_base
from mlir_release.integrate.open import open_project
from mlir_release.release.forge.files import head_of, read_yanks
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.model.yanks import YANKS_PATH
from tests.attacks.hostile_mirror import Mirror, run
from tests.attacks.hostile_repository import git, lose
from tests.refusals import refused
from tests.release.integration.signed_stage import TAG

if TYPE_CHECKING:
    from collections.abc import Callable

as_root = pytest.mark.skipif(
    sys.platform == "win32" or os.getuid() != 0, reason="only root can give a folder to another user"
)

#: Any other user than the one who reads.
OTHER = 61234


def give_away(folder: Path) -> None:
    for place in (folder, *folder.rglob("*")):
        os.lchown(place, OTHER, OTHER)


#: Options of ``install`` with which it changes nothing, wherever the tests run.
TRY: tuple[str, ...] = ("--python", sys.executable, "--dry-run")


@pytest.fixture
def yanked(honest: Mirror, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    """A mirror in which the release is yanked; git's own configuration trusts no folder."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("SUDO_UID", raising=False)
    yank = f'[[yank]]\ntag = "{TAG}"\nreason = "steals tokens"\n'.encode()
    forge = LocalForge(honest.root)
    forge.commit("main", expected=forge.head("main"), files={YANKS_PATH: yank}, message="Yank\n")
    assert yanks_of(honest) == [TAG]
    return honest


def yanks_of(mirror: Mirror) -> list[str]:
    return [yank.tag for yank in read_yanks(LocalForge(mirror.root), "main")]


@as_root
def test_a_mirror_of_another_user_keeps_its_yanks(yanked: Mirror) -> None:
    give_away(yanked.root)
    with pytest.raises(AssertionError, match="dubious ownership"):
        git(yanked.root / "repository.git", "rev-parse", "main")
    assert yanks_of(yanked) == [TAG]
    answer = run("install", "latest", *TRY, "--forge", yanked.address, "--signed-by", yanked.signer)
    assert answer.code != 0, "the only release is yanked"


@as_root
def test_a_mirror_of_another_user_keeps_its_demand_for_signatures(yanked: Mirror) -> None:
    forge = LocalForge(yanked.root)
    head = head_of(forge, "main")
    content = forge.read("targets.toml", commit=head)
    assert content is not None
    changed = content.replace(b"[release]\n", b'[release]\nprovenance = "required"\n')
    forge.commit("main", expected=head, files={"targets.toml": changed}, message="Demand signatures\n")
    for file in yanked.folder.glob("*.sigstore.json"):
        yanked.record(lambda data, name=file.name: data["assets"].pop(name))  # type: ignore[misc]
        file.unlink()
    give_away(yanked.root)
    for command in (("verify", TAG), ("install", TAG, *TRY)):
        answer = run(*command, "--forge", yanked.address)
        assert answer.code != 0, (command, answer)
        assert "install" not in command or answer.id


# -- damaged repositories ---------------------------------------------------------------------------------------------


def damaged(repository: Path, name: str) -> None:
    oid = git(repository, "rev-parse", name)
    lose(repository, name)
    (repository / "objects" / oid[:2] / oid[2:]).write_bytes(b"nonsense")


def damaged_list(repository: Path) -> None:
    git(repository, "pack-refs", "--all")
    (repository / "packed-refs").write_text("nonsense\n")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a broken ref": lambda repository: (repository / "refs/heads/main").write_text("nonsense\n"),
    "an empty ref": lambda repository: (repository / "refs/heads/main").write_text(""),
    "a lost commit": lambda repository: lose(repository, "main"),
    "a lost tree": lambda repository: lose(repository, "main^{tree}"),
    "a lost file": lambda repository: lose(repository, f"main:{YANKS_PATH}"),
    "a damaged commit": lambda repository: damaged(repository, "main"),
    "a damaged file": lambda repository: damaged(repository, f"main:{YANKS_PATH}"),
    "a damaged list": damaged_list,
    "no objects": lambda repository: (repository / "objects").rename(repository / "elsewhere"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_forge_loses_no_yank_without_a_word(yanked: Mirror, damage: str) -> None:
    DAMAGES[damage](yanked.root / "repository.git")
    refused(lambda: yanks_of(yanked), "local-forge-failed")
    copy = LocalForge.create(yanked.root.with_name("copy"), {"a": b"1"})
    for command in (
        ("install", "latest", *TRY, "--forge", yanked.address),
        ("mirror", yanked.address, f"local:{copy.root}"),
    ):
        answer = run(*command)
        assert (answer.code, answer.id) == (5, "local-forge-failed"), command


@as_root
@pytest.mark.parametrize("closed", ["refs", "refs/heads", "refs/heads/main", "packed-refs", "objects", "HEAD"])
def test_a_forge_that_is_partly_closed_to_its_reader_loses_no_yank(yanked: Mirror, closed: str) -> None:
    """A shared mirror that was copied with another umask."""
    place = Path(tempfile.mkdtemp())
    try:
        shutil.copytree(yanked.root, place / "mirror")
        git(place / "mirror" / "repository.git", "tag", "loose", "main")
        if closed == "packed-refs":
            git(place / "mirror" / "repository.git", "pack-refs", "--all")
        place.chmod(0o755)
        (place / "mirror" / "repository.git" / closed).chmod(0o600)
        done = in_the_others_name(lambda: yanks_of(Mirror(place / "mirror", "", Path(), yanked.stage)))
        assert done.startswith(("ForgeError: local-forge-failed", "ForgeError: forge-damaged")), done
    finally:
        shutil.rmtree(place)


def in_the_others_name(call: Callable[[], object]) -> str:
    """What comes of a call in a process of the other user."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(OTHER)
            os.setuid(OTHER)
            os.environ["HOME"] = "/"
            os.chdir("/")
            text = repr(call())
        except ForgeError as error:
            text = f"ForgeError: {error.id}"
        except BaseException as error:
            text = repr(error)
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        return pipe.read()


# -- other repositories -----------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "file").write_text("1\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "Begin")
    return folder


@as_root
def test_a_checkout_of_another_user_is_refused_with_a_way_out(repository: Path) -> None:
    give_away(repository)
    for ask in (
        Git(repository).is_repository,
        lambda: Git(repository).resolve("HEAD"),
        lambda: Git(repository).read("HEAD", "file"),
        lambda: is_ancestor(Git(repository), "HEAD", "HEAD"),
        lambda: open_project(repository),
    ):
        with pytest.raises(GitError) as caught:
            ask()
        assert caught.value.id == "system-refused"
        assert f"safe.directory {repository}" in caught.value.remedy
        assert "owner" in caught.value.remedy


def test_what_is_not_there_is_none(repository: Path) -> None:
    here = Git(repository)
    unknown = "0123456789" * 4
    assert here.is_repository()
    assert not Git(repository.parent).is_repository()
    names = ("refs/heads/none", "none", unknown, "HEAD@{5}", "a b", "main^{tree}", "-x", "..", "main:none")
    assert [here.resolve(name) for name in names] == [None] * len(names)
    assert here.read("main", "none") is None
    assert here.read("main", "file/none") is None
    assert here.read(unknown, "file") is None
    assert here.read("main", "file") == b"1\n"
    assert here.objects([unknown, "main:none"]) == [None, None]
    assert not is_ancestor(here, unknown, "main")
    assert merge_base(here, unknown, "main") == ""


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")
def test_a_damaged_object_of_a_list_is_an_error(repository: Path) -> None:
    damaged(repository / ".git", "main:file")
    with pytest.raises(GitError):
        Git(repository).objects(["main", "main:file"])
    assert subprocess.run(["git", "-C", str(repository), "status"], capture_output=True, check=False).returncode == 0
