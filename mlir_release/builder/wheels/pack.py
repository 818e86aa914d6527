"""The files of targets that are for every CPython and need no compiler: wheels of an SDK, and source distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.builder.wheels.port import sdk_wheels_of
from mlir_release.builder.wheels.source import write_source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.builder.wheels.request import WheelRequest


def pack(requests: Sequence[WheelRequest], *, output: Path) -> list[Path]:
    """Write the files into the folder ``output``; the same requests give the same bytes.

    :param requests: of one project, SDK and version; wheels of the SDK are quicker together
    :raises UsageError: ``input-missing``
    :raises VerificationError: ``wheel-unsuitable``
    :raises MachineError: ``program-failed``, ``plugin-unusable``, and what :mod:`mlir_release.ground.python.venv`
        raises
    """
    sources = [write_source(request, output=output) for request in requests if request.is_source]
    of_sdk = [request for request in requests if not request.is_source]
    return [*sources, *(sdk_wheels_of(of_sdk[0].project).pack(of_sdk, output=output) if of_sdk else [])]
