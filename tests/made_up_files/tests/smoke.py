"""The smoke test of the made-up projects."""

import sys

sys.exit(0)
