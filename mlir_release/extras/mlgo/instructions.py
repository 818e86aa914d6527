"""Count the instructions that real programs execute, linked once with modules of the default and once of a policy.

The modules go into an archive, which the program's link takes ahead of its others; nothing else differs. valgrind's
callgrind counts. Both programs must print the same, or the policy's code is wrong.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from mlir_release.extras.mlgo.compiling import in_parallel
from mlir_release.ground.documents.decode import MalformedError, from_toml, text
from mlir_release.ground.errors import MachineError, UsageError, VerificationError
from mlir_release.ground.programs.process import capture
from mlir_release.ground.programs.surroundings import foreign_environment
from mlir_release.ground.storage.files import read_document, read_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.toolchain import Toolchain

#: The count in callgrind's file. Source: its format's specification, "totals".
_TOTALS = re.compile(r"^totals: (\d+)", re.MULTILINE)

#: Seconds of a link or a run, under valgrind some fifty times slower than else.
_LIMIT = 3600.0

#: Runs of programs that a confidence interval needs.
FEWEST_RUNS = 5


class ProgramRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One use of a program. ``{llvm}`` in its arguments is the prefix of the LLVM; paths are relative to the file."""

    name: str
    arguments: tuple[str, ...] = ()
    input: str = ""  #: a file that it reads as its standard input


class CountedProgram(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program whose instructions are counted."""

    name: Annotated[str, text("[A-Za-z0-9._-]+", "a file's name")]
    #: The command that links it. ``{modules}`` is an archive of the modules that are compared, ``{program}`` the file
    #: to write, ``{llvm}`` the prefix of the LLVM.
    link: Annotated[tuple[str, ...], Meta(min_length=1)]
    #: The command that is run, before each run's arguments: the file itself, or a program that uses it, as an
    #: interpreter uses a library.
    command: Annotated[tuple[str, ...], Meta(min_length=1)] = ("{program}",)
    environment: dict[str, str] = {}  #: variables that it is run with beside this process's: ``PYTHONHASHSEED``
    runs: Annotated[tuple[ProgramRun, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        _check_different("runs", [run.name for run in self.runs])
        if not any("{program}" in word for word in self.command):
            raise MalformedError("command", "does not use what is linked", "write {program} where its path belongs")


class Programs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of ``evaluate --programs``, as TOML: tables ``[[program]]``, each with ``[[program.runs]]``."""

    program: Annotated[tuple[CountedProgram, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        _check_different("program", [program.name for program in self.program])
        count = sum(len(program.runs) for program in self.program)
        if count < FEWEST_RUNS:
            problem = f"has {count} runs in all, and a confidence interval needs {FEWEST_RUNS}"
            raise MalformedError("program", problem, "give more runs, of different inputs")


def _check_different(path: str, names: list[str]) -> None:
    if len(set(names)) != len(names):
        raise MalformedError(path, "has two of the same name", "name each once")


def load_programs(path: Path) -> Programs:
    """The programs of a file. :raises UsageError: ``input-invalid``"""
    try:
        return from_toml(read_document(path), Programs)
    except (OSError, UnicodeDecodeError, MalformedError) as error:
        raise UsageError(
            "input-invalid",
            f"the programs to count instructions of can't be read: {error}",
            where=str(path),
            remedy="write it as docs/mlgo.md describes",
        ) from None


class Counted(Struct, frozen=True, kw_only=True):
    """Instructions that one run of a program executed."""

    program: str
    run: str
    default: Annotated[int, Meta(ge=1)]
    policy: int


class Counter:
    """Counts instructions of a file's programs, for :func:`~mlir_release.extras.mlgo.evaluate.evaluate`."""

    def __init__(self, path: Path, toolchain: Toolchain, jobs: int | None = None) -> None:
        """Read the file, and find valgrind.

        :raises UsageError: ``input-invalid``
        :raises MachineError: ``tool-missing``
        """
        self._programs = load_programs(path).program
        self._folder, self._toolchain, self._jobs = path.absolute().parent, toolchain, jobs
        valgrind = shutil.which("valgrind")
        if valgrind is None:
            raise MachineError(
                "tool-missing",
                "there is no valgrind, which counts instructions",
                remedy="install it (Debian: apt install valgrind), or evaluate without --programs",
            )
        self._valgrind = valgrind

    def count(self, default: Sequence[Path], policy: Sequence[Path], scratch: Path) -> tuple[Counted, ...]:
        """Link each program twice, and count each of its runs twice.

        :param default: the modules' objects
        :param policy: the same modules' objects, in the same order
        :param scratch: a folder to work in
        :raises VerificationError: ``model-unsuitable``
        """
        archives = []
        for name, objects in (("default", default), ("policy", policy)):
            archives.append(scratch / f"{name}.a")
            self._run("llvm-ar", [self._toolchain.program("llvm-ar"), "rcs", archives[-1], *objects])
        links = [(program, archive) for program in self._programs for archive in archives]

        def linked(link: tuple[CountedProgram, Path]) -> Path:
            program, archive = link
            target = archive.with_suffix(f".{program.name}")
            self._run(program.name, [self._filled(word, modules=archive, program=target) for word in program.link])
            return target

        paths = in_parallel(linked, links, self._jobs)
        runs = [(program, run, path) for (program, _), path in zip(links, paths, strict=True) for run in program.runs]

        def counted(task: tuple[CountedProgram, ProgramRun, Path]) -> tuple[int, str]:
            program, run, path = task
            file = path.with_name(f"{path.name}.{program.runs.index(run)}.callgrind")
            text = read_text(self._folder / run.input) if run.input else None
            words = [self._filled(word, program=path) for word in (*program.command, *run.arguments)]
            counting = [self._valgrind, "--tool=callgrind", f"--callgrind-out-file={file}", *words]
            printed = self._run(program.name, counting, text, foreign_environment() | program.environment)
            return int(_TOTALS.findall(read_text(file))[-1]), printed

        counts = in_parallel(counted, runs, self._jobs)
        found = {(path, run.name): count for (_, run, path), count in zip(runs, counts, strict=True)}
        compared = []
        for program, *pair in zip(self._programs, paths[::2], paths[1::2], strict=True):
            for run in program.runs:
                (before, printed), (after, prints) = (found[path, run.name] for path in pair)
                if printed != prints:
                    raise VerificationError(
                        "model-unsuitable",
                        f"{program.name} prints something else when it is compiled with the policy",
                        where=run.name,
                        remedy="take runs that always print the same; if this one does, report it to LLVM with policy "
                        "and modules",
                    )
                compared.append(Counted(program=program.name, run=run.name, default=before, policy=after))
        return tuple(compared)

    def _filled(self, word: str, **names: Path) -> str:
        for name, path in {"llvm": self._toolchain.prefix.absolute(), **names}.items():
            word = word.replace(f"{{{name}}}", str(path))
        return word

    def _run(
        self, name: str, command: Sequence[str | Path], text: str | None = None, variables: dict[str, str] | None = None
    ) -> str:
        done = capture(command, cwd=self._folder, text=text, environment=variables, timeout=_LIMIT, encoding="utf-8")
        if not done.ok:
            raise VerificationError(
                "model-unsuitable",
                f"{name} could not be linked or run: {done.ending}",
                where=" ".join(map(str, command))[:300],
                why="\n".join(done.complaint.splitlines()[-5:]),
                remedy="correct its link or its run in the file of --programs",
            )
        return done.stdout
