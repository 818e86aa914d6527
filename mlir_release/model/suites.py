"""The test suites that wheels and SDKs are tested by, and what each is run once for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

#: ``python``: once for each wheel of the bindings; ``platform``: once for the SDK of a platform, without a wheel;
#: ``sdk``: once for each wheel of an SDK; ``source``: once for each source distribution.
Scope = Literal["python", "platform", "sdk", "source"]

#: In the order in which they run: smoke comes before anything is added to the environment.
SUITES: Mapping[str, Scope] = {
    "smoke": "python",
    "bindings": "python",
    "regression": "platform",
    "sdk": "sdk",
    "source": "source",
}

#: Upstream's tests of the bindings, the suite that needs more than a wheel requires.
BINDINGS = "bindings"

#: The suite of the wheels of SDKs.
SDK_SUITE = "sdk"

#: The suite of source distributions.
SOURCE_SUITE = "source"

#: Processor time of each suite without emulation, in minutes. Measured with LLVM 22.1.8; ``regression`` is assumed.
CORE_MINUTES: Mapping[str, float] = {"smoke": 0.25, "bindings": 3, "regression": 10, "sdk": 0.4, "source": 4}


def needs_wheel(suite: str) -> bool:
    """Whether a suite is run on each wheel or source distribution; false for an unknown one."""
    return SUITES.get(suite) in {"python", "sdk", "source"}
