#!/usr/bin/env python3
"""Write the JSON Schemas in ``mlir_release/release/model/schemas`` from the documents' types.

``--write`` rewrites them; without it, the exit code says whether they are up to date.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "mlir_release" / "release" / "model" / "schemas"

sys.path.insert(0, str(ROOT))

from mlir_release.builder.model.rebuilt import Rebuilt  # noqa: E402
from mlir_release.integrate.config import CONFIG_FILE, Config  # noqa: E402
from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest  # noqa: E402
from mlir_release.release.model.release_index import INDEX_NAME, QUALITY_NAME, MonthIndex, Quality, ReleaseIndex  # noqa: E402
from mlir_release.release.model.release_settings import TARGETS_FILE  # noqa: E402
from mlir_release.release.model.schemas import read_schemas, schema_of  # noqa: E402
from mlir_release.release.model.targets import LineTargets, Targets  # noqa: E402

DOCUMENTS = {
    TARGETS_FILE: Targets,
    "line.toml": LineTargets,
    CONFIG_FILE: Config,
    MANIFEST_NAME: Manifest,
    "rebuilt.json": Rebuilt,
    INDEX_NAME: ReleaseIndex,
    "index-month.json": MonthIndex,
    QUALITY_NAME: Quality,
}


def main() -> int:
    """Write the schemas, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="rewrite the files")
    wanted = dict(schema_of(document, kind) for document, kind in DOCUMENTS.items())
    if parser.parse_args().write:
        for name, text in wanted.items():
            (FOLDER / name).write_text(text, encoding="utf-8")
    elif wanted != read_schemas():
        print("the JSON Schemas are out of date: python tools/schemas.py --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
