#!/usr/bin/env python3
"""llvm-config of an SDK: how to compile and link programs against it, for Makefiles, Cargo and configure scripts.

It reads the SDK's own CMake packages, so it names what is there, and finds them relative to itself.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent

#: Names of ``LLVMExports.cmake`` for the libraries that an SDK carries for LLVM.
THIRD_PARTY = ("mlir_sdk_zlib", "mlir_sdk_zstd")

OPTIONS = {
    "--assertion-mode": "whether LLVM's assertions are on (ON or OFF)",
    "--bindir": "folder of programs",
    "--build-mode": "LLVM's build type (Release, say)",
    "--build-system": "what LLVM was built with (cmake)",
    "--cflags": "flags of the C compiler for LLVM's headers",
    "--cmakedir": "folder of LLVMConfig.cmake",
    "--components": "all components of LLVM, and groups of them",
    "--cppflags": "flags of the C preprocessor for LLVM's headers",
    "--cxxflags": "flags of the C++ compiler for LLVM's headers",
    "--has-rtti": "whether LLVM was built with RTTI (YES or NO)",
    "--help": "this text",
    "--host-target": "target triple that LLVM was built for",
    "--ignore-libllvm": "accepted; the SDK has no libLLVM to link",
    "--includedir": "folder of headers",
    "--ldflags": "flags of the linker",
    "--libdir": "folder of libraries",
    "--libfiles": "libraries of the components, as paths",
    "--libnames": "libraries of the components, as file names",
    "--libs": "libraries of the components, as the linker takes them",
    "--link-shared": "refused with --libs and its like: the SDK has static libraries",
    "--link-static": "accepted; the SDK has static libraries only",
    "--obj-root": "the same as --prefix",
    "--prefix": "folder of the SDK",
    "--quote-paths": "quote paths that a shell would split",
    "--shared-mode": "how components are linked (static)",
    "--system-libs": "libraries of the system that LLVM's need",
    "--targets-built": "code generators",
    "--version": "LLVM's version",
}

HELP = """\
usage: llvm-config OPTION... [COMPONENT...]

How to compile and link programs against this SDK of LLVM and MLIR.
  c++ $(llvm-config --cxxflags) -c main.cpp
  c++ main.o $(llvm-config --ldflags --libs MLIRCAPIIR --system-libs) -o program

A component is one of LLVM's (--components; the default is all of them), or a library of MLIR by its CMake target's
name. Libraries come with those that they need, in the order of a linker.

Options:
"""


def fail(what: str, remedy: str) -> NoReturn:
    """End with a message."""
    sys.exit(f"llvm-config: error: {what}\nTo do: {remedy}")


def read(path: str) -> str:
    """A file of the SDK."""
    try:
        return (ROOT / path).read_text("utf-8", "surrogateescape")
    except OSError as error:
        fail(f"{ROOT} is no complete SDK: {error}", "install mlir-sdk again, or unpack the SDK's build part again")


class InstalledLlvm:
    """The settings and libraries of the CMake packages."""

    def __init__(self) -> None:
        config = read("lib/cmake/llvm/LLVMConfig.cmake")
        setting = re.compile(r'^\s*set\((\w+) "?([^")\n]*)"?\)', re.MULTILINE)
        self.settings = {match[1]: match[2].strip() for match in setting.finditer(config)}
        self.files: dict[str, str] = {}  # static library -> its path in the SDK
        self.links: dict[str, list[str]] = {}  # library -> what it links
        target = re.compile(r"^add_library\((\S+) (\w+) IMPORTED\)\n(?:set_target_properties\((.*?)^\))?", re.M | re.S)
        for exports in ("llvm/LLVMExports.cmake", "mlir/MLIRTargets.cmake"):
            for name, kind, properties in target.findall(read(f"lib/cmake/{exports}")):
                values = dict(re.findall(r'^  (\w+) "(.*)"$', properties, re.MULTILINE))
                links = re.sub(r"\\?\$<LINK_ONLY:([^>]*)>", r"\1", values.get("INTERFACE_LINK_LIBRARIES", ""))
                self.links[name] = [entry for entry in links.split(";") if entry]
                if kind == "STATIC":
                    self.files[name] = values["IMPORTED_LOCATION"].replace("${_IMPORT_PREFIX}/", "")
        self.components = self._components()

    def on(self, name: str) -> bool:
        """Whether a setting is on."""
        return self.settings.get(name, "").upper() in {"1", "ON", "TRUE", "YES"}

    @property
    def generators(self) -> list[str]:
        """LLVM's names of the code generators."""
        return [name for name in self.settings.get("LLVM_TARGETS_TO_BUILD", "").split(";") if name]

    @property
    def msvc(self) -> bool:
        """Whether it is linked with Microsoft's tools."""
        return self.settings.get("LLVM_HOST_TRIPLE", "").endswith("msvc")

    def _components(self) -> dict[str, list[str]]:
        """LLVM's components and groups of them -> their libraries, as upstream's llvm-config has them."""
        libraries = [name for name in self.files if name.startswith("LLVM")]
        found = {name[len("LLVM") :].lower(): [name] for name in libraries}
        for generator in self.generators:
            own = re.compile(rf"LLVM{re.escape(generator)}(AsmParser|CodeGen|Desc|Disassembler|Info|TargetMCA|Utils)")
            found[generator.lower()] = [name for name in libraries if own.fullmatch(name)]
        native = self.settings.get("LLVM_NATIVE_ARCH", "").lower()
        found["native"] = found.get(native, [])
        found["nativecodegen"] = found.get(f"{native}codegen", [])
        found["all-targets"] = [name for one in self.generators for name in found[one.lower()]]
        found["engine"] = found.get("mcjit", found.get("interpreter", []))
        found["all"] = libraries
        return found

    def libraries(self, components: list[str]) -> list[str]:
        """The libraries of components and all that these need; what is needed comes last."""
        wanted = []
        mlir = {name.lower(): name for name in self.links if name.startswith("MLIR")}
        for component in components or ["all"]:
            key = component.lower()
            if key in self.components:
                wanted += self.components[key]
            elif key in mlir:
                wanted.append(mlir[key])
            else:
                fail(
                    f"unknown component name: {component}",
                    "`llvm-config --components` lists LLVM's; those of MLIR are its libraries, such as MLIRCAPIIR",
                )
        found: dict[str, None] = {}
        for name in wanted:
            self._visit(name, found, set())
        order = [name for name in reversed(found) if name in self.files and name not in THIRD_PARTY]
        if missing := [self.files[name] for name in order if not (ROOT / self.files[name]).is_file()]:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            fail(
                f"missing: {', '.join(str(ROOT / file) for file in missing[:3])}{more}",
                "install mlir-sdk again, or unpack the SDK's build part again",
            )
        return order

    def _visit(self, name: str, found: dict[str, None], open_: set[str]) -> None:
        if name in found or name in open_:
            return
        open_.add(name)
        for linked in reversed(self.links.get(name, [])):
            self._visit(linked, found, open_)
        found[name] = None

    def system_libraries(self) -> list[str]:
        """What LLVM's and MLIR's libraries link beside each other."""
        found: dict[str, None] = {}
        for links in self.links.values():
            for name in links:
                if name in THIRD_PARTY:
                    found[f"-l{Path(self.files[name]).stem[len('lib') :]}"] = None
                elif name not in self.links and re.fullmatch(r"-[l\w][\w.:-]*|[\w.]+", name):
                    stem = name[len("-l") :] if name.startswith("-l") else name
                    if self.msvc:
                        found[name if name.startswith("-") else f"{stem}.lib"] = None
                    else:
                        found[name if name.startswith("-") else f"-l{stem}"] = None
        return list(found)


class Answers:
    """What the options print."""

    def __init__(self, sdk: InstalledLlvm, *, quoted: bool) -> None:
        self.sdk, self.quoted = sdk, quoted

    def path(self, path: str = "", flag: str = "") -> str:
        """A path in the SDK, with forward slashes, as every shell takes it."""
        text = flag + (ROOT / path).as_posix()
        if self.quoted and re.search(r"""[\s"'\\$`&|;<>()*?#~]""", text):
            return '"' + re.sub(r'(["\\$`])', r"\\\1", text) + '"'
        return text

    def flags(self, language: str) -> str:
        """Flags of the preprocessor (``cpp``), or of the compiler of C (``c``) or C++ (``cxx``)."""
        settings, found = self.sdk.settings, [self.path("include", "-I")]
        if language == "cxx":
            standard = settings.get("MLIR_SDK_CXX_STANDARD", "17")
            found.append(f"-std:c++{standard}" if self.sdk.msvc else f"-std=c++{standard}")
        found += settings.get("LLVM_DEFINITIONS", "").replace(";", " ").split()
        if language == "cxx":
            if not self.sdk.on("LLVM_ENABLE_EH"):
                found.append("-EHs-c-" if self.sdk.msvc else "-fno-exceptions")
            if not self.sdk.on("LLVM_ENABLE_RTTI"):
                found.append("-GR-" if self.sdk.msvc else "-fno-rtti")
        return " ".join(found)

    def of_libraries(self, option: str, components: list[str]) -> str:
        """The line of ``--libs``, ``--libnames`` or ``--libfiles``."""
        files = [self.sdk.files[name] for name in self.sdk.libraries(components)]
        if option == "--libfiles" or (option == "--libs" and self.sdk.msvc):
            return " ".join(map(self.path, files))
        names = [Path(file).name for file in files]
        if option == "--libs":
            return " ".join(f"-l{re.sub(r'^lib|[.]a$', '', name)}" for name in names)
        return " ".join(names)

    def of(self, option: str) -> str:
        """The line of an option that no component changes."""
        sdk = self.sdk
        folders = {"--prefix": "", "--obj-root": "", "--bindir": "bin", "--includedir": "include", "--libdir": "lib"}
        folders["--cmakedir"] = "lib/cmake/llvm"
        if option in folders:
            return self.path(folders[option])
        if option in {"--cflags", "--cxxflags", "--cppflags"}:
            return self.flags(option[len("--") : -len("flags")])
        if option == "--ldflags":
            return self.path("lib", "-LIBPATH:" if sdk.msvc else "-L")
        return {
            "--version": sdk.settings["LLVM_PACKAGE_VERSION"],
            "--assertion-mode": "ON" if sdk.on("LLVM_ENABLE_ASSERTIONS") else "OFF",
            "--build-mode": sdk.settings.get("LLVM_BUILD_TYPE", ""),
            "--build-system": "cmake",
            "--components": " ".join(sorted(sdk.components)),
            "--has-rtti": "YES" if sdk.on("LLVM_ENABLE_RTTI") else "NO",
            "--host-target": sdk.settings.get("LLVM_HOST_TRIPLE", ""),
            "--shared-mode": "static",
            "--targets-built": " ".join(sdk.generators),
        }[option]


def main(arguments: list[str]) -> None:
    """Print what is asked for, a line each; libraries and then those of the system come last, as upstream has it."""
    options = [word for word in arguments if word.startswith("-")]
    components = [word for word in arguments if not word.startswith("-")]
    if not options or "--help" in options:
        text = HELP + "".join(f"  {name:17} {meaning}\n" for name, meaning in OPTIONS.items())
        sys.exit(text if not options else print(text, end=""))
    if unknown := [word for word in options if word not in OPTIONS]:
        fail(f"unknown option: {unknown[0]}", "`llvm-config --help` lists the options")
    about_libraries = [word for word in options if word in {"--libs", "--libnames", "--libfiles"}]
    if "--link-shared" in options and {*about_libraries, "--shared-mode", "--system-libs"} & set(options):
        fail("this SDK has no shared libraries of LLVM or MLIR to link", "use --link-static")
    answers = Answers(InstalledLlvm(), quoted="--quote-paths" in options)
    silent = {*about_libraries, "--system-libs", "--ignore-libllvm", "--link-shared", "--link-static", "--quote-paths"}
    lines = [answers.of(word) for word in options if word not in silent]
    lines += [answers.of_libraries(word, components) for word in about_libraries]
    if "--system-libs" in options:
        lines.append(" ".join(answers.sdk.system_libraries()))
    print("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
