"""What register allocation cost, from LLVM's own remarks (``-pass-remarks-missed=regalloc``). Pure."""

from __future__ import annotations

import re

#: Of a whole function; remarks on loops repeat a part of it. Source: RAGreedy::reportStats in RegAllocGreedy.cpp.
_FUNCTION = re.compile(r"^remark: .* generated in function$", re.MULTILINE)
_COST = re.compile(r"(?P<cost>\S+) total (?:folded )?(?:spills|reloads|copies) cost")

#: Options of llc that make it write them.
OPTIONS = ("-pass-remarks-missed=regalloc",)


def cost_of(errors: str) -> float:
    """The sum over all functions of spills, reloads and copies, each weighted by its block's frequency.

    Frequencies are relative to the function's entry.

    :param errors: llc's error output
    """
    return sum(float(match["cost"]) for line in _FUNCTION.findall(errors) for match in _COST.finditer(line))
