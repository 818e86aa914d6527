"""Count the instructions that real programs execute, linked once with modules of the default and once of a policy.

The modules go into an archive, which the program's link takes ahead of its others; nothing else differs. valgrind's
callgrind counts; what both programs print must be equal, or the policy's code is wrong.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.errors import MachineError, UsageError, VerificationError
from mlir_release.extras.mlgo.compiling import in_parallel
from mlir_release.extras.mlgo.documents import Programs
from mlir_release.host.process import capture
from mlir_release.host.surroundings import foreign_environment
from mlir_release.model.decode import MalformedError, from_toml

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.documents import Program, Run
    from mlir_release.extras.mlgo.toolchain import Toolchain

#: The count in callgrind's file. Source: its format's specification, "totals".
_TOTALS = re.compile(r"^totals: (\d+)", re.MULTILINE)

#: Seconds of a link or a run, under valgrind some fifty times slower than else.
_LIMIT = 3600.0


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Instructions that one run of a program executed."""

    program: str
    run: str
    default: int
    policy: int


def load_programs(path: Path) -> Programs:
    """The programs of a file. :raises UsageError: ``input-invalid``"""
    try:
        return from_toml(path.read_text(encoding="utf-8"), Programs)
    except (OSError, UnicodeDecodeError, MalformedError) as error:
        raise UsageError(
            "input-invalid",
            f"the programs to count instructions of can't be read: {error}",
            where=str(path),
            remedy="write it as docs/mlgo.md describes",
        ) from None


def counter(path: Path, toolchain: Toolchain, jobs: int | None = None) -> Counter:
    """What counts the instructions of a file's programs, for :func:`~mlir_release.extras.mlgo.evaluate.evaluate`.

    :raises UsageError: ``input-invalid``
    :raises MachineError: ``tool-missing``
    """
    programs, valgrind = load_programs(path), shutil.which("valgrind")
    if valgrind is None:
        raise MachineError(
            "tool-missing",
            "there is no valgrind, which counts instructions",
            remedy="install it (Debian: apt install valgrind), or evaluate without --programs",
        )
    return Counter(programs=programs, folder=path.absolute().parent, toolchain=toolchain, valgrind=valgrind, jobs=jobs)


@dataclass(frozen=True, kw_only=True)
class Counter:
    """Counts instructions of programs. ``folder`` is what the paths of their file are relative to."""

    programs: Programs
    folder: Path
    toolchain: Toolchain
    valgrind: str
    jobs: int | None = None

    def __call__(self, default: Sequence[Path], policy: Sequence[Path], scratch: Path) -> tuple[Counted, ...]:
        """Link each program twice, and count each of its runs twice.

        :param default: the modules' objects
        :param policy: the same modules' objects, in the same order
        :param scratch: a folder to work in
        :raises VerificationError: ``model-unsuitable``
        """
        archives = [self._archive(scratch / "default.a", default), self._archive(scratch / "policy.a", policy)]
        links = [(program, archive) for program in self.programs.program for archive in archives]
        paths = in_parallel(lambda link: self._link(*link), links, self.jobs)
        runs = [(program, run, path) for (program, _), path in zip(links, paths, strict=True) for run in program.runs]
        counts = in_parallel(lambda task: self._count(*task), runs, self.jobs)
        found = {(path, run.name): count for (_, run, path), count in zip(runs, counts, strict=True)}
        return tuple(
            _compared(program, run, found[default_path, run.name], found[policy_path, run.name])
            for program, default_path, policy_path in zip(self.programs.program, paths[::2], paths[1::2], strict=True)
            for run in program.runs
        )

    def _archive(self, target: Path, objects: Sequence[Path]) -> Path:
        self._run("llvm-ar", [self.toolchain.program("llvm-ar"), "rcs", target, *objects])
        return target

    def _link(self, program: Program, archive: Path) -> Path:
        target = archive.with_suffix(f".{program.name}")
        self._run(program.name, [self._filled(word, modules=archive, program=target) for word in program.link])
        return target

    def _count(self, program: Program, run: Run, path: Path) -> tuple[int, str]:
        """Instructions, and what was printed."""
        file = path.with_name(f"{path.name}.{program.runs.index(run)}.callgrind")
        text = (self.folder / run.input).read_text(encoding="utf-8") if run.input else None
        words = [self._filled(word, program=path) for word in (*program.command, *run.arguments)]
        counting = [self.valgrind, "--tool=callgrind", f"--callgrind-out-file={file}", *words]
        printed = self._run(program.name, counting, text, foreign_environment() | program.environment)
        return int(_TOTALS.findall(file.read_text(encoding="utf-8"))[-1]), printed

    def _filled(self, word: str, **names: Path) -> str:
        for name, path in {"llvm": self.toolchain.prefix.absolute(), **names}.items():
            word = word.replace(f"{{{name}}}", str(path))
        return word

    def _run(
        self, name: str, command: Sequence[str | Path], text: str | None = None, variables: dict[str, str] | None = None
    ) -> str:
        done = capture(command, cwd=self.folder, text=text, environment=variables, timeout=_LIMIT, encoding="utf-8")
        if not done.ok:
            raise VerificationError(
                "model-unsuitable",
                f"{name} could not be linked or run: {done.ending}",
                where=" ".join(map(str, command))[:300],
                why="\n".join(done.complaint.splitlines()[-5:]),
                remedy="correct its link or its run in the file of --programs",
            )
        return done.stdout


def _compared(program: Program, run: Run, default: tuple[int, str], policy: tuple[int, str]) -> Counted:
    if default[1] != policy[1]:
        raise VerificationError(
            "model-unsuitable",
            f"{program.name} prints something else when it is compiled with the policy",
            where=run.name,
            remedy="take runs that always print the same; if this one does, report it to LLVM with policy and modules",
        )
    return Counted(program=program.name, run=run.name, default=default[0], policy=policy[0])
