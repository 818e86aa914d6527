# mypy: ignore-errors
"""Run by the interpreter under test: ``smoke.py PROFILE [EXPECTED]``, see
:mod:`mlir_release.builder.testing.port`.
"""

import json
import sys
import time
import traceback
from importlib.resources import files

EXPECTED = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}


def adds():
    import sums

    assert sums.add(20, 22) == 42


def release():
    found = json.loads(files("sums").joinpath("_release.json").read_text())
    wrong = {key: found.get(key) for key in EXPECTED if found.get(key) != EXPECTED[key]}
    assert not wrong, wrong
    assert found["project"] == "sums"


failed = 0
for check in (adds, release):
    message, begin = "", time.time()
    try:
        check()
    except BaseException:
        message = traceback.format_exc()
        failed = 1
    line = {"name": check.__name__, "ok": not message, "message": message, "seconds": time.time() - begin}
    print(json.dumps(line), flush=True)
print(json.dumps({"name": "end", "ok": True, "message": "", "seconds": 0}))
sys.exit(failed)
