"""What commands read at the top of a checkout: there, or in an installed toolkit, which has a copy (``setup.py``)."""

from __future__ import annotations

from pathlib import Path

import mlir_release

_PACKAGE = Path(mlir_release.__file__).parent
_COPY = _PACKAGE / "shipped"

#: The folder with ``targets.toml``, ``matrices``, ``llvm-project.version`` and ``examples/extension``.
SHIPPED = _COPY if _COPY.is_dir() else _PACKAGE.parent
