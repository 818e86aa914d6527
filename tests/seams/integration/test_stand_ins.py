"""The stand-ins that act runs in place of GitHub's actions do what these do.

Each test names what the real action says or does. With ``MLIR_RELEASE_ACTIONS``, a folder of clones as ``make
rehearsal-actions`` takes it, the same tests run with the real actions.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.documents import read_yaml
from tests.github_server import GitHubServer
from tests.workflows.real_actions import USES, RealActions
from tests.workflows.results_service import ResultsService

if TYPE_CHECKING:
    from collections.abc import Iterator

STAND_INS = Path(__file__).resolve().parents[2] / "workflows" / "stand_ins"
WORKFLOWS = STAND_INS.parents[2] / ".github" / "workflows"
VERSION = ".".join(map(str, sys.version_info[:2]))
MACHINE = {"aarch64": "arm64"}.get(platform.machine(), "x64")
LONG = re.compile(r"(\S+)<<(ghadelimiter_\S+)\n(.*?)\n\2\n", re.DOTALL)

#: The real action of each stand-in.
REAL = {
    "upload": "actions/upload-artifact", "download": "actions/download-artifact", "checkout": "actions/checkout",
    "cache/save": "actions/cache:save", "cache/restore": "actions/cache:restore",
    "setup-python": "actions/setup-python", "upload-pages": "actions/upload-pages-artifact:nested",
}  # fmt: skip
EXPRESSION = re.compile(r"\$\{\{ *(?P<what>[^}]+?) *\}\}")


class Job:
    """The workspace of a job, whose steps are stand-ins."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = root / "workspace"
        self.workspace.mkdir()
        (root / "temp").mkdir()
        self.github: dict[str, str] = {}
        self.environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            "ARTIFACTS": str(root / "artifacts-1"), "CACHES": str(root / "caches"), "RUNNER_TEMP": str(root / "temp"),
            "GITHUB_OUTPUT": str(root / "output"), "GITHUB_ENV": str(root / "env"), "GITHUB_PATH": str(root / "path"),
        }  # fmt: skip
        self.said = ""
        self.python_root = sys.base_prefix
        self.token = "secret"

    def begin_run(self, number: int) -> None:
        """From now on it is a job of another run."""
        self.environment["ARTIFACTS"] = str(self.root / f"artifacts-{number}")

    def fill_the_account(self) -> None:
        """From now on there is no room for artifacts."""
        self.environment["QUOTA_IS_FULL"] = "1"

    def use(self, stand_in: str, /, **inputs: str) -> bool:
        """Run a stand-in as a runner would; whether it succeeded."""
        folder = STAND_INS / stand_in
        action = read_yaml(folder / "action.yml")
        given = {key.replace("_", "-"): value for key, value in inputs.items()}
        assert given.keys() <= action["inputs"].keys(), "the stand-in lacks an input"
        values = {key: str(data.get("default", "")) for key, data in action["inputs"].items()} | given
        context = {f"inputs.{key}": value for key, value in values.items()} | {"github.action_path": str(folder)}
        context |= {f"github.{key}": value for key, value in self.github.items()}

        def filled(text: str) -> str:
            return EXPRESSION.sub(lambda match: self._value(match["what"], context), text)

        for step in action["runs"]["steps"]:
            variables = {key: filled(str(value)) for key, value in step.get("env", {}).items()}
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", filled(step["run"])],
                cwd=self.workspace, env=self.environment | variables, capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.said = done.stdout + done.stderr
            if done.returncode != 0:
                return False
        return True

    def _value(self, expression: str, context: dict[str, str]) -> str:
        """``a || b`` of inputs and the context github."""
        found = (filled for part in expression.split("||") if (filled := self._plain(part.strip(), context)))
        return next(found, "")

    def _plain(self, name: str, context: dict[str, str]) -> str:
        if EXPRESSION.fullmatch(value := context.get(name, "")):
            return self._value(value[3:-2].strip(), context)
        return value

    def write(self, path: str, text: str = "x") -> Path:
        place = self.workspace / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def files(self, folder: str = ".") -> set[str]:
        place = self.workspace / folder
        return {str(path.relative_to(place)) for path in place.rglob("*")}

    def told(self, file: str) -> dict[str, str]:
        """What a step wrote to ``output`` or ``env``."""
        text = (self.root / file).read_text()
        long = {match[1]: match[3] for match in LONG.finditer(text)}
        return dict(line.split("=", 1) for line in LONG.sub("", text).splitlines()) | long


class RealJob(Job):
    """The same with the real actions, on Node."""

    def __init__(self, root: Path, actions: RealActions, github: GitHubServer) -> None:
        super().__init__(root)
        self.actions, self.api = actions, github
        pinned = {"@".join(match) for path in WORKFLOWS.glob("*.yml") for match in USES.findall(path.read_text())}
        self.folders = {use.partition("@")[0]: folder for use, folder in actions.provide(pinned).items()}
        self.token = github.token()
        self.begin_run(1)
        self.python_root = str(next((actions.workspace / "tools" / "Python").glob(f"{VERSION}.*")) / MACHINE)
        self.environment |= {"GITHUB_WORKSPACE": str(self.workspace), "GITHUB_REPOSITORY": "llvm/x",
                             "GITHUB_STATE": str(root / "state"), "RUNNER_OS": "Linux"}  # fmt: skip
        for name in ("output", "env", "path", "state"):
            (root / name).touch()

    def begin_run(self, number: int) -> None:
        self.environment |= self.actions.environment(number)
        self.environment |= {"GITHUB_RUN_ID": str(number), "GITHUB_API_URL": self.api.api_url}

    def fill_the_account(self) -> None:
        self.actions.results.is_full = True

    def use(self, stand_in: str, /, **inputs: str) -> bool:
        name, _, inner = REAL[stand_in].partition(":")
        if name not in self.folders:
            pytest.skip(f"NOT TRIED: {self.actions.report()}")
        folder = self.folders[name] / inner
        action = read_yaml(folder / "action.yml")
        given = {key.replace("_", "-"): value for key, value in inputs.items()}
        values = {key: yaml_text(data.get("default")) for key, data in action["inputs"].items()}
        contexts = {"github.repository": "llvm/x", "github.run_id": self.environment["GITHUB_RUN_ID"],
                    "github.token": self.github.get("token", "")}  # fmt: skip
        values = {
            key: EXPRESSION.sub(lambda m: contexts.get(m["what"], ""), text) for key, text in values.items()
        } | given
        for file in ("output", "env", "path"):
            (self.root / file).write_text("")
        variables = {f"INPUT_{key.replace(' ', '_').upper()}": value for key, value in values.items()}
        variables["GITHUB_REF"] = self.github.get("ref", "refs/heads/main")
        done = subprocess.run(
            ["node", str(folder / action["runs"]["main"])], cwd=self.workspace, capture_output=True, text=True,
            env=self.environment | variables, check=False,
        )  # fmt: skip
        self.said = done.stdout + done.stderr
        return done.returncode == 0


def yaml_text(value: object) -> str:
    """A default as an action gets it."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@pytest.fixture(params=["stand-in", "real"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Job]:
    if request.param == "stand-in":
        yield Job(tmp_path)
        return
    folder = os.environ.get("MLIR_RELEASE_ACTIONS")
    if not folder:
        pytest.skip("NOT TRIED: set MLIR_RELEASE_ACTIONS to a folder of clones of the real actions")
    with ResultsService(tmp_path / "results") as results, GitHubServer(tmp_path / "api") as github:
        github.add_repository("llvm/x", {})
        github.results = results
        yield RealJob(tmp_path, RealActions(Path(folder), tmp_path / "actions", results), github)


# -- artifacts ------------------------------------------------------------------------------------------------------


def test_hidden_files_empty_folders_modes_links_and_times_are_lost(job: Job) -> None:
    """README of upload-artifact: "Permission Loss", "Uploading Hidden Files"; an archive has only files."""
    program = job.write("dist/bin/program")
    program.chmod(0o755)
    os.utime(program, (1, 1))
    job.write("dist/.hidden")
    job.write("dist/.folder/inside")
    (job.workspace / "dist" / "empty").mkdir()
    (job.workspace / "dist" / "link").symlink_to("bin/program")
    (job.workspace / "dist" / "dangling").symlink_to("nowhere")
    assert job.use("upload", name="a", path="dist")
    assert job.use("download", name="a", path="out")
    assert job.files("out") == {"bin", "bin/program", "link"}
    arrived = job.workspace / "out" / "bin" / "program"
    assert not arrived.stat().st_mode & 0o111
    assert arrived.stat().st_mtime > 1
    assert not (job.workspace / "out" / "link").is_symlink()
    assert job.use("upload", name="b", path="dist", include_hidden_files="true")
    assert job.use("download", name="b", path="all")
    assert job.files("all") == {"bin", "bin/program", "link", ".hidden", ".folder", ".folder/inside"}


def test_names_are_below_what_all_patterns_share(job: Job) -> None:
    """README: "the least common ancestor of all the search paths will be used as the root directory"."""
    job.write("dist/one.whl")
    job.write("dist/deep/two.whl")
    job.write("reports/r.json")
    for name, path, expected in (
        ("file", "dist/one.whl", {"one.whl"}),
        ("pattern", "dist/*.whl", {"one.whl"}),
        ("deep", "dist/**/*.whl", {"one.whl", "deep", "deep/two.whl"}),
        ("two", "dist/one.whl\nreports", {"dist", "dist/one.whl", "reports", "reports/r.json"}),
        ("without", "dist\n!dist/deep/*", {"one.whl"}),
    ):
        assert job.use("upload", name=name, path=path), job.said
        assert job.use("download", name=name, path=f"out-{name}")
        assert job.files(f"out-{name}") == expected, name


@pytest.mark.parametrize(("option", "success", "said"), [
    ("", True, "::warning::No files were found"), ("warn", True, "::warning::No files"),
    ("ignore", True, "No files were found"), ("error", False, "::error::No files were found"),
])  # fmt: skip
def test_no_files(job: Job, option: str, success: bool, said: str) -> None:
    """``if-no-files-found`` defaults to warn; no artifact is made."""
    (job.workspace / "empty").mkdir()
    options = {"if_no_files_found": option} if option else {}
    for path in ("nowhere", "nowhere/*.whl", "empty"):
        assert job.use("upload", name="a", path=path, **options) == success
        assert said in job.said
        assert ("::warning::" in job.said) == (option in ("", "warn"))
    assert not job.use("download", name="a", path="out")


def test_an_artifact_of_the_same_name_is_a_conflict(job: Job) -> None:
    """README: "If false, the action will fail if an artifact for the given name already exists"."""
    job.write("one")
    job.write("two")
    assert job.use("upload", name="a", path="one")
    assert not job.use("upload", name="a", path="two")
    assert "(409) Conflict" in job.said
    assert job.use("upload", name="a", path="two", overwrite="true")
    assert job.use("download", name="a", path="out")
    assert job.files("out") == {"two"}
    for name in ("a/b", "a:b", ""):
        assert not job.use("upload", name=name, path="one")


def test_an_account_without_room_takes_no_artifact(job: Job) -> None:
    """What GitHub says to it, once it has counted, every six to twelve hours (actions/upload-artifact#307)."""
    job.write("one")
    job.fill_the_account()
    assert not job.use("upload", name="a", path="one")
    assert "Failed to CreateArtifact: Artifact storage quota has been hit" in job.said


def test_a_pattern_without_a_match_is_well_and_a_name_is_not(job: Job) -> None:
    job.write("x")
    assert job.use("upload", name="wheel-a", path="x")
    assert job.use("download", pattern="report-*", path="out")
    assert "Total of 0 artifact(s)" in job.said
    assert not (job.workspace / "out").exists()
    assert not job.use("download", name="report-a", path="out")
    assert "Artifact not found for name: report-a" in job.said


def test_several_artifacts_get_folders_unless_they_are_merged_and_one_does_not(job: Job) -> None:
    """download-artifact 5 and newer: a pattern that matches one artifact unpacks it without a folder."""
    for name in ("wheel-a", "wheel-b"):
        job.write(f"{name}.whl")
        assert job.use("upload", name=name, path=f"{name}.whl")
    assert job.use("download", pattern="wheel-*", path="apart")
    assert job.files("apart") == {"wheel-a", "wheel-a/wheel-a.whl", "wheel-b", "wheel-b/wheel-b.whl"}
    assert job.use("download", pattern="wheel-*", path="merged", merge_multiple="true")
    assert job.files("merged") == {"wheel-a.whl", "wheel-b.whl"}
    assert job.use("download", pattern="*-a", path="one")
    assert job.files("one") == {"wheel-a.whl"}
    assert job.use("download", path="every")
    assert {"wheel-a", "wheel-b"} <= job.files("every")


def test_another_runs_artifacts_need_a_token(job: Job) -> None:
    job.write("x")
    assert job.use("upload", name="a", path="x")
    job.begin_run(2)
    assert not job.use("download", name="a", path="out", run_id="1")
    assert job.use("download", name="a", path="out", run_id="1", github_token=job.token), job.said


def test_pages_are_uploaded_once_with_what_links_point_to(job: Job) -> None:
    if isinstance(job, RealJob):
        pytest.skip("NOT TRIED: a composite action; make rehearsal-actions runs it")
    job.write("site/index.html")
    job.write("site/.nojekyll")
    (job.workspace / "site" / "latest").symlink_to("index.html")
    assert job.use("upload-pages", path="site", name="github-pages-1")
    assert job.use("download", name="github-pages-1", path="out")
    assert job.files("out") == {"index.html", "latest"}
    assert not (job.workspace / "out" / "latest").is_symlink()
    assert not job.use("upload-pages", path="site", name="github-pages-1")
    assert job.use("upload-pages", path="site", name="github-pages-2")


# -- caches ---------------------------------------------------------------------------------------------------------


def test_caches(job: Job) -> None:
    """README of actions/cache: keys can't be saved twice; that, and a folder that is missing, is a warning."""
    program = job.write("cache/.bin/program")
    program.chmod(0o755)
    assert job.use("cache/save", path="cache", key="linux-1")
    job.write("cache/later")
    assert job.use("cache/save", path="cache", key="linux-1")
    assert "Failed to save: Unable to reserve cache with key linux-1" in job.said
    assert "::warning::Cache save failed." in job.said
    assert job.use("cache/save", path="nowhere", key="linux-2")
    assert "Path Validation Error" in job.said
    assert "::warning::" in job.said
    shutil.rmtree(job.workspace / "cache")
    assert job.use("cache/restore", path="cache", key="linux-1")
    assert job.files("cache") == {".bin", ".bin/program"}
    assert (job.workspace / "cache" / ".bin" / "program").stat().st_mode & 0o111
    assert job.told("output").items() >= {"cache-hit": "true", "cache-matched-key": "linux-1"}.items()
    shutil.rmtree(job.workspace / "cache")
    assert job.use("cache/restore", path="cache", key="linux-2", restore_keys="mac-\nlinux-\n")
    assert job.told("output")["cache-hit"] == "false"
    assert job.files("cache") == {".bin", ".bin/program"}
    assert job.use("cache/restore", path="other", key="linux-1")
    assert not (job.workspace / "other").exists(), "a cache is for one path"
    assert job.use("cache/restore", path="none", key="windows-1", restore_keys="windows-")
    assert not (job.workspace / "none").exists()
    assert not job.use("cache/restore", path="none", key="windows-1", fail_on_cache_miss="true")


# -- checkout and setup-python ---------------------------------------------------------------------------------------


@pytest.fixture
def origin(job: Job) -> Iterator[GitHubServer]:
    """A repository of three commits and a tag, which the job is for."""
    with GitHubServer(job.root / "github") as github:
        folder = github.add_repository("llvm/x", {"file": b"1"})
        git = github.repositories["llvm/x"].git
        for text in ("2", "3"):
            blob = git.run("hash-object", "-w", "--stdin", input=text.encode()).stdout.decode().strip()
            tree = git.run("mktree", input=f"100644 blob {blob}\tfile\n".encode()).stdout.decode().strip()
            who = {f"GIT_{kind}_{what}": "x@y" for kind in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
            made = git.run("commit-tree", tree, "-p", "main", "-m", text, env=who).stdout.decode().strip()
            git.run("update-ref", "refs/heads/main", made)
        git.run("update-ref", "refs/tags/v1", "main~1")
        assert folder.is_dir()
        job.github = {"ref": "refs/heads/main", "token": github.token()}
        job.environment |= {"GITHUB_SERVER_URL": github.url, "GITHUB_REPOSITORY": "llvm/x",
                            "GITHUB_SHA": git.text("rev-parse", "main")}  # fmt: skip
        yield github


def in_workspace(job: Job, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=job.workspace, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def test_one_commit_is_checked_out_and_no_credentials_stay(job: Job, origin: GitHubServer) -> None:
    """README of checkout: "Only a single commit is fetched by default"."""
    job.write("left/over")
    assert job.use("checkout", persist_credentials="false"), job.said
    assert job.files() >= {"file"}
    assert not (job.workspace / "left").exists()
    assert in_workspace(job, "rev-list", "--count", "--all") == "1"
    assert in_workspace(job, "symbolic-ref", "--short", "HEAD") == "main"
    assert in_workspace(job, "tag") == ""
    assert list((job.root / "temp").glob("*.config")) == []
    assert "includeif" not in in_workspace(job, "config", "--local", "--list")


def test_all_history_and_credentials_that_stay(job: Job, origin: GitHubServer) -> None:
    """checkout 6 and newer: the token is not in .git/config, but in a file that it includes."""
    assert job.use("checkout", fetch_depth="0"), job.said
    assert in_workspace(job, "rev-list", "--count", "HEAD") == "3"
    assert in_workspace(job, "tag") == "v1"
    assert job.github["token"] not in (job.workspace / ".git" / "config").read_text()
    (file,) = (job.root / "temp").glob("*.config")
    assert f"http.{origin.url}/.extraheader" in in_workspace(job, "config", "--list")
    in_workspace(job, "worktree", "add", "-q", "../beside", "v1")
    assert "extraheader" in in_workspace(job, "-C", "../beside", "config", "--list")
    assert file.suffix == ".config"


def test_a_tag_is_checked_out_detached(job: Job, origin: GitHubServer) -> None:
    git = origin.repositories["llvm/x"].git
    job.github["ref"], job.environment["GITHUB_SHA"] = "refs/tags/v1", git.text("rev-parse", "v1")
    assert job.use("checkout"), job.said
    assert (job.workspace / "file").read_text() == "2"
    assert in_workspace(job, "symbolic-ref", "-q", "HEAD") == ""
    assert in_workspace(job, "rev-list", "--count", "--all") == "1"
    assert job.use("checkout", ref="main"), job.said
    assert (job.workspace / "file").read_text() == "3"
    assert not job.use("checkout", ref="nowhere")


def test_setup_python_sets_what_build_systems_look_at(job: Job) -> None:
    """Its sources: find-python.ts."""
    root = job.python_root
    job.environment["PYTHONS"] = f"/usr/bin/false:{Path(root, 'bin', f'python{VERSION}')}"
    assert job.use("setup-python", python_version=VERSION, update_environment="false"), job.said
    assert not (job.root / "env").exists() or job.told("env") == {}
    found = job.told("output")["python-path"]
    assert Path(found).resolve() == Path(root, "bin", f"python{VERSION}").resolve()
    job.environment["LD_LIBRARY_PATH"] = "/else"
    assert job.use("setup-python", python_version=VERSION)
    names = ("pythonLocation", "Python_ROOT_DIR", "Python2_ROOT_DIR", "Python3_ROOT_DIR")
    assert job.told("env") == dict.fromkeys(names, root) | {
        "PKG_CONFIG_PATH": f"{root}/lib/pkgconfig", "LD_LIBRARY_PATH": f"{root}/lib:/else",
    }  # fmt: skip
    assert (job.root / "path").read_text().split() == [root, f"{root}/bin"]


def test_setup_python_fails_where_there_is_no_such_version(job: Job) -> None:
    if isinstance(job, RealJob):
        pytest.skip("NOT TRIED: the real one asks github.com for it first")
    assert not job.use("setup-python", python_version="2.99")
    assert "was not found" in job.said
