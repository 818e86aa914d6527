"""The test suites that wheels and SDKs are tested by, and what each is run once for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: ``python``: once for each wheel of the bindings; ``platform``: once for the SDK of a platform, without a wheel;
#: ``sdk``: once for each wheel of an SDK; ``source``: once for each source distribution. ``newest``: for the wheel of
#: the newest CPython in a row; no wheel waits for it, and it runs only where it is named.
Scope = Literal["python", "platform", "sdk", "source", "newest"]

#: In the order in which they run: smoke comes before anything is added to the environment.
SUITES: Mapping[str, Scope] = {
    "smoke": "python",
    "bindings": "python",
    "regression": "platform",
    "sdk": "sdk",
    "source": "source",
    "performance": "newest",
    "beside": "newest",
}

#: What shows that a wheel can be imported, and works as pinned: every row of wheels of bindings has it.
SMOKE = "smoke"

#: Upstream's tests of the bindings, the suite that needs more than a wheel requires.
BINDINGS = "bindings"

#: The suite of the wheels of SDKs.
SDK_SUITE = "sdk"

#: The suite of source distributions.
SOURCE_SUITE = "source"

#: The suite that counts instructions and bytes.
PERFORMANCE = "performance"

#: Processor time of each suite without emulation, in minutes. Measured with LLVM 22.1.8; ``regression`` is assumed.
CORE_MINUTES: Mapping[str, float] = {
    "smoke": 0.25,
    "bindings": 3,
    "regression": 10,
    "sdk": 0.4,
    "source": 4,
    "performance": 0.4,
    "beside": 2,
}


def needs_wheel(suite: str) -> bool:
    """Whether a suite is run on each wheel or source distribution; false for an unknown one."""
    return suite in SUITES and SUITES[suite] != "platform"


def gates(suite: str) -> bool:
    """Whether wheels must pass it; else a failure is told, and keeps nothing from being published."""
    return SUITES.get(suite) != "newest"


def suites_of_python(suites: Iterable[str], *, newest: bool) -> tuple[str, ...]:
    """The suites of a row that test one of its CPythons' wheels. ``newest``: whether it is the row's newest CPython"""
    return tuple(suite for suite in suites if newest or SUITES.get(suite) != "newest")
