"""What a release's wheels depend on, as it was resolved when the release was published: versions, files and digests."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

from msgspec import Struct
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from mlir_release.builder.model.names import named
from mlir_release.ground.documents.decode import Count, Line, MalformedError, ProjectName, Sha256, doc, text
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.python.requirements import check_requirement

if TYPE_CHECKING:
    from mlir_release.ground.python.cpython import CPython

#: Where a wheel can be downloaded. Nothing in it needs quoting, in TOML, HTML or on a command line.
WheelUrl = Annotated[
    str, text(r"(?:https?|file)://[A-Za-z0-9:/_.~%+!@=,-]{1,1800}\.whl", "the address of a wheel, https://…/….whl")
]


class LockedWheel(Struct, frozen=True, kw_only=True):
    """A file of a package index, which its digest identifies."""

    url: WheelUrl
    sha256: Sha256
    size: Annotated[Count, doc("Bytes; 0: the index does not say")] = 0

    @property
    def filename(self) -> str:
        """``numpy-2.4.6-cp311-cp311-win_amd64.whl``."""
        return unquote(self.url.rpartition("/")[2])


class LockedPackage(Struct, frozen=True, kw_only=True):
    """One version of a distribution, with its wheels for the CPythons and platforms of the release."""

    name: ProjectName
    version: Line
    marker: Annotated[Line, doc("PEP 508, of the machines that take this version; empty: all")] = ""
    wheels: tuple[LockedWheel, ...] = ()

    def __post_init__(self) -> None:
        check_requirement(f"{self.name} ; {self.marker}" if self.marker else self.name)
        for wheel in self.wheels:
            if named(wheel.filename) != (canonicalize_name(self.name), Version(self.version)):
                problem = f"name the file {wheel.filename}, which is not one of {self.name} {self.version}"
                raise MalformedError("dependencies", problem)


class Dependencies(Struct, frozen=True, kw_only=True):
    """What some requirements led to. Distributions with the same requirements share it."""

    requires: Annotated[tuple[Line, ...], doc("The requirements of the wheels, PEP 508, sorted")]
    packages: tuple[LockedPackage, ...]

    def sorted(self) -> Dependencies:
        """The same with its rows in their one order."""
        return Dependencies(
            requires=tuple(sorted(self.requires)),
            packages=tuple(sorted(self.packages, key=lambda package: (package.name, Version(package.version)))),
        )


def fits(filename: str, python: CPython, platform: PlatformTag) -> bool:
    """Whether a dependency's wheel is for a CPython on a platform of the release's, on some version of that system.

    :param platform: a tag of one of the release's own wheels
    """
    tags = parse_wheel_filename(filename)[3]
    return any((tag.interpreter, tag.abi) in _abis(python) and _runs_on(tag.platform, platform) for tag in tags)


@lru_cache(maxsize=100)
def _abis(python: CPython) -> frozenset[tuple[str, str]]:
    """The interpreter and ABI tags of the wheels that its pip takes."""
    own = cpython_tags(python.release, [python.tag], ["any"])
    return frozenset(
        (tag.interpreter, tag.abi) for tag in (*own, *compatible_tags(python.release, python.tag, ["any"]))
    )


def _runs_on(tag: str, platform: PlatformTag) -> bool:
    parsed = PlatformTag.parse(tag)
    both = parsed.family == platform.family == "macosx" and parsed.arch == "universal2"
    return tag == "any" or both or parsed.platform == platform.platform
