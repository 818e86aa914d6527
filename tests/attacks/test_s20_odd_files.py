"""S20: in a folder of someone else's, any file may be a pipe or a device, or have gigabytes of nothing."""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING

import pytest

if sys.platform != "linux":
    pytest.skip("memory is measured as Linux does", allow_module_level=True)

from mlir_release.cli.app import unexpected
from mlir_release.release.forge.local.forge import LocalForge
from tests.attacks.bombs import ALLOWED
from tests.attacks.hostile_mirror import FILES, Answer, Mirror, run
from tests.attacks.hostile_repository import git
from tests.integrate.integration import miniature
from tests.prefix_factory import make_sdk
from tests.release.integration.signed_stage import TAG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


KINDS = [pipe, device, huge]


@contextmanager
def ending_soon(what: object) -> Iterator[None]:
    """Within the block, less than a minute and little memory are taken: what waits for a pipe waits for ever."""

    def end(*_: object) -> None:
        raise AssertionError(f"still waiting: {what}")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before < ALLOWED, what


@contextmanager
def replaced(path: Path, kind: Callable[[Path], None]) -> Iterator[None]:
    aside = path.with_name(f".{path.name}.aside")
    there = os.path.lexists(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if there:
        path.rename(aside)
    kind(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        if there:
            aside.rename(path)


def tried(place: Path, kind: Callable[[Path], None], commands: Iterable[tuple[object, ...]]) -> None:
    """Each command ends soon: well, or with one message, which of a file that can't be read says which it is."""
    with replaced(place, kind):
        for command in commands:
            with ending_soon((command, place)):
                try:
                    answer = run(*map(str, command))
                except OSError as error:
                    told = unexpected(error)  # as the command line does
                    answer = Answer(int(told.exit_code), told.id * bool(told.where), "")
                assert answer.code == 0 or answer.id or answer.output, (command, place)


def each(places: Iterable[str]) -> pytest.MarkDecorator:
    """Each place with each kind of file; by day with one, which is another for the next place."""
    by_day = zip(places, cycle(KINDS))
    rows = [
        pytest.param(place, kind, marks=() if kind is own else pytest.mark.slow, id=f"{place}-{kind.__name__}")
        for place, own in by_day
        for kind in KINDS
    ]
    return pytest.mark.parametrize(("place", "kind"), rows)


RELEASE = f"releases/{TAG}"
RELEASES = (
    *(f"{RELEASE}/{name}" for name in (".forge.json", "index.html", "pylock.toml", "requirements.txt")),
    *(f"{RELEASE}/release.json{suffix}" for suffix in ("", ".sigstore.json")),
    *(f"{RELEASE}/*.whl{suffix}" for suffix in ("", ".metadata", ".provenance", ".sigstore.json")),
    *(f"{RELEASE}/*.tests.json{suffix}" for suffix in ("", ".sigstore.json")),
    *(f"repository.git/{name}" for name in ("HEAD", "config", "packed-refs", "objects/info/alternates", "objects/*/*")),
    *(f"repository.git/refs/{name}" for name in ("heads/main", "heads/trap", "tags/*")),
    *("last-number", "runs/000001.json", "releases/trap", "drafts/trap"),
)


@each(RELEASES)
def test_a_folder_of_releases(honest: Mirror, tmp_path: Path, place: str, kind: Callable[[Path], None]) -> None:
    forge = ("--forge", honest.address)
    LocalForge.create(tmp_path / "copy", FILES)
    commands = [
        ("verify", TAG, *forge),
        ("release", "list", *forge),
        ("doctor", *forge),
        ("mirror", honest.address, f"local:{tmp_path / 'copy'}"),
        ("index", "-o", tmp_path / "site", *forge),
        ("install", TAG, "--dry-run", "--python", sys.executable, *forge),
    ]
    tried(next(honest.root.glob(place), honest.root / place), kind, commands)


def test_every_file_of_a_folder_of_releases_is_tried(honest: Mirror) -> None:
    files = {path for path in honest.root.rglob("*") if path.is_file()}
    assert files - {path for place in RELEASES for path in honest.root.glob(place)} == set()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Callable[[Path], None]) -> None:
    world = miniature.build(tmp_path / "world", patched=False, small=True)
    world.enter(monkeypatch)
    checkout = world.checkout
    branch = git(checkout, "symbolic-ref", "HEAD")
    blob = git(checkout, "rev-parse", "HEAD:integrate.toml")
    inner = checkout / "third_party/llvm"
    named = (".git/HEAD", ".git/config", ".git/index", ".git/packed-refs", f".git/{branch}", ".git/refs/heads/trap")
    odd = [checkout / name for name in (*named, ".gitmodules", ".gitattributes", "integrate.toml")]
    odd += [checkout / ".git/objects" / blob[:2] / blob[2:], checkout / ".git/objects/info/alternates"]
    odd += [inner / git(inner, "rev-parse", "--git-dir") / "HEAD", inner / ".git"]
    commands = [
        ("integrate", "-C", checkout, "init", "--print"),
        ("integrate", "-C", checkout, "status"),
        ("integrate", "-C", checkout, "patches", "list"),
        ("doctor", "--repository", checkout),
        ("snapshot", "--dry-run", "--policy", f"pin-of:{checkout}", "--forge", f"local:{tmp_path}"),
        ("pin", "set", f"pin-of:{checkout}", "--repository", checkout),
    ]
    for place in odd:
        tried(place, kind, commands)


@each(
    [
        *("llvm-project.version", "targets.toml", "matrices/22.1.toml", "yanked.toml", "SECURITY.md"),
        *(f".github/{name}" for name in ("CODEOWNERS", "workflows/attest.yml", "workflows/trap.yml", "zizmor.yml")),
    ]
)
def test_a_checkout_of_a_release_repository(tmp_path: Path, place: str, kind: Callable[[Path], None]) -> None:
    checkout = tmp_path / "checkout"
    for name, content in {**FILES, "matrices/22.1.toml": FILES["targets.toml"], ".github/workflows/x.yml": b""}.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_bytes(content)
    commands = [
        ("matrix", "--line", "22.1", "-C", checkout),
        ("pin", "show", "-C", checkout),
        ("forge", "init", tmp_path / "forge", "-C", checkout),
        ("doctor", "--repository", checkout),
        ("forge", "adopt", "octo/releases", "@octo/release", "-C", checkout),
    ]
    tried(checkout / place, kind, commands)


@each(
    [
        *("llvm-22/lib/cmake/llvm/LLVMConfig.cmake", "llvm-22/lib/cmake/mlir/MLIRTargets.cmake"),
        *("llvm-22/lib/cmake/llvm/AddLLVM.cmake", "llvm-22/lib/cmake/mlir/MLIRConfig.cmake", "llvm-22/LICENSE"),
        *("llvm-project/cmake/Modules/LLVMVersion.cmake", "llvm-project/mlir/python/requirements.txt"),
        *("llvm-project/mlir/CMakeLists.txt", "llvm-project/LICENSE.TXT"),
        *("llvm-22/lib/libLLVMSupport.a", "llvm-22/bin/*", "llvm-22/include-22/mlir/IR/Header.h"),
        *(
            "sdk/sdk.json",
            "sdk/parts/build.txt",
            "sdk/lib/cmake/llvm/LLVMConfig.cmake",
            "sdk/source/mlir/CMakeLists.txt",
        ),
    ]
)
def test_the_trees_of_an_llvm(tmp_path: Path, place: str, kind: Callable[[Path], None]) -> None:
    make_sdk(tmp_path)
    installed = ("sdk", "import", tmp_path / "llvm-22", "--source", tmp_path / "llvm-project", "-o", tmp_path / "new")
    commands = [
        (*installed, "--revision", "a" * 40, "--source-epoch", "1"),
        ("sdk", "show", "--verify", tmp_path / "sdk"),
        ("sdk", "pack", tmp_path / "sdk", "-o", tmp_path / "packed"),
        ("sdk", "wheel", tmp_path / "sdk", "-o", tmp_path / "wheels"),
        ("wheels", "stage", "--sdk", tmp_path / "sdk", "-o", tmp_path / "project"),
    ]
    tried(next(tmp_path.glob(place), tmp_path / place), kind, commands)
