"""Which snapshot ``latest-good`` names, and why no newer one."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mlir_release.release.latest.channels import GoodChoice, choose_good
from mlir_release.release.model.manifest import LeftOut, Waiver
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_index import CanaryResult, Quality, ReleaseQuality, Revert
from mlir_release.release.model.yanks import Yank
from tests.paper_forge import START, many
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from mlir_release.release.model.manifest import Manifest

MATRIX = Matrix.parse(make_targets(make_row()))
CANARIES = """
[[canary]]
name = "one"
repository = "https://example.org/one"
ref = "main"
python = "cp312"
commands = ["pytest"]

[[canary]]
name = "two"
repository = "https://example.org/two"
ref = "main"
python = "cp312"
commands = ["pytest"]
required = false
"""
WITH_CANARIES = Matrix.parse(make_targets(make_row()) + CANARIES)

#: Four snapshots, newest first; all of them are old enough two days later.
SNAPSHOTS = many(4, platforms=("manylinux_2_28_x86_64",), pythons=("cp312",))[::-1]
TAGS = [manifest.tag for manifest in SNAPSHOTS]
REVERT = Revert(commit="a" * 40, subject="[mlir] Break it", by="b" * 40, date="2026-11-21T00:00:00Z")


def choose(snapshots: list[Manifest] = SNAPSHOTS, **changes: Any) -> GoodChoice:
    values: dict[str, Any] = {
        "matrix": MATRIX,
        "quality": Quality(repository="local"),
        "yanks": (),
        "probes": dict.fromkeys(TAGS, True),
        "now": START + timedelta(days=2),
    }
    found = {manifest.tag: manifest for manifest in snapshots}
    return choose_good(found, found.get, **(values | changes))


def quality(**releases: Any) -> Quality:
    return Quality(repository="local", releases={TAGS[int(name[1:])]: known for name, known in releases.items()})


def ran(**statuses: str) -> ReleaseQuality:
    return ReleaseQuality(canaries=tuple(CanaryResult(name=n, status=s) for n, s in statuses.items()))  # type: ignore[arg-type]


def test_the_newest_of_which_nothing_is_known_to_be_wrong() -> None:
    assert choose() == GoodChoice(tag=TAGS[0])
    assert choose([]) == GoodChoice(tag="")


def test_a_snapshot_becomes_good_only_after_a_day() -> None:
    now = START + timedelta(hours=12 + 11)  # the newest is 11 hours old, the next one 23, then 35
    assert choose(now=now) == GoodChoice(
        tag=TAGS[2], why_not={TAGS[0]: "it is 11 h old, of 24 h", TAGS[1]: "it is 23 h old, of 24 h"}
    )
    assert choose(now=SNAPSHOTS[0].created + timedelta(hours=24)).tag == TAGS[0]


def test_a_tag_of_the_future_is_not_good() -> None:
    assert choose(SNAPSHOTS[:1], now=START - timedelta(days=1)).why_not == {TAGS[0]: "it is 0 min old, of 24 h"}


def test_what_is_yanked_waived_left_out_reverted_or_failed_its_check_is_not_good() -> None:
    name = MATRIX.wheels[0].name
    waived = replace(SNAPSHOTS[1], waivers=(Waiver(target=name, reason="r"),))
    left_out = replace(SNAPSHOTS[2], left_out=(LeftOut(target=name, reason="r"),))
    found = choose(
        [SNAPSHOTS[0], waived, left_out, SNAPSHOTS[3]],
        yanks=(Yank(tag=TAGS[0], reason="miscompiles"),),
        quality=quality(s3=ReleaseQuality(reverted=(REVERT,))),
        probes={TAGS[3]: False},
    )
    assert found.tag == ""
    assert found.why_not == {
        TAGS[0]: "it is yanked: miscompiles",
        TAGS[1]: f"{name} was waived",
        TAGS[2]: f"{name} was left out",
        TAGS[3]: "upstream has reverted aaaaaaaaaaaa ([mlir] Break it) by bbbbbbbbbbbb; "
        "the check in clean environments failed",
    }
    assert "no snapshot is latest-good yet" in found.text()


def test_an_experimental_target_and_a_revert_elsewhere_do_not_matter() -> None:
    left_out = replace(SNAPSHOTS[0], left_out=(LeftOut(target="mlir-windows-x64-cp312", reason="r"),))
    elsewhere = quality(s0=ReleaseQuality(reverted=(replace(REVERT, affects=False),)))
    assert choose([left_out, *SNAPSHOTS[1:]], quality=elsewhere).tag == TAGS[0]


def test_required_canaries_must_have_passed() -> None:
    known = quality(s0=ran(one="failed", two="passed"), s1=ran(one="broken"), s3=ran(one="passed", two="failed"))
    found = choose(matrix=WITH_CANARIES, quality=known)
    assert found == GoodChoice(
        tag=TAGS[3],
        why_not={
            TAGS[0]: "the canary one failed",
            TAGS[1]: "the canary one could not be tried",
            TAGS[2]: "the canary one has not run",
        },
    )


def test_a_canary_for_another_llvm_is_not_waited_for() -> None:
    """Its failure would tell of its own ``ref``, not of the release."""
    row = 'name = "one"\nllvm = ["22", "24"]'
    matrix = Matrix.parse(make_targets(make_row()) + CANARIES.replace('name = "one"', row))
    known = quality(s0=ran(one="broken"), s1=ran(one="passed"))
    for version, expected in (("23.1.0", TAGS[0]), ("24.0.0git", TAGS[1]), ("22.1.8", TAGS[1]), ("2.0.0", TAGS[0])):
        snapshots = [replace(each, llvm_version=version) for each in SNAPSHOTS]
        assert choose(snapshots, matrix=matrix, quality=known).tag == expected, version


def test_the_channel_does_not_go_back_when_a_canary_fails_later() -> None:
    known = quality(s0=ran(one="failed"), s1=ran(one="failed"), s2=ran(one="passed"))
    assert choose(matrix=WITH_CANARIES, quality=known, before=TAGS[1]).tag == TAGS[1]
    assert choose(matrix=WITH_CANARIES, quality=known).tag == TAGS[2]


def test_it_goes_back_if_the_snapshot_was_yanked_or_reverted() -> None:
    yanked = choose(yanks=tuple(Yank(tag=tag, reason="r") for tag in TAGS[:2]), before=TAGS[1])
    reverted = choose(
        quality=quality(s0=ReleaseQuality(reverted=(REVERT,)), s1=ReleaseQuality(reverted=(REVERT,))), before=TAGS[1]
    )
    assert yanked.tag == reverted.tag == TAGS[2]


def test_manifests_are_read_only_of_snapshots_against_which_nothing_else_speaks() -> None:
    found = {manifest.tag: manifest for manifest in SNAPSHOTS}
    read: list[str] = []

    def manifest_of(tag: str) -> Manifest | None:
        read.append(tag)
        return found[tag] if tag != TAGS[2] else None

    green = ran(one="passed")
    values: dict[str, Any] = {"yanks": (), "probes": {TAGS[1]: False}, "now": START + timedelta(days=2)}
    known = quality(_1=green, _2=green, _3=green)
    choice = choose_good(TAGS, manifest_of, matrix=WITH_CANARIES, quality=known, **values)
    assert (choice.tag, read) == (TAGS[3], TAGS[2:])
    assert list(choice.why_not.values()) == [
        "the canary one has not run",
        "the check in clean environments failed",
        "its manifest can't be believed",
    ]


def test_a_check_that_nothing_has_recorded_does_not_count_and_that_is_said() -> None:
    found = choose(probes={})
    assert found.tag == TAGS[0]
    assert f"nothing is recorded about {TAGS[0]}" in found.text()
