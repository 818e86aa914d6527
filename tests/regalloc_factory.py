"""A small model of the register allocator, as ``mlgo embed`` writes it, and the advisor of an LLVM's sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.builder.model.regalloc_model import (
    ADVISOR,
    DESCRIPTION,
    MODEL,
    SOURCES,
    ModelDescription,
    RegallocModel,
)
from mlir_release.ground.documents.digests import sha256_of

if TYPE_CHECKING:
    from pathlib import Path

FEATURES = ("mask", "is_free", "progress")
INSIDE = RegallocModel(policy="a" * 64, corpus="b" * 64)

#: As LLVM writes its list, with an apostrophe and a comma in a description.
ADVISOR_TEXT = """\
#include "RegAllocEvictModel.h"
// clang-format off
#define RA_EVICT_FEATURES_LIST(M)                                              \\
  M(int64_t, mask, PerLiveRangeShape,                                          \\
    "boolean values, 0 for unavailable candidates (i.e. if M(a, b, it "        \\
    "can't be evicted)")                                                       \\
  M(int64_t, is_free, PerLiveRangeShape, "1 if this phys reg is free")         \\
  M(float, progress, {1}, "ratio of current queue size to initial size")

#define OTHER_LIST(M) M(float, not_ours, {1}, "of another mode")
int advisor() { return llvm::RegAllocEvictModel().choice(); }
"""


def make_model(folder: Path, *, features: tuple[str, ...] = FEATURES) -> Path:
    """The folder of a model, which compiles."""
    folder.mkdir(parents=True)
    (folder / f"{MODEL}.h").write_text(f"namespace llvm {{ struct {MODEL} {{ int choice(); }}; }}\n")
    (folder / f"{MODEL}.cpp").write_text(f'#include "{MODEL}.h"\nint llvm::{MODEL}::choice() {{ return 7; }}\n')
    files = {name: sha256_of(folder / name) for name in SOURCES}
    about = ModelDescription(policy="a" * 64, corpus="b" * 64, llvm="22.1.8", features=features, files=files)
    (folder / DESCRIPTION).write_text(about.to_text())
    return folder


def add_advisor(source: Path, text: str = ADVISOR_TEXT) -> Path:
    """Give a source tree an advisor; returns the tree."""
    (source / ADVISOR).parent.mkdir(parents=True, exist_ok=True)
    (source / ADVISOR).write_text(text)
    return source
