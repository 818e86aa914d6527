"""Files that pin one distribution of one release, each wheel with its hash: for pip, and as ``pylock.toml`` (PEP 751).

The requirements name each wheel by its URL, under the markers of the machines that it is for. So pip consults no index
for MLIR at all (there is nothing to confuse), checks the hash, and resolves MLIR's own dependencies as usual: the file
can be included in other requirements. ``--hash`` options would not do: they oblige a user to hash everything else too.
A last line has the markers of all other machines and a wheel that does not fit them, so that pip fails there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.model.cpython import ANY_PYTHON, STABLE_ABI, CPython
from mlir_release.model.platforms import PlatformTag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mlir_release.index.site import Channel, Published, WheelLink
    from mlir_release.model.manifest import Manifest


def requirements_name(manifest: Manifest, distribution: str) -> str:
    """File name: ``requirements-<tag>.txt`` for the main distribution, ``requirements-<tag>-<name>.txt`` for others."""
    return f"requirements-{manifest.tag}{_suffix(manifest, distribution, '-')}.txt"


def pylock_name(release: Published, distribution: str) -> str:
    """File name: ``pylock.toml`` for the main distribution, ``pylock.<name>.toml`` for others (PEP 751's own rule)."""
    return f"pylock{_suffix(release.manifest, distribution, '.')}.toml"


def _suffix(manifest: Manifest, distribution: str, separator: str) -> str:
    return "" if distribution == manifest.distributions[0] else separator + distribution


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


def _machine(link: WheelLink) -> _Machine | None:
    """The machines of a wheel, where markers can tell them apart: they know nothing of free threading or of musl."""
    platforms = {PlatformTag.parse(tag).platform for tag in link.wheel.platforms}
    markers = platforms.pop().markers if len(platforms) == 1 else None
    if markers is not None and link.wheel.python == ANY_PYTHON:
        return _Machine(*markers, "", or_newer=False)
    try:
        python = CPython.of_tag(link.wheel.python)
    except ValueError:
        return None
    if markers is None or python.free_threaded:
        return None
    return _Machine(*markers, python.marker, or_newer=link.wheel.filename.split("-")[-2] == STABLE_ABI)


def newest_name(channel: Channel, distribution: str) -> str:
    """File name of the floating requirements: ``requirements.txt`` for the main distribution."""
    assert channel.newest is not None
    return f"requirements{_suffix(channel.newest.manifest, distribution, '-')}.txt"


def newest_requirements(channel: Channel, distribution: str) -> str:
    """The requirements file that names, for each machine, the newest linked release that has a wheel for it."""
    chosen: dict[_Machine, WheelLink] = {}
    for release in (r for r in channel.linked if r in channel.offered or r is channel.newest):
        for link in release.links:
            machine = _machine(link)
            if link.wheel.distribution != distribution or link.yanked is not None or machine is None:
                continue
            if machine not in chosen and not any(machine.overlaps(other) for other in chosen):
                chosen[machine] = link
    lines = [
        f"# {distribution}: for each machine the newest {channel.kind} that has a wheel for it, when this was written.",
        "# pip install -r <this file>. Every wheel by its URL and sha256; a machine that none is for gets an error.",
        *_lines(distribution, chosen),
    ]
    return "\n".join(lines) + "\n"


def requirements(release: Published, distribution: str) -> str:
    """The requirements file of one distribution of a release."""
    links = [(link, _machine(link)) for link in release.links if link.wheel.distribution == distribution]
    lines = [
        f"# {distribution} {release.manifest.version} ({release.tag}), llvm-project {release.manifest.revision}",
        "# pip install -r <this file>. Every wheel by its URL and sha256; a machine that none is for gets an error.",
    ]
    if release.yanked is not None:
        lines.append(f"# YANKED: {' '.join(release.yanked.split())}")
    lines += [
        f"# Not listed, because markers can't select it: {link.url}#sha256={link.wheel.sha256}"
        for link, machine in links
        if machine is None
    ]
    lines += _lines(distribution, {machine: link for link, machine in links if machine is not None})
    return "\n".join(lines) + "\n"


def _lines(distribution: str, wheels: Mapping[_Machine, WheelLink]) -> list[str]:
    """A wheel for each machine, and for all others one that does not fit."""

    def named(link: WheelLink) -> str:
        return f"{distribution} @ {link.url}#sha256={link.wheel.sha256}"

    lines = [f"{named(link)} ; {machine.fits}" for machine, link in wheels.items()]
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


def pylock(release: Published, distribution: str, *, index: str) -> str:
    """The lock file of one distribution of a release, without its dependencies (PEP 751).

    :param index: URL of the simple index that it is also on
    """
    import tomli_w

    links: Sequence[WheelLink] = [link for link in release.links if link.wheel.distribution == distribution]
    needed = sorted({requirement for link in links for requirement in link.wheel.requires_dist})
    ranges = {link.wheel.requires_python for link in links}
    package = {
        "name": distribution,
        "version": release.manifest.version,
        **({"requires-python": ranges.pop()} if len(ranges) == 1 and "" not in ranges else {}),
        "index": index,
        "wheels": [
            {
                "name": link.wheel.filename,
                "upload-time": link.uploaded,
                "url": link.url,
                "size": link.wheel.size,
                "hashes": {"sha256": link.wheel.sha256},
            }
            for link in links
        ],
    }
    header = f"# {distribution} {release.manifest.version} ({release.tag}) alone"
    header += f": not locked here are {', '.join(needed)}.\n" if needed else ".\n"
    if release.yanked is not None:
        header += f"# YANKED: {' '.join(release.yanked.split())}\n"
    # A plain mapping: packaging.pylock would check what the manifest's reader has checked, at five times the price.
    return header + tomli_w.dumps({"lock-version": "1.0", "created-by": "mlir-release", "packages": [package]})
