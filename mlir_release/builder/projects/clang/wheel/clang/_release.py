"""Which build of clang's bindings this is: ``python -m clang._release``, or ``clang._release.INFO``.

Runs on the oldest Python that the bindings support.
"""

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

#: The content of ``clang/_release.json``.
INFO = json.loads(Path(__file__).with_name("_release.json").read_text(encoding="utf-8"))

#: Other people's distributions that install files of the same names.
FOREIGN = ("clang", "libclang")


def installed_over() -> list:
    """Names of foreign distributions in this environment: whichever was installed last overwrote files."""
    found = []
    for name in FOREIGN:
        try:
            distribution(name)
        except PackageNotFoundError:
            continue
        found.append(name)
    return [name for name in found if name != INFO["distribution"]]


if __name__ == "__main__":
    print(json.dumps(INFO, indent=2, sort_keys=True))
    mixed = " and ".join(installed_over())
    if mixed:
        raise SystemExit(
            f"error: {mixed} and {INFO['distribution']} install files of the same names into one folder, and overwrite "
            "each other. Uninstall all of them, then install one."
        )
