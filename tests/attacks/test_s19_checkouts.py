"""S19: someone's checkout names programs for git: in its configuration, its hooks, its submodules and its remotes."""

from __future__ import annotations

import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import merge_commits
from tests.attacks.hostile_mirror import run
from tests.attacks.hostile_repository import Program, configure, git, link_hooks, lose, make_program, promise, signed
from tests.integrate.integration import miniature
from tests.loopback import Loopback, Quiet
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _persons_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gitconfig").write_text(
        '[user]\n\tname = m\n\temail = m@example.org\n[protocol "file"]\n\tallow = always\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))


@pytest.fixture
def folder(tmp_path: Path, program: Program) -> Path:
    """A checkout with two branches that change a file differently, and a submodule."""
    for name in ("inner", "checkout"):
        made = tmp_path / name
        made.mkdir()
        git(made, "init", "--quiet", "--initial-branch=main")
        (made / "file").write_text("1\n2\n3\n")
        (made / ".gitattributes").write_text("file filter=trap merge=trap\n")
        git(made, "add", ".")
        git(made, "commit", "--quiet", "-m", "Begin")
    for branch in ("ours", "theirs"):
        git(made, "switch", "--quiet", "-c", branch, "main")
        (made / "file").write_text(f"1\n{branch}\n3\n")
        git(made, "commit", "--quiet", "-am", branch)
    git(made, "switch", "--quiet", "main")
    git(made, "submodule", "--quiet", "add", str(tmp_path / "inner"), "inner")
    git(made, "commit", "--quiet", "-m", "Carry")
    git(made, "remote", "add", "origin", str(tmp_path / "inner"))
    return made


# -- a row for each setting -------------------------------------------------------------------------------------------


@contextmanager
def asking_for_a_password() -> Iterator[str]:
    class Handler(Quiet):
        def do_GET(self) -> None:
            self.answer(401, headers={"WWW-Authenticate": "Basic realm=x"})

    with Loopback(Handler) as server:
        yield f"{server.url}/x"


def owing(folder: Path, url: str) -> None:
    """A partial clone that lacks its file."""
    lose(folder / ".git", "main:file")
    git(folder, "remote", "remove", "origin")
    promise(folder, f"remote.origin.url={url}")


READ = ("cat-file", "blob", "main:file")
FETCH = ("fetch", "origin")
CHECKOUT = ("checkout", "--quiet", "--detach", "ours")
MERGE = ("merge-tree", "--write-tree", "ours", "theirs")
STATUS = ("status", "--porcelain")


def set_up(command: tuple[str, ...], *settings: str) -> Callable[[Path, Program], tuple[str, ...]]:
    """What needs nothing but settings, which a command of git heeds. ``{}`` is the program."""

    def row(folder: Path, program: Program) -> tuple[str, ...]:
        configure(folder, *(setting.format(program.path) for setting in settings))
        return command

    return row


def ssh(folder: Path, program: Program) -> tuple[str, ...]:
    owing(folder, "ssh://git@127.0.0.1:1/x")
    configure(folder, f"core.sshCommand={program.path}")
    return READ


def helper_of_a_server(folder: Path, program: Program) -> tuple[str, ...]:
    configure(folder, f"credential.http://127.0.0.1.helper=!{program.path}", "credential.useHttpPath=true")
    url = git(folder, "config", "remote.origin.url")
    configure(folder, f"credential.{url.removesuffix('/x')}.helper=!{program.path}")
    return FETCH


def alternates(folder: Path, program: Program) -> tuple[str, ...]:
    other = folder.parent / "inner" / ".git" / "objects"
    (folder / ".git/objects/info/alternates").write_text(f"{other}\n")
    configure(folder, f"core.alternateRefsCommand={program.path}")
    return FETCH


def clean(folder: Path, program: Program) -> tuple[str, ...]:
    configure(folder, f"filter.trap.clean={program.path}", "filter.trap.required=true")
    (folder / "file").write_text("4\n2\n3\n")
    return STATUS


def verify(folder: Path, program: Program) -> tuple[str, ...]:
    made = signed(folder, "ours")
    git(folder, "checkout", "--quiet", "--detach", "ours^")
    configure(folder, f"gpg.program={program.path}", "merge.verifySignatures=true")
    return ("merge", "--quiet", "--ff-only", made)


def show(folder: Path, program: Program) -> tuple[str, ...]:
    made = verify(folder, program)[-1]
    configure(folder, "log.showSignature=true")
    git(folder, "update-ref", "refs/heads/signed", made)
    return ("log", "-1", "signed")


def update(folder: Path, program: Program) -> tuple[str, ...]:
    git(folder / "inner", "checkout", "--quiet", "--detach")
    git(folder / "inner", "commit", "--quiet", "--allow-empty", "-m", "Move")
    configure(folder, f"submodule.inner.update=!{program.path}")
    return ("submodule", "update", "--init")


def update_inside(folder: Path, program: Program) -> tuple[str, ...]:
    inner = folder / "inner"
    git(inner, "rm", "--quiet", "file")
    git(inner, "commit", "--quiet", "-m", "Remove")
    configure(inner, f"filter.trap.smudge={program.path}")
    return ("submodule", "update", "--init")


def recurse(folder: Path, program: Program) -> tuple[str, ...]:
    update_inside(folder, program)
    git(folder, "commit", "--quiet", "-am", "Move")
    configure(folder, "submodule.recurse=true")
    return ("checkout", "--quiet", "--detach", "HEAD^")


def fetch_inside(folder: Path, program: Program) -> tuple[str, ...]:
    git(folder, "submodule", "--quiet", "add", "--force", str(folder.parent / "inner"), "other")
    inner = folder / "inner"
    configure(inner, "remote.origin.url=ssh://git@127.0.0.1:1/x", f"core.sshCommand={program.path}")
    configure(folder, "fetch.recurseSubmodules=true")
    return FETCH


def push_inside(folder: Path, program: Program) -> tuple[str, ...]:
    inner, bare = folder / "inner", folder.parent / "bare.git"
    git(folder.parent, "init", "--quiet", "--bare", str(bare))
    configure(folder, f"remote.origin.url={bare}", "push.recurseSubmodules=on-demand")
    git(inner, "commit", "--quiet", "--allow-empty", "-m", "Move")
    git(folder, "commit", "--quiet", "-am", "Move")
    configure(inner, "remote.origin.url=ssh://git@127.0.0.1:1/x", f"core.sshCommand={program.path}")
    return ("push", "origin", "main")


def hooks(folder: Path, program: Program) -> tuple[str, ...]:
    link_hooks(folder / ".git" / "hooks", program)
    return CHECKOUT


def hooks_elsewhere(folder: Path, program: Program) -> tuple[str, ...]:
    link_hooks(folder / "elsewhere", program)
    configure(folder, f"core.hooksPath={folder / 'elsewhere'}")
    return CHECKOUT


ROWS = {
    **{row.__name__: row for row in (ssh, helper_of_a_server, alternates, clean, verify, show, update, update_inside)},
    **{row.__name__: row for row in (recurse, fetch_inside, push_inside, hooks, hooks_elsewhere)},
    "ask_pass": set_up(FETCH, "core.askPass={}"),
    "helper": set_up(FETCH, "credential.helper={}"),
    "smudge": set_up(CHECKOUT, "filter.trap.smudge={}"),
    "process": set_up(CHECKOUT, "filter.trap.process={}"),
    "merge": set_up(MERGE, "merge.trap.driver={} %A"),
    "monitor": set_up(STATUS, "core.fsmonitor={}"),
}

#: How a setting comes into the repository's own configuration.
WAYS = ("its own", "included", "of the work tree", "by a file", "embedded")


def elsewhere(folder: Path, way: str) -> None:
    """Move the settings, or the folder that has them."""
    place = folder / ".git"
    if way == "included":
        shutil.copy(place / "config", place / "more")
        kept = git(folder, "config", "--get", "core.repositoryformatversion")
        (place / "config").write_text(
            f'[core]\n\trepositoryformatversion = {kept}\n[includeIf "gitdir:**"]\n\tpath = more\n[extensions]\n'
            + "".join(f"\t{row.split('.', 1)[1].replace('=', ' = ', 1)}\n" for row in extensions(folder))
        )
    elif way == "of the work tree":
        configure(folder, "extensions.worktreeConfig=true")
        shutil.copy(place / "config", place / "config.worktree")
    elif way == "by a file":
        place.rename(folder.parent / "elsewhere.git")
        place.write_text("gitdir: ../elsewhere.git\n")


def extensions(folder: Path) -> list[str]:
    return [row for row in git(folder, "config", "--list").splitlines() if row.startswith("extensions.")]


def remote_of(command: tuple[str, ...]) -> dict[str, str]:
    return {"fetch": {"remote": "origin"}, "push": {"remote": "origin"}, "submodule": {"remote": ""}}.get(
        command[0], {}
    )


def attempt(folder: Path, command: tuple[str, ...]) -> None:
    with suppress(ReleaseError):
        Git(folder, lazy=True).run(*command, check=False, **remote_of(command))  # type: ignore[arg-type]


@pytest.mark.parametrize("row", ROWS)
def test_a_setting_starts_no_program(folder: Path, program: Program, row: str) -> None:
    with asking_for_a_password() as url:
        if row in ("ask_pass", "helper", "helper_of_a_server"):
            configure(folder, f"remote.origin.url={url}")
        command = ROWS[row](folder, program)
        program.forget()
        shutil.copytree(folder, folder.parent / "again", symlinks=True)
        program.is_started_by(folder, *command)
        shutil.rmtree(folder)
        (folder.parent / "again").rename(folder)
        attempt(folder, command)
    assert not program.ran, program.trace.read_text()


@pytest.mark.parametrize(
    ("setting", "asked", "told"),
    [
        ("protocol.file.allow=always", "protocol.file.allow", "never"),
        ("http.sslVerify=false", "http.sslVerify", "true"),
        ("http.https://github.com/.sslVerify=false", "http.https://github.com/.sslVerify", "true"),
        ("filter.trap.required=true", "filter.trap.required", "false"),
        ("gc.recentObjectsHook=x", "maintenance.auto", "false"),
    ],
)
def test_what_starts_no_program_by_itself_is_told_otherwise_too(
    folder: Path, program: Program, setting: str, asked: str, told: str
) -> None:
    git(folder, "config", "--global", "--unset-all", "protocol.file.allow")
    configure(folder, setting)
    assert Git(folder).text("config", "--get", asked) == told


UPLOAD_PACK = set_up(FETCH, "remote.origin.uploadpack={}")
RECEIVE_PACK = set_up(("push", "origin", "main"), "remote.origin.receivepack={}")
PROXY = set_up(FETCH, "remote.origin.url=git://127.0.0.1:1/x", "core.gitProxy={}", "protocol.git.allow=always")


def own_authority(folder: Path, program: Program) -> tuple[str, ...]:
    configure(folder, f"http.https://127.0.0.1.sslCAInfo={program.path}", "http.sslVerify=false")
    program.trace.touch()  # a certificate, no program
    return FETCH


@pytest.mark.parametrize(
    "row", [UPLOAD_PACK, RECEIVE_PACK, PROXY, own_authority], ids=["upload", "receive", "proxy", "authority"]
)
def test_what_git_can_not_be_told_otherwise_is_refused(
    folder: Path, program: Program, row: Callable[..., tuple[str, ...]]
) -> None:
    command = row(folder, program)
    program.is_started_by(folder, *command)
    error = refused(lambda: Git(folder).run(*command, remote="origin"), "config-invalid")
    assert "git config --global" in error.remedy
    assert Git(folder).resolve("main"), "it can be read"
    assert not program.ran


def test_missing_objects_are_not_asked_of_such_a_remote(folder: Path, program: Program) -> None:
    owing(folder, str(folder.parent / "inner"))
    UPLOAD_PACK(folder, program)
    refused(lambda: Git(folder, lazy=True).run(*READ), "config-invalid")
    assert not program.ran


@pytest.mark.parametrize("way", WAYS)
def test_wherever_git_finds_the_setting(folder: Path, program: Program, way: str) -> None:
    if way == "embedded":  # a bare repository, which git takes a folder for
        (folder / "deep").mkdir()
        git(folder.parent, "clone", "--quiet", "--bare", str(folder), str(folder / "deep" / "bare"))
        folder = folder / "deep" / "bare"
        configure(folder, "remote.origin.url=ssh://git@127.0.0.1:1/x", f"core.sshCommand={program.path}")
        command: tuple[str, ...] = FETCH
    else:
        command = ssh(folder, program)
        elsewhere(folder, way)
    program.is_started_by(folder, *command)
    attempt(folder, command)
    (folder / "below").mkdir()
    attempt(folder / "below", command)
    assert not program.ran


@pytest.mark.parametrize("way", ["global", "included", "command"])
def test_a_persons_own_setting_counts_also_beside_the_repositorys(
    folder: Path, program: Program, way: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ssh(folder, program)
    own = make_program(folder.parent / "own")
    config = folder.parent / "gitconfig"
    if way == "global":
        git(folder, "config", "--global", "core.sshCommand", str(own.path))
    elif way == "included":
        git(folder, "config", "--global", f"includeIf.gitdir:{folder}/.path", str(folder.parent / "more"))
        git(folder, "config", "--file", str(folder.parent / "more"), "core.sshCommand", str(own.path))
    else:
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.sshCommand")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(own.path))
    assert config.exists()
    attempt(folder, command)
    assert own.ran
    assert not program.ran
    assert "core.sshcommand" in capfd.readouterr().err, "a note tells it"


def test_a_persons_own_helper_is_asked_and_the_repositorys_is_not(folder: Path, program: Program) -> None:
    own = make_program(folder.parent / "own")
    git(folder, "config", "--global", "credential.http://127.0.0.1.helper", f"!{own.path}")
    with asking_for_a_password() as url:
        git(folder, "config", "--global", f"credential.{url.removesuffix('/x')}.helper", f"!{own.path}")
        configure(folder, f"remote.origin.url={url}", f"credential.helper=!{program.path}")
        attempt(folder, FETCH)
    assert own.ran
    assert not program.ran


def test_without_its_driver_a_file_is_merged_as_text(folder: Path, program: Program) -> None:
    ROWS["merge"](folder, program)
    assert merge_commits(Git(folder), "ours", "theirs").conflicts == ("file",)
    git(folder, "switch", "--quiet", "-c", "below", "main")
    (folder / "file").write_text("1\n2\n3\n4\n5\n")
    git(folder, "commit", "--quiet", "-am", "below")
    git(folder, "switch", "--quiet", "-c", "above", "main")
    (folder / "file").write_text("0\n1\n2\n3\n")
    git(folder, "commit", "--quiet", "-am", "above")
    tree = merge_commits(Git(folder), "below", "above").tree
    assert git(folder, "cat-file", "blob", f"{tree}:file") == "0\n1\n2\n3\n4\n5"
    assert not program.ran


# -- commands ---------------------------------------------------------------------------------------------------------

COMMANDS = [
    ("integrate", "-C", "{}", "init", "--print"),
    ("integrate", "-C", "{}", "status"),
    ("integrate", "-C", "{}", "patches", "list"),
    ("integrate", "-C", "{}", "start"),
    ("integrate", "-C", "{}", "run"),
    ("integrate", "-C", "{}", "land"),
    ("snapshot", "--dry-run", "--policy", "pin-of:{}", "--forge", "local:{}/forge"),
    ("pin", "set", "head", "--repository", "{}"),
    ("doctor", "--repository", "{}"),
    ("downstream", "init", "{}"),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> miniature.World:
    return miniature.build(tmp_path_factory.mktemp("template") / "world", patched=True, small=True)


def test_a_checkout_runs_no_program_in_any_command(
    template: miniature.World, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = miniature.copy(template.root, tmp_path / "world")
    world.enter(monkeypatch)
    monkeypatch.setenv("CI", "1")
    inner = world.checkout / "third_party/llvm"
    for place in (world.checkout, inner):
        top = place / git(place, "rev-parse", "--git-dir")
        names = {"credential.helper", "core.sshCommand", "core.askPass", "core.fsmonitor", "core.alternateRefsCommand"}
        names |= {f"filter.trap.{word}" for word in ("clean", "smudge", "process")}
        names |= {"merge.trap.driver", "diff.external", "diff.trap.command", "diff.trap.textconv", "core.pager"}
        names |= {"core.editor", "sequence.editor", "gpg.program", "submodule.third_party/llvm.update"}
        for name in names:
            git(place, "config", name, f"!{program.path}" if name.endswith("update") else str(program.path))
        link_hooks(top / "hooks", program)
        (top / "info").mkdir(exist_ok=True)
        (top / "info" / "attributes").write_text("* filter=trap merge=trap diff=trap\n")
    program.is_started_by(world.checkout, "status")
    for command in COMMANDS:
        run(*(word.replace("{}", str(world.checkout)) for word in command))
        assert not program.ran, (command, program.trace.read_text())


def test_recognising_pins_contacts_nobody(folder: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack that was found. Not even the person's own ssh is started."""
    ssh(folder, program)
    own = make_program(folder.parent / "own")
    monkeypatch.setenv("GIT_SSH_COMMAND", str(own.path))
    assert run("integrate", "-C", folder, "init", "--print").code != 0
    assert not program.ran
    assert not own.ran
