"""Link a program of LLVM's from stock archives, with some of LLVM's sources compiled again.

A program is a few sources of its own. Of LLVM, only what differs is compiled again, and linked ahead of the archives,
so that the linker takes the same from none of these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mlir_release.extras.mlgo.compiling import in_parallel
from mlir_release.ground.errors import MachineError, UsageError, VerificationError
from mlir_release.ground.programs.process import capture
from mlir_release.ground.storage.files import copy_regular, read_text, replacing, write_atomically
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.toolchain import Toolchain

#: The components that LLVM's programs are linked with, for llvm-config.
#: Source: llvm/tools/{llc,opt}/CMakeLists.txt.
_COMPONENTS = (
    "all-targets", "analysis", "asmprinter", "codegen", "codegentypes", "core", "irprinter", "irreader", "mc",
    "mirparser", "passes", "plugins", "remarks", "scalaropts", "selectiondag", "support", "target", "targetparser",
    "transformutils", "vectorize",
)  # fmt: skip

#: Beside the options of llvm-config. Fused operations would round otherwise than the trained policy.
_OPTIONS = ("-O2", "-fPIC", "-ffp-contract=off")

#: Libraries of the system that LLVM's archives name, and these programs need: to compress debug sections.
SYSTEM_LIBRARIES = ("-lz", "-lzstd", "-ldl", "-lm", "-lpthread")

#: The main of a program that has none, and the name in it. Source: generate_llvm_objects in AddLLVM.cmake.
_DRIVER, _NAME = "llvm/cmake/modules/llvm-driver-template.cpp.in", "@TOOL_NAME@"


class LlvmSources(NamedTuple):
    """llvm-project, of a version of LLVM."""

    root: Path
    version: str


@dataclass(frozen=True, kw_only=True)
class Program:
    """How a program of LLVM's is made; paths are below llvm-project."""

    sources: tuple[str, ...]
    has_main: bool = True  #: else it is made of :data:`_DRIVER`
    components: tuple[str, ...] = ()  #: of LLVM, beyond :data:`_COMPONENTS`
    of_clang: bool = False  #: whether it is made of clang's archives, too


#: By name.
PROGRAMS = {
    "llc": Program(sources=("llvm/tools/llc/llc.cpp", "llvm/tools/llc/NewPMDriver.cpp")),
    "opt": Program(
        sources=tuple(f"llvm/tools/opt/{name}.cpp" for name in ("opt", "optdriver", "NewPMDriver")),
        components=("extensions",),
    ),
    # Components: LLVM_LINK_COMPONENTS in clang/lib/*/CMakeLists.txt.
    "clang": Program(
        sources=tuple(
            f"clang/tools/driver/{name}.cpp" for name in ("driver", "cc1_main", "cc1as_main", "cc1gen_reproducer_main")
        ),
        has_main=False,
        components=(
            "coverage", "extensions", "frontenddriver", "frontendhlsl", "frontendoffloading", "frontendopenmp",
            "hipstdpar", "lto", "option", "textapibinaryreader", "windowsdriver",
        ),
        of_clang=True,
    ),
}  # fmt: skip


def link_program(
    name: str,
    toolchain: Toolchain,
    sources: LlvmSources,
    output: Path,
    *,
    again: Mapping[str, Sequence[str | Path]],
    given: Sequence[str | Path] = (),
) -> Path:
    """Link a program.

    :param name: a key of :data:`PROGRAMS`
    :param toolchain: with LLVM's archives and headers; for clang, with clang's
    :param sources: of the same version
    :param output: the folder that gets the program
    :param again: sources of LLVM's libraries that are compiled again, each with further options of the compiler
    :param given: objects, archives and options of the link, ahead of LLVM's archives
    :returns: the program's path
    :raises UsageError: ``input-missing``
    :raises VerificationError: ``model-unsuitable``
    :raises MachineError: ``program-failed``, ``tool-missing``
    """
    program, source = PROGRAMS[name], sources.root.absolute()
    if sources.version != toolchain.version:
        raise VerificationError(
            "model-unsuitable",
            f"these are the sources of LLVM {sources.version}, and --llvm is {toolchain.version}",
            where=str(sources.root),
            remedy="give the sources of the same version with --source",
        )
    clang: list[str] = []
    if program.of_clang:
        folder = toolchain.prefix.absolute() / "lib"
        found = sorted(map(str, folder.glob("libclang*.a")))
        if not found:
            major = toolchain.version.partition(".")[0]
            raise MachineError(
                "tool-missing",
                "this LLVM has no archives of clang's libraries (libclang*.a)",
                where=str(folder),
                remedy=f"install them (Debian: apt install libclang-{major}-dev libpolly-{major}-dev)",
            )
        # The static analyzer's solver, where LLVM was built with it: the library that the stock clang loads, because
        # its development package need not be there.
        needed = capture(["ldd", toolchain.program("clang")]).stdout
        solver = re.findall(r"(?m)^\s*libz3\S* => (/.*) \(0x[0-9a-f]+\)$", needed)
        clang = ["-Wl,--start-group", *found, "-Wl,--end-group", *solver]  # the linker takes what it needs
    wanted = [*again, *program.sources, *([] if program.has_main else [_DRIVER])]
    if missing := [path for path in wanted if not (source / path).is_file()]:
        raise UsageError(
            "input-missing",
            f"these sources lack what {name} is made of: {', '.join(missing)}",
            where=str(sources.root),
            remedy="give a whole llvm-project with --source, for example its unpacked source archive",
        )
    with scratch_folder("mlgo") as folder:
        options = {source / path: (*words,) for path, words in again.items()}
        options |= {source / path: () for path in program.sources}
        if not program.has_main:
            main = read_text(source / _DRIVER).replace(_NAME, name)
            write_atomically(folder / "main.cpp", main)
            options[folder / "main.cpp"] = ()

        def compiled(numbered: tuple[int, Path]) -> Path:
            number, path = numbered
            target = folder / f"{number}.o"
            run([*compiler(toolchain), *options[path], path, "-o", target])
            return target

        objects = in_parallel(compiled, enumerate(options), None)
        libraries = [*clang, *archives(toolchain, *program.components)]
        run([*linker(toolchain), *objects, *given, *libraries, "-o", folder / name])
        with replacing(output / name) as temporary:
            copy_regular(folder / name, temporary)
    (output / name).chmod(0o755)
    if program.of_clang:  # it finds the stock one's headers and runtimes, wherever it is; and LLVM installs ``clang++``
        (resources,) = capture([toolchain.program("clang"), "-print-resource-dir"]).stdout.splitlines()
        for each in ("clang", "clang++"):
            write_atomically(output / f"{each}.cfg", f'-resource-dir="{resources}"\n')
        (output / "clang++").unlink(missing_ok=True)
        (output / "clang++").symlink_to("clang")
    return output / name


def compiler(toolchain: Toolchain) -> list[str | Path]:
    """The command that compiles a source of LLVM's, up to its name."""
    # llvm-config's flags do not say whether the archives have assertions; code of LLVM's headers must be as theirs.
    assertions = [] if llvm_config(toolchain, "--assertion-mode") == ["ON"] else ["-DNDEBUG"]
    return [toolchain.program("clang++"), *llvm_config(toolchain, "--cxxflags"), *assertions, *_OPTIONS, "-c"]


def linker(toolchain: Toolchain) -> list[str | Path]:
    """The command that links a program of LLVM's archives, up to its objects."""
    return [toolchain.program("clang++"), f"--ld-path={toolchain.program('ld.lld')}", "-Wl,--gc-sections"]


def archives(toolchain: Toolchain, *more: str) -> list[str]:
    """LLVM's archives that llc is linked with, and the libraries of the system. ``more``: further components"""
    return [*llvm_config(toolchain, "--link-static", "--ldflags", "--libs", *_COMPONENTS, *more), *SYSTEM_LIBRARIES]


def llvm_config(toolchain: Toolchain, *options: str) -> list[str]:
    """The words that llvm-config prints. :raises MachineError: ``program-failed``"""
    done = capture([toolchain.program("llvm-config"), *options])
    if not done.ok:
        raise failed(f"llvm-config {' '.join(options)} failed", done.complaint)
    return done.stdout.split()


def run(command: Sequence[str | Path], cwd: Path | None = None) -> None:
    """Run a compiler or linker. :raises MachineError: ``program-failed``"""
    done = capture(command, cwd=cwd)
    if not done.ok:
        raise failed("a program of LLVM's can't be compiled and linked", done.complaint)


def failed(what: str, why: str) -> MachineError:
    """The error of a program that the packages or the sources make fail."""
    return MachineError(
        "program-failed",
        what,
        why=why,
        remedy="install the LLVM's development packages completely (Debian: apt install llvm-22-dev clang-22 lld-22 "
        "libclang-22-dev libpolly-22-dev), and name sources of the same version",
    )
