"""Where targets stand, as a scorecard tells."""

from __future__ import annotations

from typing import Any

from mlir_release.release.judging.scorecard import Standing


def make_standing(name: str, **fields: Any) -> Standing:
    """A target that fails: ``sdk-…`` is an SDK, ``smoke-…`` a test, any other a wheel."""
    prefix = name.partition("-")[0]
    kind = {"sdk": "sdk", "smoke": "test"}.get(prefix, "wheel")
    given: dict[str, Any] = {"kind": kind, "platform": name.removeprefix("sdk-"), "required": True, "state": "missing"}
    return Standing(name=name, **given | fields)
