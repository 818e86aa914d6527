"""Decisions and policies of four features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mlir_release.extras.mlgo.documents import LearnedPolicy, Settings, Training
from mlir_release.extras.mlgo.features import Decision, Header, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

FEATURES = ("is_free", "is_hint", "nr_broken_hints", "use_def_density", "evicts_nothing")
DIGEST = "0" * 64

#: A compiler that asks of these, about two registers and nothing.
HEADER = Header(
    (
        Tensor("mask", "int64_t", 3),
        Tensor("is_free", "int64_t", 3),
        Tensor("is_hint", "int64_t", 3),
        Tensor("nr_broken_hints", "float", 3),
        Tensor("use_def_density", "float", 3),
    ),
    Tensor("index_to_evict", "int64_t", 1),
)


def decision(*rows: Sequence[float]) -> Decision:
    return Decision(np.arange(len(rows)), np.array(rows, float))


def policy(weights: Sequence[float], **changed: Any) -> LearnedPolicy:
    given: dict[str, Any] = {
        "llvm": "22.1.8", "corpus": DIGEST, "kind": "linear", "hidden": 0, "features": FEATURES,
        "mean": (0.0,) * 5, "deviation": (1.0,) * 5, "weights": tuple(weights),
    }  # fmt: skip
    return LearnedPolicy(**given | changed)


def training(**changed: Any) -> Training:
    settings = Settings(seed=7, kind="linear", hidden=0, pairs=3, sigma=0.1, rate=0.05)
    given: dict[str, Any] = {
        "llvm": "22.1.8", "corpus": DIGEST, "features": FEATURES, "mean": (0.0,) * 5, "deviation": (1.0,) * 5,
        "settings": settings, "weights": (0.0,) * 5, "first": (0.0,) * 5, "second": (0.0,) * 5, "best": (0.0,) * 5,
        "rewards": (),
    }  # fmt: skip
    return Training(**given | changed)
