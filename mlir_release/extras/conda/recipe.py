"""The recipe of a release: its wheels as conda packages, by rattler-build.

Nothing is compiled: a package has the files of the published wheel, which the recipe names by address and digest.
Source: rattler-build's documentation, "Recipe file reference" (schema version 1) and "Selectors".
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from mlir_release.extras.conda.package import (
    LICENSE,
    PACKAGES,
    SUBDIRS,
    excluded,
    no_wheel,
    oldest_of_each,
    requires,
)
from mlir_release.ground.errors import UsageError
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.storage.files import write_all
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy
from mlir_release.release.latest.latest import read_release

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.model.manifest import Manifest, WheelEntry

K = TypeVar("K")

#: By the name of the distribution, not of the file, which differs by variant.
_INSTALL = "${{ PYTHON }} -m pip install --no-deps --no-index --find-links ."


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One package: a wheel, for one CPython on one of conda's platforms."""

    subdir: str
    python: CPython
    wheel: WheelEntry
    requires: tuple[str, ...]  #: conda's specs of its requirements

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


@dataclass(frozen=True, kw_only=True)
class WrittenRecipe:
    """A recipe that was written."""

    tag: str
    package: str
    version: str
    folder: str
    variants: tuple[tuple[str, str, str], ...]  #: platform, CPython and wheel of each package
    left_out: tuple[str, ...]  #: wheels that the recipe can't offer

    def text(self) -> str:
        """For people."""
        what = f"{self.folder}/recipe.yaml makes {len(self.variants)} packages {self.package} {self.version}"
        return what + (f"; left out: {', '.join(self.left_out)}" if self.left_out else "")


def write_recipe(
    forge: Forge,
    tag: str,
    folder: Path,
    *,
    distribution: str = "mlir",
    signed_by: SignedBy = AS_DECLARED,
) -> WrittenRecipe:
    """Write ``recipe.yaml`` and ``variants.yaml`` for rattler-build into ``folder``.

    The same release gives the same bytes.

    :raises UsageError: ``release-not-published``, ``option-invalid``, ``release-unsuitable``
    :raises VerificationError: ``signature-invalid``, ``file-damaged``
    :raises MachineError: ``disk-full``
    """
    if distribution not in PACKAGES:
        raise UsageError(
            "option-invalid",
            f"there is no conda package of {distribution}",
            remedy=f"choose one of {', '.join(PACKAGES)}",
        )
    manifest = read_release(forge, tag, signed_by).manifest
    tag = manifest.tag
    made, left_out = variants(manifest, distribution)
    content = recipe(manifest, distribution, made, lambda name: forge.file_url(tag, name))
    documents = {"recipe.yaml": content, "variants.yaml": variant_configuration(made)}
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 1000}
    write_all(folder, {name: yaml.safe_dump(document, **options) for name, document in documents.items()})
    return WrittenRecipe(
        tag=tag,
        package=PACKAGES[distribution],
        version=manifest.version,
        folder=str(folder),
        variants=tuple((variant.subdir, variant.python.version, variant.wheel.filename) for variant in made),
        left_out=left_out,
    )


def recipe(manifest: Manifest, distribution: str, made: Sequence[Variant], url: Callable[[str], str]) -> dict[str, Any]:
    """The content of ``recipe.yaml``.

    :param made: :func:`variants` of the same
    :param url: address of a file of the release
    :raises UsageError: ``release-unsuitable`` if there is no variant
    """
    if not made:
        raise no_wheel(manifest, distribution)
    sources = [
        {"if": _any_of(variants), "then": {"url": url(wheel.filename), "sha256": wheel.sha256}}
        for wheel, variants in _grouped(made, lambda variant: variant.wheel)
    ]
    common = [spec for spec in made[0].requires if all(spec in variant.requires for variant in made)]
    required: list[Any] = ["python", *common]
    for rest, some in _grouped(made, lambda variant: tuple(spec for spec in variant.requires if spec not in common)):
        if rest:
            required.append({"if": _any_of(some), "then": list(rest)})
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
            "run": required,
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


def variant_configuration(made: Sequence[Variant]) -> dict[str, Any]:
    """The content of ``variants.yaml``: the CPythons to build for."""
    return {"python": [f"{python.marker}.*" for python in sorted({variant.python for variant in made})]}


def _grouped(made: Sequence[Variant], key: Callable[[Variant], K]) -> list[tuple[K, list[Variant]]]:
    groups: dict[K, list[Variant]] = defaultdict(list)
    for variant in made:
        groups[key(variant)].append(variant)
    return list(groups.items())


def _any_of(made: Sequence[Variant]) -> str:
    if len(made) == 1:
        return made[0].selector
    return " or ".join(f"({variant.selector})" for variant in made)
