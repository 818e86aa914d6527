"""Whether requirements can be installed from wheels alone, for any CPython and platform: pip is asked, from here.

pip's dry run knows the configured index, its mirrors and credentials, and follows the requirements of requirements. uv
can't answer: ``uv pip compile --python-version`` knows no free-threaded CPython (3.14t), and no platform tags. But uv
alone can resolve for many CPythons and platforms together, which a lock file needs (:func:`compile_lock`).
"""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.errors import MachineError
from mlir_release.ground.programs.process import Captured, capture, installed_program
from mlir_release.ground.programs.surroundings import INDEXES, foreign_environment
from mlir_release.ground.python.cpython import STABLE_ABI, CPython
from mlir_release.ground.python.requirements import applicable
from mlir_release.ground.python.uv_settings import uv_settings
from mlir_release.ground.storage.files import read_document, read_if_there
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from mlir_release.ground.python.platforms import PlatformTag

#: Seconds that one answer may take; what comes later is unknown.
_TIMEOUT = 300.0

#: pip's words (pip/_internal/resolution/resolvelib/factory.py) when no wheel fits, and when requirements contradict.
_NO_WHEEL = re.compile(
    r"Could not find a version that satisfies the requirement (?P<requirement>.{1,500}?) "
    r"\(from versions: (?P<versions>[^()\n]*)\)"
)
_CONFLICT = re.compile(r"^ERROR: (?P<what>Cannot install .* conflicting dependencies\.)$", re.MULTILINE)

#: uv's words where nothing is old enough: an index, or a mirror of one, may not say when its files were uploaded.
_TOO_NEW = "filtered by `exclude-newer`"

#: pip's words, in its log only, when it could not ask (pip/_internal/index/collector.py). A 404 is an answer.
_UNREACHABLE = re.compile(r"Could not fetch URL (?!.*\b404 Client Error)")


@dataclass(frozen=True)
class WantedPlace:
    """Where wheels must install: the oldest machine of a platform tag, with a CPython."""

    python: CPython
    platform: PlatformTag

    def __str__(self) -> str:
        return f"{self.python} on {self.platform}"


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """What pip answered."""

    installable: bool | None  #: None: unknown, because pip could not ask
    versions: Mapping[str, str] = field(default_factory=dict)  #: of each distribution that it would install
    why: str = ""  #: why not, or why it is unknown; "there" is where was asked about


def wheel_options(python: CPython, platforms: Iterable[str]) -> list[str]:
    """pip's options to choose wheels, and nothing else, for another interpreter than its own."""
    return [
        *("--only-binary=:all:", "--implementation=cp", f"--python-version={python.marker}"),
        *(f"--abi={abi}" for abi in (python.tag, STABLE_ABI, "none")),
        *(f"--platform={tag}" for tag in platforms),
    ]


def resolve(requirements: Sequence[str], wanted: WantedPlace) -> Resolution:
    """What pip would install for requirements from wheels alone."""
    lines = applicable(requirements, wanted.python, wanted.platform.platform)
    if not lines:
        return Resolution(installable=True)
    with scratch_folder("resolve") as folder:
        report, log = folder / "report.json", folder / "log"
        done = capture(
            [
                *(sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-input", "--ignore-installed"),
                *(f"--report={report}", f"--log={log}", f"--target={folder / 'unused'}"),
                *wheel_options(wanted.python, wanted.platform.accepted),
                *lines,
            ],
            environment={**foreign_environment(), "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            timeout=_TIMEOUT,
            ours=True,
        )
        return _read(done, report, log)


def resolve_all(requirements: Sequence[str], wanted: Iterable[WantedPlace]) -> dict[WantedPlace, Resolution]:
    """The answers for several interpreters, asked for side by side."""
    unique = list(dict.fromkeys(wanted))
    with ThreadPoolExecutor(max_workers=8) as pool:
        return dict(zip(unique, pool.map(lambda one: resolve(requirements, one), unique), strict=True))


def find_uv(purpose: str, find: Callable[..., str | None] = installed_program) -> tuple[str, list[str], dict[str, str]]:
    """uv, and its options and environment for the index that pip is configured with.

    :param purpose: continues "uv is not installed, and …"
    :raises MachineError: ``tool-missing``
    """
    uv = find("uv")
    if uv is None:
        raise MachineError(
            "tool-missing",
            f"uv is not installed, and {purpose}",
            remedy="pip install uv, into the environment of this toolkit; its extras github and wheels have it",
        )
    environment = foreign_environment(named=INDEXES)
    listed = capture([sys.executable, "-m", "pip", "config", "list"], environment=environment, ours=True).stdout
    return uv, *uv_settings(listed, environment)


def compile_lock(requirements: Sequence[str], oldest: CPython, *, until: str) -> Captured:
    """Have uv resolve requirements for all platforms and all CPythons from ``oldest`` on, from wheels alone.

    Nothing of a package is run. The output is a lock file (PEP 751), whose addresses are those of the index that pip is
    configured with.

    :param until: an RFC 3339 time: what was uploaded later is left out, so that a second try gives the same; unless
        nothing else is there
    :raises MachineError: ``tool-missing``
    """
    uv, options, environment = find_uv("resolves what the lock file of a release has")
    with scratch_folder("lock") as folder:
        (folder / "requirements.in").write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
        command = [
            *(uv, "pip", "compile", "--quiet", "--universal", "--format=pylock.toml", "--only-binary=:all:"),
            *("--no-header", f"--python-version={oldest.marker}", f"--python={sys.executable}", *options),
            *("--no-emit-index-url", "requirements.in"),
        ]
        how: Any = {"environment": environment, "cwd": folder, "timeout": _TIMEOUT, "ours": True}
        done = capture([*command, f"--exclude-newer={until}"], **how)
        if not done.ok and _TOO_NEW in done.stderr:
            done = capture(command, **how)
    return done


def _read(done: Captured, report: Path, log: Path) -> Resolution:
    if done.ok:
        rows = [row["metadata"] for row in parse_json(read_document(report))["install"]]
        return Resolution(installable=True, versions={row["name"]: row["version"] for row in rows})
    missing = _NO_WHEEL.search(done.stderr)
    versions = missing["versions"] if missing else ""
    # Where pip could not ask an index, it knows no version, and that says nothing.
    if missing and (versions != "none" or not unreachable(log)):
        listed = versions.split(", ")
        found = [version for version in listed if re.fullmatch(r"[0-9.]+", version)] or listed
        having = f"{found[0]} has" if len(found) == 1 else f"{found[0]} to {found[-1]} have"
        having = "no version has" if versions == "none" else having
        return Resolution(installable=False, why=f"{missing['requirement']} has no wheel there ({having})")
    if conflict := _CONFLICT.search(done.stderr):
        return Resolution(installable=False, why=conflict["what"])
    return Resolution(installable=None, why=done.complaint)


def unreachable(log: Path) -> bool:
    """Whether pip could not ask an index, by the log that it wrote."""
    return _UNREACHABLE.search((read_if_there(log) or b"").decode(errors="replace")) is not None
