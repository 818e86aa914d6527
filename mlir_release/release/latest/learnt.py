"""Learnt of snapshots after their publication: upstream's reverts, the canaries' results, and ``latest-good``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from mlir_release.ground.console import console
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.release.forge.base import public_name
from mlir_release.release.forge.files import matrix_if_there, matrix_of_branch
from mlir_release.release.judging.signed import is_required, repository_of
from mlir_release.release.latest.canary_records import read_records
from mlir_release.release.latest.catalogue import Catalogue, need_signed, parsed
from mlir_release.release.latest.channels import find_good, known_here
from mlir_release.release.latest.latest import read_head
from mlir_release.release.latest.reverts import built_from, find_reverts, watched
from mlir_release.release.model.release_index import QUALITY_NAME, Quality, ReleaseQuality, parse_quality
from mlir_release.release.model.release_settings import LATEST_BRANCH
from mlir_release.release.model.release_tags import LATEST_GOOD
from mlir_release.release.provenance.pointer import claimed_repository, pointer_policy, verify_pointer
from mlir_release.release.provenance.trust import load_trust

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.judging.signed import SignedBy
    from mlir_release.release.latest.reverts import RevertWatch
    from mlir_release.release.model.release_index import CanaryResult, ReleaseIndex


def learnt_of(stored: Catalogue) -> tuple[Quality, str]:
    """What is known of snapshots since they were published, and the tag of ``latest-good``; empty: no snapshot is."""
    return stored.quality, stored.index.channels.get(LATEST_GOOD, "")


def learnt_here(forge: Forge, signed_by: SignedBy) -> tuple[Quality, str]:
    """The same, of a folder where nothing is signed: what it shows. Nothing is learnt where releases must be signed.

    On GitHub it would cost a request for each snapshot; ``release latest`` shows it there.
    """
    matrix = None if forge.services.url else matrix_if_there(forge, signed_by.branch)
    if matrix is None or is_required(forge, matrix.release.provenance):
        return Quality(repository=public_name(forge)), ""
    head, quality = forge.head(LATEST_BRANCH), known_here(forge, matrix)
    if head is not None and (content := forge.read(QUALITY_NAME, commit=head)) is not None:
        stored = parsed(
            parse_quality, content, QUALITY_NAME, where=f"the branch {LATEST_BRANCH} of {forge.description}"
        )
        quality = structs.replace(quality, releases={**stored.releases, **quality.releases})
    return quality, find_good(forge, quality, branch=signed_by.branch, signed_by=signed_by).tag


def read_learnt(forge: Forge, signed_by: SignedBy) -> tuple[Quality, str]:
    """The same, of a place where something may be signed. Its index is not read: three requests on GitHub.

    :raises VerificationError: ``signature-invalid``, ``tampered``, ``file-damaged``
    """
    (commit, bundle), where = read_head(forge), f"the branch {LATEST_BRANCH} of {forge.description}"
    if bundle is None:
        return learnt_here(forge, signed_by)
    repository = signed_by.repository or repository_of(forge, claimed_repository(bundle))
    policy = pointer_policy(repository, signed_by.branch)
    pointer = verify_pointer(bundle, policy, signed_by.trust or load_trust())
    quality = Quality(repository=repository)
    if pointer.quality:
        content = need_signed(forge.read(QUALITY_NAME, commit=commit), pointer.quality, QUALITY_NAME, where=where)
        quality = parsed(parse_quality, content, QUALITY_NAME, where=where)
    return quality, pointer.channels.get(LATEST_GOOD, "")


def learn_quality(forge: Forge, index: ReleaseIndex, before: Catalogue | None, *, branch: str) -> Quality:
    """What is known now of the snapshots of the newest months: upstream's reverts, and the canaries' results.

    :param index: the next one
    :param before: the stored and signed index, whose answers stand where upstream can't be reached; None: none is
    """
    matrix = matrix_of_branch(forge, branch)
    old = before.quality if before is not None else Quality(repository=index.repository)

    # The months of the head alone: older ones would cost requests, and hardly anyone chooses their snapshots.
    newest = Catalogue(structs.replace(index, months=()), old, lambda _: None, forge.description)
    rows = watched(newest, matrix.release.linked_days)
    with console.step(f"look for reverts of what {len(rows)} snapshots have"):
        watch = find_reverts(Upstream.of(matrix.release), rows, paths=built_from(newest), known=old)
    canaries = read_records(forge).known({row.tag for row in rows}, matrix.canaries)
    return make_quality(old, watch, canaries)


def make_quality(before: Quality, watch: RevertWatch, canaries: Mapping[str, tuple[CanaryResult, ...]]) -> Quality:
    """What was learnt of snapshots since they were published; of others nothing is kept."""
    learnt = {
        tag: ReleaseQuality(reverted=watch.by_tag.get(tag, ()), canaries=canaries.get(tag, ()))
        for tag in sorted({*watch.by_tag, *canaries})
    }
    return structs.replace(
        before,
        upstream_head=watch.upstream_head,
        releases={tag: each for tag, each in learnt.items() if each.reverted or each.canaries},
    )
