"""A walk that an older version began goes on: what that left in git is read, and counts.

``begun_walk/`` has its refs as ``git fast-export`` wrote them: the integrate branch with the verdicts, and the export
branch. The walk was killed in its sixth smoke test. The ids below are those of the commits that the older version made
when it went on; but for the landed one, whose text tells more of culprits and fixes now.
"""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.integrate import strategy as st
from mlir_release.integrate.land import land
from mlir_release.integrate.walk import Walk
from tests.integration.integrate import miniature
from tests.integration.integrate.killing import BRANCH

if TYPE_CHECKING:
    from tests.integration.integrate.miniature import World

BEGUN = Path(__file__).parent / "begun_walk"

STOPPED = "af86faa2d3abec36e468af21d94aa343511dc73c"
AT_HEAD = "3ce584ee7f2e91b75dd52bc6eb60ffbbc346cd8c"
LANDED = "9a631a9ca98264189c67b77a6a5ae2ea586f1daf"


@pytest.fixture
def begun(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> World:
    # A verdict counts where it was found: on such a machine.
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    world: World = make_world("submodule", patched=True)
    fork = world.root / "fork.git"
    miniature.git(fork, "fetch", "-q", f"{miniature.URL}upstream.git", "main")
    for name, repository in {"fork": fork, "downstream": world.checkout}.items():
        with (BEGUN / f"{name}.stream").open("rb") as stream:
            subprocess.run(["git", "-C", str(repository), "fast-import", "--quiet"], stdin=stream, check=True)
    world.git("push", "-q", "origin", BRANCH, f"refs/mlir-release/probes/{BRANCH}")
    world.git("switch", "-q", BRANCH)
    world.open().follow()
    return world


def test_it_goes_on_and_lands(begun: World) -> None:
    until = begun.commits["needed"]
    end = Walk(begun.open(), publish=True).run(st.Adaptive(), until=until)
    assert (end.outcome, end.bad, end.smoke_tests) == ("culprit", begun.commits["rename field"], 5)
    assert begun.git("rev-parse", BRANCH) == STOPPED
    Walk(begun.open(), publish=True).next(to=end.bad)
    begun.fix("rename field")
    end = Walk(begun.open(), publish=True).run(st.Adaptive(), until=until)
    assert (end.outcome, end.smoke_tests) == ("head", 1)
    assert begun.git("rev-parse", BRANCH) == AT_HEAD
    assert land(Walk(begun.open()), squash=True, pulls=None) == LANDED


def test_what_it_recorded_is_not_tested_again(begun: World) -> None:
    walk = Walk(begun.open())
    records = walk.store.load().values()
    assert sorted(str(record.verdict) for record in records) == ["bad", "good", "good", "untestable"]
    bad = next(record for record in records if record.verdict is st.Verdict.BAD)
    assert [(found.kind, found.text) for found in bad.findings][1] == ("linker", "undefined reference to `scale'")
    seen = walk.observer.look()
    assert [record.exits for record in walk.observer.verdicts(seen).values()] == [(0,)]
    assert walk.probe(seen, seen.base).upstream != seen.base  # of a commit with the same tree
    assert walk.tests == 0
