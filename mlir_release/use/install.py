"""The wheel of a release that fits an interpreter: found, verified (digest and provenance), installed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from mlir_release.builder.model.sdk_wheel_info import SDK, SDK_TOOLS
from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.errors import MachineError, VerificationError
from mlir_release.ground.llvm.projects import known_profile, known_project
from mlir_release.ground.programs.process import Captured, capture
from mlir_release.ground.programs.surroundings import INDEXES, foreign_environment
from mlir_release.ground.python import installed
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import Platform
from mlir_release.ground.python.requirements import canonical, of_other_names, required_names
from mlir_release.ground.python.resolver import unreachable
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.instructions.install_check import best_wheel, check_import, fits_machine
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy
from mlir_release.release.latest.latest import read_release
from mlir_release.release.model.release_tags import LATEST
from mlir_release.use.install_files import put_wheels, repair
from mlir_release.use.install_target import InstallTarget, find_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.ground.python.pythons import Python
    from mlir_release.release.forge.base import Forge
    from mlir_release.release.model.manifest import Manifest, WheelEntry
    from mlir_release.release.model.release_index import CatalogueEntry


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What was installed (or, with ``dry_run``, would be)."""

    tag: str
    revision: str  #: llvm-project commit
    version: str  #: of the wheel
    filename: str
    python: str  #: path of the interpreter
    provenance: bool  #: who built it was verified
    signer: str = ""  #: the workflow that signed it, where that was verified
    self_named: bool = False  #: only the release itself says that this repository's signature counts
    sdk: tuple[str, ...] = ()  #: the files of the SDK's wheels, where those were asked for
    cmake_dir: str = ""  #: of the SDK, with ``MLIRConfig.cmake``; empty if it was not installed
    dry_run: bool = False

    def text(self) -> str:
        """For people."""
        verb = "would install" if self.dry_run else "installed"
        files = ", ".join((self.filename, *self.sdk))
        line = f"{verb} {files} of {self.tag} ({self.revision[:12]}) for {self.python}"
        if not self.provenance:
            return f"{line}; digest verified; not signed, or not checked who signed it"
        said = ", as only the release itself says" if self.self_named else ""
        return f"{line}; digest and provenance verified\n  signed by {self.signer}{said}"

    def to_json(self) -> dict[str, object]:
        """For ``--json``; the keys are the action's outputs, too."""
        fields = asdict(self)
        fields["cmake-dir"] = fields.pop("cmake_dir")
        return fields


def install(
    forge: Forge,
    tag: str | CatalogueEntry,
    *,
    python: str | Path | None = None,
    distribution: str | None = None,
    sdk: bool = False,
    signed_by: SignedBy = AS_DECLARED,
    pip_options: Sequence[str] = (),
    dry_run: bool = False,
) -> Installed:
    """Install a published release's wheel of ``distribution`` into ``python``'s environment.

    Dependencies come from pip's usual index; the release's wheels only ever from the release.

    :param tag: a snapshot's or numbered release's, or the name of a channel; or what the index says of the release
    :param python: see :func:`~mlir_release.use.install_target.find_target`
    :param distribution: None: the release's main one
    :param sdk: install the wheels of the release's SDK, too
    :param signed_by: its branch also holds ``yanked.toml``
    :param pip_options: for ``pip install``: an index, ``--no-deps``
    :param dry_run: verify only
    :raises UsageError: ``option-invalid``, ``release-not-published``, ``python-missing``
    :raises MachineError: ``network-failed``, ``tool-missing``
    :raises VerificationError: ``no-fitting-wheel``, ``file-damaged``, ``release-tampered``, ``signature-invalid``,
        ``latest-stale``, ``install-failed``
    """
    tag, revision = (tag, "") if isinstance(tag, str) else (tag.tag, tag.row.revision)
    target = find_target(python)
    console.say(f"    into {target.text()}")
    with scratch_folder("install") as folder:
        with console.step(f"check who made {'the newest snapshot' if tag == LATEST else tag}"):
            trusted = read_release(forge, tag, signed_by)
        manifest = trusted.manifest
        if revision not in ("", manifest.revision):
            raise VerificationError(
                "release-tampered",
                f"{tag} is not of the commit that the index says",
                where=forge.page_url(tag),
                why=f"index: {revision}; manifest: {manifest.revision}",
                remedy="do not use the index; tell the repository's maintainers",
            )
        names = (distribution or manifest.main, *((SDK, SDK_TOOLS) if sdk else ()))
        wheels = [choose(manifest, target.interpreter, name) for name in names]
        for wheel in wheels:
            project, profile = known_project(wheel.project), known_profile(wheel.project, wheel.profile)
            # Of a project that is not known here, the package isn't either.
            if project is not None and (profile is None or profile.makes != "sdk"):
                target.check_alone(wheel.distribution, project.module, project.conda_packages)
        paths, cmake_dir = list[Path](), ""
        for wheel in wheels:
            with console.step(f"fetch {wheel.filename}, {format_bytes(wheel.size)}"):
                paths.append(trusted.fetch_file(wheel, folder))
        if not dry_run:
            with console.step(f"install {', '.join(wheel.filename for wheel in wheels)}"):
                _install(target, wheels, paths, manifest, pip_options)
            if sdk:
                done = capture([target.python, "-I", "-m", "mlir_sdk", "--cmakedir"])
                if not done.ok:
                    raise _failed("mlir-sdk is installed, but can't be imported", target.python, done)
                cmake_dir = done.stdout.strip()
    return Installed(
        tag=manifest.tag,
        revision=manifest.revision,
        version=manifest.version,
        filename=wheels[0].filename,
        python=str(target.python),
        provenance=trusted.signer is not None,
        signer=trusted.signer.workflow if trusted.signer is not None else "",
        self_named=trusted.self_named,
        sdk=tuple(wheel.filename for wheel in wheels[1:]),
        cmake_dir=cmake_dir,
        dry_run=dry_run,
    )


def choose(manifest: Manifest, python: Python, distribution: str) -> WheelEntry:
    """The wheel of ``distribution`` that pip would take for ``python`` on this machine.

    :raises VerificationError: ``no-fitting-wheel``, which names the CPythons that have one
    """
    name = canonicalize_name(distribution)
    wheels = [wheel for wheel in manifest.wheels if canonicalize_name(wheel.distribution) == name]
    best = best_wheel(wheels, python)
    if best is not None:
        return best
    pythons = sorted({CPython.of_tag(tag) for wheel in wheels if fits_machine(wheel) for tag in wheel.pythons})
    here = ", ".join(cpython.version for cpython in pythons)
    raise VerificationError(
        "no-fitting-wheel",
        f"{manifest.tag} has no wheel of {distribution} for CPython {python.name} on this machine",
        where=str(python.executable),
        why=f"for this machine it has {distribution} for CPython {here}"
        if here
        else "it has: " + (", ".join(sorted(wheel.target for wheel in manifest.wheels)) or "none"),
        remedy="choose one of these CPythons with --python, or another tag"
        if here
        else f"`mlir-release release find --distribution {distribution} --platform {Platform.of_host()}` names the "
        "newest release that has it",
    )


# -- pip -----------------------------------------------------------------------------------------------------------


def _install(
    target: InstallTarget,
    wheels: Sequence[WheelEntry],
    paths: Sequence[Path],
    manifest: Manifest,
    options: Sequence[str],
) -> None:
    names = {canonical(wheel.distribution) for wheel in wheels}
    needed = of_other_names((line for wheel in wheels for line in wheel.requires_dist), names)

    def install_dependencies() -> None:
        if "--no-deps" in options or not needed:
            return
        repair(target, required_names(needed))
        # The caller's surroundings say which index the dependencies come from, and who may read it.
        surroundings = foreign_environment(named=INDEXES).items()
        environment = {name: value for name, value in surroundings if not name.startswith("PYTHON")}
        log = paths[0].with_name("pip.log")
        done = capture([*target.pip, "install", f"--log={log}", *options, "--", *needed], environment=environment)
        if not done.ok and unreachable(log):
            raise MachineError(
                "network-failed",
                f"the package index can't be reached, and the wheel depends on {', '.join(required_names(needed))}",
                why=done.complaint,
                remedy="check the network and pip's index (pip config list), or name a folder of wheels in "
                "PIP_FIND_LINKS; --no-deps installs the wheel alone. Nothing was installed",
            )
        if not done.ok:
            raise _failed(f"pip does not install {', '.join(needed)}", target.python, done)

    put_wheels(target, paths, first=install_dependencies)
    for wheel in wheels:
        lenient = "--no-deps" in options
        done = check_import(target.python, wheel, tag=manifest.tag, revision=manifest.revision, lenient=lenient)
        if done.returncode != 0:
            raise _failed(f"{wheel.filename} is installed, but can't be imported", target.python, done)
        done = capture([target.python, "-I", installed.__file__, wheel.distribution])
        if not done.ok:
            raise _failed(f"{wheel.filename} is installed, and another distribution has its files", target.python, done)


def _failed(what: str, python: Path, done: Captured) -> VerificationError:
    return VerificationError(
        "install-failed",
        what,
        where=str(python),
        why=(done.stdout + done.stderr).strip()[-3000:],
        remedy="see the output; another package of that name in that environment, or an environment that the system "
        "manages, can be the reason: use a virtual environment",
    )
