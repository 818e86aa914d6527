"""A fix command is foreign code that writes: it gets no secret, moves no branch, and can't change what judges it."""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner
from msgspec import structs

from mlir_release.cli.app import app
from mlir_release.git.trees import Entry, make_blob, tree_with
from mlir_release.host import surroundings
from mlir_release.integrate import strategy as st
from mlir_release.integrate.branch import start
from mlir_release.integrate.fix_rules import named_files, refusals
from mlir_release.integrate.walk import Walk
from tests.attacks.test_s09_smoke_tests import ATTACK, HOOKS, MORE, PROGRAMS, VALUE, give_secrets, own_folders
from tests.integration.integrate import miniature
from tests.integration.integrate.test_fix_command import WRAPPER, program
from tests.refusals import check_error

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.integrate.project import Project
    from tests.integration.integrate.miniature import World

#: What fixes the break, so that only a refusal keeps the branch where it is.
FIX = "sed -i 's/SCALE scale(3)/SCALE scale_by(3, 2)/' app.c\n"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = miniature.build(tmp_path_factory.mktemp("stopped") / "world", patched=False, small=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in world.environment().items():
            patch.setenv(name, value)
        checkout = world.checkout
        (checkout / "fixer").write_text(WRAPPER)
        (checkout / "fixer").chmod(0o755)
        (checkout / "expected").mkdir()
        (checkout / "expected/out.txt").write_text("7\n")
        config = checkout / "integrate.toml"
        config.write_text(f'{config.read_text()}[fix]\ncommand = ["./fixer"]\nprotected = ["expected/**"]\n')
        world.git("add", ".")
        world.git("commit", "-q", "-m", "Let a program fix it")
        world.git("push", "-q")
        start(world.open(), publish=True)
        # The next break is far away: a walk that goes on ends at the goal at once.
        end = Walk(world.open(), publish=True).run(st.Adaptive(), until=world.commits["rename scale"])
        assert end.bad == world.commits["rename scale"]
    return world


@pytest.fixture
def world(stopped: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """One whose walk has stopped at a culprit."""
    made = miniature.copy(stopped.root, tmp_path / "world")
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    return made


def tried(world: World, script: str) -> dict[str, Any]:
    """What the attempt says of a program that attacks and then fixes the break."""
    program(world, f"#!/bin/sh\n{script}\n{FIX}")
    shutil.rmtree(world.checkout / ".git/mlir-release/fixes", ignore_errors=True)  # or changes would be found again
    saved = world.root / "saved.json"
    arguments = ["integrate", "-C", str(world.checkout), "fix", "--auto", "--save", str(saved), "--json"]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fix(world: World, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["integrate", "-C", str(world.checkout), "fix", *arguments])


def refs(world: World) -> dict[str, str]:
    """Every branch and tag of the checkout, its submodule and the remote, but for the integrate branch."""
    places = (world.checkout, world.checkout / "third_party/llvm", world.root / "origin.git", world.root / "fork.git")
    found = {}
    for place in places:
        for line in miniature.git(place, "for-each-ref", "--format=%(refname) %(objectname)").splitlines():
            name, _, commit = line.partition(" ")
            if "integrates/" not in name and not name.startswith("refs/mlir-release/"):
                found[f"{place.name} {name}"] = commit
    return found


# -- what it may not change --------------------------------------------------------------------------------------------

REFUSED = {
    "integrate.toml": "echo '# x' >> integrate.toml",
    ".github/workflows/evil.yml": "mkdir -p .github/workflows; echo 'on: push' > .github/workflows/evil.yml",
    ".GitHub/workflows/evil.yml": "mkdir -p .GitHub/workflows; echo 'on: push' > .GitHub/workflows/evil.yml",
    "sub/.github/x": "mkdir -p sub/.github; echo x > sub/.github/x",
    ".gitmodules": "sed -i s/mini.invalid/evil.invalid/ .gitmodules",
    "sub/.gitattributes": "mkdir sub; echo '*.c filter=evil' > sub/.gitattributes",
    ".gitignore": "echo app.c >> .gitignore",
    "CODEOWNERS": "echo '* @evil' > CODEOWNERS",
    "smoke.sh": "echo 'exit 0' > smoke.sh",
    "smoke.sh ": "chmod -x smoke.sh",  # its mode
    "smoke.sh  ": "rm smoke.sh",
    "smoke.sh   ": "git update-index --assume-unchanged smoke.sh; echo 'exit 0' > smoke.sh",
    "smoke.sh    ": "git update-index --skip-worktree smoke.sh; echo 'exit 0' > smoke.sh",
    "smoke.sh     ": "echo 'exit 0' > smoke.sh; git commit -qam 'Hide it'",
    "smoke.sh      ": "echo smoke.sh > .git/info/exclude; git rm -q --cached smoke.sh; echo 'exit 0' > smoke.sh",
    "fixer": "echo 'exit 0' >> fixer",
    "expected/out.txt": "echo 8 > expected/out.txt",
    "expected/more/new.txt": "mkdir expected/more; echo 8 > expected/more/new.txt",
    "link": "ln -s /etc/passwd link",
    "inside": "ln -s app.c inside",
    "expected": "rm -r expected; ln -s . expected",
    "third_party/llvm": "git -C third_party/llvm checkout -q HEAD~",
    "third_party/llvm ": "rm -rf third_party/llvm",
    "third_party/llvm  ": "rm -rf third_party/llvm; git init -q third_party/llvm",
    "can't be stored": "rm integrate.toml; mkfifo integrate.toml",
    "can't be stored ": "truncate -s 100M big",
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_can_not_change_what_judges_it_or_runs_with_rights(world: World, name: str) -> None:
    before = world.git("rev-parse", "HEAD")
    found = tried(world, REFUSED[name])
    assert found["outcome"] == "refused", found
    assert name.strip() in found["why"]
    assert found["changes"] == []
    error = check_error(fix(world, "--auto").exception, "walk-needs-person", "changed what it may not change")
    assert name.strip() in error.why
    assert world.git("rev-parse", "HEAD") == before
    assert world.git("status", "--porcelain") == ""


def test_another_repository_within_is_passed_over(world: World) -> None:
    found = tried(world, "git init -q nested; git -C nested commit -q --allow-empty -m x; echo x > nested/x")
    assert (found["outcome"], found["changes"]) == ("made", ["app.c"])


def test_a_change_of_more_than_a_person_reads_is_refused(world: World) -> None:
    assert "too many" in tried(world, "mkdir many; for n in $(seq 1100); do echo $n > many/$n; done")["why"]
    assert "too many" in tried(world, "head -c 3000000 /dev/urandom > noise")["why"]


def test_names_in_a_refusal_and_output_command_nothing(world: World) -> None:
    program(world, "#!/bin/sh\nln -s x \"$(printf 'x\\n::error::y\\033[2J')\"\nprintf '::set-output name=a::b\\n'\n")
    done = fix(world, "--auto")
    check_error(done.exception, "walk-needs-person")
    said = done.output
    program(world, "#!/bin/sh\nprintf '::error::@everyone\\033[2J fixes #1\\n' >&2; exit 1\n")
    saved = str(world.root / "saved.json")
    said += fix(world, "--auto", "--save", saved).output
    assert "\x1b" not in said
    assert not [line for line in said.splitlines() if line.lstrip().startswith("::")]


# -- git ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", MORE)
def test_hooks_and_settings_that_it_writes_are_not_run(world: World, more: str) -> None:
    ran = world.root / "ran"
    words = {"hooks": " ".join(HOOKS), "programs": " ".join(PROGRAMS), "ran": ran, "code": 0}
    attack = ATTACK.format(**words, more=MORE[more]).replace("#!/bin/sh\n", "").replace("\nexit 0\n", "\n")
    script = f'top=$PWD\n{attack}\ncd "$top"'
    before, folders = refs(world), own_folders(world)
    for _ in range(2):  # the second one in what the first has left
        assert tried(world, script)["outcome"] in ("made", "refused")
    fix(world, "--auto")
    world.git("status")
    assert not ran.exists(), ran.read_text()
    assert own_folders(world) == folders
    assert refs(world) == before


MOVES = r"""
for tree in "$PWD" "$MLIR_RELEASE_UPSTREAM_SOURCE"; do
  cd "$tree"
  git config core.hooksPath /tmp; git config user.name Eve; git config user.email eve@example.com
  git commit -q --allow-empty -m Evil; evil=$(git rev-parse HEAD)
  for name in heads/main heads/integrates/llvm-20261120 tags/evil remotes/origin/main heads/evil; do
    git update-ref refs/$name "$evil"
  done
  git branch -f main "$evil"; git tag -f v1; git pack-refs --all; git symbolic-ref HEAD refs/heads/evil
  git push -q --force origin HEAD:refs/heads/evil HEAD:refs/heads/main
  git push -q "$(git config remote.origin.url)" HEAD:refs/heads/evil
  git worktree add -q "$tree.evil"
done
cd "$top"
"""


def test_it_moves_no_branch_of_the_checkout_and_pushes_nothing(world: World) -> None:
    before = refs(world)
    head = world.git("rev-parse", "HEAD")
    found = tried(world, f"top=$PWD\n{MOVES}")
    assert found["outcome"] == "refused"  # the upstream's checkout is elsewhere now
    assert refs(world) == before
    assert world.git("rev-parse", "HEAD") == head
    assert world.git("log", "--all", "--format=%s").count("Evil") == 0


def test_what_it_commits_is_taken_as_changes_of_files(world: World) -> None:
    head = world.git("rev-parse", "HEAD")
    program(world, f"#!/bin/sh\n{FIX}git config user.name Eve; git config user.email e@x\ngit commit -qam 'Mine'\n")
    fix(world, "--auto")
    subjects = world.git("log", "--format=%s %an", f"{head}..HEAD")
    assert "made by a command Dora Downstream" in subjects
    assert "Mine" not in subjects


def test_a_process_that_outlives_it_changes_nothing_that_is_committed(world: World) -> None:
    late = "setsid sh -c 'sleep 1; echo evil >> app.c; echo evil > smoke.sh; touch late' >/dev/null 2>&1 &"
    program(world, f"#!/bin/sh\n{FIX}{late}\n")
    fix(world, "--auto")
    time.sleep(1.2)
    assert world.git("log", "--format=%s").count("made by a command") == 1
    assert world.git("diff", "--name-only", "main", "HEAD").split() == ["app.c", "third_party/llvm"]
    assert "evil" not in world.git("show", "HEAD:app.c")


def test_a_link_in_the_place_of_a_folder_leads_the_next_attempt_nowhere(world: World) -> None:
    victim = world.root / "victim"
    (victim / "llvm").mkdir(parents=True)
    for file in (victim / "mine", victim / "llvm/mine"):
        file.write_text("mine\n")
    for place, target in (("third_party", victim), ("third_party/llvm", victim / "llvm")):
        assert tried(world, f"rm -rf {place}; ln -s {target} {place}")["outcome"] == "refused"
        assert tried(world, "true")["outcome"] == "made"
    assert sorted(path.name for path in victim.rglob("*")) == ["llvm", "mine", "mine"]


# -- what it sees ------------------------------------------------------------------------------------------------------


def test_it_sees_no_secret_and_git_there_knows_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.git("config", "http.https://github.com/.extraheader", f"AUTHORIZATION: basic {VALUE}")
    world.git("config", "credential.helper", f"!echo password={VALUE}; false")
    seen = world.root / "seen"
    give_secrets(monkeypatch, "ANTHROPIC_API_KEY", "GIT_CONFIG_KEY_0")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "0")
    found = tried(world, f"env > {seen}; git config --list >> {seen}; cat $MLIR_RELEASE_FIX >> {seen}")
    assert found["outcome"] == "made"
    text = seen.read_text()
    assert VALUE not in text
    names = {line.partition("=")[0] for line in text.splitlines() if "=" in line and line.split("=")[0].isupper()}
    ours = {name for name in names if name not in surroundings.ALLOWED}
    assert ours <= {
        "MLIR_RELEASE_FIX", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_TERMINAL_PROMPT", "GIT_ALLOW_PROTOCOL",
        "GIT_NO_LAZY_FETCH",
    }  # fmt: skip
    assert str(world.checkout) not in text.replace(str(world.checkout / ".git"), "")


def test_it_sees_what_the_table_names(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSISTANT_KEY", "given")
    seen = world.root / "seen"
    script = f"env > {seen}"
    tried(world, script)
    assert "given" not in seen.read_text()
    config = world.checkout / "integrate.toml"
    config.write_text(config.read_text().replace("[fix]\n", '[fix]\nenvironment = ["ASSISTANT_KEY"]\n'))
    world.git("commit", "-qam", "Configure")
    Walk(world.open()).run(st.Adaptive(), until=world.commits["rename scale"])
    tried(world, script)
    assert "ASSISTANT_KEY=given" in seen.read_text()


# -- files of another job ----------------------------------------------------------------------------------------------

HOSTILE = (
    "../outside", "a/../../outside", "/etc/passwd", ".git/config", "a/.git/config", ".GIT/config", ".github/x",
    "./app.c", "a//b", "a\\..\\b", "integrate.toml", "INTEGRATE.TOML", "smoke.sh", "Smoke.sh", "third_party/llvm",
    "third_party/llvm/mlir/api.h", "expected/out.txt", "x/" * 300 + "y",
)  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE)
def test_a_path_that_another_job_names_is_looked_at_again(world: World, path: str) -> None:
    tried(world, "true")
    saved, record = world.root / "saved.json", world.root / "record.json"
    walk = Walk(world.open())
    (known,) = [known for known in walk.store.load().values() if known.verdict is st.Verdict.BAD][:1]
    record.write_bytes(msgspec.json.encode(structs.replace(known, verdict=st.Verdict.GOOD)))
    document = json.loads(saved.read_text())
    saved.write_text(json.dumps({**document, "changes": {path: document["changes"]["app.c"]}}))
    before = world.git("rev-parse", "HEAD")
    error = check_error(fix(world, "--take", str(saved), "--record", str(record), "--push").exception)
    assert error.id == "walk-needs-person", error
    assert world.git("rev-parse", "HEAD") == before
    check_error(fix(world, "--probe", str(saved)).exception, "walk-needs-person")


def test_another_job_can_not_make_links_or_submodules(world: World) -> None:
    tried(world, "true")
    saved = world.root / "saved.json"
    document = json.loads(saved.read_text())
    for mode in ("120000", "160000", "040000", "100664"):
        saved.write_text(json.dumps({**document, "changes": {"x": {"mode": mode, "data": "eA=="}}}))
        check_error(fix(world, "--probe", str(saved)).exception, "input-invalid")


# -- the rules ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def project(world: World) -> Project:
    return world.open()


def judged(project: Project, path: str, **table: Any) -> list[str]:
    """What is refused of a change of one file."""
    fixing = structs.replace(project.config.fix, **table)
    project.config = structs.replace(project.config, fix=fixing)
    tree = tree_with(project.outer, "HEAD", {path: make_blob(project.outer, b"changed\n")})
    return refusals(project, "HEAD", tree)


def test_only_what_is_allowed_and_not_protected_may_change(project: Project) -> None:
    assert judged(project, "app.c") == []
    assert judged(project, "lib/x.c", allowed=("lib/*.c",)) == []
    assert judged(project, "lib/deep/x.c", allowed=("lib/*.c",)) != []
    assert judged(project, "lib/deep/x.c", allowed=("lib/**",)) == []
    assert judged(project, "app.c", allowed=("lib",)) == ["app.c: [fix] allowed in integrate.toml does not have it"]
    assert judged(project, "lib/x.c", allowed=("lib",), protected=("*/x.c",)) != []
    assert judged(project, "APP.C", allowed=(), protected=("app.c",)) != []
    assert judged(project, "smoke.sh", allowed=("**",), protected=()) == ["smoke.sh: the smoke test's command names it"]


def test_the_files_of_a_command_are_found_in_all_its_words(project: Project) -> None:
    git = project.outer
    blob = make_blob(git, b"x\n")
    link = Entry("120000", "blob", make_blob(git, b"../real/smoke.sh").oid)
    folder = Entry("120000", "blob", make_blob(git, b"real").oid)
    files = {"tools/smoke.py": blob, "real/smoke.sh": blob, "linked/smoke.sh": link, "dir": folder, "t/x": blob}
    tree = tree_with(git, "HEAD", files)
    for argv, expected in (
        (["./smoke.sh"], ["smoke.sh"]),
        (["sh", "-c", "cd build && ../x; ./smoke.sh --fast"], ["smoke.sh"]),
        (["python3", "-m", "tools.smoke"], ["tools/smoke.py"]),
        (["pytest", "--confcutdir=t", "-q"], ["t"]),
        (["linked/smoke.sh"], ["linked/smoke.sh", "real/smoke.sh"]),
        (["dir/smoke.sh"], ["real/smoke.sh"]),
        (["cmake", "-S", ".", "/bin/sh", "../x", "it's"], []),
    ):
        assert named_files(git, tree, argv) == expected, argv
