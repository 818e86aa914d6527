"""``integrate fix``: a person fixes the downstream at the culprit, in a work tree that nothing overwrites."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from mlir_release.ground import strategy as st
from mlir_release.ground.errors import ExitCode, NeedsPersonError, UsageError
from mlir_release.ground.git import locks
from mlir_release.ground.git.trees import commit_files
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.fix.fix import _changes, close_fix, open_fix
from mlir_release.integrate.project import Integration
from mlir_release.integrate.walk.smoke import slots
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.in_process import invoke as cli
from tests.integrate.integration.miniature import WHO
from tests.refusals import refused

if TYPE_CHECKING:
    from tests.integrate.integration.miniature import World


pytestmark = pytest.mark.parametrize("carrier", ["submodule", "pin-file"])


@pytest.fixture
def world(make_world: Any, carrier: str) -> World:
    """One whose walk has stopped at a culprit."""
    made: World = make_world(carrier, patched=True)
    start(made.open())
    assert Walk(made.open()).run(st.Adaptive()).bad == made.commits["rename scale"]
    return made


def repaired(worktree: Path) -> None:
    """What a person does there."""
    path = worktree / "app.c"
    _, old, new = miniature.FIXES["rename scale"]
    path.write_text(path.read_text().replace(f"#define SCALE {old}\n", f"#define SCALE {new}\n"))
    miniature.git(worktree, "commit", "-qam", "Follow upstream")


def test_fix_shows_what_changed_in_files_that_the_project_includes_and_repeats_the_failure(world: World) -> None:
    fix = open_fix(Walk(world.open()))
    assert (fix.bad, fix.files, fix.kept) == (world.commits["rename scale"], ("mlir/api.c", "mlir/api.h"), False)
    assert "+int scale_by" in fix.diff  # api.c has the name that the error says
    done = subprocess.run([fix.command], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "scale" in done.stdout + done.stderr
    assert str(fix.worktree) in fix.as_text()
    said = json.loads(cli(world, "fix", "--json").stdout)
    assert said["kept"] is True
    assert said["subject"] == miniature.git(world.root / "upstream.git", "log", "-1", "--format=%s", fix.bad)
    assert (Path(said["sources"]) / "mlir/api.h").is_file()
    assert "scale" in Path(said["log"]).read_text()


def test_the_words_of_the_errors_choose_what_is_shown_of_a_change(world: World) -> None:
    project = world.open()
    git, good = project.upstream, world.commits["rename scale"]
    lines = [f"int line{number};\n" for number in range(60)]
    files = {"mlir/api.h": "".join(lines), "mlir/other.h": "int other;\n", "mlir/test/t.mlir": "x\n"}
    old = commit_files(git, good, {path: text.encode() for path, text in files.items()}, "Old\n", WHO)
    lines[3], lines[40] = "int moved;\n", "int getWidget;\n"
    files = {"mlir/api.h": "".join(lines), "mlir/other.h": "int useWidget;\n", "mlir/test/t.mlir": "getWidget\n"}
    new = commit_files(git, old, {path: text.encode() for path, text in files.items()}, "New\n", WHO)
    whole = _changes(project, old, new, ["error: expected value"])
    assert (whole[0], whole[1].count("\n@@ "), whole[2]) == (("mlir/api.h",), 2, "")
    named, diff, left_out = _changes(project, old, new, ["error: no member named 'line40'; did you mean 'useWidget'?"])
    assert (named, left_out) == (("mlir/api.h", "mlir/other.h"), "1 hunk")
    assert "+int getWidget;" in diff
    assert "+int useWidget;" in diff
    assert "+int moved;" not in diff
    assert _changes(project, old, old, [])[0] == ()


def test_fix_tests_the_commit_and_walks_on(world: World) -> None:
    before = world.git("rev-parse", "HEAD")
    fix = open_fix(Walk(world.open()))
    repaired(fix.worktree)
    assert subprocess.run([fix.command], capture_output=True, check=False).returncode == 0
    done = cli(world, "fix", "--continue", "--json")
    assert isinstance(done.exception, NeedsPersonError), done.output
    assert done.exception.details["bad"] == world.commits["rename field"]  # the next break
    line = world.git("log", "--format=%s", "--reverse", f"{before}..HEAD").splitlines()
    assert line[1] == "Follow upstream"
    assert line[0].startswith("Advance LLVM to ")
    assert world.git("status", "--porcelain") == ""


def test_the_documented_lines_let_a_program_fix_it(world: World) -> None:
    page = (Path(__file__).parents[3] / "docs/integrate.md").read_text(encoding="utf-8")
    lines = page.partition("### A program that fixes\n")[2].partition("```sh\n")[2].partition("```")[0]
    program = world.root / "program"
    _, old, new = miniature.FIXES["rename scale"]
    program.write_text(f"#!/bin/sh\ngrep -q scale_by \"$1\" && sed -i 's/SCALE {old}$/SCALE {new}/' app.c\n")
    program.chmod(0o755)
    script = lines.replace("tools/adapt.sh", str(program)).replace("mlir-release", f"{sys.executable} -m mlir_release")
    done = subprocess.run(["sh", "-c", script], cwd=world.checkout, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.NEEDS_PERSON, done.stderr
    assert f"Culprit: `{world.commits['rename field'][:12]}`" in done.stdout, "the next break"
    assert world.git("log", "--format=%s", "main..HEAD").splitlines().count("Adapt to upstream") == 1


def test_a_fix_that_fails_moves_nothing_and_keeps_what_a_person_wrote(world: World) -> None:
    before = world.git("rev-parse", "HEAD")
    walk = Walk(world.open())
    fix = open_fix(walk)
    refused(lambda: close_fix(walk), "nothing-to-do", "the work tree for fixes holds no fix to continue with")
    (fix.worktree / "app.c").write_text("/* half */\n")
    with pytest.raises(UsageError, match="no fix"):
        close_fix(walk)
    assert open_fix(walk).kept
    assert (fix.worktree / "app.c").read_text() == "/* half */\n"
    miniature.git(fix.worktree, "commit", "-qam", "Try")
    refused(lambda: close_fix(walk), "smoke-failed")
    assert world.git("rev-parse", "HEAD") == before
    assert open_fix(walk).kept
    world.git("commit", "-q", "--allow-empty", "-m", "Go elsewhere")
    refused(lambda: open_fix(walk), "checkout-dirty")
    assert (fix.worktree / "app.c").read_text() == "/* half */\n"


@pytest.mark.parametrize("worked", [False, True])
def test_a_clone_made_again_at_the_same_place_loses_nobodys_work(world: World, worked: bool) -> None:
    fix = open_fix(Walk(world.open()))
    if worked:
        repaired(fix.worktree)
    origin = world.git("remote", "get-url", "origin")
    shutil.rmtree(world.checkout)
    miniature.git(world.root, "clone", "-q", origin, str(world.checkout))
    world.git("commit", "-q", "--allow-empty", "-m", "Go on")
    world.git("push", "-q", "origin", "main")
    walk = world.begin()
    walk.run(st.Adaptive())
    if worked:
        refused(lambda: open_fix(walk), "checkout-dirty", "of a clone that is gone")
        assert "SCALE" in (fix.worktree / "app.c").read_text()
        shutil.rmtree(fix.worktree)
    refused(lambda: close_fix(walk), "nothing-to-do")
    assert not open_fix(walk).kept
    repaired(fix.worktree)
    close_fix(walk)


def test_a_fix_may_amend_the_advance_and_be_called_one(world: World) -> None:
    before = world.git("rev-parse", "HEAD")
    walk = Walk(world.open())
    fix = open_fix(walk)
    repaired(fix.worktree)
    miniature.git(fix.worktree, "reset", "-q", "--soft", "HEAD~")
    miniature.git(fix.worktree, "commit", "-q", "--amend", "--no-edit")
    assert miniature.git(fix.worktree, "log", "-1", "--format=%s").startswith("Advance LLVM to ")
    close_fix(walk)
    assert world.git("rev-list", "--count", f"{before}..HEAD") == "1"
    assert world.git("rev-parse", "HEAD") == miniature.git(fix.worktree, "rev-parse", "HEAD")


def test_a_fix_that_was_killed_before_the_branch_moved_is_not_tested_again(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = world.open()
    walk = Walk(Killed(opened.config, opened.outer, opened.upstream, opened.clock))
    fix = open_fix(walk)
    repaired(fix.worktree)
    with pytest.raises(KeyboardInterrupt):
        close_fix(walk)
    assert "testing " in capsys.readouterr().err
    close_fix(Walk(world.open()))
    close_fix(Walk(world.open()))  # and once more, when it is on the branch
    assert "testing " not in capsys.readouterr().err
    assert world.git("rev-parse", "HEAD") == miniature.git(fix.worktree, "rev-parse", "HEAD")


class Killed(Integration):
    def move_branch(self, *_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt


def at_once(world: World, *arguments: str, slot: str = "fix") -> list[tuple[int, str, str]]:
    """Two processes of ``integrate fix`` that wait for each other: exit code, standard output and error of each."""
    command = [sys.executable, "-m", "mlir_release", "integrate", "-C", str(world.checkout), "fix", *arguments]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with ExitStack() as stack:
        with locks.exclusive(slots(world.open()) / slot / "lock"):
            both = [stack.enter_context(subprocess.Popen(command, text=True, **pipes)) for _ in range(2)]
            for process in both:
                assert process.stderr is not None
                assert "waiting for another" in process.stderr.readline()
        said = [process.communicate() for process in both]
    return [(process.returncode, *texts) for process, texts in zip(both, said, strict=True)]


def test_two_at_once_make_one_work_tree(world: World) -> None:
    done = at_once(world, "--json")
    assert [code for code, *_ in done] == [0, 0], done
    first, second = sorted((json.loads(output) for _, output, _ in done), key=lambda fix: bool(fix["kept"]))
    assert (first["kept"], second["kept"]) == (False, True)
    assert first | {"kept": True} == second


def test_two_that_continue_at_once_test_the_fix_once_and_lose_nothing(world: World) -> None:
    before = world.git("rev-parse", "HEAD")
    fix = open_fix(Walk(world.open()))
    repaired(fix.worktree)
    ends = at_once(world, "--continue")
    said = "".join(errors for *_, errors in ends)
    assert said.count(f"testing {miniature.git(fix.worktree, 'rev-parse', 'HEAD')[:12]}") == 1
    # Both walk on, in one checkout.
    assert {code for code, *_ in ends} <= {ExitCode.NEEDS_PERSON, ExitCode.CONFLICT}, said
    done = cli(world, "run", "--json")
    assert getattr(done.exception, "details", {}).get("bad") == world.commits["rename field"], done.output
    line = world.git("log", "--first-parent", "--format=%s", "--reverse", f"{before}..HEAD").splitlines()
    assert line[1] == "Follow upstream"
    assert all(subject.startswith("Advance LLVM to ") for subject in [line[0], *line[2:]])
    assert world.git("status", "--porcelain") == ""
