"""Programs that never outlive this process, however it ends: by SIGKILL, too.

For programs that would wait for this process for ever. See :mod:`mlir_release.host.guard`.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.host.surroundings import foreign_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GUARD = Path(__file__).with_name("guard.py")

#: Seconds that a killed program is waited for: more only if it hangs in the kernel.
_REACTION = 30.0


@dataclass(frozen=True)
class Guarded:
    """A running program.

    :param ended: a file descriptor that becomes readable when the program has ended
    """

    process: subprocess.Popen[bytes]
    ended: int

    def wait(self) -> int:
        """Its exit code; above 128: it was ended by a signal."""
        return self.process.wait()


@contextmanager
def guarded(command: Sequence[str | Path], *, errors: Path) -> Iterator[Guarded]:
    """Start a program; at the end of the block it has ended: by itself, or killed.

    :param command: the program by its path
    :param errors: file for its error output; what it prints otherwise is dropped
    """
    ended, held = os.pipe()
    try:
        with errors.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GUARD), *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=file,
                env=foreign_environment(),
                pass_fds=(held,),
                start_new_session=True,  # one group with the program; and Ctrl+C reaches it through us only
            )
    finally:
        os.close(held)
    try:
        yield Guarded(process, ended)
    finally:
        if not select.select([ended], [], [], 0)[0]:  # the program is alive, and with it its group
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            select.select([ended], [], [], _REACTION)
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        os.close(ended)
