"""What a wheel requires: upstream's own requirements, with the caps that ``targets.toml`` relaxes.

Upstream's ``mlir/python/requirements.txt`` caps versions at what its tests had installed at the time. No version below
such a cap may have a wheel for a newer CPython. A release keeps the caps unless ``[requires]`` of ``targets.toml``
replaces one, with a reason: what then resolves is what the wheel's tests run with.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from mlir_release.ground.documents.decode import MalformedError, alternatives, doc
from mlir_release.ground.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from mlir_release.ground.python.cpython import CPython
    from mlir_release.ground.python.platforms import Platform

#: What bounds versions from below, or leaves single ones out (PEP 440); every other operator caps.
_BELOW = frozenset({">=", ">", "!="})


class Override(Struct, frozen=True, kw_only=True):
    """A row of ``[requires]``: what replaces upstream's caps of one requirement."""

    name: str  #: canonical (PEP 503)
    specifier: str  #: PEP 440
    reason: str


class Relaxed(Struct, frozen=True, kw_only=True):
    """A requirement whose cap was replaced."""

    upstream: Annotated[str, doc("Upstream's requirement, `numpy<=2.1.2,>=2.1.0`")]
    requirement: Annotated[str, doc("What the wheels require instead, `numpy<3,>=2.1.0`")]
    reason: Annotated[str, doc("Why, as in targets.toml")]

    @property
    def name(self) -> str:
        """Of the distribution, canonical."""
        return required_names([self.requirement])[0]

    def admits(self, version: str) -> bool:
        """Whether the relaxed requirement is met by a version."""
        from packaging.requirements import Requirement

        return Requirement(self.requirement).specifier.contains(version, prereleases=True)


def wheel_requirements(upstream: Sequence[str], overrides: Sequence[Override] = ()) -> tuple[str, ...]:
    """``Requires-Dist``: upstream's requirements, with every cap that an override replaces; its lower bounds stay.

    :param upstream: lines of its requirements.txt
    :raises UsageError: ``config-invalid`` for an override of what upstream does not require
    """
    return tuple(ours for _, ours, _ in _apply(upstream, overrides))


def relaxed(upstream: Sequence[str], overrides: Sequence[Override]) -> tuple[Relaxed, ...]:
    """The requirements that an override changes. :raises UsageError: as :func:`wheel_requirements`"""
    return tuple(
        Relaxed(upstream=theirs, requirement=ours, reason=override.reason)
        for theirs, ours, override in _apply(upstream, overrides)
        if override is not None and ours != theirs
    )


def _apply(upstream: Sequence[str], overrides: Sequence[Override]) -> list[tuple[str, str, Override | None]]:
    """Each requirement of upstream's in canonical form, what it becomes, and the override that does it."""
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    by_name = {override.name: override for override in overrides}
    found = []
    for theirs in map(Requirement, upstream):
        override = by_name.get(canonical(theirs.name))
        ours = Requirement(str(theirs))
        if override is not None:
            kept = [str(bound) for bound in theirs.specifier if bound.operator in _BELOW]
            kept += [f">={bound.version}" for bound in theirs.specifier if bound.operator == "~="]
            ours.specifier = SpecifierSet(",".join([*kept, override.specifier]))
        found.append((str(theirs), str(ours), override))
    required = required_names(upstream)
    for name in by_name:
        if name not in required:
            raise UsageError(
                "config-invalid",
                f"targets.toml relaxes the requirement {name}, which this llvm-project revision does not have",
                where="[requires] in targets.toml",
                remedy=f"correct the name, or remove it; {alternatives(name, sorted(required))}",
            )
    return found


def canonical(name: str) -> str:
    """A distribution's name as it is compared (PEP 503): ``ml-dtypes``."""
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)


def required_names(requirements: Iterable[str]) -> tuple[str, ...]:
    """The canonical names of the distributions that are required, each once."""
    from packaging.requirements import Requirement

    return tuple(dict.fromkeys(canonical(Requirement(line).name) for line in requirements))


def of_names(requirements: Iterable[str], *names: str) -> list[str]:
    """Those of the requirements that are of the distributions with these canonical names."""
    from packaging.requirements import Requirement

    return [line for line in requirements if canonical(Requirement(line).name) in names]


def of_other_names(requirements: Iterable[str], names: Collection[str]) -> tuple[str, ...]:
    """Those of the requirements that are of other distributions than these canonical names."""
    from packaging.requirements import Requirement

    return tuple(line for line in requirements if canonical(Requirement(line).name) not in names)


@lru_cache(maxsize=1000)
def check_requirement(line: str) -> None:
    """Refuse a line that is not a requirement (PEP 508), or that can't be evaluated. :raises MalformedError:"""
    from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        marker = Requirement(line).marker
        if marker is not None:
            marker.evaluate({"extra": ""})
    except (InvalidRequirement, UndefinedComparison, UndefinedEnvironmentName, RecursionError) as error:
        raise MalformedError("requires_dist", f"has {line!r}: {error}") from None


@lru_cache(maxsize=1000)
def check_specifiers(text: str) -> None:
    """Refuse text that is not version specifiers (PEP 440). :raises MalformedError:"""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text)
    except InvalidSpecifier as error:
        raise MalformedError("requires_python", f"is {text!r}: {error}") from None


def applicable(requirements: Iterable[str], python: CPython, platform: Platform) -> tuple[str, ...]:
    """The requirements whose markers hold for a CPython on a platform, without the markers.

    pip evaluates markers for the interpreter that it runs with, whatever ``--python-version`` says.
    """
    from packaging.requirements import Requirement

    environment = marker_environment(python, platform)
    found = []
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            requirement.marker = None
            found.append(str(requirement))
    return tuple(found)


def marker_environment(python: CPython, platform: Platform) -> dict[str, str]:
    """The environment markers (PEP 508) of a CPython on a platform; what can't be known of it is empty."""
    sys_platform, machine = platform.markers or ("", "")
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{python.marker}.0",
        "os_name": "nt" if platform.os == "windows" else "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": platform.system.host,
        "platform_version": "",
        "python_full_version": f"{python.marker}.0",
        "python_version": python.marker,
        "sys_platform": sys_platform,
        "extra": "",
    }
