"""A smoke test is foreign code, as builds are: it gets no secret, and what it does to its git folder runs nowhere."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.builder.sdk.progress import run_step
from mlir_release.builder.testing.lit import run_lit
from mlir_release.cli.app import app
from mlir_release.ground import strategy as st
from mlir_release.ground.errors import ReleaseError, UsageError
from mlir_release.ground.programs import surroundings
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python.venv import VirtualEnvironment
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.fix.fix import open_fix
from mlir_release.integrate.walk.walk import Walk
from mlir_release.release.forge.checkout import pass_named_variables
from tests.integrate.integration import miniature

if TYPE_CHECKING:
    from tests.integrate.integration.miniature import World

#: Not recognisable as secrets by a word in their names, or not by the old list's words.
SECRETS = (
    "DB_PASS", "SLACK_WEBHOOK", "SLACK_WEBHOOK_URL", "DATABASE_URL", "JWT", "AZURE_CREDS", "GITHUB_TOKEN", "GH_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "MLIR_RELEASE_EXPORT_TOKEN", "MLIR_RELEASE_NOTIFY", "TWINE_PASSWORD",
    "SCCACHE_WEBDAV_PASSWORD", "CCACHE_REMOTE_STORAGE", "GIT_CONFIG_VALUE_0",
)  # fmt: skip
VALUE = "s3cret-value"

HOOKS = (
    "post-checkout", "post-commit", "post-index-change", "post-merge", "post-rewrite", "pre-auto-gc", "pre-commit",
    "pre-merge-commit", "pre-push", "reference-transaction", "fsmonitor-watchman", "sendemail-validate",
)  # fmt: skip

#: What runs foreign programs in git, by the settings that lead to them.
PROGRAMS = (
    "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.alternateRefsCommand", "diff.external",
    "filter.evil.smudge", "filter.evil.clean", "filter.evil.process", "merge.evil.driver", "gpg.program",
    "uploadpack.packObjectsHook", "gc.recentObjectsHook", "remote.origin.uploadpack", "remote.origin.receivepack",
)  # fmt: skip

#: Changes the git folder of both trees, as git itself names it.
ATTACK = """#!/bin/sh
for tree in "$PWD" "$MLIR_RELEASE_UPSTREAM_SOURCE"; do
  cd "$tree" || exit 125
  common=$(git rev-parse --path-format=absolute --git-common-dir)
  mkdir -p "$common/hooks" "$common/info"
  for hook in {hooks}; do
    printf '#!/bin/sh\\necho %s >> {ran}\\n' $hook > "$common/hooks/$hook"
    chmod +x "$common/hooks/$hook"
  done
  for setting in {programs}; do git config --file "$common/config" $setting "echo $setting >> {ran}; false"; done
  git config --file "$common/config" core.hooksPath "$common/hooks"
  git config --file "$common/config" commit.gpgSign true
  echo '* filter=evil merge=evil' > "$common/info/attributes"
  {more}
done
exit {code}
"""

#: Besides: another repository in the place of the tree's, and one that the tree's shares.
MORE = {
    "hooks and settings": "",
    "another folder": 'cp -r "$common" "$common.evil"; rm -rf .git; echo "gitdir: $common.evil" > .git',
    "a common folder": 'cp -r "$common" "$common.evil"; echo "$common.evil" > "$(git rev-parse --git-dir)/commondir"',
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> World:
    return miniature.build(tmp_path_factory.mktemp("template") / "world", patched=False, small=True)


@pytest.fixture
def world(template: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """An integrate that has just been started."""
    made = miniature.copy(template.root, tmp_path / "world")
    made.enter(monkeypatch)
    start(made.open())
    return made


def give_secrets(monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
    """Into an environment that has nothing else to withhold but what git needs."""
    for name in os.environ.keys() - surroundings.foreign_environment().keys():
        if not name.startswith("GIT_"):
            monkeypatch.delenv(name)
    for name in (*SECRETS, *more):
        monkeypatch.setenv(name, VALUE)


def smoke(world: World, script: str) -> None:
    (world.checkout / "smoke.sh").write_text(script)
    world.git("commit", "-qam", "Attack")


def attack(world: World, more: str, *, code: int = 0) -> Path:
    """Let the smoke test attack. Returns the file in which the programs note that they ran."""
    ran = world.root / "ran"
    words = {"hooks": " ".join(HOOKS), "programs": " ".join(PROGRAMS), "ran": ran, "code": code}
    smoke(world, ATTACK.format(**words, more=MORE[more]))
    return ran


def own_folders(world: World) -> dict[str, bytes]:
    """The settings and hooks of the person's repositories."""
    folder = world.checkout / ".git"
    files = [*folder.rglob("config"), *folder.rglob("hooks/*"), *folder.rglob("info/attributes")]
    return {os.fspath(file): file.read_bytes() for file in files}


@pytest.mark.parametrize("more", MORE)
def test_hooks_and_settings_that_a_smoke_test_writes_are_not_run(world: World, more: str) -> None:
    ran = attack(world, more)
    before = own_folders(world)
    walk = Walk(world.open())
    seen = walk.observer.look()
    for upstream in world.affecting[:2]:  # the second one in what the first has left
        walk.probe(seen, upstream)
    walk.next()
    walk.project.refuse_dirty()
    assert walk.tests == 2
    assert not ran.exists(), ran.read_text()
    assert own_folders(world) == before


@pytest.mark.slow
@pytest.mark.parametrize("more", MORE)
def test_nor_are_they_in_the_work_tree_of_a_fix(world: World, more: str) -> None:
    ran = attack(world, more, code=1)
    walk = Walk(world.open())
    seen = walk.observer.look()
    walk.probe(seen, seen.base)
    walk.probe(seen, world.affecting[0])
    fix = open_fix(walk)
    capture([fix.command])
    for _ in range(2):
        CliRunner().invoke(app, ["integrate", "-C", str(world.checkout), "fix"])
        CliRunner().invoke(app, ["integrate", "-C", str(world.checkout), "fix", "--continue"])
    assert not ran.exists(), ran.read_text()


def test_a_smoke_test_finds_no_way_from_its_git_folder_to_a_token(world: World, tmp_path: Path) -> None:
    """As actions/checkout leaves one in the checkout's settings."""
    world.git("config", "http.https://github.com/.extraheader", f"AUTHORIZATION: basic {VALUE}")
    world.git("config", "remote.mine.url", f"https://x:{VALUE}@github.com/x/y")
    seen = tmp_path / "seen"
    smoke(
        world, f"#!/bin/sh\ngit config --list > {seen}\ngit rev-parse --absolute-git-dir --git-common-dir >> {seen}\n"
    )
    walk = Walk(world.open())
    assert walk.probe(walk.observer.look(), world.affecting[0]).verdict is st.Verdict.GOOD
    assert "remote.origin.url=" in seen.read_text()
    assert VALUE not in seen.read_text()
    assert str(world.checkout) not in seen.read_text()


def test_a_smoke_test_sees_what_is_listed_and_named_and_nothing_else(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    smoke(world, f"#!/bin/sh\nenv > {seen}\n")
    any_other = f"X{uuid.uuid4().hex}"
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "x.y")
    give_secrets(monkeypatch, any_other)
    walk = Walk(world.open())
    walk.probe(walk.observer.look(), world.affecting[0])
    names = {line.partition("=")[0] for line in seen.read_text().splitlines()}
    assert VALUE not in seen.read_text()
    assert "PATH" in names
    assert names <= surroundings.ALLOWED


def test_a_smoke_test_that_fails_is_told_of_with_the_names_of_what_it_did_not_see(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    smoke(world, "#!/bin/sh\nexit 1\n")
    give_secrets(monkeypatch, "A\x1b[2Jname")
    said = CliRunner().invoke(app, ["integrate", "-C", str(world.checkout), "probe", world.affecting[0]]).output
    assert "variables withheld from the program: ACTIONS_ID_TOKEN_REQUEST_TOKEN, AZURE_CREDS, CCACHE_REMOTE" in said
    assert "name in environment of [smoke] in integrate.toml" in said
    error = CliRunner().invoke(app, ["integrate", "-C", str(world.checkout), "run"]).exception
    assert isinstance(error, ReleaseError)
    assert "variables withheld from the program: ACTIONS_ID_TOKEN_REQUEST_TOKEN, " in error.why
    for text in (said, str(error)):
        assert VALUE not in text
        assert "\x1b" not in text


def test_a_build_and_a_test_that_fail_are_told_of_so_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_secrets(monkeypatch)
    folder = tmp_path / "test"
    folder.mkdir()
    program = [sys.executable, "-c", "raise SystemExit(2)"]
    with pytest.raises(ReleaseError) as build:
        run_step(program, environment={}, log=tmp_path / "log", what="CMake failed")
    with pytest.raises(ReleaseError) as suite:
        run_lit(folder, lit=program, environment={}, title="tests")
    with pytest.raises(ReleaseError) as pip:
        VirtualEnvironment(root=tmp_path).install("no/such/wheel.whl")
    for error in (build.value, suite.value, pip.value):
        assert "; variables withheld from the program: ACTIONS_ID_TOKEN_REQUEST_TOKEN, AZURE_CREDS, " in error.remedy
        assert "more); name in environment of [release] in targets.toml those that it needs" in error.remedy
        assert VALUE not in str(error)


def test_targets_toml_names_other_variables_but_never_the_jobs_own_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LICENSE_SERVER", VALUE)
    text = Path(__file__).parents[2].joinpath("targets.toml").read_text().replace("[release]\n", "[release]\n{}\n", 1)
    pass_named_variables(tmp_path)  # there is no such file
    (tmp_path / "targets.toml").write_text(text.replace("{}", 'environment = ["LICENSE_SERVER"]'))
    assert "LICENSE_SERVER" not in surroundings.foreign_environment()
    pass_named_variables(tmp_path)
    assert surroundings.foreign_environment()["LICENSE_SERVER"] == VALUE
    for name in (
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "ACTIONS_RUNTIME_TOKEN",
        "MLIR_RELEASE_EXPORT_TOKEN",
        "TWINE_PASSWORD",
        "A B",
    ):
        (tmp_path / "targets.toml").write_text(text.replace("{}", f'environment = ["{name}"]'))
        with pytest.raises(UsageError, match="environment"):
            pass_named_variables(tmp_path)
