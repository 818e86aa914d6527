"""The recipe of a release: its wheels as conda packages, by rattler-build.

Nothing is compiled: a package has the files of the published wheel, which the recipe names by address and digest.
Sources: rattler-build's documentation, "Recipe file reference" (schema version 1) and "Selectors"; conda's virtual
packages (``__glibc``, ``__osx``).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from packaging.requirements import Requirement

from mlir_release.errors import UsageError
from mlir_release.model.cpython import CPython
from mlir_release.model.platforms import PlatformTag
from mlir_release.model.requirements import applicable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mlir_release.model.manifest import Manifest, WheelEntry

K = TypeVar("K")

#: Our distributions -> their packages. conda-forge calls what imports as ``mlir`` so; ``mlir`` is LLVM's library there.
PACKAGES = {
    "mlir": "mlir-python-bindings",
    "mlir-core": "mlir-python-bindings-core",
    "mlir-full": "mlir-python-bindings-full",
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

#: By the name of the distribution, not of the file, which differs by variant.
_INSTALL = "${{ PYTHON }} -m pip install --no-deps --no-index --find-links ."


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One package: a wheel, for one CPython on one of conda's platforms."""

    subdir: str
    python: CPython
    wheel: WheelEntry
    requires: tuple[str, ...]  #: conda's specs of what it needs to run

    @property
    def selector(self) -> str:
        """The condition that holds for this variant only."""
        return f'target_platform == "{self.subdir}" and match(python, "{self.python.marker}.*")'


def variants(manifest: Manifest, distribution: str) -> tuple[tuple[Variant, ...], tuple[str, ...]]:
    """The packages of a release, and the files of those wheels that no recipe can offer.

    Free-threaded CPythons are left out: selectors can't tell them from others of the same version.
    """
    found, left_out = [], []
    for wheel in manifest.wheels:
        if wheel.distribution != distribution:
            continue
        made = [
            Variant(subdir=subdir, python=python, wheel=wheel, requires=requires(wheel, python, tag))
            for tag in oldest_of_each(wheel.platforms)
            if (subdir := SUBDIRS.get(str(tag.platform)))
            for python in map(CPython.of_tag, wheel.pythons)
            if not python.free_threaded
        ]
        found += made
        if not made:
            left_out.append(wheel.filename)
    return tuple(sorted(found, key=lambda made: (made.subdir, made.python))), tuple(left_out)


def oldest_of_each(tags: Iterable[str]) -> list[PlatformTag]:
    """Of the tags for one platform, the one that admits the oldest machine."""
    by_platform = defaultdict(list)
    for tag in map(PlatformTag.parse, tags):
        by_platform[str(tag.platform)].append(tag)
    return [min(tags, key=lambda tag: tag.version or (0, 0)) for tags in by_platform.values()]


def requires(wheel: WheelEntry, python: CPython, tag: PlatformTag) -> tuple[str, ...]:
    """conda's specs of what a wheel needs with a CPython on a platform, the CPython aside."""
    requirements = map(Requirement, applicable(wheel.requires_dist, python, tag.platform))
    specs = [f"{_RENAMED.get(each.name, each.name)} {each.specifier}".strip() for each in requirements]
    if tag.glibc:
        specs.append(f"__glibc >={tag.glibc[0]}.{tag.glibc[1]},<{tag.glibc[0] + 1}.0a0")
    if tag.macos:
        specs.append(f"__osx >={tag.macos[0]}.{tag.macos[1]}")
    return tuple(specs)


def recipe(manifest: Manifest, distribution: str, made: Sequence[Variant], url: Callable[[str], str]) -> dict[str, Any]:
    """The content of ``recipe.yaml``.

    :param made: :func:`variants` of the same
    :param url: address of a file of the release
    :raises UsageError: ``release-unsuitable`` if there is no variant
    """
    if not made:
        raise no_wheel(manifest, distribution)
    sources = [
        _conditional(_any_of(variants), {"url": url(wheel.filename), "sha256": wheel.sha256})
        for wheel, variants in _grouped(made, lambda variant: variant.wheel)
    ]
    return {
        "schema_version": 1,
        "context": {"version": manifest.version},
        "package": {"name": PACKAGES[distribution], "version": "${{ version }}"},
        "source": sources,
        "build": {
            "number": 0,
            "skip": [f"not ({_any_of(made)})"],
            "script": [f"{_INSTALL} {distribution}==${{{{ version }}}}"],
            "dynamic_linking": {"binary_relocation": False},  # its run paths are relative already
        },
        "requirements": {
            "host": ["python", "pip"],
            "run": ["python", *_run_requirements(made)],
            "run_constraints": list(excluded(distribution)),
        },
        "tests": [
            {"python": {"imports": ["mlir.ir", "mlir.passmanager", "mlir.dialects.arith"], "pip_check": False}},
        ],
        "about": {
            "homepage": "https://mlir.llvm.org/",
            **({"repository": manifest.upstream} if "://" in manifest.upstream else {}),
            "license": LICENSE,
            "summary": f"Python bindings of MLIR {manifest.llvm_version}".strip(),
        },
        "extra": {"mlir-release": {"tag": manifest.tag, "revision": manifest.revision, "commit": manifest.commit}},
    }  # fmt: skip


def excluded(distribution: str) -> tuple[str, ...]:
    """conda's specs of the packages that can't be beside that of ``distribution``: all have the module ``mlir``."""
    return tuple(f"{other} <0a0" for other in sorted(set(PACKAGES.values()) - {PACKAGES[distribution]}))


def no_wheel(manifest: Manifest, distribution: str) -> UsageError:
    """The error where a release has nothing for conda. ``distribution``: what was asked for"""
    return UsageError(
        "release-unsuitable",
        f"{manifest.tag} has no wheel of {distribution} for a platform of conda's",
        where=manifest.tag,
        why=f"its distributions: {', '.join(manifest.distributions) or 'none'}",
        remedy="choose another release; `conda recipe` also takes another --distribution",
    )


def variant_configuration(made: Sequence[Variant]) -> dict[str, Any]:
    """The content of ``variants.yaml``: the CPythons to build for."""
    return {"python": [f"{python.marker}.*" for python in sorted({variant.python for variant in made})]}


def _run_requirements(made: Sequence[Variant]) -> list[Any]:
    """What all variants need, then what only some do."""
    common = [spec for spec in made[0].requires if all(spec in variant.requires for variant in made)]
    rows: list[Any] = list(common)
    for rest, variants in _grouped(
        made, lambda variant: tuple(spec for spec in variant.requires if spec not in common)
    ):
        if rest:
            rows.append(_conditional(_any_of(variants), list(rest)))
    return rows


def _grouped(made: Sequence[Variant], key: Callable[[Variant], K]) -> list[tuple[K, list[Variant]]]:
    groups: dict[K, list[Variant]] = defaultdict(list)
    for variant in made:
        groups[key(variant)].append(variant)
    return list(groups.items())


def _any_of(made: Sequence[Variant]) -> str:
    if len(made) == 1:
        return made[0].selector
    return " or ".join(f"({variant.selector})" for variant in made)


def _conditional(condition: str, then: object) -> Mapping[str, object]:
    return {"if": condition, "then": then}
