"""The conda packages of a release's wheels: their names, platforms and dependencies. Pure.

A package serves the same CPythons as its wheel: one, or those of the stable ABI. Its files lie below ``site-packages``,
as pip would put them. The client moves that folder to the place of the environment's Python (the layout ``noarch:
python``, in the folder of a platform). So a package does not depend on the machine that makes it.
Sources: CEP 20 (that layout, the stable ABI), CEP 26 (names), conda-forge's ``python_abi`` and ``python-gil``; conda's
virtual packages (``__glibc``, ``__osx``).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from mlir_release.ground.errors import UsageError
from mlir_release.ground.python.cpython import STABLE_ABI, CPython
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.python.requirements import applicable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mlir_release.release.model.manifest import Manifest, WheelEntry

#: Our distributions -> their packages. conda-forge's bindings have the first name; its ``mlir`` is LLVM's library.
PACKAGES = {
    "mlir": "mlir-python-bindings",
    "mlir-core": "mlir-python-bindings-core",
    "mlir-full": "mlir-python-bindings-full",
    "mlir-all": "mlir-python-bindings-all",
}

#: Our platforms -> conda's, which it calls subdirs.
SUBDIRS = {
    "linux-x86_64": "linux-64",
    "linux-aarch64": "linux-aarch64",
    "macos-x86_64": "osx-64",
    "macos-arm64": "osx-arm64",
    "windows-x86_64": "win-64",
    "windows-arm64": "win-arm64",
}

#: Requirements whose package on conda-forge has another name than on PyPI.
_RENAMED = {"ml-dtypes": "ml_dtypes", "typing-extensions": "typing_extensions"}

#: Of all that a release has.
LICENSE = "Apache-2.0 WITH LLVM-exception"


@dataclass(frozen=True, kw_only=True)
class Package:
    """A wheel as a package for one of conda's platforms."""

    wheel: WheelEntry
    name: str
    version: str
    subdir: str  #: conda's name of the platform, ``linux-64``
    build: str  #: names the platform, too: files of several platforms can be in one folder
    depends: tuple[str, ...]  #: conda's specs
    constrains: tuple[str, ...]

    @property
    def filename(self) -> str:
        """The file's name, in the folder of its platform."""
        return f"{self.name}-{self.version}-{self.build}.conda"


def packages(manifest: Manifest) -> tuple[tuple[Package, ...], tuple[str, ...]]:
    """The packages of a release, and the files of those of its bindings' wheels that none can be made of."""
    found, left_out = [], []
    for wheel in manifest.wheels:
        if wheel.distribution not in PACKAGES:
            continue
        pythons = sorted(map(CPython.of_tag, wheel.pythons))
        oldest = pythons[0]
        python = [f"python {oldest.marker}.*", f"python_abi {oldest.marker}.* *_{oldest.tag}"]
        if wheel.serves:
            versions = SpecifierSet(f">={oldest.marker},{wheel.requires_python}")
            python = [f"python {versions}", f"cpython >={oldest.marker}", "python-gil"]
        made = [
            Package(
                wheel=wheel,
                name=PACKAGES[wheel.distribution],
                version=manifest.version,
                subdir=subdir,
                build=f"{oldest.tag}{STABLE_ABI if wheel.serves else ''}_{subdir.replace('-', '_')}_0",
                # The requirements of all CPythons: a spec of conda's has no condition.
                depends=(*python, *dict.fromkeys(spec for each in pythons for spec in requires(wheel, each, tag))),
                constrains=excluded(wheel.distribution),
            )
            for tag in oldest_of_each(wheel.platforms)
            if (subdir := SUBDIRS.get(str(tag.platform)))
        ]
        found += made
        if not made:
            left_out.append(wheel.filename)
    return tuple(sorted(found, key=lambda package: (package.subdir, package.filename))), tuple(left_out)


def oldest_of_each(tags: Iterable[str]) -> list[PlatformTag]:
    """Of the tags for one platform, the one that admits the oldest machine."""
    by_platform = defaultdict(list)
    for tag in map(PlatformTag.parse, tags):
        by_platform[str(tag.platform)].append(tag)
    return [min(tags, key=lambda tag: tag.version or (0, 0)) for tags in by_platform.values()]


def requires(wheel: WheelEntry, python: CPython, tag: PlatformTag) -> tuple[str, ...]:
    """conda's specs of a wheel's requirements with a CPython on a platform, without the CPython."""
    requirements = map(Requirement, applicable(wheel.requires_dist, python, tag.platform))
    specs = [f"{_RENAMED.get(each.name, each.name)} {each.specifier}".strip() for each in requirements]
    if tag.glibc:
        specs.append(f"__glibc >={tag.glibc[0]}.{tag.glibc[1]},<{tag.glibc[0] + 1}.0a0")
    if tag.macos:
        specs.append(f"__osx >={tag.macos[0]}.{tag.macos[1]}")
    return tuple(specs)


def excluded(distribution: str) -> tuple[str, ...]:
    """conda's specs of the packages that can't be beside that of ``distribution``: all have the module ``mlir``."""
    return tuple(f"{other} <0a0" for other in sorted(set(PACKAGES.values()) - {PACKAGES[distribution]}))


def no_wheel(manifest: Manifest, distribution: str) -> UsageError:
    """The error of a release that has no wheel of ``distribution`` for conda."""
    return UsageError(
        "release-unsuitable",
        f"{manifest.tag} has no wheel of {distribution} for a platform of conda's",
        where=manifest.tag,
        why=f"its distributions: {', '.join(manifest.distributions) or 'none'}",
        remedy="choose another release; `conda recipe` also takes another --distribution",
    )
