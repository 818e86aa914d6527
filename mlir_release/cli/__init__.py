"""The command line: a module for each command, which turns arguments into calls and results into text.

Commands import what they run when they run: ``--help`` and mistakes in arguments must not wait for it.
"""

import gc

# An import makes many objects that stay, and no garbage: Python looked for some 40 times before a command began, 5 ms.
gc.set_threshold(20_000)
