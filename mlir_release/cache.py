"""Where downloads and intermediate results are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """The folder for everything that can be fetched or made again: ``$MLIR_RELEASE_CACHE``, else the user's cache."""
    override = os.environ.get("MLIR_RELEASE_CACHE")
    if override:
        return Path(override)
    from platformdirs import user_cache_path

    return user_cache_path("mlir-release", appauthor=False)
