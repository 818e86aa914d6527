"""What holds on each system for the steps of the wheel project and for those of LLVM."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.platforms.configure.ninja import Step


def check_c_runtime(os: str, compiles: Sequence[Step]) -> None:
    """Linked statically on Windows, and the same one in every file: a library can't be linked of two."""
    chosen = {word for step in compiles for word in step.flags if re.fullmatch("[-/]M[TD]d?", word)}
    assert chosen == ({"-MT"} if os == "windows" else set()), chosen
    if os == "windows":
        assert all("-MT" in step.flags for step in compiles)


def check_no_times(os: str, compiles: Sequence[Step], links: Sequence[Step]) -> None:
    """No file has a time in it; what Microsoft's tools write otherwise."""
    if os == "windows":
        for step in links:
            assert {"/INCREMENTAL:NO", "/Brepro"} <= set(step.flags), step.name
        assert all("/Brepro" in step.flags for step in compiles)


def check_deployment_target(os: str, steps: Sequence[Step]) -> None:
    """Everything is compiled and linked for the oldest macOS that wheels promise."""
    wanted = {"-mmacosx-version-min=13.0"} if os == "macos" else set()
    for step in steps:
        assert {word for word in step.flags if "version-min" in word} == wanted, step.name
