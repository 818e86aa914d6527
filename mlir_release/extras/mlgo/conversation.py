"""Compile one module while answering the compiler: LLVM's interactive mode, over two named pipes.

Neither side may wait for a dead one. The compiler would: it waits for a pipe to be opened, and reads an ended one
again and again. So a guard kills it when this process ends, for whatever reason. This side never blocks in a pipe: it
opens both for reading and writing from the start, and waits for the compiler's words and its end at once.
"""

from __future__ import annotations

import os
import selectors
import struct
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.extras.mlgo.features import Header, Layout, Stream
from mlir_release.ground.errors import MachineError
from mlir_release.ground.programs.process import guarded
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.extras.mlgo.features import Chooser, Maker
    from mlir_release.extras.mlgo.problems import PolicyProblem

#: Seconds without a word after which a compiler is taken for hung: far more than any module takes.
SILENCE = 900.0

_ADVICE = struct.Struct("=q")
_PIECE = 1 << 16


@dataclass(frozen=True)
class Ending:
    """How a compiler ended.

    :param code: its exit code
    :param decisions: how many it asked for
    :param header: None if it ended before it sent one
    """

    code: int
    errors: str
    decisions: int = 0
    header: Header | None = None


def converse(
    command: Sequence[str | Path],
    problem: PolicyProblem,
    maker: Maker,
    *,
    program: str = "",
    silence: float = SILENCE,
) -> Ending:
    """Run a compiler with a policy's advice.

    :param command: the compiler by its path, without the options of the interactive mode
    :param maker: makes the chooser that answers
    :param program: its name; default: the problem's program
    :raises MachineError: ``program-failed``
    :raises ReleaseError: as ``maker`` and its chooser; the compiler is killed then
    """
    with scratch_folder("mlgo") as folder, ExitStack() as stack:
        channel, errors = folder / "channel", folder / "errors"
        pipes = []
        for way in ("out", "in"):
            path = Path(f"{channel}.{way}")
            os.mkfifo(path, 0o600)
            pipes.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))  # neither opening nor using it ever waits
            stack.callback(os.close, pipes[-1])
        heard, told = pipes
        compiler = stack.enter_context(
            guarded([*command, *problem.asking(channel, program or problem.program)], errors=errors)
        )
        stream, decisions = Stream(), 0
        layout: Layout | None = None
        chooser: Chooser | None = None

        def answer() -> None:
            nonlocal layout, chooser, decisions
            with suppress(BlockingIOError):
                for memory in stream.feed(os.read(heard, _PIECE)):
                    if layout is None or chooser is None:
                        assert stream.header is not None
                        layout = problem.layout(stream.header)
                        chooser = maker(layout)
                    decision = layout.read(memory)
                    chosen = decision.positions[chooser(decision)]
                    decisions += 1
                    os.write(told, _ADVICE.pack(int(chosen)))

        with selectors.DefaultSelector() as selector:
            selector.register(heard, selectors.EVENT_READ)
            selector.register(compiler.ended, selectors.EVENT_READ)
            while True:
                ready = selector.select(silence)
                if not ready:
                    raise MachineError(
                        "program-failed",
                        f"the compiler has said nothing for {silence:g} s, and was stopped",
                        where=" ".join(map(str, command)),
                        remedy="compile the module alone; leave it out of the corpus if it takes that long",
                    )
                answer()
                if any(key.fd == compiler.ended for key, _ in ready):
                    break
        answer()
        code = compiler.wait()
        said = errors.read_text(encoding="utf-8", errors="replace")
        return Ending(code, said, decisions, stream.header)
