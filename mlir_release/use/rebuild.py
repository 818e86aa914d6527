"""``wheels rebuild``: make a published wheel again from what its release's manifest names, and compare the bytes.

The manifest names the SDK and the container image by their digests, and the commit whose toolkit, with its locks, made
the wheel. Nothing that was compiled before is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import mlir_release
from mlir_release.builder.model.rebuilt import Rebuilt
from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.sdk.provision import find_cached
from mlir_release.builder.tools.containers import find_engine, unusable, why_unusable
from mlir_release.builder.wheels.backends import Backend, BuildBackend
from mlir_release.builder.wheels.build import build_wheels
from mlir_release.builder.wheels.cibuildwheel import CibuildwheelBackend
from mlir_release.builder.wheels.compare import compare
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.builder.wheels.source import pack
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import alternatives
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import UsageError
from mlir_release.ground.git.repository import Git
from mlir_release.ground.python.pythons import find_pythons
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.judging.check import need_its_tag
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy
from mlir_release.release.latest.latest import read_release
from mlir_release.release.model.manifest import Manifest, SourceEntry, WheelEntry
from mlir_release.release.pinning.state import TagState, find_state, matrix_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlir_release.release.forge.base import Forge

#: The checkout that the toolkit runs from; an installed toolkit has none.
CHECKOUT = Path(mlir_release.__file__).parents[1]

#: What of a commit makes wheels: the toolkit, with the wheel project and the locks.
_TOOLKIT = "mlir_release"


def rebuild(
    forge: Forge,
    tag: str,
    target: str,
    *,
    output: Path,
    sdk: Path | Callable[..., Sdk] | None = None,
    pythons: tuple[str, ...] = (),
    jobs: int | None = None,
    signed_by: SignedBy = AS_DECLARED,
) -> Rebuilt:
    """Make the wheel of ``target`` in the published release ``tag`` again, and compare the two.

    :param output: folder of the wheel that is made
    :param sdk: the folder of its SDK; None: the one in the cache that has its digest; or what makes the SDK again, too,
        as the release did: :func:`~mlir_release.builder.sdk.provision.provide_pinned`
    :param pythons: version or path of the CPython to build with; the target's by default
    :raises UsageError: ``release-not-published``, ``release-unsuitable``, ``python-missing``
    :raises MachineError: ``machine-unsuitable``; and what :func:`~mlir_release.builder.wheels.build.build_wheels`
        raises
    :raises VerificationError: ``signature-invalid``, ``file-damaged``
    """
    trusted = read_release(forge, tag, signed_by)
    manifest, tag = trusted.manifest, trusted.release.tag
    state = find_state(forge, tag)
    with scratch_folder("rebuild") as scratch:
        need_its_tag(forge, manifest, revision=state.revision, version=state.wheel_version)
        rows = {row.target: row for row in manifest.files}
        if target not in rows:
            reasons = {row.target: row.reason for row in manifest.left_out}
            reasons |= {waiver.target: waiver.reason for waiver in manifest.waivers}
            raise UsageError(
                "release-unsuitable",
                f"{manifest.tag} has no wheel of {target}",
                why=reasons.get(target, ""),
                remedy=alternatives(target, rows),
            )
        row = rows[target]
        toolkit = check_toolkit(forge, state, manifest)
        matrix = matrix_of(forge, state)
        if callable(sdk):
            runtime = matrix.wheel(target).runtime
            order = runtime.order(matrix.release, state.revision)
            sdk = sdk(order, cache=cache_directory(), repository=CHECKOUT, jobs=jobs).root
        request = WheelRequest.of_order(
            matrix.wheel(target).order(**state.of_release), find_sdk(row, manifest, sdk), CHECKOUT
        )
        with console.step(f"make {row.filename} again"):
            if isinstance(row, SourceEntry) or request.is_packed:
                made = pack([request], output=output)[0]
            else:
                wanted = pythons or (() if request.any_python else row.pythons[:1])
                chosen = find_pythons(wanted) if wanted else []
                cache, backend = scratch / "cache", _backend(row)
                made = build_wheels(request, chosen, output=output, backend=backend, jobs=jobs, cache=cache)[0].path
        differences = compare(trusted.fetch_file(row, scratch), made)
    return Rebuilt(
        tag=tag,
        target=target,
        filename=row.filename,
        equal=not differences,
        published_sha256=row.sha256,
        rebuilt_sha256=sha256_of(made),
        rebuilt=str(made),
        sdk=row.sdk,
        image=row.image if isinstance(row, WheelEntry) else "",
        toolkit=toolkit,
        differences=differences,
    )


def check_toolkit(forge: Forge, state: TagState, manifest: Manifest, checkout: Path = CHECKOUT) -> str:
    """Check that the toolkit that runs here is the one that made a release; returns its commit, else its version.

    Its commit tells, where it is in this checkout. The commits of local forges and of mirrors have no toolkit; then
    only the version can be compared.

    :raises UsageError: ``release-unsuitable``
    """
    git, commit = Git(checkout), manifest.commit
    known = git.is_repository() and git.read(commit, f"{_TOOLKIT}/__init__.py") is not None
    if known:
        changed = git.text("diff", "--name-only", commit, "--", _TOOLKIT).splitlines()
        if not changed:
            return commit
        why = f"{len(changed)} files differ from those of {commit[:12]}, the first is {changed[0]}"
    elif forge.read(f"{_TOOLKIT}/__init__.py", commit=state.commit) is not None:
        why = f"{checkout} does not have {commit}, whose toolkit made it"
    elif manifest.toolkit_version == mlir_release.__version__:
        return manifest.toolkit_version
    else:
        why = f"version {manifest.toolkit_version} made it, and this is {mlir_release.__version__}"
    raise UsageError(
        "release-unsuitable",
        f"{manifest.tag} was made by another toolkit than this one",
        where=str(CHECKOUT),
        why=why,
        remedy=f"in a clone of the release repository: git fetch origin tag {manifest.tag}; git worktree add DIRECTORY "
        f"{manifest.tag}; then run make setup, and this, in DIRECTORY",
    )


def find_sdk(row: WheelEntry | SourceEntry, manifest: Manifest, folder: Path | None) -> Sdk:
    """The SDK that a wheel was built from, every file of which is checked.

    :raises UsageError: ``release-unsuitable``, ``input-missing``, ``sdk-mismatch``
    :raises VerificationError: ``file-damaged``
    """
    if not row.sdk:
        raise UsageError(
            "release-unsuitable",
            f"nothing says which SDK {row.filename} was built from",
            where=manifest.tag,
            why="the toolkit that made this release did not record it",
            remedy="choose a newer release",
        )
    sdk = Sdk.load(folder) if folder is not None else find_cached(row.sdk, manifest.revision, cache_directory())
    if sdk is None:
        raise UsageError(
            "input-missing",
            f"the SDK that {row.filename} was built from is not here",
            where=str(cache_directory()),
            why=f"none in the cache has the digest {row.sdk} and the revision {manifest.revision}",
            remedy="give its folder with --sdk: the run that made the release has it as artifacts (mlir-release sdk "
            "unpack), or make it again with --from source",
        )
    if (sdk.info.digest, sdk.info.revision) != (row.sdk, manifest.revision):
        raise UsageError(
            "sdk-mismatch",
            f"{row.filename} was built from another SDK",
            where=str(sdk.root),
            why=f"its SDK is {row.sdk} of {manifest.revision}; this one is {sdk.info.digest} of {sdk.info.revision}",
            remedy="give that one, or leave --sdk out: the cache may have it; one that was made again (--from source) "
            "has another digest if anything of the machine is in it",
        )
    sdk.verify()
    return sdk


def _backend(row: WheelEntry) -> Backend:
    """What the wheel was built by. :raises MachineError: ``machine-unsuitable``"""
    if not row.image:
        return BuildBackend()
    engine = find_engine()
    if reason := why_unusable(engine, row.image):
        raise unusable(row.image, reason, remedy=f"{row.filename} was built in this image: fetch it, or load it")
    return CibuildwheelBackend(engine=engine, image=row.image)
