"""The repository's YAML documents, each read once a process: those who collect tests read most of them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def read_yaml(path: Path) -> Any:
    """A document, which nobody may change."""
    return yaml.load(path.read_bytes(), _LOADER)
