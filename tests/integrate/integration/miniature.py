"""A miniature of the real thing: an upstream C library with a history full of trouble, downstreams, and a fork.

Everything is real git and a real C compiler. Addresses are ``https://mini.invalid/…``, which the world's own git
configuration maps to its folder, so that a world can be copied.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mlir_release.ground.git.repository import Signature
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.open import open_project
from mlir_release.integrate.walk.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

    from mlir_release.integrate.project import Integration

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
WHO = Signature(name="x", email="x@example.com", when=NOON)
BRANCH = "integrates/llvm-20261120"
URL = "https://mini.invalid/"

SMOKE = """#!/bin/sh
# The library must build (else: untestable), then the application against it, then the application must pass.
set -e
src="$MLIR_RELEASE_UPSTREAM_SOURCE/mlir"
mkdir -p build
cc -w -c "$src/api.c" -I"$src" -o build/api.o || exit 125
echo "FAILED: app.o"
cc -w -Werror=implicit-function-declaration -c app.c -I"$src" -o build/app.o
cc build/app.o build/api.o -o build/app
./build/app
flaky="$MLIR_RELEASE_CACHE/../flaky"
if grep -q flaky "$src/flaky.txt" && [ -d "$flaky" ] && [ ! -e "$flaky/seen" ]; then
  touch "$flaky/seen"
  echo "FAIL: mini :: flaky.test (1 of 1)"
  exit 1
fi
"""

APP = """#include "api.h"
int main(void) {
  if (add(2, 3) != 5) return 1;
  if (SCALE != 6) return 2;
  struct point p = {0};
  p.POINT_X = 1;
  if (extra(1) != 2) return 3;
  return LAST == 7 ? 0 : 4;
}
"""

#: What the downstream's sources say before and after it was fixed for a break.
FIXES = {
    "rename scale": ("SCALE", "scale(3)", "scale_by(3, 2)"),
    "rename field": ("POINT_X", "x", "first"),
    "drop last": ("LAST", "last()", "newest()"),
}


def api(*, scale: str, point: str, add: str, last: str, broken: bool, extra: str, bug: str) -> dict[str, str]:
    """The library's two files in one state."""
    scale_parameters = "int a" if scale == "scale" else "int a, int b"
    scale_body = "a * 2" if scale == "scale" else "a * b"
    header = f"""int add(int a, int b);
int {scale}({scale_parameters});
struct point {{ int {point}; }};
int extra(int a);
int {last}(void);
"""
    source = f"""#include "api.h"
int add(int a, int b) {{ return a {add} b; }}

/* scaling */
int {scale}({scale_parameters}) {{ return {scale_body}; }}

/* extras */
int extra(int a) {{ return {extra}; }}
{"this is no C" if broken else ""}

/* newest */
int {last}(void) {{ return {bug}; }}
"""
    return {"mlir/api.h": header, "mlir/api.c": source}


class Upstream:
    """Builds the history; ``commits`` maps the names of planted steps to ids, ``affecting`` lists ids in order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(path)], check=True)
        self.state = {"scale": "scale", "point": "x", "add": "+", "last": "last", "broken": False, "extra": "a + 1"}
        self.state["bug"] = "7"
        self.commits: dict[str, str] = {}
        self.affecting: list[str] = []
        self.stream: list[str] = []
        self.marks: list[tuple[str, bool]] = []
        self.previous = ""

    def commit(self, subject: str, files: dict[str, str], *, name: str = "", affecting: bool = True) -> None:
        """Queue one commit."""
        self.marks.append((name, affecting))
        number = len(self.marks)
        when = 1_790_000_000 + 60 * (self.count + number)
        who = f"Una Pstream <una@example.com> {when} +0000"
        self.stream.append(f"commit refs/heads/main\nmark :{number}\nauthor {who}\ncommitter {who}\n")
        self.stream.append(f"data {len(subject.encode())}\n{subject}\n")
        if number == 1 and self.previous:
            self.stream.append(f"from {self.previous}\n")
        for path, content in files.items():
            self.stream.append(f"M 100644 inline {path}\ndata {len(content.encode())}\n{content}\n")

    count = 0

    def flush(self) -> None:
        """Write what is queued, and learn the ids."""
        marks = self.path / "marks"
        subprocess.run(
            ["git", "-C", str(self.path), "fast-import", "--quiet", f"--export-marks={marks}"],
            input="".join(self.stream).encode(),
            check=True,
        )
        ids = dict(line.split() for line in marks.read_text().splitlines())
        for number, (name, affecting) in enumerate(self.marks, 1):
            sha = ids[f":{number}"]
            if name:
                self.commits[name] = sha
            if affecting:
                self.affecting.append(sha)
            self.previous = sha
        self.count += len(self.marks)
        self.stream, self.marks = [], []

    def step(self, name: str, subject: str, **change: object) -> None:
        """An affecting commit that changes the library."""
        self.state.update(change)
        self.commit(subject, api(**self.state), name=name)  # type: ignore[arg-type]

    def heal(self, *, others: int) -> None:
        """A break that upstream itself reverts."""
        self.step("healing", "[mlir] Tune add", add="-")
        self.flush()
        self.filler(1, others=others)
        what = f'Revert "[mlir] Tune add"\n\nThis reverts commit {self.commits["healing"]}.\n'
        self.step("healed", what, add="+")

    def filler(self, affecting: int, *, others: int = 3) -> None:
        """``affecting`` commits that matter to nobody though they touch tracked paths, and others beside them."""
        for _ in range(affecting):
            serial = self.count + len(self.marks)
            for other in range(others):
                self.commit(f"[clang] Polish {serial}.{other}", {"clang/x.c": f"{serial} {other}\n"}, affecting=False)
            self.commit(f"[mlir] Extend {serial}", {f"mlir/fill{serial % 7}.c": f"/* {serial} */\n"})


def git(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    """Run git for the test itself."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, env=env)
    return done.stdout.decode(errors="replace").strip()


@dataclass
class World:
    """A world in ``root``. ``commits``: planted upstream commits by name."""

    root: Path
    commits: dict[str, str]
    affecting: list[str]

    @property
    def checkout(self) -> Path:
        """The downstream's checkout."""
        return self.root / "downstream"

    def environment(self) -> dict[str, str]:
        """What processes in this world need."""
        return {
            "GIT_CONFIG_GLOBAL": str(self.root / "gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "MLIR_RELEASE_CACHE": str(self.root / "cache"),
        }

    def begin(self, *, publish: bool = False) -> Walk:
        """Start an integrate; its walk."""
        start(self.open(), publish=publish)
        return Walk(self.open(), publish=publish)

    def enter(self, patch: pytest.MonkeyPatch) -> None:
        """Let this process, and those that it starts, be in this world."""
        for name, value in self.environment().items():
            patch.setenv(name, value)

    def fix(self, name: str) -> None:
        """What a person does about a break: change the downstream, commit."""
        key, old, new = FIXES[name]
        path = self.checkout / "app.c"
        text = path.read_text()
        assert f"#define {key} {old}\n" in text
        path.write_text(text.replace(f"#define {key} {old}\n", f"#define {key} {new}\n"))
        env = {**os.environ, **self.environment(), **dated()}
        git(self.checkout, "commit", "-q", "-m", f"Follow upstream: {name}", "app.c", env=env)

    def open(self) -> Integration:
        """What the commands open in the checkout, at noon."""
        return open_project(self.checkout, clock=lambda: NOON)

    def reconfigure(self, old: str, new: str) -> None:
        """Change ``integrate.toml``, commit and push."""
        path = self.checkout / "integrate.toml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        self.publish("Configure")

    def publish(self, subject: str) -> None:
        """Commit what is changed, and push."""
        self.git("commit", "-q", "-a", "-m", subject)
        self.git("push", "-q")

    def push_to_main(self, folder: Path, name: str, content: str) -> str:
        """What a colleague does in a clone of their own: write a file, commit, push; the commit."""
        git(self.root, "clone", "-q", "-b", "main", f"{URL}origin.git", str(folder))
        (folder / name).write_text(content)
        git(folder, "add", name)
        git(folder, "commit", "-q", "-m", f"Write {name}")
        git(folder, "push", "-q")
        return git(folder, "rev-parse", "HEAD")

    def elsewhere(self, folder: Path) -> Integration:
        """What the commands open in a clone of the branch on another machine."""
        branch = self.git("symbolic-ref", "--short", "HEAD")
        git(self.root, "clone", "-q", "-b", branch, f"{URL}origin.git", str(folder))
        return open_project(folder, clock=lambda: NOON)

    def git(self, *arguments: str) -> str:
        """Git in the checkout."""
        return git(self.checkout, *arguments, env={**os.environ, **self.environment()})


def dated() -> dict[str, str]:
    """What makes git date commits at noon."""
    stamp = f"{int(NOON.timestamp())} +0000"
    return {"GIT_AUTHOR_DATE": stamp, "GIT_COMMITTER_DATE": stamp}


def write_config(root: Path, remotes: str = "") -> None:
    """Git's configuration of a world. ``remotes``: where a server (:func:`serving`) offers this machine's folders."""
    (root / "gitconfig").write_text(
        f'[url "{remotes}{root}/"]\n\tinsteadOf = {URL}\n[user]\n\tname = Dora Downstream\n\temail = dora@example.com\n'
        '[protocol "file"]\n\tallow = always\n[protocol "git"]\n\tallow = always\n'
        "[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n"
        "[gc]\n\tauto = 0\n[uploadpack]\n\tallowFilter = true\n\tallowAnySHA1InWant = true\n"
    )
    (root / "flaky").mkdir(exist_ok=True)


@contextmanager
def serving() -> Iterator[str]:
    """A git server whose clients may be killed without it: yields the address under which folders are found."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        "--export-all",
        "--enable=receive-pack",
        "--reuseaddr",
        "--max-connections=0",
        "--listen=127.0.0.1",
        f"--port={port}",
    ]
    with subprocess.Popen(["git", "daemon", *options, "--base-path=/"], stderr=subprocess.DEVNULL) as server:
        try:
            while server.poll() is None:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10):
                    break
                time.sleep(0.02)
            yield f"git://127.0.0.1:{port}"
        finally:
            server.terminate()


def build(root: Path, *, carrier: str = "submodule", patched: bool = True, small: bool = False) -> World:
    """Make a world from nothing.

    :param carrier: ``submodule`` or ``pin-file``
    :param patched: the downstream carries a cherry-pick that lands later, a revert that upstream follows, and a local
        patch that conflicts near the end
    :param small: few commits between the planted ones, for tests that walk many times
    """
    up = begin(root, patched=patched)
    base = up.previous
    gap = 1 if small else 4
    others = 1 if small else 3
    up.filler(gap, others=others)
    up.step("rename scale", "[mlir] Rename scale", scale="scale_by")
    up.filler(gap, others=others)
    up.commit("[clang-tidy] Tidy", {"mlir/tidy.c": "/* tidy */\n"}, affecting=False)
    up.commit("[mlir] Add a flaky test", {"mlir/flaky.txt": "flaky\n"}, name="flaky")
    up.commit("[mlir] Mend the flaky test", {"mlir/flaky.txt": "no\n"})
    if not small:
        up.filler(gap, others=others)
    up.heal(others=others)
    up.filler(gap, others=others)
    up.step("unbuildable", "[mlir] Half a change", broken=True)
    up.step("buildable", "[mlir] The other half", broken=False)
    up.filler(gap, others=others)
    up.step("rename field", "[mlir] Rename a field", point="first")
    up.filler(gap, others=others)
    up.commit("[mlir] A fix that downstreams need", {"mlir/needed.c": "int needed;\n"}, name="needed")
    up.filler(gap, others=others)
    if patched:
        up.step(
            "bug reverted", f'Revert "[mlir] Make newest faster"\n\nThis reverts commit {up.commits["bug"]}.\n', bug="7"
        )
        up.filler(gap, others=others)
        up.commit("[mlir] Rewrite the notes", {"mlir/notes.txt": "upstream's own notes\n"}, name="conflict")
    up.step("drop last", "[mlir] Rename last", last="newest")
    up.filler(gap, others=others)
    return finish(root, up, base, carrier=carrier, patched=patched)


def begin(root: Path, *, patched: bool) -> Upstream:
    """A world with an upstream that stands where the downstream's pin will be."""
    root.mkdir(parents=True)
    write_config(root)
    up = Upstream(root / "upstream.git")
    up.commit("Begin", {**api(**up.state), "mlir/flaky.txt": "no\n", "clang/x.c": "\n"}, affecting=False)  # type: ignore[arg-type]
    up.step("bug", "[mlir] Make newest faster", bug="8" if patched else "7")
    up.flush()
    up.affecting.clear()
    return up


def finish(root: Path, up: Upstream, base: str, *, carrier: str, patched: bool) -> World:
    """The world's other repositories, once the upstream has its history; the downstream's pin is ``base``."""
    up.flush()
    for name in ("fork.git", "origin.git"):
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(root / name)], check=True)
    world = World(root, up.commits, up.affecting)
    _downstream(world, base, carrier=carrier, patched=patched)
    for head in root.rglob("HEAD"):  # a pack is copied faster than a thousand objects
        if (head.parent / "objects").is_dir():
            git(head.parent, "repack", "-a", "-d", "-q")
    (root / "world.json").write_text(json.dumps({"commits": world.commits, "affecting": world.affecting}))
    return world


def _downstream(world: World, base: str, *, carrier: str, patched: bool) -> None:
    root, env = world.root, {**os.environ, **world.environment(), **dated()}
    git(root, "init", "-q", "downstream", env=env)
    checkout = world.checkout
    git(checkout, "remote", "add", "origin", f"{URL}origin.git", env=env)
    pin = base
    if patched:
        work = root / "patching"
        git(root, "clone", "-q", f"{URL}upstream.git", str(work), env=env)
        git(work, "switch", "-q", "--detach", base, env=env)
        (work / "mlir/notes.txt").write_text("our notes\n")
        git(work, "add", "mlir/notes.txt", env=env)
        message = "Keep notes\n\nCarried-Kind: local\nCarried-Why: we read them"
        git(work, "commit", "-q", "-m", message, env=env)
        git(work, "revert", "--no-edit", world.commits["bug"], env=env)
        git(work, "cherry-pick", "-x", world.commits["needed"], env=env)
        git(work, "push", "-q", f"{URL}fork.git", "HEAD:refs/heads/downstream-llvm", env=env)
        pin = git(work, "rev-parse", "HEAD", env=env)
        shutil.rmtree(work)
    if carrier == "submodule":
        git(checkout, "submodule", "--quiet", "add", f"{URL}upstream.git", "third_party/llvm", env=env)
        inner = checkout / "third_party/llvm"
        git(inner, "fetch", "-q", f"{URL}fork.git" if patched else f"{URL}upstream.git", pin, env=env)
        git(inner, "checkout", "-q", "--detach", pin, env=env)
        where = 'submodule = "third_party/llvm"'
    else:
        (checkout / "llvm-project.version").write_text(f"{pin}\n")
        where = 'pin-file = "llvm-project.version"'
    (checkout / "integrate.toml").write_text(
        f"""[upstream]
url = "{URL}upstream.git"
name = "LLVM"
{where}
[upstream.export]
remote = "{URL}fork.git"
branch = "downstream-llvm"
[smoke]
command = ["./smoke.sh"]
timeout-minutes = 2
"""
    )
    defines = "".join(f"#define {key} {old}\n" for key, old, _ in FIXES.values())
    (checkout / "app.c").write_text(defines + APP)
    (checkout / "smoke.sh").write_text(SMOKE)
    (checkout / "smoke.sh").chmod(0o755)
    (checkout / ".gitignore").write_text("build/\n")
    git(checkout, "add", ".", env=env)
    git(checkout, "commit", "-q", "-m", "Begin", env=env)
    git(checkout, "push", "-q", "-u", "origin", "main", env=env)


def copy(world: Path, destination: Path) -> World:
    """A copy of a world that was built in another folder."""
    shutil.copytree(world, destination, symlinks=True)
    write_config(destination)
    return load(destination)


def load(root: Path) -> World:
    """The world that was built in ``root``, or copied there."""
    data = json.loads((root / "world.json").read_text())
    return World(root, data["commits"], data["affecting"])
