"""``[fix] command``: a program that fixes the downstream at a culprit; never a commit without a passing test."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.errors import ReleaseError
from mlir_release.integrate import strategy as st
from mlir_release.integrate.branch import start
from mlir_release.integrate.config import Config, read_config
from mlir_release.integrate.fix_command import Attempt
from mlir_release.integrate.fix_take import T_COMMAND, T_FIX
from mlir_release.integrate.walk import Walk
from mlir_release.model.decode import from_json
from mlir_release.model.trailers import parse_trailers
from tests.integration.integrate import miniature
from tests.integration.integrate.test_fix import at_once
from tests.integration.integrate.test_fix_ahead import Pulls
from tests.refusals import check_error, refused

if TYPE_CHECKING:
    from tests.integration.integrate.miniature import World

#: Fixes whatever the document says is broken, as a person would; notes what it was told, and that it ran.
FIXER = f"""#!{sys.executable}
import json, os, pathlib
document = json.loads(pathlib.Path(os.environ["MLIR_RELEASE_FIX"]).read_text())
assert document["worktree"] == os.getcwd()
ran = pathlib.Path({{ran!r}})
ran.write_text(ran.read_text() + document["bad"] + "\\n" if ran.exists() else document["bad"] + "\\n")
pathlib.Path({{told!r}}).write_text(json.dumps(document))
app = pathlib.Path("app.c")
text = app.read_text()
for key, old, new in {list(miniature.FIXES.values())!r}:
    name = new.partition("(")[0]
    if "+int " + name in document["diff"] or "{{{{ int " + name in document["diff"]:
        text = text.replace(f"#define {{{{key}}}} {{{{old}}}}\\n", f"#define {{{{key}}}} {{{{new}}}}\\n")
app.write_text(text)
"""


#: What every world's fix command is; the program is beside the world's repositories, so that walks can be copied.
WRAPPER = """#!/bin/sh
exec "$MLIR_RELEASE_CACHE/../program"
"""


def begun(root: Path, *more: str) -> World:
    """A world whose main branch has a fix command, in which an integrate has been started."""
    world = miniature.build(root, patched=False, small=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in world.environment().items():
            patch.setenv(name, value)
        (world.checkout / "fixer").write_text(WRAPPER)
        (world.checkout / "fixer").chmod(0o755)
        config = world.checkout / "integrate.toml"
        lines = ["[fix]", 'command = ["./fixer"]', "timeout-minutes = 0.15", *more]
        config.write_text("\n".join([config.read_text(), *lines, ""]))
        world.git("add", ".")
        world.git("commit", "-q", "-m", "Let a program fix it")
        world.git("push", "-q")
        start(world.open(), publish=True)
    return world


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> World:
    return begun(tmp_path_factory.mktemp("fresh") / "world")


@pytest.fixture(scope="module")
def stopped(fresh: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    world = miniature.copy(fresh.root, tmp_path_factory.mktemp("stopped") / "world")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in world.environment().items():
            patch.setenv(name, value)
        assert Walk(world.open(), publish=True).run(st.Adaptive()).bad == world.commits["rename scale"]
    return world


def copied(template: World, root: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = miniature.copy(template.root, root)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    program(made, FIXER.format(ran=str(root / "ran"), told=str(root / "told")))
    return made


@pytest.fixture
def world(stopped: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """One whose walk has stopped at a culprit, with a program that can fix it."""
    return copied(stopped, tmp_path / "world", monkeypatch)


@pytest.fixture
def unwalked(fresh: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """One in which nothing has been tested."""
    return copied(fresh, tmp_path / "unwalked", monkeypatch)


def program(world: World, text: str) -> None:
    """What the fix command does from now on."""
    path = world.root / "program"
    path.write_text(text)
    path.chmod(0o755)


def ran(world: World) -> list[str]:
    """The culprits that the command ran at, in order."""
    file = world.root / "ran"
    return file.read_text().split() if file.exists() else []


def cli(world: World, *arguments: str, at: Path | None = None) -> Any:
    return CliRunner().invoke(app, ["integrate", "-C", str(at or world.checkout), *arguments])


def nothing_moved(world: World, before: str) -> None:
    assert world.git("rev-parse", "HEAD") == before
    assert world.git("status", "--porcelain") == ""


# -- by itself in a walk -----------------------------------------------------------------------------------------------


def test_a_walk_lets_it_fix_every_culprit_once_and_arrives_at_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = copied(begun(tmp_path / "begun", "automatic = true"), tmp_path / "world", monkeypatch)
    before = world.git("rev-parse", "HEAD")
    done = cli(world, "run", "--json", "--push")
    assert done.exit_code == 0, done.output
    breaks = [world.commits[name] for name in miniature.FIXES]
    assert sorted(ran(world)) == sorted(breaks)
    messages = world.git("log", "-z", "--format=%B", f"{before}..HEAD").split("\0")
    made = [parse_trailers(message) for message in messages if T_FIX in parse_trailers(message)]
    assert [trailers[T_FIX] for trailers in made] == breaks[::-1]
    assert {trailers[T_COMMAND] for trailers in made} == {"./fixer"}
    assert world.git("status", "--porcelain") == ""
    subject = f"Fix for LLVM {breaks[0][:12]}, made by a command"
    assert subject in world.git("log", "--format=%s", f"{before}..HEAD")


def test_the_command_gets_what_fix_prints_as_json(world: World) -> None:
    printed = json.loads(cli(world, "fix", "--json").stdout)
    assert cli(world, "fix", "--auto", "--json").exception.details["bad"] == world.commits["rename field"]
    told = json.loads((world.root / "told").read_text())
    for key in ("good", "bad", "files", "diff", "errors"):
        assert told[key] == printed[key], key
    assert told.keys() == printed.keys()
    assert any("scale" in error for error in told["errors"])
    assert Path(told["command"]).is_file()


def test_run_does_not_call_it_unless_it_is_asked_to(world: World) -> None:
    assert cli(world, "run", "--json").exception.details["fix"] is None
    assert ran(world) == []
    (world.root / "program").unlink()
    assert cli(world, "run", "--json", "--fix").exception.details["fix"]["outcome"] == "failed"
    check_error(cli(world, "run", "--fix", "--no-probes").exception, "option-invalid")


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("exit 3", "failed"),
        ("sleep 60", "failed"),
        ("kill -9 $$", "failed"),
        ("true", "nothing"),
        ("echo >> app.c", "bad"),
    ],
)
def test_a_command_that_does_not_fix_it_is_tried_once_and_reported(world: World, script: str, outcome: str) -> None:
    program(world, f"#!/bin/sh\necho x >> {world.root}/ran\necho 'half a fix' >&2\n{script}\n")
    before = world.git("rev-parse", "HEAD")
    error = check_error(cli(world, "run", "--fix", "--json").exception, "walk-needs-person")
    assert error.details["bad"] == world.commits["rename scale"]
    fix: Any = error.details["fix"]
    assert (fix["outcome"], fix["upstream"]) == (outcome, world.commits["rename scale"])
    said = cli(world, "run", "--fix").stdout  # the second time
    assert len(ran(world)) == 1
    nothing_moved(world, before)
    assert "### The fix command" in said
    assert ("half a fix" in said) == (outcome == "failed")
    assert ("exit code 3" in said) == (script == "exit 3")
    (diff,) = (world.checkout / ".git/mlir-release/fixes").glob("*.diff")
    assert diff.read_text().startswith("diff --git a/app.c b/app.c") == (outcome == "bad")
    assert ("What it changed:" in said) == (outcome == "bad")


def test_a_command_that_can_not_be_run_does_not_count_and_the_walk_reports(world: World) -> None:
    (world.root / "program").write_text("#!/no/such/program\n")
    for _ in range(2):
        error = check_error(cli(world, "run", "--fix", "--json").exception, "walk-needs-person")
        fix: Any = error.details["fix"]
        assert "can't be run" in fix["why"]
    check_error(cli(world, "fix", "--auto").exception, "tool-missing")


def test_a_person_may_let_it_try_again(world: World) -> None:
    program(world, f"#!/bin/sh\necho x >> {world.root}/ran\nexit 1\n")
    for number in (1, 2):
        error = check_error(cli(world, "fix", "--auto").exception, "walk-needs-person", "The fix command failed")
        assert "nothing was committed" in error.remedy
        assert len(ran(world)) == number


def test_the_walk_goes_on_after_a_fix_by_the_command(world: World) -> None:
    done = cli(world, "fix", "--auto", "--push", "--json")
    assert done.exception.details["bad"] == world.commits["rename field"]
    assert len(ran(world)) == 1
    branch = world.git("branch", "--show-current")
    assert world.git("ls-remote", "origin", f"refs/heads/{branch}").split()[0] == world.git("rev-parse", "HEAD")


def test_two_at_once_run_it_once(world: World) -> None:
    ends = at_once(world, "--auto", slot="command")
    assert len(ran(world)) == 1, ends
    assert world.git("log", "--format=%s").count("made by a command") == 1
    assert world.git("status", "--porcelain") == ""


def test_a_killed_test_does_not_run_the_command_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mlir_release.integrate.walk.smoke_test", interrupt)
        cli(world, "fix", "--auto")
    assert len(ran(world)) == 1
    assert cli(world, "fix", "--auto", "--json").exception.details["bad"] == world.commits["rename field"]
    assert len(ran(world)) == 1


def test_the_persons_work_tree_is_not_touched(world: World) -> None:
    made = json.loads(cli(world, "fix", "--json").stdout)
    mine = Path(made["worktree"]) / "app.c"
    mine.write_text("/* mine */\n")
    cli(world, "fix", "--auto")
    assert mine.read_text() == "/* mine */\n"


def test_without_a_command_there_is_nothing_to_try(make_world: Any) -> None:
    world = make_world()
    start(world.open())
    check_error(cli(world, "fix", "--auto").exception, "config-invalid", "names no command")
    check_error(cli(world, "run", "--fix").exception, "config-invalid", "names no command")


def test_nothing_failed_nothing_is_tried(unwalked: World) -> None:
    check_error(cli(unwalked, "fix", "--auto").exception, "nothing-to-do")
    assert ran(unwalked) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--auto", "--ahead"),
        ("--continue", "--auto"),
        ("--save", "x"),
        ("--record", "x"),
        ("--record-to", "x"),
        ("--take", "x", "--probe", "y"),
    ],
)
def test_options_that_do_not_go_together_are_refused(world: World, arguments: tuple[str, ...]) -> None:
    check_error(cli(world, "fix", *arguments).exception, "option-invalid")


# -- in three jobs -----------------------------------------------------------------------------------------------------


@pytest.fixture
def jobs(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs ``integrate`` in a fresh clone, on a machine of its own, as it were."""
    number = iter(range(100))

    def job(*arguments: str) -> Any:
        here = tmp_path / f"job{next(number)}"
        branch = world.git("branch", "--show-current")
        miniature.git(tmp_path, "clone", "-q", "-b", branch, f"{miniature.URL}origin.git", str(here))
        monkeypatch.setenv("MLIR_RELEASE_CACHE", str(world.root / here.name))
        return cli(world, *arguments, at=here)

    return job


def test_one_job_runs_it_one_tests_and_one_that_runs_nothing_commits(
    world: World, jobs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, record, output = (tmp_path / name for name in ("fix.json", "record.json", "output"))
    monkeypatch.setenv("GITHUB_OUTPUT", str(output))
    before = world.git("rev-parse", "HEAD")
    assert jobs("fix", "--auto", "--save", str(saved)).exit_code == 0
    assert "\ntrue\n" in output.read_text()
    made = from_json(saved.read_bytes(), Attempt)
    assert (made.outcome, list(made.changes), made.head) == ("made", ["app.c"], before)
    assert jobs("fix", "--probe", str(saved), "--record-to", str(record)).exit_code == 0
    pulls = Pulls()
    monkeypatch.setattr("mlir_release.forge.open.open_pulls", lambda: pulls)
    with monkeypatch.context() as patch:

        def run(*_: object, **__: object) -> None:
            raise AssertionError("it runs something")

        patch.setattr("mlir_release.integrate.smoke.run_trial", run)
        patch.setattr("mlir_release.integrate.fix_command.run_trial", run)
        take = ("fix", "--take", str(saved), "--record", str(record), "--push")
        done = jobs(*take, "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["outcome"] == "untested"
        again = jobs(*take)
        assert again.exit_code == 0, again.output
        assert "is on the branch already" in again.output
    branch = world.git("branch", "--show-current")
    world.git("fetch", "-q", "origin", branch)
    assert world.git("log", "-1", "--format=%s", "FETCH_HEAD").endswith("made by a command")
    assert world.git("rev-parse", "FETCH_HEAD~2") == before


def test_changes_are_not_taken_without_the_verdict_on_exactly_these(world: World, jobs: Any, tmp_path: Path) -> None:
    saved, other, record = (tmp_path / name for name in ("fix.json", "other.json", "record.json"))
    jobs("fix", "--auto", "--save", str(saved))
    jobs("fix", "--probe", str(saved), "--record-to", str(record))
    document = json.loads(saved.read_text())
    content = document["changes"]["app.c"]
    other.write_text(json.dumps({**document, "changes": {"app.c": {**content, "data": "Ly8K"}}}))
    check_error(jobs("fix", "--take", str(saved)).exception, "option-invalid", "needs the verdict")
    error = check_error(jobs("fix", "--take", str(other), "--record", str(record)).exception, "input-invalid")
    assert "not about the fix command's changes" in error.what
    bad = json.loads(record.read_text()) | {"verdict": "bad"}
    record.write_text(json.dumps(bad))
    check_error(jobs("fix", "--take", str(saved), "--record", str(record), "--push").exception, "smoke-failed")
    record.write_text("{}")
    check_error(jobs("fix", "--take", str(saved), "--record", str(record)).exception, "input-invalid")
    branch = world.git("branch", "--show-current")
    assert world.git("ls-remote", "origin", f"refs/heads/{branch}").split()[0] == world.git("rev-parse", "HEAD")


def test_changes_for_another_commit_are_not_taken(world: World, jobs: Any, tmp_path: Path) -> None:
    saved, record = tmp_path / "fix.json", tmp_path / "record.json"
    jobs("fix", "--auto", "--save", str(saved))
    jobs("fix", "--probe", str(saved), "--record-to", str(record))
    take = ("fix", "--take", str(saved), "--record", str(record))
    document = json.loads(saved.read_text())
    for name in ("head", "upstream", "pin"):
        saved.write_text(json.dumps({**document, name: world.affecting[0]}))
        check_error(jobs(*take).exception, "changed-meanwhile", f"belong to another {name}")
    saved.write_text(json.dumps({**document, "branch": "main"}))
    check_error(jobs(*take).exception, "changed-meanwhile", "belong to another branch")


@pytest.mark.parametrize("outcome", ["nothing", "failed", "refused", "bad", "good"])
def test_an_attempt_that_made_nothing_is_told_in_the_pull_request(
    world: World, jobs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    saved = tmp_path / "fix.json"
    jobs("fix", "--auto", "--save", str(saved))
    saved.write_text(json.dumps({**json.loads(saved.read_text()), "outcome": outcome, "why": "::error::no\x1b[2J"}))
    comments: list[dict[str, str]] = []

    class Commented(Pulls):
        def comment(self, **given: str) -> None:
            comments.append(given)

    monkeypatch.setattr("mlir_release.forge.open.open_pulls", Commented)
    error = check_error(jobs("fix", "--take", str(saved), "--push").exception)
    assert isinstance(error, ReleaseError)
    (comment,) = comments
    assert comment["key"] == "fix"
    assert "\x1b" not in comment["body"]
    assert "### The fix command" in comment["body"]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"schema": 2}', "\x00", '{"schema": 1, "branch": "x"}'])
def test_a_file_that_is_no_attempt_is_refused(world: World, tmp_path: Path, content: str) -> None:
    file = tmp_path / "fix.json"
    file.write_text(content)
    for way in ("--probe", "--take"):
        check_error(cli(world, "fix", way, str(file)).exception, "input-invalid")
        check_error(cli(world, "fix", way, str(tmp_path / "missing")).exception, "input-invalid")


# -- the configuration -------------------------------------------------------------------------------------------------


def configured(table: str) -> Config:
    text = f'[upstream]\nurl = "x"\npin-file = "p"\n[smoke]\ncommand = "true"\n[fix]\n{table}\n'
    return read_config(text.encode(), where="integrate.toml")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("automatic = true", "automatic needs a command"),
        ('command = "a \'b"', "can't be split into words"),
        ('command = "x"\ntimeout-minutes = 0', "a number above 0"),
        ('command = "x"\nallowed = ["/etc/*"]', "not a path inside the repository"),
        ('command = "x"\nprotected = [":(exclude)x"]', "not a path inside the repository"),
        ('command = "x"\nprotected = ["./"]', "matches no file"),
        ('command = "x"\nenvironment = ["GITHUB_TOKEN"]', "the name of a variable of your own"),
        ('command = "x"\nallow = ["x"]', "allow is an unknown key"),
    ],
)
def test_mistakes_in_the_table_are_named(table: str, said: str) -> None:
    assert said in refused(lambda: configured(table), "config-invalid", "integrate.toml").what


def test_the_table_is_optional_and_its_command_a_string_or_a_list() -> None:
    assert configured("").fix.argv == ()
    assert configured('command = "clang-format -i app.c"').fix.argv == ("clang-format", "-i", "app.c")
    assert configured('command = ["a b", "c"]').fix.argv == ("a b", "c")
