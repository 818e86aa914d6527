"""A release repository with years of snapshots of several LLVMs behind it, for questions about which of them.

Everything of it is real but the wheels' builds: each snapshot goes the toolkit's own way from the pin to publication,
with a wheel that was built once for each LLVM and is put under the snapshot's tag, version and revision.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from mlir_release.ground.git.repository import Git
from mlir_release.ground.llvm.llvm_facts import TRAILER_VERSION
from mlir_release.ground.llvm.pin import PIN_FILE, format_pin
from mlir_release.ground.llvm.upstream import REPRESENTS_RELEASES, Upstream
from mlir_release.release.forge.files import matrix_of_branch
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.model.manifest import WheelEntry
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.targets import OVERRIDES_NEED
from mlir_release.release.rehearsal.world import shipped_overrides
from mlir_release.release.transaction.assets import Built, read_wheel
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.start import start
from mlir_release.release.transaction.upload import upload
from tests.retagged import retag
from tests.revision_factory import LLVM_FILES
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import make_report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

WHO = "Ada Lovelace <ada@example.org>"
FIRST_DAY = datetime(2025, 3, 1, 9, 0, 0, tzinfo=UTC)
#: From one snapshot to the next: days, and upstream commits.
DAYS, COMMITS = 10, 3
#: What a wheel that relaxes upstream's requirements was tested with.
TESTED_WITH = {"numpy": "2.1.2"}
_VERSION_FILE, _REQUIREMENTS = "cmake/Modules/LLVMVersion.cmake", "mlir/python/requirements.txt"


@dataclass(frozen=True)
class Era:
    """An LLVM, the wheel that its snapshots have, and how many there are."""

    version: str  #: ``22.1.8``
    wheel: Path
    count: int


@dataclass(frozen=True)
class Snapshot:
    """A published snapshot."""

    tag: str
    revision: str
    llvm: str  #: the version of its LLVM


@dataclass(frozen=True)
class Years:
    """The repository."""

    forge: LocalForge
    snapshots: tuple[Snapshot, ...]  #: oldest first


def make_years(folder: Path, eras: Sequence[Era]) -> Years:
    """Publish the snapshots of all eras, one after another, each :data:`DAYS` after the one before."""
    upstream, now = folder / "upstream.git", FIRST_DAY
    past = [era for era in eras for _ in range(era.count)]
    wheels = {era.version: read_wheel(era.wheel) for era in eras}
    commits = _make_upstream(upstream, [era.version for era in past], wheels)
    relaxed = {row.name for wheel in wheels.values() for row in wheel.info.relaxed}
    targets = make_targets(
        make_row(suites=("smoke", OVERRIDES_NEED)),
        pythons=[wheels[eras[0].version].slot.python],
        upstream=str(upstream),
        requires={
            row.name: {"specifier": row.specifier, "reason": row.reason}
            for row in shipped_overrides()
            if row.name in relaxed
        },
    )
    forge = LocalForge.create(
        folder / "forge",
        {PIN_FILE: format_pin(commits[0]), TARGETS_FILE: targets.encode()},
        clock=lambda: now,
        identity=WHO,
    )
    made = []
    for number, era in enumerate(past):
        place = number * COMMITS + COMMITS - 1
        now = _date_of(place) + timedelta(hours=3)
        tag = _publish(forge, commits[place], era.wheel, folder / "dist")
        made.append(Snapshot(tag, commits[place], era.version))
    return Years(forge, tuple(made))


def _date_of(place: int) -> datetime:
    """When the upstream commit at a place was made."""
    return FIRST_DAY + timedelta(days=DAYS) * place / COMMITS


def _make_upstream(folder: Path, llvms: Sequence[str], wheels: Mapping[str, Built]) -> tuple[str, ...]:
    """An upstream with :data:`COMMITS` commits for each snapshot, the last of which is the snapshot's."""
    folder.mkdir(parents=True)
    git = Git(folder)
    git.run("init", "--quiet", "--bare", "--initial-branch=main")
    (folder / REPRESENTS_RELEASES).touch()
    trees = {llvm: _tree(llvm, wheel) for llvm, wheel in wheels.items()}
    places = [(place, llvms[place // COMMITS]) for place in range(len(llvms) * COMMITS)]
    stream = [_commit(place, llvm, trees[llvm]) for place, llvm in places]
    git.run("fast-import", "--quiet", input="".join(stream).encode())
    return tuple(git.text("rev-list", "--reverse", "main").split())


def _tree(llvm: str, wheel: Built) -> dict[str, str]:
    """The files of an LLVM that facts are read from; its requirements are those that the wheel was built from."""
    version = LLVM_FILES[_VERSION_FILE]
    for word, number in zip(("MAJOR", "MINOR", "PATCH"), llvm.split("."), strict=True):
        version = re.sub(rf"(?<=LLVM_VERSION_{word} )\d+", number, version)
    upstream = {row.requirement: row.upstream for row in wheel.info.relaxed}
    building, mark, _ = LLVM_FILES[_REQUIREMENTS].partition("# RUN")
    assert isinstance(wheel.row, WheelEntry)
    requirements = [upstream.get(line, line) for line in wheel.row.requires_dist]
    return {
        **LLVM_FILES,
        _VERSION_FILE: version,
        _REQUIREMENTS: "\n".join([f"{building}{mark} dependencies", *requirements, ""]),
    }


def _commit(place: int, llvm: str, files: Mapping[str, str]) -> str:
    """A commit of the upstream, for ``git fast-import``."""
    lines = [
        f"commit refs/heads/main\nmark :{place + 1}\n"
        f"committer LLVM <llvm@llvm.invalid> {int(_date_of(place).timestamp())} +0000\n",
        _data(f"[mlir] Change number {place}\n\n{TRAILER_VERSION}: {llvm}\n"),
    ]
    changed = {**files, "mlir/lib/change.txt": f"{place}\n"}
    lines += [f"M 100644 inline {path}\n{_data(text)}" for path, text in changed.items()]
    return "".join((*lines, "\n"))


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}\n"


def _publish(forge: LocalForge, revision: str, wheel: Path, dist: Path) -> str:
    """Make and publish the snapshot of a revision, as the scheduled job and the builds do; returns its tag."""
    matrix = matrix_of_branch(forge)
    started = start(forge, Upstream.of(matrix.release).resolve(revision), matrix)
    made = retag(wheel, dist / started.tag, tag=started.tag, version=started.wheel_version, revision=revision)
    for test in matrix.tests:
        make_report(made.parent, made, suite=test.suite, target=test.name, installed=TESTED_WITH)
    draft = Draft.load(forge, started.tag)
    upload(draft, made.parent)
    publish(draft)
    shutil.rmtree(made.parent)  # the forge has a copy
    return started.tag
