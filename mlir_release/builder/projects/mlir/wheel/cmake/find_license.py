"""Print the path of the licence of an installed distribution. Usage: find_license.py NAME"""

from __future__ import annotations

import re
import sys
from importlib.metadata import files

found = [file for file in files(sys.argv[1]) or [] if re.fullmatch(r"(LICEN[CS]E|COPYING)(\.\w+)?", file.name)]
if not found:
    sys.exit(f"error: {sys.argv[1]} has no licence file")
print(found[0].locate())
