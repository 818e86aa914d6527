"""Which snapshot is the newest: whoever asks gets the same answer, in whatever order they were published."""

from __future__ import annotations

import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlir_release.ground.errors import UsageError
from mlir_release.release.latest.catalogue import compute
from mlir_release.release.latest.latest import concrete_tag
from mlir_release.release.model.release_index import parse_index
from mlir_release.release.model.yanks import Yank, format_yanks
from mlir_release.release.transaction.ledger import Ledger
from mlir_release.use.bisect.line import find_end
from mlir_release.use.find import Origin, find
from tests.paper_forge import START, PaperForge, make_index, make_manifest
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mlir_release.ground.llvm.upstream import Upstream
    from mlir_release.release.forge.base import Forge

TAGS = [f"snapshot-202611{day}.{number:02d}" for day in (19, 20) for number in (1, 2, 3)]
ONE = {"platforms": ("win_amd64",), "pythons": ("cp312",)}


def no_upstream() -> Upstream:
    raise AssertionError("nobody needs upstream to tell which release is the newest")


def answers(forge: PaperForge, site: Path, yanks: tuple[Yank, ...]) -> dict[str, str]:
    """Each consumer's answer; empty: there is no such snapshot."""
    asked = cast("Forge", forge)
    catalogue = compute(asked)
    shutil.rmtree(site, ignore_errors=True)
    make_index(forge, site)
    pinned = site / "snapshots" / "latest" / "requirements.txt"
    text = pinned.read_text() if pinned.is_file() else ""
    origin = Origin(catalogue, no_upstream)
    got = find(origin, "")

    def tag_of(ask: Callable[[], str]) -> str:
        try:
            return ask()
        except UsageError:
            return ""

    return {
        "install, verify, conda, downstream": tag_of(lambda: concrete_tag(asked, "latest")),
        "sweep, signature, doctor": Ledger(asked).newest_published(yanks),
        "catalogue": catalogue.index.channels.get("latest", ""),
        "find": got.answer.entry.tag if got.answer is not None and "llvm" not in got.answer.entry.tag else "",
        "bisect": tag_of(lambda: find_end(origin, "latest", "--bad", older=False).tag),
        "pages for programs": parse_index((site / "index.json").read_bytes()).channels.get("latest", ""),
        "pages for pip": next((tag for tag in TAGS if f"mlir-{make_manifest(tag).version}-" in text), ""),
    }


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    published=st.lists(st.sampled_from([*TAGS, "llvm-22.1.8.01"]), unique=True),
    yanked=st.sets(st.sampled_from(TAGS)),
    dates=st.permutations(range(len(TAGS) + 1)),
)
def test_all_agree_in_whatever_order_snapshots_are_published(
    tmp_path: Path, published: list[str], yanked: set[str], dates: list[int]
) -> None:
    """What is not published is a pending tag, with a draft."""
    yanks = tuple(Yank(tag=tag, reason="r") for tag in sorted(yanked))
    forge = PaperForge(yanks=format_yanks(yanks).encode())
    for tag in sorted(set(TAGS) - set(published)):
        forge.add(make_manifest(tag, **ONE), draft=True)  # type: ignore[arg-type]
    for position, tag in enumerate(published):
        day = START - timedelta(days=dates[position])  # of the LLVM commit, and of the build: they may go back, too
        revision = {"revision_date": day.isoformat().replace("+00:00", "Z"), "created": day}
        version = {"version": "22.1.8"} if tag.startswith("llvm") else {}
        forge.add(make_manifest(tag, **version, **revision, **ONE), when=START + timedelta(hours=position))  # type: ignore[arg-type]
    expected = max((tag for tag in published if tag in TAGS and tag not in yanked), default="")
    found = answers(forge, tmp_path / "site", yanks)
    assert found == dict.fromkeys(found, expected)


def test_without_a_snapshot_the_newest_numbered_release_is_found() -> None:
    forge = PaperForge()
    for version in ("22.1.8", "21.1.8"):  # the older one is built, and published, later
        forge.add(make_manifest(f"llvm-{version}.01", version=version, **ONE), when=START)  # type: ignore[arg-type]
    found = find(Origin(compute(cast("Forge", forge)), no_upstream), "")
    assert found.answer is not None
    assert found.answer.entry.tag == "llvm-22.1.8.01"
    refused(lambda: concrete_tag(cast("Forge", forge), "latest"), "release-not-published")
