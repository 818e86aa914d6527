"""What a job takes of a machine, checked before it begins: in its first minute, not in its third hour."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mlir_release.ground.console import console, format_seconds
from mlir_release.ground.errors import MachineError
from mlir_release.ground.storage.disk import check_room

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def install_extra(extra: str) -> str:
    """How to install the toolkit with an extra, for remedies. Not by its name, which anyone may register on PyPI.

    :param extra: as in pyproject.toml
    """
    return f"pip install '.[{extra}]' in a checkout of the toolkit, or 'FILE.whl[{extra}]' of its wheel"


#: The extras of libraries that any command may import, by the names that are imported.
EXTRA_OF = {
    **dict.fromkeys(
        ("cryptography", "id", "installer", "jinja2", "markdown_it", "markupsafe", "pypi_attestations", "sigstore",
         "sigstore_models", "tomli_w"),
        "release",
    ),
    **dict.fromkeys(
        ("abi3audit", "build", "cibuildwheel", "elftools", "lief", "lit", "psutil", "wheel", "zstandard"), "wheels"
    ),
    **dict.fromkeys(("pypi_simple", "twine"), "github"),
    **dict.fromkeys(("mlgo", "numpy"), "mlgo"),
    "griffe": "apidocs",
    **dict.fromkeys(("rattler", "rattler_build"), "conda"),
}  # fmt: skip
#: The extras of commands that need another one than ``release``, which each of these takes along.
EXTRA_OF_COMMAND = {
    **{name: name for name in ("apidocs", "conda", "mlgo")},
    "pypi": "github",
    **dict.fromkeys(("rehearsal", "sdk", "wheels"), "wheels"),
}


def need(*libraries: str) -> None:
    """Check that libraries of :data:`EXTRA_OF` are installed. :raises MachineError: ``tool-missing``"""
    for name in libraries:
        if find_spec(name) is None:
            raise missing_extra(EXTRA_OF[name], name)


def missing_extra(extra: str, library: str) -> MachineError:
    """The error for a library of an extra that is not installed."""
    return MachineError(
        "tool-missing",
        f"the toolkit is installed without its extra {extra}, which this needs",
        why=f"there is no {library}",
        remedy=install_extra(extra),
    )


def missing_of(error: ModuleNotFoundError, command: str) -> MachineError | None:
    """The error for what a command could not import; None if no extra has it. ``command``: the first word"""
    library = (error.name or "").partition(".")[0]
    extra = EXTRA_OF.get(library)
    if extra == "release":
        extra = EXTRA_OF_COMMAND.get(command, extra)
    return missing_extra(extra, library) if extra else None


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a job takes at its largest, by estimate.

    :param purpose: continues "there is not enough memory …"
    :param disk: bytes
    :param memory: bytes of the largest single step; more of it only lets more steps run at once
    :param seconds: wall time on this machine; 0: not known
    :param remedy: for a disk that is too small
    """

    purpose: str
    disk: int
    memory: int
    seconds: float = 0
    remedy: str = "free some space"

    def check(self, folder: Path) -> None:
        """Say what is needed and what is there, and refuse to begin what can't be finished.

        :param folder: on the disk that is written to
        :raises MachineError: ``disk-full``, ``machine-unsuitable``
        """
        import shutil

        there, free = total_memory(), shutil.disk_usage(folder).free
        time = f", about {format_seconds(self.seconds)}" if self.seconds else ""
        console.say(
            f"    up to {_in_gb(self.disk)} of disk are needed ({_in_gb(free)} are free), "
            f"{_in_gb(self.memory)} of memory for one step (the machine has {_in_gb(there)}){time}"
        )
        check_room(folder, self.disk, purpose=self.purpose, remedy=self.remedy)
        if there < self.memory:
            raise MachineError(
                "machine-unsuitable",
                f"there is not enough memory {self.purpose}",
                why=f"the machine has {_in_gb(there)}, swap included; one step takes {_in_gb(self.memory)}",
                remedy="use a larger machine, or add swap: the system would stop the step when it has run for long",
            )


def _in_gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"


def total_memory(swap_memory: Callable[[], Any] | None = None) -> int:
    """Bytes of memory and swap (by default psutil's), used or not: others' share may be free when it is needed."""
    import psutil

    swap = 0
    with suppress(RuntimeError):  # on Windows, if its performance counters are switched off
        swap = int((swap_memory or psutil.swap_memory)().total)
    return int(psutil.virtual_memory().total) + swap
