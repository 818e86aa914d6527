"""Small ``targets.toml`` files: a platform or some, and the rows that a test is about."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import tomli_w

from mlir_release.ground.llvm.projects import DEFAULT_PROJECT, find_project
from mlir_release.release.pinning import pinned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlir_release.ground.llvm.upstream import Upstream
    from mlir_release.release.pinning.state import TagState

UPSTREAM = "https://example.org/llvm-project.git"
#: Upstreams that tests name and never reach.
INVENTED = (UPSTREAM, "https://github.com/llvm/llvm-project.git")
_ask = pinned.check_revision


def _check_revision(upstream: Upstream, state: TagState) -> None:
    """Take the revisions of unreachable upstreams for theirs, and ask the others, as the toolkit does."""
    if upstream.url not in INVENTED:
        _ask(upstream, state)


pinned.check_revision = _check_revision

RUNTIME = "linux-x86_64"
#: Another platform may only be required once a release has proven it.
PROVEN = {"proven": "snapshot-20261101.01"}
#: Runtimes by name, all but their CPythons.
PLATFORMS: dict[str, dict[str, Any]] = {
    RUNTIME: {"os": "linux", "arch": "x86_64", "runner": "ubuntu-24.04", "floor": "manylinux_2_28"},
    "linux-aarch64": {"os": "linux", "arch": "aarch64", "runner": "ubuntu-24.04-arm", "floor": "manylinux_2_28"}
    | PROVEN,
    "macos-arm64": {"os": "macos", "arch": "arm64", "runner": "macos-15", "floor": "macosx_13_0"} | PROVEN,
    "windows-x64": {"os": "windows", "arch": "amd64", "runner": "windows-2022", "floor": "win_amd64"} | PROVEN,
}
#: The LLVM configuration of a source distribution; the others have the names of their distributions.
SOURCE = "mlir-source"
PROFILES = {
    about.distribution: name for name, about in find_project(DEFAULT_PROJECT).profiles.items() if name != "source"
}
PROFILES |= {SOURCE: "source"}


def make_row(
    llvm: str = "mlir",
    *,
    runtime: str = RUNTIME,
    suites: Sequence[str] = ("smoke",),
    required: bool = True,
    **keys: Any,
) -> Any:
    """A row of the matrix; ``keys``: ``pythons`` and ``tags``, or ``runtimes`` in place of the runtime."""
    one = {} if "runtimes" in keys else {"runtime": runtime}
    return {"llvm": llvm, **one, "suites": list(suites), "required": required, **keys}


def make_line(*rows: dict[str, Any], **keys: Any) -> str:
    """The content of a release line's ``matrices/X.Y.toml``: as of :func:`make_targets`, without ``[release]``."""
    made = tomllib.loads(make_targets(*rows, **keys))
    return tomli_w.dumps({key: table for key, table in made.items() if key != "release"})


def make_targets(
    *rows: dict[str, Any],
    pythons: Sequence[str] = ("cp312", "cp313"),
    upstream: str = UPSTREAM,
    requires: Mapping[str, Mapping[str, str]] | None = None,
    provenance: str = "none",
    compiler: Mapping[str, str] | None = None,
    others: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """The content of a ``targets.toml`` for Linux x86_64, and for others of :data:`PLATFORMS`.

    :param rows: of :func:`make_row`; the LLVM configurations are those that they name
    :param requires: the overrides of upstream's requirements
    :param provenance: required, none, or empty: what the kind of forge implies
    :param compiler: of Linux x86_64; None: not known
    :param others: further platforms by name, with their ``pythons``, and with other keys where a test needs them
    """
    runtimes = {RUNTIME: {"pythons": list(pythons), **({"compiler": compiler} if compiler else {})}, **(others or {})}
    return tomli_w.dumps(
        {
            "schema": 1,
            "release": {"upstream": upstream, **({"provenance": provenance} if provenance else {})},
            "llvm": {
                row["llvm"]: {
                    "distribution": "mlir" if row["llvm"] == SOURCE else row["llvm"],
                    "profile": PROFILES[row["llvm"]],
                }
                for row in rows
            },
            "runtime": {name: {**PLATFORMS[name], **keys} for name, keys in runtimes.items()},
            "target": list(rows),
            **({"requires": requires} if requires else {}),
        }
    )
