"""A local forge with a row of snapshots, whose wheels know their numbers, and the command line that bisects them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from tests.release_stage import NOW, WHO, Stage
from tests.targets_factory import UPSTREAM, make_row, make_targets
from tests.wheel_factory import PYTHON, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TARGETS = make_targets(make_row(pythons=[PYTHON]), pythons=[PYTHON], upstream=UPSTREAM)


def tag_of(number: int) -> str:
    """The tag of a snapshot, one a day."""
    return f"snapshot-{NOW - timedelta(days=100 - number):%Y%m%d}.01"


def revision_of(number: int) -> str:
    """Its LLVM commit."""
    return f"{number:040x}"


def make_forge(
    root: Path,
    count: int,
    *,
    requires: Mapping[int, tuple[str, ...]] | None = None,
    others: Mapping[int, dict[str, Any]] | None = None,
) -> LocalForge:
    """A forge with the snapshots 1..``count``.

    :param requires: requirements of the wheels of some
    :param others: other arguments of some wheels
    """
    clock = [NOW]
    forge = LocalForge.create(
        root,
        {"llvm-project.version": f"{revision_of(1)}\n".encode(), "targets.toml": TARGETS.encode()},
        clock=lambda: clock[0],
        identity=WHO,
    )
    stage = Stage(forge=forge, dist=root.with_name(f"{root.name}-dist"), matrix=Matrix.parse(TARGETS))
    for number in range(1, count + 1):
        clock[0] = NOW - timedelta(days=100 - number)
        add_snapshot(stage, number, requires=(requires or {}).get(number, ()), **(others or {}).get(number, {}))
    return forge


def add_snapshot(stage: Stage, number: int, **fields: Any) -> None:
    """Publish a snapshot, whose ``mlir.number`` is its number."""
    tag, version = tag_of(number), f"{datetime.strptime(tag_of(number)[9:17], '%Y%m%d'):%Y%m%d}.1"
    stage.add_tag(tag, version, revision=revision_of(number))
    folder = stage.dist / tag
    wheel = make_wheel(
        folder,
        **{
            "tag": tag,
            "version": version,
            "revision": revision_of(number),
            "content": f"number = {number}\n",
            "padding": 100_000,
            **fields,
        },
    )
    make_report(folder, wheel)
    upload(Draft.load(stage.forge, tag), folder)
    publish(Draft.load(stage.forge, tag))


@dataclass
class Bench:
    """Where bisects are run, with a cache of their own."""

    forge: Path
    folder: Path
    variables: dict[str, str]

    def line(self, *arguments: str | Path) -> list[str]:
        """The command line."""
        words = (str(word) for word in arguments)
        return [sys.executable, "-m", "mlir_release", "bisect", f"--forge=local:{self.forge}", *words]

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Begin a bisect."""
        return subprocess.Popen(
            self.line(*arguments),
            cwd=self.folder,
            env=os.environ | self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
