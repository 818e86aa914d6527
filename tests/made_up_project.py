"""Two made-up projects, which a test registers as an installed distribution would: nothing of them is MLIR's.

``plain`` makes one wheel that is for every CPython, and ``each`` one for each.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from mlir_release.ground.llvm.projects import Profile, Project, find_project
from mlir_release.ground.plugins import PROJECTS, Plugin, plugins
from tests.targets_factory import PLATFORMS, RUNTIME, UPSTREAM
from tests.wheel_factory import REVISION, TAG, VERSION, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FILES = Path(__file__).parent / "made_up" / "sums_release"

PLAIN = Project(
    name="plain",
    title="Plain's library",
    package=__name__,
    folder=_FILES,
    module="plain_library",
    profiles={"library": Profile(distribution="plain-library", makes="any-python", summary="Plain's library")},
    subprojects=("plain",),
    needs="plain/CMakeLists.txt",
    paths=("plain",),
    suites=("smoke", "bindings"),
    short="Plain",
    homepage="https://example.org/plain",
    entry="plain_library.first",
    check="assert plain_library.first.ANSWER == 42",
    sdk_core_minutes=100,
    suite_core_minutes={"bindings": 1.0},
)

EACH = Project(
    name="each",
    title="Each's Python bindings",
    package=__name__,
    folder=_FILES,
    module="each",
    profiles={
        "small": Profile(distribution="each-small", makes="each-python", summary="Each, small"),
        "host": Profile(distribution="each", makes="each-python", summary="Each", core_minutes=1.0),
    },
    subprojects=("each",),
    needs="each/CMakeLists.txt",
    paths=("each",),
    suites=("smoke",),
)

#: What a wheel of the project ``plain`` has beside the release's word on itself.
PLAIN_FILES = {"plain_library/first.py": b"ANSWER = 42\n"}


@contextmanager
def registered(*names: str) -> Iterator[None]:
    """Have these projects (``plain``, ``each``) as if a distribution ``made-up`` had brought them."""
    known = plugins(PROJECTS)
    assert isinstance(known, dict)
    before = dict(known)
    known.update({name: [Plugin(name, "made-up 1.0", f"{__name__}:{name.upper()}", PROJECTS)] for name in names})
    find_project.cache_clear()
    try:
        yield
    finally:
        known.clear()
        known.update(before)
        find_project.cache_clear()


@contextmanager
def alone(*names: str) -> Iterator[None]:
    """Have these projects and no other one: as if the toolkit came without MLIR's."""
    with registered(*names):
        known = plugins(PROJECTS)
        assert isinstance(known, dict)
        for name in known.keys() - set(names):
            del known[name]
        yield


def made_up_targets(
    *,
    mlir: bool = False,
    gates: bool = True,
    pythons: Sequence[str] = ("cp311", "cp312"),
    suites: Sequence[str] = ("smoke",),
    **release: Any,
) -> str:
    """A ``targets.toml`` with a required row of ``plain``; ``mlir``: and of MLIR before it."""
    rows = {"plain": {"distribution": "plain-library", "profile": "library", "project": "plain"}}
    if mlir:
        rows = {"mlir": {"distribution": "mlir", "profile": "host"}} | rows
    return tomli_w.dumps(
        {
            "schema": 1,
            "release": {"upstream": UPSTREAM, "provenance": "none", **release},
            "llvm": rows,
            "runtime": {RUNTIME: {**PLATFORMS[RUNTIME], "pythons": list(pythons)}},
            "target": [
                {
                    "llvm": name,
                    "runtime": RUNTIME,
                    "required": True,
                    "suites": list(suites) if name == "plain" else ["smoke"],
                }
                for name in rows
            ],
            **({} if gates else {"project": {"plain": {"gates": False}}}),
        }
    )


def make_plain_wheel(folder: Path, *, tag: str = TAG, version: str = VERSION, revision: str = REVISION) -> Path:
    """A wheel of ``plain`` for every CPython, that can be installed."""
    return make_wheel(
        folder,
        tag=tag,
        version=version,
        revision=revision,
        distribution="plain-library",
        profile="library",
        python="py3",
        target="plain-linux-x86_64-py3",
        requires_python=">=3.10",
        release_info={"project": "plain"},
        files=PLAIN_FILES,
    )


def fill_plain(
    folder: Path,
    *,
    tag: str = TAG,
    version: str = VERSION,
    revision: str = REVISION,
    pythons: Sequence[str] = ("cp311", "cp312"),
    failed: Sequence[str] = (),
) -> Path:
    """A wheel of ``plain`` with a report of its smoke test for its oldest and its newest CPython.

    :param failed: the CPythons with which it fails
    """
    wheel = make_plain_wheel(folder, tag=tag, version=version, revision=revision)
    for python in pythons:
        target = f"smoke-plain-linux-x86_64-{python}"
        failures = ("it",) if python in failed else ()
        make_report(folder, wheel, target=target, passed=python not in failed, failures=failures)
    return folder
