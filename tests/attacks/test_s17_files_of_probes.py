"""A job that may write runs no program that a checkout names, and believes no file of a job that did."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from msgspec import structs

from mlir_release.cli.app import app
from mlir_release.ground.job_names import probe_job
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.open import open_joint
from mlir_release.integrate.pins.generated import File, with_generated
from mlir_release.integrate.tables import RefreshTable
from mlir_release.integrate.walk.rounds import gather, probe
from mlir_release.release.forge.open import jobs_of_run
from tests.github_server import GitHubServer
from tests.integrate.integration import miniature
from tests.job_factory import make_job
from tests.refusals import check_error, refused

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.hosting import RunJob
    from mlir_release.integrate.walk.together import JointWalk
    from tests.integrate.integration.miniature import World

REPOSITORY = "ours/downstream"

#: Both programs note that they ran, and which token they saw.
REFRESH = """#!/bin/sh
echo "refreshed $GITHUB_TOKEN" >> "$MLIR_RELEASE_CACHE/ran"
mkdir -p locks && cp llvm-project.version locks/a.lock
"""
SMOKE = """#!/bin/sh
echo "tested $GITHUB_TOKEN" >> "$MLIR_RELEASE_CACHE/ran"
cmp llvm-project.version locks/a.lock
"""
CONFIG = 'refresh = {command = "sh refresh.sh", files = ["locks/*.lock"]}\n'


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> World:
    """An integrate that has just been started, and in ``record.json`` what a probe on another machine has found."""
    world = miniature.build(tmp_path_factory.mktemp("probed") / "world", carrier="pin-file", patched=False, small=True)
    with pytest.MonkeyPatch.context() as patch:
        world.enter(patch)
        config = world.checkout / "integrate.toml"
        config.write_text(config.read_text().replace('name = "LLVM"\n', f'name = "LLVM"\n{CONFIG}'))
        (world.checkout / "refresh.sh").write_text(REFRESH)
        (world.checkout / "smoke.sh").write_text(SMOKE)
        world.git("add", ".")
        world.git("commit", "-q", "-m", "Refresh")
        world.git("push", "-q")
        start(world.open(), publish=True)
        machine = world.root / "machine"
        branch = world.git("branch", "--show-current")
        miniature.git(world.root, "clone", "-q", "-b", branch, f"{miniature.URL}origin.git", str(machine))
        patch.setenv("MLIR_RELEASE_CACHE", str(world.root / "machine-cache"))
        found = probe(open_joint(machine), world.affecting[1], world.root / "record.json")
        assert found.verdict == "good"
        assert (world.root / "machine-cache/ran").read_text().split() == ["refreshed", "tested"]
        shutil.rmtree(machine)
    return world


@pytest.fixture
def world(template: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = miniature.copy(template.root, tmp_path / "world")
    made.enter(monkeypatch)
    return made


def sent(world: World, **changes: Any) -> Path:
    """A folder with the record of the probe, changed."""
    folder = world.root / "records"
    folder.mkdir(exist_ok=True)
    record = json.loads((world.root / "record.json").read_text())
    (folder / "probe-record.json").write_text(json.dumps(record | changes))
    return folder


def ended(world: World, end: str | None) -> list[RunJob]:
    """The jobs of the run, as GitHub lists them for a caller of the workflow."""
    return [make_job(f"LLVM / {probe_job(world.affecting[1])}", end)]


def walk(world: World) -> JointWalk:
    return open_joint(world.checkout)


def takes_nothing(world: World, folder: Path, jobs: list[RunJob], id: str = "smoke-failed", why: str = "") -> None:
    """Check that what was sent is refused, and that nothing is known of it."""
    error = refused(lambda: gather(walk(world), folder, jobs), id)
    assert why in error.why
    assert walk(world).store.load() == {}


# -- programs ----------------------------------------------------------------------------------------------------------


def test_no_command_of_the_job_that_writes_runs_the_refresh_or_the_smoke_command(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The commands of the job ``advance`` in integrate.yml, on a GitHub that lists the probe's job as successful."""
    folder = sent(world)
    with GitHubServer(tmp_path / "github") as github:
        place = github.add_repository(REPOSITORY, {}, workflows=("llvm.yml",))
        world.git("remote", "set-url", "origin", str(place))
        world.git("push", "-q", "--force", "origin", "main")
        token = github.token(scopes=("contents", "actions", "pull_requests"))
        for name, value in {**github.environment(REPOSITORY, token), "GITHUB_RUN_ID": "7"}.items():
            monkeypatch.setenv(name, value)
        now = datetime.now(UTC)
        github.repositories[REPOSITORY].runs.append({
            "id": 7, "workflow": "llvm.yml", "head_branch": "main", "head_sha": world.git("rev-parse", "main"),
            "event": "schedule", "status": "in_progress", "conclusion": None, "created": now, "updated": now,
        })  # fmt: skip
        github.add_job(7, f"LLVM / {probe_job(world.affecting[1])}", labels=["x"], started=now, completed=now)
        assert [job.conclusion for job in jobs_of_run("7")] == ["success"]
        commands = (
            ("start", "--roll", "--push"),
            ("gather", str(folder), "--push"),
            ("plan", "--roll"),
            ("run", "--roll", "--no-probes", "--push", "--next-round", "llvm.yml"),
            ("roll",),
        )
        for words in commands:
            done = CliRunner().invoke(app, ["integrate", "-C", str(world.checkout), *words])
            assert done.exit_code == 0, (words, done.output)
        asked = [record.path for record in github.requests if "/jobs" in record.path]
    assert len(asked) == 2, "one listing for the round; the other is this test's"
    assert not (world.root / "cache/ran").exists(), "a program ran beside the right to write"
    branch = world.git("branch", "--show-current")
    assert world.git("show", f"{branch}:llvm-project.version") == world.affecting[1]
    assert world.git("show", f"{branch}:locks/a.lock") == world.affecting[1], "the file that was tested"
    assert world.git("rev-parse", f"origin/{branch}") == world.git("rev-parse", branch)


def test_a_broken_state_is_shown_without_running_anything(world: World) -> None:
    """``BRANCH-broken`` has the culprit's generated files: those that were tested."""
    walking, folder = walk(world), sent(world)
    observer, record = walking.walks[0].observer, json.loads((world.root / "record.json").read_text())
    seen = observer.look()
    for commit, verdict in ((seen.base, "good"), (world.affecting[0], "bad")):
        asked = observer.question(seen, commit)
        trees = {name: getattr(asked, name) for name in ("upstream", "upstream_tree", "pristine_tree")}
        made = record | trees | {"verdict": verdict, "exits": [0] if verdict == "good" else [1] * 40}
        (folder / f"{verdict}.json").write_text(json.dumps(made))
    (folder / "probe-record.json").unlink()
    assert gather(walking, folder) == 2
    done = CliRunner().invoke(app, ["integrate", "-C", str(world.checkout), "run", "--no-probes", "--push"])
    check_error(done.exception, "walk-needs-person")
    name = f"{world.git('branch', '--show-current')}-broken"
    world.git("fetch", "-q", "origin", name)
    assert world.git("show", "FETCH_HEAD:locks/a.lock") == world.affecting[1]  # of the record, as a probe sent it
    assert not (world.root / "cache/ran").exists()


# -- verdicts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["failure", "cancelled", "timed_out", None])
def test_a_good_verdict_counts_only_if_its_job_succeeded(world: World, end: str | None) -> None:
    takes_nothing(world, sent(world), ended(world, end), why="no probe job ended with an answer")
    assert gather(walk(world), sent(world), ended(world, "success")) == 1


@pytest.mark.parametrize("verdict", ["bad", "untestable"])
def test_another_verdict_counts_only_if_its_job_failed(world: World, verdict: str) -> None:
    folder = sent(world, verdict=verdict)
    for end in ("success", "cancelled"):
        takes_nothing(world, folder, ended(world, end))
    assert gather(walk(world), folder, ended(world, "failure")) == 1


def test_the_job_of_another_commit_answers_nothing(world: World) -> None:
    others = [make_job(probe_job(commit), "success") for commit in (world.affecting[0], world.affecting[2])]
    takes_nothing(world, sent(world), others)
    takes_nothing(world, sent(world), [])


def test_the_newest_attempt_of_a_job_counts(world: World) -> None:
    name = probe_job(world.affecting[1])
    takes_nothing(world, sent(world), [make_job(name, "failure", minutes=5), make_job(name, "success")])
    assert gather(walk(world), sent(world), [make_job(name, "failure"), make_job(name, "success", minutes=5)]) == 1


def test_the_name_of_a_job_is_as_long_as_github_lists_it() -> None:
    both = f"llvm@{'a' * 40}+stablehlo@{'b' * 40}"
    assert len(probe_job(both)) == 100
    assert probe_job(both).endswith("bbb...")
    assert probe_job("a" * 40) == f"integrate: probe {'a' * 40}"


# -- files -------------------------------------------------------------------------------------------------------------

HOSTILE = (
    "app.c", "locks/deep/x.lock", "locks/../app.c", "../outside", "a/../../outside", "/etc/passwd", ".git/config",
    "a/.GIT/config", ".github/workflows/x.yml", "./app.c", "a//b", "integrate.toml", "INTEGRATE.TOML",
    "llvm-project.version", ".gitattributes", "x/" * 60 + "y",
)  # fmt: skip


@pytest.mark.parametrize("files", ["locks/*.lock", "**"])
def test_a_file_outside_of_those_that_refresh_names_is_refused(world: World, files: str) -> None:
    project = world.open()
    (table,) = project.config.upstreams
    tables = [structs.replace(table, refresh=RefreshTable(command="x", files=(files,)))]
    kept = File("100644", project.outer.text("rev-parse", "HEAD:smoke.sh"))
    for path in HOSTILE:
        if files == "**" and path in ("app.c", "locks/deep/x.lock"):  # which it names
            with_generated(project.outer, "HEAD", {path: kept}, tables)
            continue
        refused(partial(with_generated, project.outer, "HEAD", {path: kept}, tables), "input-invalid")
    folder = sent(world, contents={"app.c": {"mode": "100644", "data": "eA=="}})
    why = "files of [upstream.refresh] does not name it"
    takes_nothing(world, folder, ended(world, "success"), "input-invalid", why)


@pytest.mark.parametrize("mode", ["120000", "160000", "040000", "100664"])
def test_a_file_that_is_no_plain_one_is_refused(world: World, mode: str) -> None:
    folder = sent(world, contents={"locks/a.lock": {"mode": mode, "data": "eA=="}})
    takes_nothing(world, folder, ended(world, "success"), "input-invalid", "mode is")


def test_a_huge_file_is_refused(world: World) -> None:
    folder = sent(world, contents={"locks/a.lock": {"mode": "100644", "data": "A" * (12 << 20)}})
    takes_nothing(world, folder, ended(world, "success"), "input-invalid", "bytes together")


def test_a_blob_that_a_record_names_is_not_taken(world: World) -> None:
    """Only what is sent: an object of this repository may be one that nobody was to see."""
    secret = world.git("rev-parse", "HEAD:smoke.sh")
    folder = sent(world, contents={}, generated={"locks/a.lock": {"mode": "100644", "blob": secret}})
    assert gather(walk(world), folder, ended(world, "success")) == 1
    assert [record.generated for record in walk(world).store.load().values()] == [{}]
