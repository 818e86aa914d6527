"""An upstream with as long a history as a test likes, made at once by ``git fast-import``."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mlir_release.ground.documents.times import format_time
from mlir_release.ground.git.repository import Git
from tests.paper_forge import PaperForge, make_manifest
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.model.manifest import Manifest

#: When commit 0 of a history was made.
BEGIN = datetime(2026, 10, 1, tzinfo=UTC)
#: Seconds from one commit to the next.
STEP = 600


@dataclass
class UpstreamHistory:
    """A bare repository to be. Commits are numbered from 0, over all branches."""

    folder: Path
    stream: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    tips: dict[str, int] = field(default_factory=dict)  #: the newest commit of each branch
    made: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.git = Git(self.folder)
        self.git.run("init", "--quiet", "--bare", "-b", "main")
        for setting in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
            self.git.run("config", setting, "true")

    def commit(self, message: str = "", path: str = "mlir/lib/IR.cpp", *, branch: str = "main", on: int = -1) -> int:
        """Add a commit that changes a file. ``on``: the parent of a branch's first commit"""
        number, parent = len(self.stream), self.tips.get(branch, on)
        self.tips[branch] = number
        when = int(BEGIN.timestamp()) + STEP * number
        text = message or f"[mlir] Change {number} (#{1000 + number})"
        content = str(number)
        self.stream.append(
            f"commit refs/heads/{branch}\nmark :{number + 1}\ncommitter A <a@example.org> {when} +0000\n"
            f"data {len(text.encode())}\n{text}\n"
            + (f"from :{parent + 1}\n" if parent >= 0 else "")
            + f"M 644 inline {path}\ndata {len(content)}\n{content}\n"
        )
        return number

    def commits(self, count: int) -> int:
        """Add so many commits, in files of MLIR and of others by turns. Returns the number of the last one."""
        paths = ("mlir/lib/IR.cpp", "clang/lib/AST.cpp", "llvm/lib/Value.cpp", "llvm/docs/index.rst")
        return [self.commit(path=paths[number % len(paths)]) for number in range(count)][-1]

    def write(self) -> None:
        """Make those commits that were added since."""
        marks = self.folder.with_suffix(".marks")
        options = (f"--export-marks={marks}", *([f"--import-marks={marks}"] if self.made else []))
        text = "".join(self.stream[self.made :])
        self.git.run("fast-import", "--quiet", *options, input=text.encode())
        pairs = (line.split() for line in marks.read_text().splitlines())
        named = {int(mark[1:]): sha for mark, sha in pairs}
        self.ids = [named[number + 1] for number in range(len(self.stream))]
        self.made = len(self.stream)

    def when(self, number: int) -> datetime:
        """The date of a commit."""
        return datetime.fromtimestamp(BEGIN.timestamp() + STEP * number, UTC)

    def manifest(self, tag: str, number: int, **fields: object) -> Manifest:
        """A release of a commit, tagged an hour after it."""
        return make_manifest(
            tag,
            revision=self.ids[number],
            created=datetime.fromtimestamp(self.when(number).timestamp() + 3600, UTC),
            revision_date=format_time(self.when(number)),
            **fields,  # type: ignore[arg-type]
        )

    def forge(self) -> PaperForge:
        """A forge without releases that follows this upstream."""
        forge = PaperForge()
        targets = make_targets(make_row(), upstream=str(self.folder))
        files = {"targets.toml": targets.encode()}
        forge.commit("main", expected=forge.branches["main"], files=files, message="Follow\n")
        return forge
