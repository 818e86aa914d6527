"""A walk that an older version began goes on: what that left in git is read, and counts.

``begun_walk/`` has its refs as ``git fast-export`` wrote them: the integrate branch with the verdicts, and the export
branch. The walk was killed in its sixth smoke test. ``integrate.toml`` has other tables since, so what follows from its
content is replaced in the stream: main's id, and the trees in verdicts with the names of their files. The ids below are
of the commits with which the walk goes on.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from mlir_release.ground import strategy as st
from mlir_release.ground.documents.decode import from_json
from mlir_release.ground.git.trees import make_blob, tree_with
from mlir_release.integrate.deliver.land import land
from mlir_release.integrate.state import Record
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.miniature import BRANCH

if TYPE_CHECKING:
    from tests.integrate.integration.miniature import World

BEGUN = Path(__file__).parent / "begun_walk"

STOPPED = "b468adae3fdc03226e293c2f19237b2e963a80c4"
AT_HEAD = "9b97be73d2eed5304f96991e7caa2aa340989da9"
LANDED = "04f5a0b9485f048a3667d4a09c5d1773bf8e5724"


#: Main's commit when the walk began, with the ``integrate.toml`` of that time.
OLD_MAIN = "dc7b6306fce4531d96ef88dc33d082b909a779aa"
#: The tree of its sources, with the fix for "rename scale".
AFTER_FIX = "7ac7a5e358783dd554a9bc279f426f60c8327fe8"


def with_todays_configuration(stream: bytes, world: World) -> bytes:
    """The stream as it would be with the world's ``integrate.toml``."""
    text, project = stream.decode(), world.open()
    app = world.git("show", "main:app.c").replace("SCALE scale(3)", "SCALE scale_by(3, 2)") + "\n"
    fixed = {"app.c": make_blob(project.outer, app.encode()), project.upstream.config.carrier: None}
    for record in re.findall(r"^data \d+\n(\{.*?^\})$", text, re.MULTILINE | re.DOTALL):
        old = from_json(record.encode(), Record)
        here = tree_with(project.outer, "main", fixed) if old.outer == AFTER_FIX else project.outer_key("main")
        new = structs.replace(old, outer=here)
        text = text.replace(old.key, new.key).replace(record, record.replace(old.outer, here))
    return text.replace(OLD_MAIN, world.git("rev-parse", "main")).encode()


@pytest.fixture
def begun(make_world: Any, pretend: Any) -> World:
    # A verdict counts where it was found: on such a machine.
    pretend(system="Linux", machine="x86_64")
    world: World = make_world("submodule", patched=True)
    fork = world.root / "fork.git"
    miniature.git(fork, "fetch", "-q", f"{miniature.URL}upstream.git", "main")
    for name, repository in {"fork": fork, "downstream": world.checkout}.items():
        stream = with_todays_configuration((BEGUN / f"{name}.stream").read_bytes(), world)
        subprocess.run(["git", "-C", str(repository), "fast-import", "--quiet"], input=stream, check=True)
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
