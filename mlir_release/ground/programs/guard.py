"""Run a program that ends when its caller does: ``python -I -S guard.py PROGRAM ARGUMENT...``, as a script of its own.

The caller holds the other end of this process's standard input and never writes to it; when the caller ends, however it
ends, the kernel closes that end, and the program is killed. Only the standard library, and little of it: this starts
once for each program.
"""

from __future__ import annotations

import os
import select
import signal
import sys


def main() -> int:
    """Run the program; its exit code, or 128 plus the signal that ended it, as in a shell."""
    ended, held = os.pipe()
    os.set_inheritable(held, True)  # the program holds it, unknowingly, until it ends
    null = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    program = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=null)
    os.close(held)
    ready, _, _ = select.select([0, ended], [], [])
    if ended not in ready:
        os.kill(program, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
