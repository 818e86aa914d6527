"""Whether the modules of a wheel that claims CPython's stable ABI keep to it, as abi3audit sees it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from mlir_release.host.process import capture
from mlir_release.model.cpython import STABLE_ABI
from mlir_release.model.decode import parse_json
from mlir_release.wheels.platform_tags import Problem, abis_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def check_stable_abi(path: Path, tags: Sequence[str]) -> list[Problem]:
    """What would not load, or crash, on a CPython that the tag promises. Of other wheels nothing is asked."""
    if STABLE_ABI not in abis_of(tags):
        return []
    done = capture([sys.executable, "-m", "abi3audit", "--report", str(path)])
    try:
        specs: dict[str, Any] = parse_json(done.stdout)["specs"]
        modules = [module for spec in specs.values() for module in spec[spec["kind"]]]
    except (ValueError, KeyError, TypeError):
        return [Problem("stable-abi-untrue", f"abi3audit can't judge it: {' '.join(done.stderr.split())[-500:]}")]
    if not modules:
        return [Problem("stable-abi-untrue", "tagged for the stable ABI, but it has no extension module")]
    return [Problem("stable-abi-untrue", message) for module in modules for message in _faults(module)]


def _faults(module: dict[str, Any]) -> Iterator[str]:
    name, result = module["name"], module["result"]
    if result["non_abi3_symbols"]:
        yield f"{name} uses what is not in the stable ABI: {', '.join(sorted(result['non_abi3_symbols'])[:5])}"
    if not result["is_abi3_baseline_compatible"]:
        later = ", ".join(sorted(result["future_abi3_objects"])[:5])
        yield f"{name} uses what CPython {result['baseline']} does not have yet: {later}"
