"""The world that the commands run in: a folder with a release repository, wheels, an SDK, and a downstream.

Everything in it has fixed names, dates and commits, so that each run prints the same.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import sys
import uuid
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.cli.app import main
from mlir_release.ground.console import console
from mlir_release.integrate.open import open_project
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.transaction.decisions import abandon
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from tests.attacks.selected_stage import local_upstream
from tests.integrate.integration import miniature
from tests.prefix_factory import make_sdk
from tests.release_stage import NOW, WHO, Stage
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import OTHER_PYTHON, PYTHON

if TYPE_CHECKING:
    import pytest

PUBLISHED, ABANDONED, PENDING = "snapshot-20261118.01", "snapshot-20261119.01", "snapshot-20261120.01"
UPSTREAM = f"{miniature.URL}llvm-project.git"

#: In place of a compiler, whose messages differ.
SMOKE = """#!/bin/sh
grep -q "int scale(" "$MLIR_RELEASE_UPSTREAM_SOURCE/mlir/api.h" && exit
echo "app.c:5:3: error: there is no scale"
exit 1
"""


def make_world(root: Path, patch: pytest.MonkeyPatch) -> None:
    """Make the world in a folder that does not exist yet."""
    downstream = miniature.build(root, small=True)
    (downstream.checkout / "smoke.sh").write_text(SMOKE)
    git = partial(miniature.git, downstream.checkout, env=os.environ | downstream.environment() | miniature.dated())
    git("commit", "--quiet", "--all", "--message", "Only look for the function")
    git("push", "--quiet")
    (root / "home").mkdir()
    (root / "home" / ".gitconfig").symlink_to(root / "gitconfig")
    enter(root, patch)
    _, revision = local_upstream(root / "llvm-project.git")
    make_sdk(root, revision=revision)
    targets = make_targets(
        make_row(), make_row("mlir-core", required=False), pythons=[OTHER_PYTHON, PYTHON], upstream=UPSTREAM
    )
    files = {"llvm-project.version": f"{revision}\n".encode(), "targets.toml": targets.encode()}
    (root / "releases").mkdir()
    for name, content in files.items():
        (root / "releases" / name).write_bytes(content)
    forge = LocalForge.create(root / "forge", files, clock=lambda: NOW, identity=WHO)
    stage = Stage(forge=forge, dist=root / "dist", matrix=Matrix.parse(targets))
    for tag in (PUBLISHED, ABANDONED, PENDING):
        stage.add_tag(tag, version_of(tag), revision=revision)
        stage.fill(tag=tag, version=version_of(tag), revision=revision)
    upload(Draft.load(forge, PUBLISHED), root / "dist" / PUBLISHED)
    publish(Draft.load(forge, PUBLISHED))
    abandon(forge, ABANDONED, reason="its revision does not build")
    _make_bazel_project(root / "bazel")
    # Each file's run takes a copy: few files.
    for repository in (path.parent for path in root.rglob("HEAD") if (path.parent / "objects").is_dir()):
        miniature.git(repository, "gc", "--quiet")
        shutil.rmtree(repository / "hooks", ignore_errors=True)


def _make_bazel_project(root: Path) -> None:
    """A project that names LLVM's commit, and the digest of its archive, in a file of Bazel's."""
    root.mkdir()
    miniature.git(root, "init", "--quiet")
    text = f'LLVM_COMMIT = "{40 * "1"}"\nLLVM_SHA256 = "{64 * "2"}"\n'
    (root / "llvm.bzl").write_text(text)
    miniature.git(root, "add", "llvm.bzl")
    miniature.git(root, "commit", "--quiet", "--message", "Begin", env=os.environ | miniature.dated())


def version_of(tag: str) -> str:
    """The wheels' version of a snapshot."""
    date, _, number = tag.removeprefix("snapshot-").partition(".")
    return f"{date}.{int(number)}"


def enter(root: Path, patch: pytest.MonkeyPatch) -> None:
    """Let this process work in the world, on the day on which it stands still."""
    patch.chdir(root)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    for name in os.environ:
        patch.delenv(name)
    for name, value in {"PATH": path, "HOME": str(root / "home")}.items():
        patch.setenv(name, value)
    patch.setattr(LocalForge, "now", lambda self: NOW)
    patch.setattr(open_project, "__kwdefaults__", {**(open_project.__kwdefaults__ or {}), "clock": lambda: NOW})
    patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=1))


def copy_world(world: Path, root: Path) -> None:
    """A copy that a command may change."""
    miniature.copy(world, root)
    home = root / "home" / ".gitconfig"
    home.unlink()
    home.symlink_to(root / "gitconfig")


def transcript(text: str, root: Path) -> str:
    """Run the lines after ``$`` of a file, and return the file with what they print now."""
    shown = []
    for line in re.findall(r"^\$ (.*)$", text, re.MULTILINE):
        words = shlex.split(line, comments=True)[1:]
        os.environ.pop("COLUMNS", None)  # a table would fold or not by the length of the folder's name
        if "--help" in words:
            os.environ["COLUMNS"] = "110"
        output, code = run(words)
        end = f"[exit code {code}]\n" if code else ""
        shown.append(f"$ {line}\n{settled(output, root)}{end}")
    return "\n".join(shown)


def run(arguments: list[str]) -> tuple[str, int]:
    """What a command prints on both of its streams, and its exit code."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    argv, sys.argv = sys.argv, ["mlir-release", *arguments]
    console.json_mode = console.quiet = False
    code = 0
    try:
        with redirect_stdout(stream), redirect_stderr(stream):
            main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        sys.argv = argv
    stream.seek(0)
    return stream.read(), code


def settled(output: str, root: Path) -> str:
    """The output without what differs from machine to machine: the folder, this CPython, digests,
    durations and sizes."""
    output = output.replace(str(root), "/world").replace(sys.executable, "/usr/bin/python3").replace(PYTHON, "cp3XX")
    output = output.replace(sys.prefix, "/usr/environment")
    output = re.sub(r"(?<=CPython )3\.\d+\.\d+(?=, a virtual)", "3.X.Y", output)
    output = re.sub(r"\b[0-9a-f]{64}\b", "SHA256", output)
    output = re.sub(r"(?<=/integrate/)[0-9a-f]{16}", "ID", output)
    output = re.sub(r"─+|^ {12,}", lambda drawn: drawn[0][:12], output, flags=re.MULTILINE)
    output = re.sub(r"\b(\d+ min )?\d+(\.\d+)? s\b", "N s", output)
    output = re.sub(r"\b[\d.]+ [kM]?B\b", lambda size: re.sub(r"\d", "N", size[0]), output)
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines())
