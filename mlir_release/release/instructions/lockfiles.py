"""Files that pin one distribution of a release, each wheel with its hash: for pip, and as ``pylock.toml`` (PEP 751).

``pylock.toml`` also has the distribution's dependencies, as they were resolved when the release was published.

The requirements name each wheel by its URL, under the markers of the machines that it is for. So pip consults no index
for MLIR at all (there is nothing to confuse), checks the hash, and resolves MLIR's own dependencies as usual: the file
can be included in other requirements. ``--hash`` options would not do: they oblige a user to hash everything else too.
A last line has the markers of all other machines and a wheel that does not fit them, so that pip fails there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.python.cpython import ANY_PYTHON, STABLE_ABI, CPython
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.release.model.manifest import LockEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mlir_release.release.model.dependencies import LockedPackage
    from mlir_release.release.model.manifest import Manifest, WheelEntry
    from mlir_release.release.model.release_tags import Kind


def requirements_name(manifest: Manifest, distribution: str, *, tag: str = "") -> str:
    """File name: ``requirements.txt`` for the main distribution, ``requirements-<name>.txt`` for others.

    :param tag: of the release, where files of several releases may meet: ``requirements-<tag>.txt``
    """
    return f"requirements{'-' * bool(tag)}{tag}{_suffix(manifest, distribution, '-')}.txt"


def pylock_name(manifest: Manifest, distribution: str) -> str:
    """File name: ``pylock.toml`` for the main distribution, ``pylock.<name>.toml`` for others (PEP 751's own rule)."""
    return f"pylock{_suffix(manifest, distribution, '.')}.toml"


def _suffix(manifest: Manifest, distribution: str, separator: str) -> str:
    return "" if distribution == manifest.unnamed else separator + distribution


def lock_files(manifest: Manifest, url: Callable[[str], str]) -> dict[str, bytes]:
    """The files of each distribution that a release has among its assets, by their names.

    :param url: gives the address of a wheel by its file name
    """
    urls = {wheel.filename: url(wheel.filename) for wheel in manifest.wheels}
    texts = {}
    for name in manifest.distributions:
        texts[requirements_name(manifest, name)] = requirements(manifest, name, urls)
        texts[pylock_name(manifest, name)] = pylock(manifest, name, urls)
    return {name: text.encode() for name, text in texts.items()}


def lock_entries(files: Mapping[str, bytes]) -> tuple[LockEntry, ...]:
    """The rows of :func:`lock_files` in the manifest."""
    return tuple(LockEntry(filename=name, sha256=sha256_of(content)) for name, content in sorted(files.items()))


@dataclass(frozen=True)
class _Machine:
    """Markers of the machines that a wheel is for."""

    system: str
    machine: str
    python: str  #: ``3.12``; empty: any
    or_newer: bool  #: a wheel for the stable ABI

    def overlaps(self, other: _Machine) -> bool:
        """Whether there are machines that both are for."""
        if (self.system, self.machine) != (other.system, other.machine):
            return False
        if not self.python or not other.python:
            return True
        first, second = sorted((self, other), key=lambda machine: CPython.parse(machine.python))
        return first.python == second.python or first.or_newer

    @property
    def fits(self) -> str:
        operator = ">=" if self.or_newer else "=="
        python = f'python_version {operator} "{self.python}" and ' if self.python else ""
        return f'{python}sys_platform == "{self.system}" and platform_machine == "{self.machine}"'


def _machine(wheel: WheelEntry) -> _Machine | None:
    """The machines of a wheel, where markers can tell them apart: they know nothing of free threading or of musl."""
    platforms = {PlatformTag.parse(tag).platform for tag in wheel.platforms}
    markers = platforms.pop().markers if len(platforms) == 1 else None
    if markers is not None and wheel.python == ANY_PYTHON:
        return _Machine(*markers, "", or_newer=False)
    try:
        python = CPython.of_tag(wheel.python)
    except ValueError:
        return None
    if markers is None or python.free_threaded:
        return None
    return _Machine(*markers, python.marker, or_newer=wheel.filename.split("-")[-2] == STABLE_ABI)


def newest_requirements(kind: Kind, distribution: str, wheels: Iterable[WheelEntry], urls: Mapping[str, str]) -> str:
    """The requirements file that names, for each machine, the first of some wheels that is for it."""
    chosen: dict[_Machine, WheelEntry] = {}
    for wheel in wheels:
        machine = _machine(wheel)
        if wheel.distribution != distribution or machine is None:
            continue
        if machine not in chosen and not any(machine.overlaps(other) for other in chosen):
            chosen[machine] = wheel
    lines = [
        f"# {distribution}: for each machine the newest {kind} that has a wheel for it, when this was written.",
        "# pip install -r <this file>. Every wheel by its URL and sha256; a machine that none is for gets an error.",
        *_lines(distribution, chosen, urls),
    ]
    return "\n".join(lines) + "\n"


def requirements(manifest: Manifest, distribution: str, urls: Mapping[str, str], *, yanked: str | None = None) -> str:
    """The requirements file of one distribution of a release.

    :param urls: of its wheels, by their file names
    :param yanked: why it is; None: it is not
    """
    lines = [
        f"# {distribution} {manifest.version} ({manifest.tag}), llvm-project {manifest.revision}",
        "# pip install -r <this file>. Every wheel by its URL and sha256; a machine that none is for gets an error.",
        *_yanked(yanked),
    ]
    wheels = [wheel for wheel in manifest.wheels if wheel.distribution == distribution]
    return "\n".join([*lines, *requirement_lines(distribution, wheels, urls)]) + "\n"


def requirement_lines(distribution: str, wheels: Iterable[WheelEntry], urls: Mapping[str, str]) -> list[str]:
    """The lines of a requirements file for wheels of one version, each with the markers of its machines."""
    machines = [(_machine(wheel), wheel) for wheel in wheels]
    unlisted = [
        f"# Not listed, because markers can't select it: {urls[wheel.filename]}#sha256={wheel.sha256}"
        for machine, wheel in machines
        if machine is None
    ]
    return unlisted + _lines(distribution, {machine: wheel for machine, wheel in machines if machine}, urls)


def _yanked(reason: str | None) -> list[str]:
    return [] if reason is None else [f"# YANKED: {' '.join(reason.split())}"]


def _lines(distribution: str, wheels: Mapping[_Machine, WheelEntry], urls: Mapping[str, str]) -> list[str]:
    """A wheel for each machine, and for all others one that does not fit."""

    def named(wheel: WheelEntry) -> str:
        return f"{distribution} @ {urls[wheel.filename]}#sha256={wheel.sha256}"

    lines = [f"{named(wheel)} ; {machine.fits}" for machine, wheel in wheels.items()]
    if wheels:
        lines.append("# All other machines: this wheel does not fit them, and pip says so.")
        lines.append(f"{named(next(iter(wheels.values())))} ; {_none_fits(wheels)}")
    return lines


def _none_fits(machines: Iterable[_Machine]) -> str:
    """The marker of the machines that no wheel is for; markers have no ``not``."""
    groups: dict[tuple[str, str], list[str]] = {}
    for machine in machines:
        operator = "<" if machine.or_newer else "!="
        others = groups.setdefault((machine.system, machine.machine), [])
        if machine.python:
            others.append(f'python_version {operator} "{machine.python}"')
    return " and ".join(
        f'(sys_platform != "{system}" or platform_machine != "{machine}"'
        + (f" or ({' and '.join(dict.fromkeys(others))}))" if others else ")")
        for (system, machine), others in groups.items()
    )


def pylock(manifest: Manifest, distribution: str, urls: Mapping[str, str], *, yanked: str | None = None) -> str:
    """The lock file of one distribution of a release, with what it depends on (PEP 751); as :func:`requirements`.

    Releases of older toolkits lock the distribution alone: their manifests don't have its dependencies.
    """
    locked, requires = _dependencies(manifest, distribution), manifest.requires(distribution)
    header = f"# {distribution} {manifest.version} ({manifest.tag})"
    if locked:
        header += f" with {', '.join(f'{package.name} {package.version}' for package in locked)}."
    else:
        header += " alone" + (f": not locked here are {', '.join(requires)}." if requires else ".")
    wheels = [wheel for wheel in manifest.wheels if wheel.distribution == distribution]
    own = own_package(distribution, manifest.version, wheels, urls)
    return "\n".join([header, *_yanked(yanked), pylock_document([own], locked)])


def pylock_document(own: Sequence[Mapping[str, object]], locked: Iterable[LockedPackage]) -> str:
    """The TOML of a lock file (PEP 751).

    :param own: of :func:`own_package`
    :param locked: what they depend on
    """
    import tomli_w

    packages = [*own, *map(_package, locked)]
    # A plain mapping: packaging.pylock would check what our readers have checked, at five times the price.
    return tomli_w.dumps({"lock-version": "1.0", "created-by": "mlir-release", "packages": packages})


def locks_all(manifest: Manifest, distribution: str) -> bool:
    """Whether the lock file of a distribution has what that depends on, too: with it alone, MLIR works."""
    return bool(_dependencies(manifest, distribution)) or not manifest.requires(distribution)


def _dependencies(manifest: Manifest, distribution: str) -> tuple[LockedPackage, ...]:
    requires = manifest.requires(distribution)
    return next((row.packages for row in manifest.dependencies if row.requires == requires), ())


def own_package(
    distribution: str, version: str, wheels: Sequence[WheelEntry], urls: Mapping[str, str]
) -> dict[str, object]:
    """The row of a distribution in a lock file, with wheels of one version."""
    ranges = {wheel.requires_python for wheel in wheels}
    return {
        "name": distribution,
        "version": version,
        **({"requires-python": ranges.pop()} if len(ranges) == 1 and "" not in ranges else {}),
        "wheels": [_wheel(wheel.filename, urls[wheel.filename], wheel.size, wheel.sha256) for wheel in wheels],
    }


def _package(package: LockedPackage) -> dict[str, object]:
    return {
        "name": package.name,
        "version": package.version,
        **({"marker": package.marker} if package.marker else {}),
        "wheels": [_wheel(wheel.filename, wheel.url, wheel.size, wheel.sha256) for wheel in package.wheels],
    }


def _wheel(name: str, url: str, size: int, sha256: str) -> dict[str, object]:
    return {"name": name, "url": url, **({"size": size} if size else {}), "hashes": {"sha256": sha256}}
