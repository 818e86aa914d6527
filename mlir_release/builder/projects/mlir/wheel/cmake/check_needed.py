"""Fail if a shared library in a folder needs one that is neither beside it nor part of the C and C++ runtimes.

Usage: check_needed.py FOLDER
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from elftools.elf.elffile import ELFFile

# What every manylinux and musllinux policy allows of glibc, musl and GCC. Policies allow more (libX11, libz, …); the
# bindings need none of it, so it would be a mistake.
RUNTIME = re.compile(
    r"ld-linux.*\.so.*|lib(c|m|dl|rt|pthread|util|stdc\+\+|gcc_s|atomic)\.so\.\d+|ld-musl-.*|libc\.musl-.*\.so\.1"
)


def needed(path: Path) -> list[str]:
    """The libraries that ``path`` asks the loader for."""
    with path.open("rb") as file:
        sections = ELFFile(file).iter_sections("SHT_DYNAMIC")
        return [tag.needed for section in sections for tag in section.iter_tags("DT_NEEDED")]


folder = Path(sys.argv[1])
libraries = sorted(path for path in folder.iterdir() if ".so" in path.name and path.is_file())
carried = {path.name for path in libraries}
strangers = [
    f"{path.name} needs {name}"
    for path in libraries
    for name in needed(path)
    if name not in carried and not RUNTIME.fullmatch(name)
]
if not libraries:
    sys.exit(f"error: there are no shared libraries in {folder}")
if strangers:
    sys.exit("error: the wheel would need libraries that it does not carry:\n  " + "\n  ".join(strangers))
print(f"{len(libraries)} libraries need only each other and the C and C++ runtimes")
