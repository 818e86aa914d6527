"""A miniature of a stack: two upstreams of one downstream, the second of which uses the first and pins it itself.

A state of the sources is good if each library finds the interface that it was written for. The interface of ``llvm``
is a number; ``dialect`` needs that number, and has a feature that the downstream's own ``app.txt`` must know.

====================  ==================================================================================
planted               what it is
====================  ==================================================================================
``break 1``           of llvm; ``integrate 1`` of dialect follows it, and pins the commit after it
``feature``           of dialect: the downstream itself has to follow
``break 2``           of llvm; ``integrate 2`` follows it
``break 3``           of llvm, in two halves: ``integrate 3`` follows the second, and fails with the first alone
====================  ==================================================================================
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.integrate.integration.miniature import URL, Upstream, World, dated, git, write_config

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.integrate.project import Integration

SMOKE = """#!/bin/sh
api=$(cat "${MLIR_RELEASE_UPSTREAM_SOURCE_LLVM:-$MLIR_RELEASE_UPSTREAM_SOURCE}/mlir/api.txt")
lib="${MLIR_RELEASE_UPSTREAM_SOURCE_DIALECT:-third_party/dialect}/lib"
echo "$MLIR_RELEASE_UPSTREAM_COMMIT" "$MLIR_RELEASE_UPSTREAM_COMMIT_LLVM" "$MLIR_RELEASE_UPSTREAM_COMMIT_DIALECT" \\
  >> "$MLIR_RELEASE_CACHE/../runs"
if [ "$api" != "$(cat "$lib/needs.txt")" ]; then echo "lib/a.c:1: error: no interface $api"; exit 1; fi
if [ -d third_party/tools ] && [ "$api" != "$(cat third_party/tools/lib/needs.txt)" ]; then exit 1; fi
if ! grep -q "$(cat "$lib/feature.txt")" app.txt; then echo "app.c:1: error: unknown feature"; exit 1; fi
"""

ORDERS = (("llvm", "dialect"), ("dialect", "llvm"))


@dataclass
class Stack(World):
    """A world with two upstreams. ``heads``: of each."""

    heads: dict[str, str] = field(default_factory=dict)

    def named(self, upstream: str) -> Integration:
        """The downstream with one upstream."""
        return next(each for each in self.open().everyone if each.slug == upstream)

    def follow(self, feature: str) -> None:
        """What a person does about a new feature."""
        (self.checkout / "app.txt").write_text(f"{feature}\n")
        env = {**os.environ, **self.environment(), **dated()}
        git(self.checkout, "commit", "-q", "-m", f"Follow the feature {feature}", "app.txt", env=env)

    @property
    def tests(self) -> int:
        """How often the smoke test has run."""
        runs = self.root / "runs"
        return len(runs.read_text().splitlines()) if runs.exists() else 0


def build(
    root: Path, *, order: tuple[str, ...] = ORDERS[0], pinned: str = "file", carrier: str = "submodule", gap: int = 1
) -> Stack:
    """Make one from nothing.

    :param order: of the upstreams in ``integrate.toml``; one that is left out is a plain submodule. A third,
        ``tools``, is there only if it is named: it needs llvm's interface, and follows ``break 1``
    :param pinned: how dialect pins llvm: in a ``file``, or as a ``submodule``
    :param carrier: how the downstream carries llvm: ``submodule`` or ``pin-file``
    :param gap: idle commits between the planted ones
    """
    root.mkdir(parents=True, exist_ok=True)
    write_config(root)
    llvm, dialect = Upstream(root / "llvm.git"), Upstream(root / "dialect.git")

    def idle(up: Upstream, folder: str) -> None:
        for _ in range(gap):
            serial = up.count + len(up.marks)
            up.commit(f"Extend {serial}", {f"{folder}/fill.txt": f"{serial}\n"})

    def integrate(name: str, api: str) -> None:
        """Of dialect: to llvm's newest commit."""
        llvm.flush()
        dialect.commit(f"Integrate LLVM, {name}", {"lib/needs.txt": f"{api}\n"}, name=name)
        dialect.stream.append(_pin(pinned, llvm.previous))

    llvm.commit("Begin", {"mlir/api.txt": "1\n", "mlir/fill.txt": "\n"})
    llvm.flush()
    begin = {"lib/needs.txt": "1\n", "lib/feature.txt": "plain\n", "lib/fill.txt": "\n"}
    if pinned == "submodule":
        begin[".gitmodules"] = f'[submodule "llvm"]\n\tpath = external/llvm\n\turl = {URL}llvm.git\n'
    dialect.commit("Begin", begin)
    dialect.stream.append(_pin(pinned, llvm.previous))
    dialect.flush()
    bases = {"llvm": llvm.previous, "dialect": dialect.previous}
    idle(llvm, "mlir")
    llvm.commit("Change the interface", {"mlir/api.txt": "2\n"}, name="break 1")
    idle(llvm, "mlir")
    idle(dialect, "lib")
    integrate("integrate 1", "2")
    idle(dialect, "lib")
    dialect.commit("Change a feature", {"lib/feature.txt": "fancy\n"}, name="feature")
    llvm.commit("Change the interface again", {"mlir/api.txt": "3\n"}, name="break 2")
    idle(llvm, "mlir")
    idle(dialect, "lib")
    integrate("integrate 2", "3")
    idle(dialect, "lib")
    llvm.commit("Change half of it", {"mlir/api.txt": "half\n"}, name="break 3")
    llvm.commit("Change the other half", {"mlir/api.txt": "4\n"}, name="other half")
    idle(llvm, "mlir")
    integrate("integrate 3", "4")
    idle(dialect, "lib")
    for up in (llvm, dialect):
        up.flush()
    if "tools" in order:
        tools = Upstream(root / "tools.git")
        for name, api, at in (("Begin", "1", bases["llvm"]), ("tools 1", "2", f"{llvm.commits['break 1']}")):
            tools.commit(name, {"lib/needs.txt": f"{api}\n"}, name=name)
            tools.stream.append(_pin("file", at))
        tools.flush()
        bases["tools"], dialect.commits["tools 1"] = tools.commits["Begin"], tools.commits["tools 1"]
    for name in ("fork.git", "origin.git"):
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(root / name)], check=True)
    heads = {"llvm": llvm.previous, "dialect": dialect.previous}
    world = Stack(root, {**llvm.commits, **dialect.commits}, [], heads)
    _downstream(world, bases, order, carrier)
    (root / "world.json").write_text(json.dumps({"commits": world.commits, "heads": heads}))
    return world


def _pin(pinned: str, commit: str) -> str:
    """The line for git fast-import."""
    if pinned == "submodule":
        return f"M 160000 {commit} external/llvm\n"
    return f"M 100644 inline build_tools/llvm_version.txt\ndata 41\n{commit}\n\n"


def _downstream(world: Stack, bases: dict[str, str], order: tuple[str, ...], carrier: str) -> None:
    root, env, checkout = world.root, {**os.environ, **world.environment(), **dated()}, world.checkout
    git(root, "init", "-q", "downstream", env=env)
    git(checkout, "remote", "add", "origin", f"{URL}origin.git", env=env)
    tables = {}
    for name, base in bases.items():
        if name == "llvm" and carrier == "pin-file":
            (checkout / "llvm.version").write_text(f"{base}\n")
            where = 'pin-file = "llvm.version"'
        else:
            git(checkout, "submodule", "--quiet", "add", f"{URL}{name}.git", f"third_party/{name}", env=env)
            git(checkout / "third_party" / name, "checkout", "-q", "--detach", base, env=env)
            where = f'submodule = "third_party/{name}"'
        paths = "mlir" if name == "llvm" else "lib"
        tables[name] = f"""[[upstream]]
url = "{URL}{name}.git"
{where}
paths = ["{paths}"]
export = {{ remote = "{URL}fork.git", branch = "carried-{name}" }}
"""
    smoke = '[smoke]\ncommand = ["./smoke.sh"]\nattempts = 1\ntimeout-minutes = 2\n'
    (checkout / "integrate.toml").write_text("".join(tables[name] for name in order) + smoke)
    (checkout / "app.txt").write_text("plain\n")
    (checkout / "smoke.sh").write_text(SMOKE)
    (checkout / "smoke.sh").chmod(0o755)
    git(checkout, "add", ".", env=env)
    git(checkout, "commit", "-q", "-m", "Begin", env=env)
    git(checkout, "push", "-q", "-u", "origin", "main", env=env)


def load(root: Path) -> Stack:
    """The world that was built in ``root``, or copied there."""
    data = json.loads((root / "world.json").read_text())
    return Stack(root, data["commits"], [], data["heads"])
