"""Which build of clang's bindings this is: ``python -m clang._release``, or ``clang._release.INFO``.

Runs on the oldest Python that the bindings support.
"""

import json
from pathlib import Path

#: The content of ``clang/_release.json``.
INFO = json.loads(Path(__file__).with_name("_release.json").read_text(encoding="utf-8"))

if __name__ == "__main__":
    from clang._installed import complaint

    print(json.dumps(INFO, indent=2, sort_keys=True))
    raise SystemExit(complaint(INFO["distribution"]) or None)
