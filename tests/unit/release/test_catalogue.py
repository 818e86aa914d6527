"""All releases of a forge, as programs choose among them."""

from __future__ import annotations

from datetime import timedelta

from mlir_release.release.catalogue import read_index
from tests.paper_forge import START, PaperForge, make_manifest


def test_a_forge_without_an_index_has_one_computed_from_its_manifests() -> None:
    forge = PaperForge()
    for number in range(1, 4):
        forge.add(make_manifest(f"snapshot-20261120.{number:02d}", created=START + timedelta(hours=number)))
    forge.set_yanks(b'[[yank]]\ntag = "snapshot-20261120.02"\nreason = "broken"\n')
    catalogue = read_index(forge)
    assert [each.tag for each in catalogue.of_kind("snapshot")] == [f"snapshot-20261120.{n:02d}" for n in (1, 2, 3)]
    second = catalogue.find("snapshot-20261120.02")
    assert second is not None
    assert second.yanked == "broken"
    assert {wheel.distribution for wheel in second.wheels} == {"mlir"}
    assert catalogue.find("snapshot-20261120.04") is None
