"""The dependencies of a release's wheels, resolved for its lock files when it is published: once, for all its machines.

Without an answer from the package index nothing is published: the files of a release never change again, and a lock
without MLIR's dependencies installs something that can't be imported. The index is believed in nothing else: each of
its files is named with its digest, which whoever installs it checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct, structs

from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import Count, MalformedError, convert, doc, parse_toml
from mlir_release.ground.errors import MachineError, NeedsPersonError, UsageError
from mlir_release.ground.programs.surroundings import withheld
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.python.pythons import OLDEST
from mlir_release.ground.python.requirements import applicable, canonical
from mlir_release.ground.python.resolver import compile_lock
from mlir_release.release.model.manifest import Dependencies, LockedPackage, Manifest, fits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mlir_release.ground.programs.process import Captured

    Resolve = Callable[..., Captured]

#: A CPython, and a platform tag of a wheel that is for it.
Machine = tuple[CPython, PlatformTag]


class _Wheel(Struct):
    """A wheel in uv's lock file; what else is there is passed over."""

    url: str
    hashes: dict[str, str]
    size: Count = 0


class _Package(Struct):
    name: str
    version: str
    marker: str = ""
    wheels: tuple[_Wheel, ...] = ()


class _Lock(Struct):
    packages: Annotated[tuple[_Package, ...], doc("PEP 751")] = ()


def resolve_dependencies(manifest: Manifest, *, local: bool) -> tuple[Dependencies, ...]:
    """What the wheels of a release depend on: for each of their sets of requirements one row.

    It is resolved as of the time that the tag was made, so that whoever verifies the same draft later gets the same.

    :param local: the release stays on this machine, so that its locks may name files that do, too
    :raises MachineError: ``network-failed``, ``tool-missing``
    :raises NeedsPersonError: ``release-not-ready``: there is no such set of wheels
    :raises UsageError: ``option-invalid``: the configured index is a folder of this machine
    """
    sharing: dict[tuple[str, ...], list[str]] = {}
    for distribution in manifest.distributions:
        sharing.setdefault(manifest.requires(distribution), []).append(distribution)
    rows = []
    for requires, distributions in sharing.items():
        if not requires:
            continue
        machines = _machines(manifest, distributions)
        with console.step(f"lock what {', '.join(distributions)} depends on"):
            packages = lock_requirements(requires, machines, until=manifest.created_at, local=local)
        rows.append(Dependencies(requires=requires, packages=packages).sorted())
    return tuple(rows)


def lock_requirements(
    requires: Sequence[str], machines: Sequence[Machine], *, until: str, local: bool, resolve: Resolve = compile_lock
) -> tuple[LockedPackage, ...]:
    """The packages that requirements lead to, with their wheels for machines, from the index that pip has.

    :param machines: empty: any
    :param until: what was uploaded after that time (RFC 3339) is left out
    :param local: as :func:`resolve_dependencies` has it
    :param resolve: asks the index
    :raises MachineError: ``network-failed``, ``tool-missing``
    :raises NeedsPersonError: ``release-not-ready``
    :raises UsageError: ``option-invalid``
    """
    oldest = min((python for python, _ in machines), default=CPython(*OLDEST))
    done = resolve(requires, oldest, until=until)
    if not done.ok:
        raise _not_resolved(requires, done)
    packages = _read(done.stdout, requires)
    if machines:  # only those of its wheels that are for a machine which takes this version
        packages = tuple(
            structs.replace(
                package,
                wheels=tuple(each for each in package.wheels if any(fits(each.filename, *one) for one in taking)),
            )
            for package in packages
            for taking in [_taken_by(package, machines)]
        )
    here = [wheel.url for package in packages for wheel in package.wheels if wheel.url.startswith("file:")]
    if here and not local:
        raise UsageError(
            "option-invalid",
            f"the lock file would name {len(here)} files of this machine, which nobody else has",
            where=here[0],
            why="pip is configured with a folder of wheels",
            remedy="publish without it: unset PIP_FIND_LINKS, or remove find-links from pip's configuration",
        )
    for lacking in _lacking(packages, machines):
        console.warn(f"the lock file has no wheel {lacking}")
    # PEP 751 refuses a package without files: a version for other CPythons, or one that has no fitting wheel.
    return tuple(package for package in packages if package.wheels)


def _machines(manifest: Manifest, distributions: Sequence[str]) -> list[Machine]:
    """The CPythons that distributions have wheels for, on each of their platforms."""
    return [
        (CPython.of_tag(python), PlatformTag.parse(platform))
        for wheel in manifest.wheels
        if wheel.distribution in distributions
        for python in wheel.pythons
        for platform in wheel.platforms
    ]


def _read(text: str, requires: Sequence[str]) -> tuple[LockedPackage, ...]:
    """The packages of uv's lock file. :raises MachineError: ``network-failed``: the index gave what no lock can name"""
    try:
        lock = convert(parse_toml(text), _Lock, table="a table")
        rows: Any = [
            {
                "name": canonical(package.name),
                "version": package.version,
                "marker": package.marker,
                "wheels": [
                    {"url": wheel.url, "sha256": wheel.hashes.get("sha256", ""), "size": wheel.size}
                    for wheel in package.wheels
                ],
            }
            for package in lock.packages
        ]
        return convert(rows, tuple[LockedPackage, ...])
    except MalformedError as error:
        raise MachineError(
            "network-failed",
            f"the package index does not give what a lock file needs of {', '.join(requires)}",
            why=str(error),
            remedy="use an index that gives https addresses of wheels with their sha256, as PyPI does",
        ) from error


def _taken_by(package: LockedPackage, machines: Sequence[Machine]) -> list[Machine]:
    """The machines that take this version of a package, by its marker."""
    line = f"{package.name} ; {package.marker}" if package.marker else package.name
    return [(python, tag) for python, tag in machines if applicable([line], python, tag.platform)]


def _lacking(packages: Sequence[LockedPackage], machines: Sequence[Machine]) -> list[str]:
    """The machines that a dependency has no wheel for, each continuing "no wheel …"."""
    found = dict.fromkeys(
        f"of {package.name} {package.version} for CPython {python.version} on {tag.platform.title}"
        for package in packages
        for python, tag in _taken_by(package, machines)
        if not any(fits(wheel.filename, python, tag) for wheel in package.wheels)
    )
    return list(found)


def _not_resolved(requires: Sequence[str], done: Captured) -> MachineError | NeedsPersonError:
    """The error for requirements that uv can't lock. It ends with 1 where an index has answered."""
    named = ", ".join(requires)
    if done.returncode == 1:
        return NeedsPersonError(
            "release-not-ready",
            f"no set of wheels fulfils what the wheels require: {named}",
            why=done.complaint,
            remedy="see which index pip is configured with (pip config list): it must have wheels of these; if no "
            "index has, correct [requires] in targets.toml and make another release",
        )
    return MachineError(
        "network-failed",
        f"the package index does not say what the wheels depend on: {named}",
        why=done.complaint,
        remedy="publish again when the index can be reached: a published lock file never changes. On a machine without "
        f"a network, name a folder that has their wheels in PIP_FIND_LINKS{withheld()}",
    )
