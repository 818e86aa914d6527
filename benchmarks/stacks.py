#!/usr/bin/env python3
"""IREE with LLVM, StableHLO and torch-mlir as one walk, against three walks, on their real histories.

``stacks.py MIRRORS [--since DATE]``: MIRRORS holds bare clones, ``OWNER+NAME/repo``. Nothing of theirs is run or built.

What is real: IREE's pins; every commit of StableHLO's and torch-mlir's main branches, in order; the LLVM that each of
them pins, and which of their integrates changed C++ or TableGen. What is not: llvm-project is not there. Its stand-in
has one commit for each LLVM that one of the three pinned, in the order of the days on which the first of them did.
StableHLO's and torch-mlir's commits are made again with these pins in them.

A smoke test asks whether the three fit. An integrate of StableHLO or torch-mlir that had to change C++ or TableGen
marks a break of LLVM: sources from there on need that LLVM or a later one, sources before it an earlier one. The same
holds for torch-mlir and the StableHLO that it pins, where it moved that alone. IREE's own sources fit everything.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from mlir_release.ground import strategy as st  # noqa: E402
from mlir_release.integrate.deliver.branch import start  # noqa: E402
from mlir_release.integrate.open import open_project  # noqa: E402
from mlir_release.integrate.walk.together import JointWalk  # noqa: E402
from mlir_release.integrate.walk.walk import Walk  # noqa: E402

if TYPE_CHECKING:
    from mlir_release.integrate.report import WalkEnd

SOURCES = re.compile(r"\.(cpp|cc|h|td)$")
FOREVER = 1_000_000
NAMES = ("llvm-project", "stablehlo", "torch-mlir")

SMOKE = """#!/bin/sh
echo run >> "$MLIR_RELEASE_CACHE/../runs"
within() { [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]; }
llvm=$(cat third_party/llvm-project/lib/at.txt)
stablehlo=$(cat third_party/stablehlo/lib/at.txt)
for name in stablehlo torch-mlir; do
  within "$llvm" $(cat third_party/$name/lib/llvm.txt) || { echo "error: $name does not fit LLVM"; exit 1; }
done
within "$stablehlo" $(cat third_party/torch-mlir/lib/stablehlo.txt) || { echo "error: torch-mlir, StableHLO"; exit 1; }
"""


def git(folder: Path, *args: str, stdin: bytes | None = None) -> str:
    """Run git; its output."""
    done = subprocess.run(["git", "-C", str(folder), *args], input=stdin, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"git {' '.join(args[:4])} in {folder}: {done.stderr.decode()}")
    return done.stdout.decode(errors="replace").strip()


@dataclass
class Commit:
    """One commit of a real first-parent line, and its pins after it."""

    sha: str
    time: int
    subject: str
    pins: dict[str, str]
    moved: set[str]  #: the pins that it moves
    sources: bool  #: it changes C++ or TableGen


def line(repository: Path, since: str, pins: dict[str, str], *, moving: bool = False) -> list[Commit]:
    """The first-parent commits from ``since`` on; ``pins``: name -> path of a submodule or a file with the commit.

    :param moving: only those that move a pin
    """
    begin = git(repository, "rev-list", "-1", "--first-parent", f"--before={since}", "HEAD")
    found, last = [], dict.fromkeys(pins, "")
    paths = ("--", *pins.values()) if moving else ()
    listed = git(repository, "log", "--first-parent", "--reverse", "--format=%H %ct %s", f"{begin}~1..HEAD", *paths)
    for row in listed.splitlines():
        sha, time, subject = row.split(" ", 2)
        now = {name: pin(repository, sha, path) for name, path in pins.items()}
        changed = git(repository, "diff-tree", "-r", "-m", "--first-parent", "--name-only", "--no-commit-id", sha)
        moved = {name for name in pins if now[name] != last[name]}
        found.append(Commit(sha, int(time), subject, now, moved, any(map(SOURCES.search, changed.splitlines()))))
        last = now
    found[0].moved = set()
    return found


def pin(repository: Path, commit: str, path: str) -> str:
    """What a commit has at a path: a submodule's commit, or the first that a file names."""
    entry = git(repository, "ls-tree", commit, "--", path).split()
    if entry and entry[1] == "commit":
        return entry[2]
    return re.search(r"[0-9a-f]{40}", git(repository, "show", f"{commit}:{path}"))[0]  # type: ignore[index]


def needs(commits: list[Commit], name: str, position: dict[str, int], *, alone: bool = False) -> list[tuple[int, int]]:
    """For each commit the first and the last position of what it pins that its sources fit."""
    edges = [
        (index, position[commit.pins[name]])
        for index, commit in enumerate(commits)
        if name in commit.moved and commit.sources and (not alone or len(commit.moved) == 1)
    ]
    found = []
    for index in range(len(commits)):
        before = [at for where, at in edges if where <= index]
        after = [at for where, at in edges if where > index]
        found.append((max(before, default=0), min(after, default=FOREVER) - 1))
    return found


class Maker:
    """Writes one derived repository with git fast-import, and learns the ids."""

    def __init__(self, path: Path) -> None:
        self.path = path
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(path)], check=True)
        self.stream: list[str] = []
        self.count = 0

    def commit(self, subject: str, files: dict[str, str], links: dict[str, str] = {}) -> None:  # noqa: B006
        """Queue a commit."""
        self.count += 1
        who = f"real <real@example.com> {1_790_000_000 + 60 * self.count} +0000"
        text = subject.encode()
        self.stream.append(f"commit refs/heads/main\nmark :{self.count}\nauthor {who}\ncommitter {who}\n")
        self.stream.append(f"data {len(text)}\n{subject}\n")
        for path, content in files.items():
            self.stream.append(f"M 100644 inline {path}\ndata {len(content.encode())}\n{content}\n")
        self.stream += [f"M 160000 {commit} {path}\n" for path, commit in links.items()]

    def ids(self) -> list[str]:
        """Write all; the ids in order."""
        marks = self.path / "marks"
        git(self.path, "fast-import", "--quiet", f"--export-marks={marks}", stdin="".join(self.stream).encode())
        rows = dict(row.split() for row in marks.read_text().splitlines())
        return [rows[f":{number}"] for number in range(1, self.count + 1)]


class World:
    """The derived repositories, and a downstream with IREE's pins."""

    def __init__(self, root: Path, mirrors: Path, since: str) -> None:
        self.root = root
        (root / "gitconfig").write_text(
            f'[url "{root}/"]\n\tinsteadOf = https://real.invalid/\n[user]\n\tname = x\n\temail = x@example.com\n'
            '[protocol "file"]\n\tallow = always\n[uploadpack]\n\tallowFilter = true\n\tallowAnySHA1InWant = true\n'
            "[gc]\n\tauto = 0\n[advice]\n\tdetachedHead = false\n"
        )
        os.environ.update(
            GIT_CONFIG_GLOBAL=str(root / "gitconfig"), GIT_CONFIG_NOSYSTEM="1", MLIR_RELEASE_CACHE=str(root / "cache")
        )
        paths = {name: f"third_party/{name}" for name in NAMES}
        self.iree = [c for c in line(mirrors / "iree-org+iree/repo", since, paths, moving=True) if c.moved]
        stablehlo = line(mirrors / "openxla+stablehlo/repo", since, {"llvm-project": "build_tools/llvm_version.txt"})
        torch = line(
            mirrors / "llvm+torch-mlir/repo",
            since,
            {"llvm-project": "externals/llvm-project", "stablehlo": "externals/stablehlo"},
        )
        seen: dict[str, int] = {}
        for commit in sorted([*self.iree, *stablehlo, *torch], key=lambda c: c.time):
            seen.setdefault(commit.pins["llvm-project"], len(seen))
        self.llvm = seen
        self._write(stablehlo, torch)

    def _write(self, stablehlo: list[Commit], torch: list[Commit]) -> None:
        makers = {name: Maker(self.root / f"{name}.git") for name in NAMES}
        for sha, number in self.llvm.items():
            makers["llvm-project"].commit(f"LLVM {sha}", {"lib/at.txt": f"{number}\n"})
        llvm = dict(zip(self.llvm, makers["llvm-project"].ids(), strict=True))
        self.places = {commit.sha: index for index, commit in enumerate(stablehlo)}
        bounds = needs(stablehlo, "llvm-project", self.llvm)
        for number, (commit, (low, high)) in enumerate(zip(stablehlo, bounds, strict=True)):
            files = {"lib/at.txt": f"{number}\n", "lib/llvm.txt": f"{low} {high}\n"}
            files["build_tools/llvm_version.txt"] = f"{llvm[commit.pins['llvm-project']]}\n"
            makers["stablehlo"].commit(f"{commit.sha[:12]} {commit.subject}", files)
        made = makers["stablehlo"].ids()
        places = {commit.pins["stablehlo"]: self.places.get(commit.pins["stablehlo"], 0) for commit in torch}
        wanted = needs(torch, "stablehlo", places, alone=True)
        ranges = zip(torch, needs(torch, "llvm-project", self.llvm), wanted, strict=True)
        modules = "".join(
            f'[submodule "{name}"]\n\tpath = externals/{name}\n\turl = https://real.invalid/{name}.git\n'
            for name in NAMES[:2]
        )
        for number, (commit, fits, wants) in enumerate(ranges):
            files = {".gitmodules": modules, "lib/at.txt": f"{number}\n"}
            files |= {"lib/llvm.txt": "{} {}\n".format(*fits), "lib/stablehlo.txt": "{} {}\n".format(*wants)}
            links = {"externals/llvm-project": llvm[commit.pins["llvm-project"]]}
            links["externals/stablehlo"] = made[places[commit.pins["stablehlo"]]]
            makers["torch-mlir"].commit(f"{commit.sha[:12]} {commit.subject}", files, links)
        self.made = {"llvm-project": list(llvm.values()), "stablehlo": made, "torch-mlir": makers["torch-mlir"].ids()}
        self.real = {"stablehlo": stablehlo, "torch-mlir": torch}
        self.fits = {
            "stablehlo": needs(stablehlo, "llvm-project", self.llvm),
            "torch-mlir": needs(torch, "llvm-project", self.llvm),
        }

    def at(self, commit: Commit) -> dict[str, int]:
        """Where IREE's pins are on the three lines. A fork's commit is taken for main's last one of that day."""
        found = {"llvm-project": self.llvm[commit.pins["llvm-project"]]}
        for name, real in self.real.items():
            known = {each.sha: index for index, each in enumerate(real)}
            last = max(bisect_right([each.time for each in real], commit.time) - 1, 0)
            found[name] = known.get(commit.pins[name], last)
        return found

    def fitting(self, commit: Commit) -> bool:
        """Whether a state of IREE's fits by the rule."""
        at = self.at(commit)
        return all(low <= at["llvm-project"] <= high for low, high in (self.fits[n][at[n]] for n in self.fits))

    def checkout(self, begin: Commit, name: str) -> Path:
        """A downstream with IREE's pins of a commit."""
        origin, folder = self.root / f"{name}.git", self.root / name
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(origin)], check=True)
        subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
        tables, at = "", self.at(begin)
        for each in NAMES:
            git(folder, "submodule", "--quiet", "add", f"https://real.invalid/{each}.git", f"third_party/{each}")
            git(folder / "third_party" / each, "checkout", "-q", "--detach", self.made[each][at[each]])
            url = f"https://real.invalid/{each}.git"
            tables += f'[[upstream]]\nurl = "{url}"\nsubmodule = "third_party/{each}"\npaths = ["lib"]\n'
        (folder / "integrate.toml").write_text(tables + '[smoke]\ncommand = ["./smoke.sh"]\nattempts = 1\n')
        (folder / "smoke.sh").write_text(SMOKE)
        (folder / "smoke.sh").chmod(0o755)
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", f"IREE {begin.sha}")
        git(folder, "remote", "add", "origin", str(origin))
        git(folder, "push", "-q", "-u", "origin", "main")
        start(*open_project(folder).everyone)
        return folder

    def tests(self) -> int:
        """Smoke tests since the last time."""
        runs = self.root / "runs"
        count = len(runs.read_text().splitlines()) if runs.exists() else 0
        runs.unlink(missing_ok=True)
        return count


def walks(folder: Path) -> JointWalk:
    """All upstreams of a downstream."""
    return JointWalk([Walk(project) for project in open_project(folder).everyone])


def one(world: World, begin: Commit) -> tuple[dict[str, WalkEnd], int, list[str]]:
    """One walk over the three: where each ended, smoke tests, and the advances."""
    folder = world.checkout(begin, "one")
    end = walks(folder).run(st.Adaptive())
    log = git(folder, "log", "--first-parent", "--reverse", "--format=%s", "main..").splitlines()[1:]
    return {each.upstream: each for each in end.everywhere()}, world.tests(), log


def three(world: World, begin: Commit) -> tuple[dict[str, WalkEnd], int, list[str], list[str]]:
    """Three walks, in turn as long as one moves; where all have stopped, a person moves two or three together.

    The person finds the combination at once: their tests are not counted.
    """
    folder = world.checkout(begin, "three")
    by_hand, tests = [], 0
    while True:
        joint = walks(folder)
        head = git(folder, "rev-parse", "HEAD")
        ends = {walk: walk.run(st.Adaptive()) for walk in joint.walks}
        if git(folder, "rev-parse", "HEAD") != head:
            continue
        tests += world.tests()
        for walk, end in ends.items():
            if end.outcome != "culprit":
                continue
            steps = map(joint.step, joint.candidates(walk, end.bad)[0])
            tried = ((step, step.probe()) for step in steps)
            if passed := next((each for each in tried if each[1].verdict == "good"), None):
                step, record = passed
                step.take(record.generated)
                by_hand.append(step.spelled)
                break
        else:
            break
        world.tests()
    log = git(folder, "log", "--first-parent", "--reverse", "--format=%s", "main..").splitlines()[1:]
    return {walk.project.upstream.config.title: end for walk, end in ends.items()}, tests, log, by_hand


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mirrors", type=Path)
    parser.add_argument("--since", default="2025-11-01")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), options.mirrors, options.since)
        fitting = [commit for commit in world.iree if world.fitting(commit)]
        print(f"{len(world.iree)} states of IREE since {options.since}, of which {len(fitting)} fit by the rule")
        begin = fitting[0]
        at = world.at(begin)
        print(f"from IREE {begin.sha[:12]} ({begin.subject})")
        for name in NAMES:
            print(f"  {name}: {len(world.made[name]) - 1 - at[name]} commits ahead")
        for name, real in world.real.items():
            moving = [commit for commit in real if "llvm-project" in commit.moved]
            print(f"  {name}'s integrates of LLVM: {len(moving)}, changing sources: {sum(c.sources for c in moving)}")
        ends, tests, log = one(world, begin)
        print(f"\none walk: {tests} smoke tests, {len(log)} advances")
        together = [row for row in log if " with " in row]
        print(
            f"  moved together: {len(together)}, of which three at once: {sum(r.count(' with ') > 1 for r in together)}"
        )
        print("\n".join(f"    {row}" for row in together))
        for name, end in ends.items():
            print(f"  {name}: {end.outcome}, {end.remaining} ahead {end.bad[:12]} {[str(t) for t in end.tried]}")
        ends, tests, log, by_hand = three(world, begin)
        print(f"\nthree walks: {tests} smoke tests, {len(log)} advances, {len(by_hand)} stops that a person solved")
        for name, end in ends.items():
            print(f"  {name}: {end.outcome}, {end.remaining} ahead {end.bad[:12]}")


if __name__ == "__main__":
    main()
