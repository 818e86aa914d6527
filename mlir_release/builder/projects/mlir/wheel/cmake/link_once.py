"""Link a library, or copy what the same link made before: the C API library is the same for every CPython.

    python link_once.py BUILD PROJECT SDK CACHE COMPILER WORDS...

A launcher of CMake's, in front of the compiler that calls lld. What was linked is found by the command, the linker and
the SDK; it is used if no other file that the linker read has changed. Builds side by side wait for the first's.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

#: Libraries kept, those used last: one for each kind of wheel of a few SDKs, up to 150 MB each.
KEPT = 6

#: What the compiler looks at beside its arguments. Source: GCC's manual, "Environment Variables Affecting GCC".
VARIABLES = ("COMPILER_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH", "SOURCE_DATE_EPOCH")


def link(build: str, project: str, sdk: str, cache: Path, command: list[str]) -> int:
    """Run ``command`` in ``build``, unless its result is in ``cache``; return its exit status."""

    def place(text: str) -> str:
        """The same in every build; of two folders one of which is in the other, the inner one first."""
        for folder, name in sorted(((build, "<build>"), (project, "<project>"), (sdk, "<sdk>")), reverse=True):
            text = text.replace(folder, name)
        return text

    output = Path(command[command.index("-o") + 1])
    words = [place(word) for word in command]
    words += [place(Path(word[1:]).read_text(encoding="utf-8")) for word in command if word.startswith("@")]
    facts = [words, _linker(command), _digest(Path(sdk, "sdk.json")), [os.environ.get(name) for name in VARIABLES]]
    entry = cache / hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]
    entry.mkdir(parents=True, exist_ok=True)
    os.utime(entry)
    with (entry / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        library, inputs = entry / "library", entry / "inputs.json"
        if _is_current(inputs):
            shutil.copyfile(library, output)
            output.chmod(0o755)
            return 0
        listing = entry / "inputs.d"
        status = subprocess.run([*command, f"-Wl,--dependency-file={listing}"], check=False).returncode
        if status == 0:
            inputs.unlink(missing_ok=True)  # it comes last: without it, the library counts for nothing
            shutil.copyfile(output, library)
            read = (Path(name) for name in _prerequisites(listing.read_text(encoding="utf-8")))
            others = {str(file): _digest(file) for file in read if not file.resolve().is_relative_to(sdk)}
            listing.write_text(json.dumps(others), encoding="utf-8")
            listing.replace(inputs)
    _forget(cache)
    return status


def _linker(command: list[str]) -> str:
    """What compiler and linker say of themselves."""
    chosen = [word for word in command[1:] if word.startswith(("-B", "-fuse-ld=", "--target=", "--sysroot="))]
    outputs = (
        subprocess.run([command[0], *words], capture_output=True, text=True, check=False).stdout
        for words in (["--version"], [*chosen, "-Wl,--version"])
    )
    return "".join(outputs)


def _is_current(inputs: Path) -> bool:
    if not inputs.is_file():
        return False
    recorded: dict[str, str] = json.loads(inputs.read_text(encoding="utf-8"))
    return all(Path(name).is_file() and _digest(Path(name)) == digest for name, digest in recorded.items())


def _prerequisites(makefile: str) -> list[str]:
    """The files that a rule in make's syntax names; lld continues it with ``\\`` and repeats each file as a target."""
    rule = makefile.replace("\\\n", " ").splitlines()[0].partition(":")[2]
    return [word.replace("\0", " ") for word in rule.replace("\\ ", "\0").split()]


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _forget(cache: Path) -> None:
    """Remove all but the newest. One in use has just been touched."""
    for entry in sorted(cache.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)[KEPT:]:
        shutil.rmtree(entry, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(link(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), sys.argv[5:]))
