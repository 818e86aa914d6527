"""S20: in a folder of someone else's, any file may be a pipe or a device, or have gigabytes of nothing."""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

if sys.platform != "linux":
    pytest.skip("memory is measured as Linux does", allow_module_level=True)

from mlir_release.ground.documents.digests import sha256_of
from tests.attacks.bombs import ALLOWED
from tests.attacks.hostile_mirror import Mirror, run
from tests.attacks.hostile_repository import git
from tests.integrate.integration import miniature
from tests.release.integration.signed_stage import TAG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 << 30)


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
    if there:
        path.rename(aside)
    kind(path)
    try:
        yield
    finally:
        path.unlink()
        if there:
            aside.rename(path)


def places(root: Path) -> list[Path]:
    """A file of each suffix in each folder, and those of git that it may be without."""
    found = {(path.parent, path.suffix): path for path in sorted(root.rglob("*")) if path.is_file()}
    kept = [path for path in found.values() if "objects" not in path.parts]
    objects = [path for path in found.values() if "objects" in path.parts]
    repository = root / "repository.git"
    more = [repository / name for name in ("config", "packed-refs", "refs/heads/trap", "objects/info/alternates")]
    return [*kept, *objects[:1], *(path for path in more if path not in kept)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_folder_of_releases(honest: Mirror, tmp_path: Path, kind: Callable[[Path], None]) -> None:
    commands = [
        ("verify", TAG, "--forge", honest.address),
        ("release", "list", "--forge", honest.address),
        ("doctor", "--forge", honest.address),
    ]
    for place in places(honest.root):
        with replaced(place, kind):
            for command in commands:
                with ending_soon((command, place)), suppress(OSError):  # which the command line shows as one message
                    answer = run(*command)
                    assert answer.code == 0 or answer.output or answer.id, (command, place)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Callable[[Path], None]) -> None:
    world = miniature.build(tmp_path / "world", patched=False, small=True)
    for name, value in world.environment().items():
        monkeypatch.setenv(name, value)
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
        with replaced(place, kind):
            for command in commands:
                with ending_soon((command, place)), suppress(OSError):  # which the command line shows as one message
                    answer = run(*command)
                    assert answer.code == 0 or answer.output or answer.id, (command, place)


@pytest.mark.parametrize("kind", [pipe, device], ids=lambda kind: kind.__name__)
def test_nothing_waits_for_the_digest_of_what_is_no_file(tmp_path: Path, kind: Callable[[Path], None]) -> None:
    kind(tmp_path / "file")
    with ending_soon(kind), pytest.raises(OSError, match="not a regular file"):
        sha256_of(tmp_path / "file")
