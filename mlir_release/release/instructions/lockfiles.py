"""Files that pin one distribution of a release, each wheel with its hash: for pip, and as ``pylock.toml`` (PEP 751).

``pylock.toml`` also has the distribution's dependencies, as they were resolved when the release was published.

The requirements name each wheel by its URL, under the markers of the machines that it is for. So pip consults no index
for MLIR at all (there is nothing to confuse), checks the hash, and resolves MLIR's own dependencies as usual: the file
can be included in other requirements. ``--hash`` options would not do: they oblige a user to hash everything else too.
A last line has the markers of all other machines, and a wheel that is for any platform. Where there is none, it names
one that does not fit them, so that pip fails there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.python.cpython import ANY_PYTHON, STABLE_ABI, CPython, python_order
from mlir_release.ground.python.platforms import SYSTEMS, Platform, PlatformTag
from mlir_release.release.model.manifest import LockedPackage, LockEntry, Manifest, WheelEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

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

    def covers(self, other: _Machine) -> bool:
        """Whether it is all machines that the other is."""
        if (self.system, self.machine) != (other.system, other.machine):
            return False
        if not self.or_newer or not other.python:
            return not self.python or self == other
        return CPython.parse(self.python) <= CPython.parse(other.python)

    @property
    def fits(self) -> str:
        operator = ">=" if self.or_newer else "=="
        python = f'python_version {operator} "{self.python}" and ' if self.python else ""
        return f'{python}sys_platform == "{self.system}" and platform_machine == "{self.machine}"'

    @property
    def other_pythons(self) -> str:
        """Markers have no ``not``."""
        return f'python_version {"<" if self.or_newer else "!="} "{self.python}"'


def _machines(wheel: WheelEntry) -> list[_Machine]:
    """The machines of a wheel; none where markers can't name them, and where it is for any platform."""
    python = None
    if wheel.python != ANY_PYTHON:
        try:
            python = CPython.of_tag(wheel.python)
        except ValueError:
            return []
    newer = wheel.filename.split("-")[-2] == STABLE_ABI
    tags = [PlatformTag.parse(tag) for tag in wheel.platforms]
    both = [Platform("macos", arch) for arch in SYSTEMS["macos"].machines for tag in tags if tag.arch == "universal2"]
    musl = [Platform("linux", tag.platform.arch) for tag in tags if tag.platform.os == "musl"]
    markers = dict.fromkeys(platform.markers for platform in (*(tag.platform for tag in tags), *both, *musl))
    return [_Machine(*each, python.marker if python else "", newer) for each in markers if each is not None]


def _rank(wheel: WheelEntry) -> tuple[bool, bool, bool, int]:
    """Sorts the wheels of one version: those that are for fewer machines before others, which the rest is left to.

    The last are those that markers can't tell: they know nothing of free threading or of musl.
    """
    vague = wheel.python.endswith("t") or any(tag.startswith("musl") for tag in wheel.platforms)
    any_python = wheel.python == ANY_PYTHON
    return vague, any_python, wheel.filename.split("-")[-2] == STABLE_ABI, -python_order(wheel.python)[0].minor


def newest_requirements(
    kind: Kind,
    distribution: str,
    wheels: Iterable[WheelEntry],
    urls: Mapping[str, str],
    beside: Sequence[LockedPackage] = (),
) -> str:
    """The requirements file that names, for each machine, the first of some wheels that is for it."""
    listed = [wheel for wheel in wheels if wheel.distribution == distribution]
    lines = [
        f"# {distribution}: for each machine the newest {kind} that has a wheel for it, when this was written.",
        "# pip install -r <this file>. Every wheel by its URL and sha256; a machine that none is for gets an error.",
        *_lines(distribution, listed, _chosen(sorted(listed, key=lambda wheel: _rank(wheel)[0])), urls),
        *_beside(distribution, beside),
    ]
    return "\n".join(lines) + "\n"


def requirements(
    manifest: Manifest,
    distribution: str,
    urls: Mapping[str, str],
    *,
    yanked: str | None = None,
    beside: Sequence[LockedPackage] = (),
) -> str:
    """The requirements file of one distribution of a release.

    :param urls: of its wheels, by their file names
    :param yanked: why it is; None: it is not
    :param beside: see :mod:`~mlir_release.release.index.simple`
    """
    lines = [
        f"# {distribution} {manifest.version} ({manifest.tag}), llvm-project {manifest.revision}",
        "# pip install -r <this file>. Every wheel by its URL and sha256; a machine that none is for gets an error.",
        *_yanked(yanked),
    ]
    wheels = [wheel for wheel in manifest.wheels if wheel.distribution == distribution]
    return "\n".join([*lines, *requirement_lines(distribution, wheels, urls), *_beside(distribution, beside)]) + "\n"


def _beside(distribution: str, packages: Sequence[LockedPackage]) -> list[str]:
    rows = [f"{each.name} @ {wheel.url}#sha256={wheel.sha256}" for each in packages for wheel in each.wheels]
    return rows and [
        f"# Names of others with the files of {distribution}: these have none, so that pip asks for no more.",
        *rows,
    ]


def requirement_lines(distribution: str, wheels: Sequence[WheelEntry], urls: Mapping[str, str]) -> list[str]:
    """The lines of a requirements file for wheels of one version, each with the markers of its machines.

    One line counts on every machine: pip installs the wheel there, or says that it does not fit.
    """
    chosen = _chosen(sorted(wheels, key=_rank))
    unlisted = [
        f"# Not listed, because markers can't select it: {urls[wheel.filename]}#sha256={wheel.sha256}"
        for wheel in wheels
        if wheel not in chosen.values() and wheel != _for_others(wheels, chosen)
    ]
    return unlisted + _lines(distribution, wheels, chosen, urls)


def _chosen(wheels: Iterable[WheelEntry]) -> dict[_Machine, WheelEntry]:
    """For each machine the first of some wheels that is for it."""
    chosen: dict[_Machine, WheelEntry] = {}
    for wheel in wheels:
        for machine in _machines(wheel):
            if not any(other.covers(machine) for other in chosen):
                chosen[machine] = wheel
    return chosen


def _for_others(wheels: Sequence[WheelEntry], chosen: Mapping[_Machine, WheelEntry]) -> WheelEntry | None:
    """The wheel for all machines but the chosen ones: one for any platform, else one that does not fit them."""
    anywhere = [wheel for wheel in wheels if "any" in wheel.platforms]
    return next(iter([*anywhere, *(wheel for wheel in wheels if wheel in chosen.values()), *wheels]), None)


def _yanked(reason: str | None) -> list[str]:
    return [] if reason is None else [f"# YANKED: {' '.join(reason.split())}"]


def _lines(
    distribution: str, wheels: Sequence[WheelEntry], chosen: Mapping[_Machine, WheelEntry], urls: Mapping[str, str]
) -> list[str]:
    def named(wheel: WheelEntry) -> str:
        return f"{distribution} @ {urls[wheel.filename]}#sha256={wheel.sha256}"

    lines = []
    for wheel in wheels:
        for machine in (machine for machine, its in chosen.items() if its == wheel):
            inside = [other.other_pythons for other in chosen if other != machine and machine.covers(other)]
            lines.append(f"{named(wheel)} ; {' and '.join([machine.fits, *inside])}")
    others = _for_others(wheels, chosen)
    if others is not None:
        if "any" not in others.platforms:
            lines.append("# All other machines: this wheel does not fit them, and pip says so.")
        lines.append(named(others) + (f" ; {_none_fits(chosen)}" if chosen else ""))
    return lines


def _none_fits(machines: Iterable[_Machine]) -> str:
    """The marker of the machines that no wheel is for."""
    groups: dict[tuple[str, str], list[_Machine]] = {}
    for machine in machines:
        groups.setdefault((machine.system, machine.machine), []).append(machine)
    return " and ".join(
        f'(sys_platform != "{system}" or platform_machine != "{machine}"'
        + ("" if any(not each.python for each in group) else f" or ({' and '.join(others)})")
        + ")"
        for (system, machine), group in groups.items()
        for others in [dict.fromkeys(each.other_pythons for each in group)]
    )


def pylock(
    manifest: Manifest,
    distribution: str,
    urls: Mapping[str, str],
    *,
    yanked: str | None = None,
    beside: Sequence[LockedPackage] = (),
) -> str:
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
    return "\n".join([header, *_yanked(yanked), pylock_document([own], [*locked, *beside])])


def pylock_document(own: Sequence[Mapping[str, object]], locked: Iterable[LockedPackage]) -> str:
    """The TOML of a lock file (PEP 751).

    :param own: of :func:`own_package`
    :param locked: what they depend on
    """
    import tomli_w

    packages = [*own]
    for package in locked:
        wheels = [_wheel(wheel.filename, wheel.url, wheel.size, wheel.sha256) for wheel in package.wheels]
        marker = {"marker": package.marker} if package.marker else {}
        packages.append({"name": package.name, "version": package.version, **marker, "wheels": wheels})
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


def _wheel(name: str, url: str, size: int, sha256: str) -> dict[str, object]:
    return {"name": name, "url": url, **({"size": size} if size else {}), "hashes": {"sha256": sha256}}
