"""Whether the modules of a wheel that claims CPython's stable ABI keep to it, as abi3audit sees it.

abi3audit looks at the names of functions only. On Windows each comes from a DLL, and ``python313.dll`` is of one
CPython.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from mlir_release.host.process import capture
from mlir_release.model.cpython import STABLE_ABI
from mlir_release.model.decode import parse_json
from mlir_release.wheels.platform_tags import Problem, abis_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from mlir_release.wheels.binaries import BinaryFacts


#: CPython's DLLs of one version; ``python3.dll`` is every version's.
_OF_ONE_PYTHON = re.compile(r"python3\d+t?\.dll", re.IGNORECASE)


def check_stable_abi(path: Path, tags: Sequence[str], binaries: Mapping[str, BinaryFacts]) -> list[Problem]:
    """What would not load, or crash, on a CPython that the tag promises. Of other wheels nothing is asked.

    :param binaries: member name -> facts, of its Mach-O and PE files
    """
    if STABLE_ABI not in abis_of(tags):
        return []
    imported = [
        Problem("stable-abi-untrue", f"{name} needs {library}, which only one CPython has")
        for name, facts in binaries.items()
        for library in facts.needed
        if _OF_ONE_PYTHON.fullmatch(library)
    ]
    return [*imported, *_audited(path)]


def _audited(path: Path) -> list[Problem]:
    """What abi3audit finds."""
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
