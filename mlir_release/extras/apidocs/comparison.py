"""The API difference of two releases or wheels: the hook ``mlir_release.comparisons`` (docs/extras.md)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.extras.apidocs.changes import Comparison, Side
from mlir_release.extras.apidocs.outline import Outline, read_outline
from mlir_release.extras.apidocs.published import best_described
from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.programs.needs import need
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy
from mlir_release.release.latest.latest import read_release
from mlir_release.release.model.release_tags import LATEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlir_release.release.forge.base import Forge


def compare(
    forge: Forge | None,
    old_tag: str,
    new_tag: str,
    *,
    distribution: str | None = None,
    signed_by: SignedBy = AS_DECLARED,
) -> Comparison:
    """Compare the API of two published releases. Their wheels are verified as ``install`` does it, and never run.

    :param forge: that has them; None: both are files
    :param old_tag: a tag, ``latest``, or the path of a wheel
    :param distribution: whose wheels are read; of one of them, since those for other machines have the same API; None:
        each release's main one
    :raises UsageError: ``option-invalid``, ``input-missing``, ``release-not-published``
    :raises VerificationError: ``no-fitting-wheel``, ``wheel-unsuitable``, and those of ``install``
    :raises MachineError: ``tool-missing``, ``network-failed``
    """
    need("griffe")
    # Both are looked for before anything large is fetched.
    (old, read_old), (new, read_new) = (_find(forge, name, distribution, signed_by) for name in (old_tag, new_tag))
    if old == new:
        raise UsageError(
            "option-invalid",
            f"both names stand for the same: {old_tag}, {new_tag}",
            where=old.name,
            remedy="name two releases, or two wheels; `mlir-release release list` has the tags",
        )
    return make_comparison(old, read_old(), new, read_new())


def make_comparison(old: Side, before: Outline, new: Side, after: Outline) -> Comparison:
    """Compare two APIs that were read."""
    from mlir_release.extras.apidocs.compare import find_changes

    changes, uncompared = find_changes(before, after)
    return Comparison(old=old, new=new, changes=tuple(changes), uncompared=tuple(uncompared))


def _find(
    forge: Forge | None, name: str, distribution: str | None, signed_by: SignedBy
) -> tuple[Side, Callable[[], Outline]]:
    """A side, and what reads it."""
    if Path(name).is_file():
        path = Path(name)
        side = Side(name=name, wheel=path.name, sha256=sha256_of(path))
        return side, lambda: read_outline(side.sha256, lambda: path)
    if forge is None or name.endswith(".whl"):
        raise UsageError(
            "input-missing", f"there is no file {name}", remedy="correct its path, or name a release's tag"
        )
    with console.step(f"check who made {'the newest snapshot' if name == LATEST else name}"):
        trusted = read_release(forge, name, signed_by)
    manifest = trusted.manifest
    distribution = distribution or manifest.main
    wheel = best_described(wheel for wheel in manifest.wheels if wheel.distribution == distribution)
    if wheel is None:
        names = {wheel.distribution for wheel in manifest.wheels}
        raise VerificationError(
            "no-fitting-wheel",
            f"{manifest.tag} has no wheel of {distribution} with Python modules",
            where=forge.page_url(manifest.tag),
            why=f"it has {', '.join(sorted(names)) or 'no such wheels at all'}",
            remedy="name another one with --distribution",
        )
    trusted.check(wheel.filename, wheel.sha256)

    def read() -> Outline:
        with scratch_folder("apidiff") as scratch:

            def fetch() -> Path:
                with console.step(f"fetch {wheel.filename}, {format_bytes(wheel.size)}"):
                    return trusted.fetch_file(wheel, scratch)

            return read_outline(wheel.sha256, fetch)

    return Side(name=manifest.tag, wheel=wheel.filename, sha256=wheel.sha256), read
