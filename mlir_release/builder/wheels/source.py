"""The files of targets that no compiler is needed for; source distributions are made here, and read, too."""

from __future__ import annotations

import gzip
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.model.names import SOURCE_PREFIX, source_root
from mlir_release.builder.model.wheel_info import WheelInfo, wheel_info_in
from mlir_release.builder.wheels.inspect import corrupt
from mlir_release.builder.wheels.port import sdk_wheels_of
from mlir_release.builder.wheels.stage import BUILD_BACKEND, stage
from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.documents.decode import MalformedError
from mlir_release.ground.documents.digests import open_regular
from mlir_release.ground.errors import MachineError, VerificationError
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python import venv
from mlir_release.ground.storage.archives import ArchiveError, open_tar
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.ground.storage.files import write_atomically
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mlir_release.builder.wheels.request import WheelRequest
    from mlir_release.ground.storage.archives import GuardedTar


def pack(requests: Sequence[WheelRequest], *, output: Path) -> list[Path]:
    """Write source distributions and wheels of an SDK into a folder; the same requests give the same bytes.

    :param requests: of one project, SDK and version; wheels of the SDK are quicker together
    :raises UsageError: ``input-missing``
    :raises VerificationError: ``wheel-unsuitable``
    :raises MachineError: ``program-failed``, ``plugin-unusable``, and what :mod:`mlir_release.ground.python.venv`
        raises
    """
    sources = [write_source(request, output=output) for request in requests if request.is_source]
    of_sdk = [request for request in requests if not request.is_source]
    return [*sources, *(sdk_wheels_of(of_sdk[0].project).pack(of_sdk, output=output) if of_sdk else [])]


def write_source(request: WheelRequest, *, output: Path) -> Path:
    """Write the source distribution that ``request`` asks for into the folder ``output``.

    The same request gives the same bytes.

    :raises UsageError: ``input-missing``
    :raises MachineError: ``program-failed``, and what :mod:`mlir_release.ground.python.venv` raises
    """
    output.mkdir(parents=True, exist_ok=True)
    epoch = str(request.sdk.info.source_epoch)
    with scratch_folder("source") as scratch, console.step(f"pack the sources of {request.distribution}"):
        project, built = stage(request, scratch / "project"), scratch / "built"
        tools = venv.cached(cache_directory() / "environments", Path(sys.executable), ("build", BUILD_BACKEND))
        # The requirements are those of a wheel; packing the sources needs the build backend only.
        done = capture(
            [tools.python, "-m", "build", "--sdist", "--no-isolation", "--skip-dependency-check", "-o", built, project],
            environment=tools.variables({"SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": "0"}),
            cwd=scratch,
        )
        if not done.ok:
            raise MachineError(
                "program-failed",
                f"the sources of {request.distribution} could not be packed",
                why="\n    ".join(["", *(done.stdout + done.stderr).splitlines()[-25:]]),
                remedy="the build backend says why; a full disk is the usual reason",
            )
        (made,) = built.iterdir()
        written = output / f"{SOURCE_PREFIX}{made.name}"
        console.say(f"    {written.name} ({format_bytes(made.stat().st_size)})")
        write_atomically(written, made.read_bytes())
        return written


@contextmanager
def open_source(path: Path) -> Iterator[GuardedTar]:
    """The members of a source distribution. :raises ArchiveError:"""
    with open_regular(path) as file, gzip.GzipFile(fileobj=file) as unpacked, open_tar(unpacked) as archive:
        yield archive


def read_members(path: Path) -> tuple[bytes, bytes | None]:
    """``PKG-INFO`` and ``_release.json`` of a source distribution, the whole of which is read; None if it has none.

    :raises VerificationError: ``file-damaged``
    """
    begin = f"{source_root(path.name)}/"
    found = {}
    try:
        with open_source(path) as archive:
            for member in archive:
                name = member.name.removeprefix(begin)
                if member.name.startswith(begin) and (name == "PKG-INFO" or wheel_info_in([name])):
                    found[name] = archive.read(member)
    except ArchiveError as error:
        raise corrupt(path, str(error)) from error
    if not found.get("PKG-INFO"):
        raise corrupt(path, f"it has no {begin}PKG-INFO")
    info = wheel_info_in(found)
    return found["PKG-INFO"], (found[info] or None) if info else None


def release_info(path: Path, content: bytes | None) -> WheelInfo:
    """Read the ``_release.json`` of a wheel or a source distribution. :raises VerificationError:
    ``wheel-unsuitable``"""
    why = "it has no _release.json, which says what release it belongs to"
    if content is not None:
        try:
            return WheelInfo.from_text(content)
        except MalformedError as error:
            why = f"in its _release.json, {error}"
    raise VerificationError(
        "wheel-unsuitable",
        f"{path.name} does not say which release it belongs to",
        where=str(path),
        why=why,
        remedy="build it with `mlir-release wheels build`; only such wheels are published",
    )
