"""Which conda packages are made of a release's wheels, and what they need. Pure.

A package is for all that its wheel is for: one CPython, or those of the stable ABI. Its files lie where pip would put
them, below ``site-packages``, and the client moves that folder to where the environment's Python has its own (the
layout ``noarch: python``, in the folder of a platform). So nothing of it depends on the machine that makes it.
Sources: CEP 20 (that layout, the stable ABI), CEP 26 (names), conda-forge's ``python_abi`` and ``python-gil``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from mlir_release.extras.conda.recipe import PACKAGES, SUBDIRS, excluded, oldest_of_each, requires
from mlir_release.model.cpython import STABLE_ABI, CPython

if TYPE_CHECKING:
    from mlir_release.model.manifest import Manifest, WheelEntry


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
        if wheel.distribution in PACKAGES:
            made = _packages_of(wheel, manifest.version)
            found += made
            if not made:
                left_out.append(wheel.filename)
    return tuple(sorted(found, key=lambda package: (package.subdir, package.filename))), tuple(left_out)


def _packages_of(wheel: WheelEntry, version: str) -> list[Package]:
    pythons = sorted(map(CPython.of_tag, wheel.pythons))
    oldest = pythons[0]
    python = [f"python {oldest.marker}.*", f"python_abi {oldest.marker}.* *_{oldest.tag}"]
    if wheel.serves:
        versions = SpecifierSet(f">={oldest.marker},{wheel.requires_python}")
        python = [f"python {versions}", f"cpython >={oldest.marker}", "python-gil"]
    return [
        Package(
            wheel=wheel,
            name=PACKAGES[wheel.distribution],
            version=version,
            subdir=subdir,
            build=f"{oldest.tag}{STABLE_ABI if wheel.serves else ''}_{subdir.replace('-', '_')}_0",
            # What any of the CPythons needs: a spec of conda's has no condition.
            depends=(*python, *dict.fromkeys(spec for each in pythons for spec in requires(wheel, each, tag))),
            constrains=excluded(wheel.distribution),
        )
        for tag in oldest_of_each(wheel.platforms)
        if (subdir := SUBDIRS.get(str(tag.platform)))
    ]
