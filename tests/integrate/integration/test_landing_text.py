"""The text of the pull request and of the squashed commit: culprits, what fixed them, and the title."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.integrate.deliver import branch
from mlir_release.integrate.deliver.branch import sync
from mlir_release.integrate.deliver.deliver import pull_request_text
from mlir_release.integrate.deliver.land import land
from mlir_release.integrate.project import Integration
from mlir_release.integrate.state import T_CULPRITS
from mlir_release.integrate.status import collect_stats
from mlir_release.integrate.upstream import UpstreamRepository
from tests.integrate.integration import miniature

if TYPE_CHECKING:
    from mlir_release.integrate.walk.walk import Walk
    from tests.integrate.integration.miniature import World


def with_two_breaks(world: World) -> Walk:
    """Over two culprits without tests, each fixed; the second by a carried revert. Main is merged between."""
    walk = world.begin(publish=True)
    to_a_break(walk, world.commits["rename scale"])
    world.fix("rename scale")
    world.git("commit", "-q", "--allow-empty", "-m", "Tidy <b>up</b> after #7 by @team")
    other = world.git("commit-tree", "-m", "x", "-p", "main", "main^{tree}")
    world.git("push", "-q", "origin", f"{other}:refs/heads/main")
    sync(walk)
    walk.next()
    to_a_break(walk, world.commits["healing"])
    branch.carry(walk, world.commits["healing"], revert=True, why="it is wrong", link="", drop_when="")
    return walk


def to_a_break(walk: Walk, culprit: str) -> None:
    seen = walk.observer.look(until=culprit)
    if len(seen.ahead) > 1:
        walk.next(to=seen.ahead[-2].sha)
        seen = walk.observer.look(until=culprit)
    walk.advance(seen, seen.ahead[0], walk.observer.stack_at(seen, culprit), "bad", {})


def section(body: str, title: str) -> list[str]:
    return body.partition(f"### {title}\n\n")[2].partition("\n\n")[0].splitlines()


@pytest.mark.parametrize(
    "upstream", ["", "https://github.com/llvm/llvm-project.git", "git@github.com:llvm/llvm-project"]
)
def test_culprits_are_told_with_their_subjects_and_what_fixed_them(plain: World, upstream: str) -> None:
    walk = with_two_breaks(plain)
    project = walk.project
    if upstream:
        there = structs.replace(project.upstream.config, url=upstream)
        config = structs.replace(project.config, upstream=(there,))
        project = Integration(config, project.outer, UpstreamRepository(project.upstream.directory, there))
    title, body = pull_request_text(project, walk.branch)
    at = "llvm/llvm-project@" if upstream else ""
    first, second = plain.commits["rename scale"], plain.commits["healing"]
    assert section(body, "Upstream commits that broke this project") == [
        f'- {at}{first} \\[mlir] Rename scale — fixed by "Follow upstream: rename scale", '
        '"Tidy &lt;b>up&lt;/b> after #\u200b7 by @\u200bteam"'.replace("\\[", "["),
        f'- {at}{second} [mlir] Tune add — fixed by "Carry \'Revert "[mlir] Tune add"\'"',
    ]
    changes = section(body, "Changes to this repository")
    assert [line[2:17] for line in changes] == ["Follow upstream", "Tidy &lt;b>up&l"]  # the squash removes their ids
    begun = project.started_from(walk.branch)
    assert f"from {at}{begun} to {at}{second}" in body
    compared = f"affecting commits. https://github.com/llvm/llvm-project/compare/{begun}...{second}\n"
    assert (compared in body) == bool(upstream)
    assert title == f"Integrate LLVM at {second[:12]}"


def test_a_squashed_commit_names_its_culprits_for_the_statistics(plain: World) -> None:
    walk = with_two_breaks(plain)
    before = collect_stats(plain.open())
    land(walk, squash=True, pulls=None)
    culprits = [plain.commits["rename scale"], plain.commits["healing"]]
    trailers = parse_trailers(plain.git("log", "-1", "--format=%B"))
    assert trailers[T_CULPRITS].split() == culprits
    after = collect_stats(plain.open())
    assert (list(after.culprits), after.folders, after.months) == (culprits, before.folders, before.months)


def test_what_an_earlier_landing_told_is_told_again(plain: World) -> None:
    walk = with_two_breaks(plain)
    land(walk, squash=True, pulls=None)
    _, told = pull_request_text(walk.project, walk.branch)
    plain.git("commit", "-q", "--allow-empty", "-m", "Address a comment")
    land(walk, squash=True, pulls=None)
    _, body = pull_request_text(walk.project, walk.branch)
    for title in ("Upstream commits that broke this project", "Changes to this repository"):
        assert set(section(body, title)) >= set(section(told, title)) != set()
    assert section(body, "Changes to this repository")[-1].endswith("Address a comment")
    trailers = parse_trailers(plain.git("log", "-1", "--format=%B"))
    assert len(trailers[T_CULPRITS].split()) == 2
    assert "2 breaks" in body


def test_the_title_follows_the_template(pinned: World) -> None:
    pinned.reconfigure(
        "[upstream.export]",
        '[land]\ntitle = "Bump {name} {from}→{short} ({count} commits) [{commit}]"\n[upstream.export]',
    )
    walk = pinned.begin()
    begun = walk.observer.look().base
    walk.next()
    base = pinned.affecting[0]
    title = f"Bump LLVM {begun[:12]}→{base[:12]} (1 commits) [{base}]"
    assert pull_request_text(walk.project, walk.branch)[0] == title
    land(walk, squash=True, pulls=None)
    assert miniature.git(pinned.root / "origin.git", "log", "-1", "--format=%s", walk.branch) == title
