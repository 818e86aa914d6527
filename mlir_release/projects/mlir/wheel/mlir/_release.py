"""Which build of MLIR this is: ``python -m mlir._release``, or ``mlir._release.INFO``.

Runs on the oldest Python that the bindings support.
"""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

#: The content of ``mlir/_release.json``.
INFO = json.loads(Path(__file__).with_name("_release.json").read_text(encoding="utf-8"))

TAG = INFO["tag"]
REVISION = INFO["revision"]
LLVM_VERSION = INFO["llvm_version"]
DISTRIBUTION = INFO["distribution"]
PROFILE = INFO["profile"]
TARGET = INFO["target"]
TOOLKIT_VERSION = INFO["toolkit_version"]

#: Distributions that install files of the same names.
DISTRIBUTIONS = ("mlir", "mlir-core", "mlir-full")


def installed_distributions() -> list[str]:
    """Names of the distributions of the bindings that are installed in the folder that this one is in."""
    names = "|".join(name.replace("-", "_") for name in DISTRIBUTIONS)
    pattern = re.compile(rf"({names})-[^-]+\.dist-info")
    try:
        entries = [path.name for path in Path(__file__).resolve().parent.parent.iterdir()]
    except OSError:  # a zip file, or a folder that may not be read
        return [DISTRIBUTION]
    matches = (pattern.fullmatch(entry) for entry in entries)
    return sorted({match.group(1).replace("_", "-") for match in matches if match})


def warn_if_mixed() -> None:
    """Warn if several distributions of the bindings are installed over each other."""
    installed = installed_distributions()
    if len(installed) > 1:
        warnings.warn(
            f"{' and '.join(installed)} are installed in one environment, but they are builds of the same package and "
            f"overwrite each other's files; what is loaded now is a mixture. Uninstall all of them (pip uninstall "
            f"{' '.join(installed)}), then install one.",
            RuntimeWarning,
            stacklevel=2,
        )


if __name__ == "__main__":
    print(json.dumps(INFO, indent=2, sort_keys=True))
