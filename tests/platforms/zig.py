"""Upstream's C API compiled for another system, from here: PyPI's ``ziglang`` does so, and brings the headers."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import pytest

from mlir_release.builder.sdk.provision import available_releases, provide_sdk
from mlir_release.builder.tools.build_tools import BUILD_TOOLS
from mlir_release.ground.python import venv
from mlir_release.ground.storage.cache import cache_directory

if TYPE_CHECKING:
    from mlir_release.builder.sdk.info import Sdk

#: Of each module that uses this.
MARKS = [
    pytest.mark.slow,  # a minute of compiling, and 90 MB of compiler
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="uses the SDK of Debian's or Ubuntu's packages"),
]

ZIG = "ziglang==0.17.1"
#: The C API of the core, and of a dialect: in upstream's ``mlir/lib/CAPI``.
_SOURCES = ("IR/BuiltinTypes.cpp", "IR/IR.cpp", "IR/Support.cpp", "Dialect/Func.cpp")


@dataclass(frozen=True)
class Tools:
    """A compiler for :attr:`target`, and LLVM's programs, which are of this machine."""

    target: ClassVar[str]  #: as zig spells it
    suffix: ClassVar[str]  #: of object files

    sdk: Sdk
    sources: Path
    environment: venv.VirtualEnvironment
    folder: Path

    @classmethod
    def provide(cls, folder: Path) -> Self:
        cache = cache_directory()
        release, tree = next(available_releases(cache=cache))
        sdk = provide_sdk(release, release, cache=cache)
        environment = venv.cached(cache / "environments", Path(sys.executable), (ZIG, *BUILD_TOOLS))
        return cls(sdk, tree.root, environment, folder)

    def run(self, *command: str | Path) -> str:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            env=self.environment.variables(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stdout}{done.stderr}"
        return done.stdout

    def compiler(self, kind: str) -> list[str]:
        """The command of zig's ``cc`` or ``c++``."""
        return [str(self.environment.python), "-m", "ziglang", kind, "-target", self.target]

    def include(self) -> list[Path]:
        """Folders of headers."""
        return [self.sdk.root / "include"]

    def compile(self, source: Path) -> Path:
        target = self.folder / f"{source.stem}{self.suffix}"
        include = [f"-I{folder}" for folder in self.include()]
        options = ["-std=c++17", "-O1", "-fno-rtti", "-fno-exceptions"]
        self.run(*self.compiler("c++"), *options, *include, "-c", source, "-o", target)
        return target

    def compile_c_api(self) -> list[Path]:
        """The object files of a part of the C API."""
        return [self.compile(self.sources / "mlir/lib/CAPI" / source) for source in _SOURCES]
