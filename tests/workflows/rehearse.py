"""Run the workflows of this checkout with act, on a GitHub on loopback, from a pin bump to a release.

Usage: ``python -m tests.workflows.rehearse [WORKSPACE] [--actions DIR]``. Jobs, matrices, outputs and our own actions
run for real; third-party actions are replaced by stand-ins (``stand_ins/``), or are the real ones from a folder of
clones (``real_actions.py``), but for those that sign or deploy. Workflows that a workflow dispatches run after it. The
toolkit is installed by the first job only (``install_once.py``): that takes longer than most of the jobs do.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.sdk.provision import available_releases, source_of
from mlir_release.ground.console import console
from mlir_release.ground.git.repository import Git
from mlir_release.ground.llvm.llvm_version import upstream_tag
from mlir_release.ground.llvm.pin import PIN_FILE, format_pin
from mlir_release.ground.python import venv
from mlir_release.ground.python.pythons import installed
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.rehearsal.world import choose, make_targets, make_upstream
from tests.github_server import Dispatch, GitHubServer
from tests.processes import run
from tests.sigstore.instance import branch_claims, workflow_claims
from tests.sigstore.services import serve_sigstore
from tests.workflows.real_actions import USES, RealActions
from tests.workflows.results_service import ResultsService
from tools import go_tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.sigstore.services import Services

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "llvm/mlir-wheels"
RUNNER = "ubuntu-24.04"
DISPATCHED = (
    *("snapshot.yml", "release.yml", "compiler-caches.yml"),
    *("pages.yml", "latest.yml", "probe.yml", "canary.yml"),
)

#: What act prints when a job has ended: the names of the calling jobs and of the workflow, and its own.
_ENDED = re.compile(r"^\[(?P<names>.+?)\s*\] 🏁  Job (?P<end>\w+)")

INSTALL, INSTALL_FOR_REAL = "tools/install.py", "tools/install_for_real.py"

SETTINGS = {
    "MLIR_RELEASE_BACKEND": "build",
    # Poetry asks for each version of a dependency by an interface of PyPI's that not every mirror has.
    "MLIR_RELEASE_INSTALLERS": "uv pdm",
}

STAND_INS = {
    "actions/checkout": "checkout",
    "actions/setup-python": "setup-python",
    "actions/cache": "cache",
    "actions/upload-artifact": "upload",
    "actions/download-artifact": "download",
    "actions/configure-pages": "configure-pages",
    "actions/upload-pages-artifact": "upload-pages",
    "actions/deploy-pages": "deploy-pages",
    "pypa/gh-action-pypi-publish": "nothing",
}


#: A user's first program.
FIRST_PROGRAM = """
from mlir.ir import Context, Module
import mlir._release as release
with Context():
    module = Module.parse("func.func @answer() -> i32 { %0 = arith.constant 42 : i32 return %0 : i32 }")
    assert "arith.constant 42" in str(module)
print("MLIR", release.LLVM_VERSION, "of", release.TAG, "works")
"""


@dataclass
class Runner:
    """Runs workflows of one of the server's repositories, each in a fresh clone of the ref that it is dispatched on."""

    github: GitHubServer
    workspace: Path
    token: str
    repository: str = REPOSITORY
    folders: dict[str, Path] = field(default_factory=dict)  #: of repositories that are there, by OWNER/NAME@REF
    variables: dict[str, str] = field(default_factory=dict)  #: environment of all steps
    settings: dict[str, str] = field(default_factory=lambda: dict(SETTINGS))  #: variables of the repository
    real: RealActions | None = None  #: take the place of stand-ins
    sigstore: Services | None = None  #: where attest.yml signs
    lists_jobs: bool = False  #: whether the server lists each job of a run as soon as it has ended
    log: list[tuple[str, str, bool]] = field(default_factory=list)  #: workflow, ref, success
    run_ids: list[int] = field(default_factory=list)
    waiting: list[Dispatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.github.on_dispatch = lambda repository, dispatch: self.waiting.append(dispatch)

    @property
    def pages(self) -> Path:
        """What is deployed, and then served by the server."""
        return self.workspace / "pages"

    def run_all(self, workflow: str, ref: str) -> None:
        """Run a workflow, then those that it dispatches, directly or not."""
        self.run(workflow, ref, {})
        self.run_waiting()

    def run_waiting(self) -> None:
        """Run what was dispatched, and what that dispatches."""
        while self.waiting:
            dispatch = self.waiting.pop(0)
            self.run(dispatch.workflow, dispatch.ref, dispatch.inputs, run_id=dispatch.run_id)

    def run(self, workflow: str, ref: str, inputs: dict[str, str], *, run_id: int | None = None) -> bool:
        """Run one workflow with act; its output goes to a log file. Returns whether it succeeded.

        :param run_id: of the dispatch; None: a person starts it
        """
        number = len(self.log) + 1
        if run_id is None:
            now = self.github.clock()
            run_id = self.github.add_run(self.repository, workflow, ref=ref, event="workflow_dispatch", created=now)
        self.run_ids.append(run_id)
        checkout = self.workspace / f"run-{number}"
        shutil.rmtree(checkout, ignore_errors=True)
        origin = self.github.repositories[self.repository].git
        subprocess.run(["git", "clone", "-q", str(origin.directory), str(checkout)], check=True)
        Git(checkout).run("checkout", "-q", "--detach", ref)
        Git(checkout).run("remote", "set-url", "origin", f"https://github.com/{self.repository}.git")
        self._check_out_main()
        for folder in self.folders.values():
            install_once(folder)
        tag = Git(checkout).resolve(f"refs/tags/{ref}") is not None
        event = {
            "ref": f"refs/{'tags' if tag else 'heads'}/{ref}",
            "inputs": inputs,
            "repository": {"default_branch": "main"},
        }
        (self.workspace / "event.json").write_text(json.dumps(event))
        secrets = self.workspace / "secrets"  # not in act's environment, which every step inherits
        secrets.write_text(f"GITHUB_TOKEN={self.token}\n")
        log = self.workspace / f"run-{number}-{workflow}.log"
        with console.step(f"{workflow} on {ref}"), log.open("wb") as file:
            command = self._command(workflow, checkout, self._identity(checkout, ref))
            with subprocess.Popen(command, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
                assert running.stdout is not None
                for line in running.stdout:
                    file.write(line)
                    if self.lists_jobs and (ended := _ENDED.match(line.decode(errors="replace"))):
                        self._list(ended["names"].split("/"), ended["end"])
            code = running.returncode
        text = log.read_text(errors="replace")
        assert self.token not in text, f"the token is in {log}"
        jobs = re.findall(r"^\[(.+?)\s*\] 🏁  Job (\w+)", text, re.MULTILINE)
        for job, result in jobs:
            console.say(f"    {job}: {result}")
        self._clear(checkout)
        if workflow == "pages.yml" and self.pages.is_dir():
            self.github.deploy_pages(self.repository, self.pages)
        # On GitHub, a probe that fails does not fail its run (continue-on-error); act does not know that of jobs.
        counting = [result for job, result in jobs if "integrate: probe " not in job]
        success = code == 0 or (self.lists_jobs and bool(counting) and set(counting) == {"succeeded"})
        self.log.append((workflow, ref, success))
        return success

    def _list(self, names: list[str], end: str) -> None:
        """Let the server list a job as GitHub does. act counts the jobs of a matrix, and names the workflow, too."""
        calling, *_, own = names
        name, now = f"{calling} / {re.sub(r'-[0-9]+$', '', own)}", self.github.clock()
        conclusion = "success" if end == "succeeded" else "failure"
        self.github.add_job(
            self.run_ids[-1], name, labels=[RUNNER], started=now, completed=now, conclusion=conclusion
        )  # fmt: skip

    def _identity(self, checkout: Path, ref: str) -> dict[str, str]:
        """What lets the run sign, as the run on a tag or branch that it is."""
        if self.sigstore is None:
            return {}
        commit = Git(checkout).resolve("HEAD")
        assert commit is not None
        origin = self.github.repositories[self.repository].git
        on_tag = origin.resolve(f"refs/tags/{ref}^{{commit}}") is not None
        known = {"repository": self.repository, "commit": commit, "run_id": str(self.run_ids[-1])}
        claims = workflow_claims(ref, **known) if on_tag else branch_claims(ref, **known)
        return self.sigstore.environment(**claims, server=self.github.url)

    def _check_out_main(self) -> None:
        """What ``OWNER/NAME/…@main`` names in the workflows (attest.yml): the branch, whatever the run is for."""
        main, origin = self.workspace / "main", self.github.repositories[self.repository].git
        shutil.rmtree(main, ignore_errors=True)
        subprocess.run(["git", "clone", "-q", "--branch", "main", str(origin.directory), str(main)], check=True)
        self.folders[f"{self.repository}@main"] = main

    def _clear(self, checkout: Path) -> None:
        """Delete a run's checkout, as GitHub discards its machines: each has an SDK of gigabytes. Logs stay.

        Artifacts stay until the run after the next: a dispatched run may download them.
        """
        for folder in (checkout, self.workspace / "act", *(self.artifacts(old) for old in self.run_ids[-3:-2])):
            shutil.rmtree(folder, ignore_errors=True)

    def artifacts(self, run_id: int) -> Path:
        """Where the artifacts of a run are."""
        return self.workspace / f"artifacts-{run_id}"

    def _command(self, workflow: str, checkout: Path, identity: Mapping[str, str]) -> list[str]:
        run_id = self.run_ids[-1]
        variables = self.github.environment(self.repository) | {
            "GITHUB_RUN_ID": str(run_id),
            "GITHUB_ACTOR": "example",
            "ARTIFACTS": str(self.artifacts(run_id)),
            "CACHES": str(self.workspace / "caches"),
            "PAGES": str(self.pages),
            "PAGES_URL": self.github.pages.address(self.repository).rstrip("/"),
            "INSTALLED": os.environ.get("INSTALLED", str(self.workspace / "installed")),
            "PYTHONS": ":".join(str(python.executable) for python in installed()),
            "MLIR_RELEASE_CACHE": str(cache_directory()),
            **identity,
            **self.variables,
        }
        # actions/cache/restore is a folder of the repository actions/cache.
        uses = {
            f"{match[1]}@{match[2]}"
            for folder in (checkout, *self.folders.values())
            for path in (folder / ".github" / "workflows").glob("*.yml")
            for match in USES.finditer(path.read_text())
        }
        stand_ins = ROOT / "tests" / "workflows" / "stand_ins"
        real = self.real.provide(uses) if self.real else {}
        if self.real:
            uses |= real.keys() | self.real.replaced.keys()
            variables |= self.real.environment(run_id)
        mapped = [f"{use}={real.get(use) or stand_ins / STAND_INS[use.partition('@')[0]]}" for use in sorted(uses)]
        mapped += [f"{use}={folder}" for use, folder in self.folders.items()]
        return [
            str(go_tool.provide("act")), "workflow_dispatch", "--workflows", f".github/workflows/{workflow}",
            "--eventpath", str(self.workspace / "event.json"), "--platform", f"{RUNNER}=-self-hosted",
            "--secret-file", str(self.workspace / "secrets"),
            "--no-skip-checkout", "--no-cache-server", "--action-cache-path", str(self.workspace / "act"),
            "--concurrent-jobs", "2",
            *(word for name, value in self.settings.items() for word in ("--var", f"{name}={value}")),
            *(word for name, value in variables.items() for word in ("--env", f"{name}={value}")),
            *(word for entry in mapped for word in ("--local-repository", entry)),
        ]  # fmt: skip


def install_once(toolkit: Path) -> None:
    """Make all jobs that install this copy of the toolkit share one environment."""
    if (toolkit / INSTALL).exists():
        for name, content in installed_once({INSTALL: (toolkit / INSTALL).read_bytes()}).items():
            (toolkit / name).write_bytes(content)


def installed_once(files: dict[str, bytes]) -> dict[str, bytes]:
    """The same for files by name, of a repository that jobs check out."""
    once = Path(__file__).with_name("install_once.py").read_bytes()
    return files | ({} if files[INSTALL] == once else {INSTALL: once, INSTALL_FOR_REAL: files[INSTALL]})


def toolkit_files() -> dict[str, bytes]:
    """This checkout's files by name, as they are now, without what git ignores, for act."""
    tracked = Git(ROOT).run("ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout.split(b"\0")
    names = [name for name in map(os.fsdecode, tracked) if name and (ROOT / name).is_file()]
    return for_act({name: (ROOT / name).read_bytes() for name in names})


def for_act(files: dict[str, bytes]) -> dict[str, bytes]:
    """The same files, without ``cache-mode`` in workflows: act (0.2.89) refuses that key, and would not heed it."""
    workflows = {name: text for name, text in files.items() if name.startswith(".github/workflows/")}
    return files | {name: re.sub(rb"(?m)^ *cache-mode: .*\n", b"", text) for name, text in workflows.items()}


def make_runner(github: GitHubServer, workspace: Path, sigstore: Services | None = None) -> Runner:
    """The release repository (this checkout's files, an older pin, one target) on ``github``, and its runner.

    :param sigstore: None: releases are not signed
    """
    release, pythons = choose(available_releases(cache=cache_directory()))
    upstream = workspace / "upstream.git"
    older = make_upstream(upstream, release, {"mlir": source_of(release, cache=cache_directory())})
    pin = Git(upstream).resolve(f"refs/tags/{upstream_tag(older.version)}")
    assert pin is not None
    files = installed_once(toolkit_files()) | {
        PIN_FILE: format_pin(pin),
        TARGETS_FILE: _targets(make_targets(str(upstream), pythons[:1], {"mlir": ("host",)}, runner=RUNNER), sigstore),
    }
    github.add_repository(REPOSITORY, files, workflows=DISPATCHED)
    scopes = ("contents", "actions", "issues", "attestations")
    return Runner(github, workspace, github.token(scopes=scopes), sigstore=sigstore)


def _targets(content: bytes, sigstore: Services | None) -> bytes:
    """On GitHub, releases are signed unless ``targets.toml`` says that they are not."""
    return content if sigstore is not None else content.replace(b"[release]\n", b'[release]\nprovenance = "none"\n')


def install_from_pages(runner: Runner, tag: str) -> str:
    """Install a release as its users do, in a clean environment; returns the output of the first program."""
    _, (python, *_) = choose(available_releases(cache=cache_directory()))
    environment = venv.create(runner.workspace / "clean", python.executable)
    page = f"{runner.github.pages.address(runner.repository)}snapshots/latest/"
    environment.install("-f", page, "mlir>=20200101")
    printed = run(environment.python, "-I", "-c", FIRST_PROGRAM, variables=environment.variables())
    assert tag in printed
    return printed.strip()


def main() -> None:
    """Run the workflows from a snapshot to an installed wheel; see the module."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("workspace", nargs="?", type=Path, default=ROOT / "build" / "rehearsal-actions")
    parser.add_argument("--actions", type=Path, help="clones of the real actions: DIR/OWNER+NAME; else stand-ins run")
    asked = parser.parse_args()
    workspace = asked.workspace.absolute()
    shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir(parents=True)
    with (
        GitHubServer(workspace / "github") as github,
        ResultsService(workspace / "results") as results,
        serve_sigstore(workspace / "sigstore") as sigstore,
    ):
        runner = make_runner(github, workspace, sigstore)
        if asked.actions:
            github.results = results
            runner.real = RealActions(asked.actions.absolute(), workspace / "actions", results)
        runner.run_all("snapshot.yml", "main")
        if runner.real:
            print(runner.real.report())
        failed = [f"{workflow} on {ref}" for workflow, ref, success in runner.log if not success]
        if failed:
            raise SystemExit(f"failed: {', '.join(failed)}; the logs are in {workspace}")
        (release,) = [r for r in github.repositories[REPOSITORY].releases.values() if not r.draft]
        output = install_from_pages(runner, release.tag)
    print(f"published {release.tag} by workflows; pip installs it from the pages: {output}")


if __name__ == "__main__":
    main()
