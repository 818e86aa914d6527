"""Write the recipe of a published release, whose manifest is checked before it is believed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

from mlir_release.errors import UsageError
from mlir_release.extras.conda.recipe import PACKAGES, recipe, variant_configuration, variants
from mlir_release.host.files import write_all
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.host.yaml import pyyaml
from mlir_release.release.release_assets import need_published
from mlir_release.release.signed import AS_DECLARED, SignedBy, read_trusted

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.forge.base import Forge


@dataclass(frozen=True, kw_only=True)
class WrittenRecipe:
    """What was written."""

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

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return asdict(self)


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
    :raises MachineError: ``tool-missing``, ``disk-full``
    """
    if distribution not in PACKAGES:
        raise UsageError(
            "option-invalid",
            f"there is no conda package of {distribution}",
            remedy=f"choose one of {', '.join(PACKAGES)}",
        )
    yaml = pyyaml()
    release = need_published(forge, tag)
    with scratch_folder("conda") as scratch:
        manifest = read_trusted(forge, release, scratch, signed_by).manifest
    made, left_out = variants(manifest, distribution)
    content = recipe(manifest, distribution, made, lambda name: forge.file_url(tag, name))
    documents = {"recipe.yaml": content, "variants.yaml": variant_configuration(made)}
    dump = partial(yaml.safe_dump, sort_keys=False, allow_unicode=True, width=1000)
    write_all(folder, {name: dump(document) for name, document in documents.items()})
    return WrittenRecipe(
        tag=tag,
        package=PACKAGES[distribution],
        version=manifest.version,
        folder=str(folder),
        variants=tuple((variant.subdir, variant.python.version, variant.wheel.filename) for variant in made),
        left_out=left_out,
    )
