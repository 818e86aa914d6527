"""Final releases on a real index server (pypiserver), which asks for a password and refuses duplicates."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tomli_w

from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.programs.process import Captured
from mlir_release.ground.python import venv
from mlir_release.release.forge.files import head_of
from mlir_release.release.instructions.install_check import run_pip
from mlir_release.release.pypi import publish as pypi
from mlir_release.release.pypi.project import PypiUpload
from mlir_release.release.pypi.publish import Destination, publish_to_index
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from tests.disturbed_forge import DisturbedForge
from tests.loopback import Loopback, Quiet
from tests.refusals import refused
from tests.release.integration.signed_stage import signed_stage
from tests.release_stage import Stage, make_stage
from tests.serving import make_stub, package_index
from tests.wheel_factory import OTHER_PYTHON, PYTHON, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

TAG, VERSION = "llvm-22.1.8.01", "22.1.8"
USER, PASSWORD = "bot", "correct-horse-battery"


@dataclass
class PypiStage:
    stage: Stage
    packages: Path  #: what the index has
    url: str  #: of the index, for uploads

    def publish(self, tag: str = TAG, version: str = VERSION, *, name: str = "mlir", **options: Any) -> list[str]:
        """Publish a release with two wheels of mlir and one of mlir-core; returns the names of the two.

        :param name: what pip calls the two
        """
        self.stage.add_tag(tag, version)
        folder = self.stage.dist / tag
        for target, distribution, profile, python in (
            ("mlir", name, "host", OTHER_PYTHON),
            ("mlir", name, "host", PYTHON),
            ("mlir-core", "mlir-core", "core", PYTHON),
        ):
            wheel = make_wheel(
                folder,
                tag=tag,
                version=version,
                python=python,
                distribution=distribution,
                profile=profile,
                target=f"{target}-linux-x86_64-{python}",
                **options,
            )
            make_report(folder, wheel, target=f"smoke-{target}-linux-x86_64-{python}")
        draft = self.stage.draft(tag)
        upload(draft, folder)
        publish(draft)
        return sorted(path.name for path in folder.glob(f"{name.replace('-', '_')}-2*.whl"))

    @property
    def destination(self) -> Destination:
        return Destination(repository_url=self.url)

    def put(self, tag: str = TAG, **options: Any) -> PypiUpload:
        outcome = publish_to_index(self.stage.forge, tag, self.destination, **options)
        assert isinstance(outcome, PypiUpload)
        return outcome

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.packages.glob("*.whl"))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PypiStage]:
    packages = tmp_path / "packages"
    packages.mkdir()
    digest = base64.b64encode(hashlib.sha1(PASSWORD.encode()).digest()).decode()
    (tmp_path / "passwords").write_text(f"{USER}:{{SHA}}{digest}\n")
    monkeypatch.setenv("TWINE_USERNAME", USER)
    monkeypatch.setenv("TWINE_PASSWORD", PASSWORD)
    with package_index(packages, "-P", str(tmp_path / "passwords"), "-a", "update") as url:
        yield PypiStage(make_stage(tmp_path), packages, url)


def test_pip_gets_back_what_was_uploaded_and_a_second_run_uploads_nothing(server: PypiStage, tmp_path: Path) -> None:
    names = server.publish()
    planned = server.put(dry_run=True)
    assert [wheel.filename for wheel in planned.upload] == names
    assert server.files == []
    done = server.put()
    assert server.files == names  # mlir-core stays away
    assert "uploaded: " + names[0] in done.text()
    again = server.put()
    assert again.to_json()["uploaded"] == []
    assert again.to_json()["there"] == names
    python = venv.create(tmp_path / "environment", Path(sys.executable), pip=True).python
    options = ["--no-cache-dir", "--index-url", f"{server.url}simple/"]
    got = run_pip(python, "install", *options, f"mlir=={VERSION}")
    assert got.returncode == 0, got.stderr
    shown = subprocess.run(
        [python, "-I", "-c", "import mlir._release as r; print(r.tag)"], capture_output=True, text=True
    )
    assert shown.stdout.strip() == TAG


def test_a_person_uploads_by_the_lines_of_the_documentation(
    server: PypiStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recipe for an index on this machine, but for the server itself, which the fixture started."""
    server.publish()
    page = (Path(__file__).parents[4] / "docs" / "operating.md").read_text(encoding="utf-8")
    recipe = page.partition("mkdir packages\n")[2].partition("```")[0].replace("http://127.0.0.1:8080/", server.url)
    started, *lines = recipe.replace("-u any -p any", f"-u {USER} -p {PASSWORD}").splitlines()
    assert started == "pypi-server run -i 127.0.0.1 -p 8080 -P . -a . packages &"
    python = venv.create(tmp_path / "environment", Path(sys.executable), pip=True).python
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MLIR_RELEASE_FORGE", f"local:{server.stage.forge.root}")
    for line in lines:
        command = line.replace("pip download", f"{python} -m pip download")
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    assert list(tmp_path.glob("mlir-22.1.8-*.whl"))  # what pip got back


def test_three_jobs_stage_upload_and_check(server: PypiStage, tmp_path: Path) -> None:
    """As in release.yml, with twine in place of the action that PyPI trusts."""
    names, folder, pauses = server.publish(), tmp_path / "staged", list[float]()
    staged = pypi.stage(server.stage.forge, TAG, server.destination, folder)
    assert isinstance(staged, pypi.Staged)
    assert sorted(path.name for path in folder.iterdir()) == names == sorted(staged.files)
    assert server.files == []
    error = refused(
        lambda: pypi.check(server.stage.forge, TAG, server.destination, pause=pauses.append),
        "pypi-unsuitable",
        "PyPI lacks files of",
    )
    assert names[0] in error.why
    assert pauses == list(pypi.PAUSES)

    def upload_meanwhile(_: float) -> None:
        assert pypi._twine("upload", "--repository-url", server.url, *map(str, folder.iterdir())).ok

    there = pypi.check(server.stage.forge, TAG, server.destination, pause=upload_meanwhile)
    assert isinstance(there, pypi.OnIndex)
    assert sorted(there.files) == names == server.files
    again = pypi.stage(server.stage.forge, TAG, server.destination, tmp_path / "again")
    assert isinstance(again, pypi.Staged)
    assert (again.files, list((tmp_path / "again").iterdir())) == ((), [])


def test_the_commands_of_the_three_jobs(server: PypiStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, outputs = server.publish(), tmp_path / "outputs"
    monkeypatch.setenv("GITHUB_OUTPUT", str(outputs))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    common = [sys.executable, "-m", "mlir_release", "pypi", TAG, "--repository-url", server.url]
    common += ["--forge", f"local:{server.stage.forge.root}"]
    staged = subprocess.run([*common, "--stage", str(tmp_path / "staged")], capture_output=True, text=True)
    assert staged.returncode == 0, staged.stderr
    lines = outputs.read_text().splitlines()
    digests = {path.name: sha256_of(path) for path in (tmp_path / "staged").iterdir()}
    assert lines[1] == "2"
    assert {line[66:]: line[:64] for line in lines[4:6]} == digests
    lacking = subprocess.run([*common, "--check"], capture_output=True, text=True)
    assert "upload them; the index may show them some minutes later" in lacking.stderr
    assert "looking again" not in lacking.stderr  # a person is not kept waiting
    for path in (tmp_path / "staged").iterdir():
        shutil.copy(path, server.packages)
    checked = subprocess.run([*common, "--check", "--json"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert sorted(json.loads(checked.stdout)["files"]) == names


def set_candidates(server: PypiStage, wanted: bool) -> None:
    """Commit ``pypi-candidates`` to targets.toml."""
    forge = server.stage.forge
    head = head_of(forge, "main")
    before = (forge.read("targets.toml", commit=head) or b"").decode()
    text = before.replace("[release]\n", f"[release]\npypi-candidates = {str(wanted).lower()}\n", 1)
    assert text != before
    forge.commit("main", expected=head, files={"targets.toml": text.encode()}, message="Set pypi-candidates\n")


# -- another owner ----------------------------------------------------------------------------------------------------


def configure(server: PypiStage, name: str, pypi: list[str] | None) -> None:
    """Give the wheels of mlir another name, and say which names go to PyPI."""
    forge = server.stage.forge
    head = forge.head("main") or ""
    data = tomllib.loads((forge.read("targets.toml", commit=head) or b"").decode())
    data["llvm"]["mlir"]["distribution"] = name
    data["project"] = {"mlir": {} if pypi is None else {"pypi": pypi}}
    forge.commit("main", expected=head, files={"targets.toml": tomli_w.dumps(data).encode()}, message="Rename\n")


def test_another_owner_publishes_under_a_name_of_theirs(server: PypiStage, tmp_path: Path) -> None:
    make_stub(server.packages)  # mlir is somebody else's
    configure(server, "my-mlir", ["my-mlir"])
    names = server.publish(name="my-mlir")
    assert len(names) == 2
    done = server.put()
    assert (done.to_json()["uploaded"], done.text().splitlines()[0]) == (
        names, f"{TAG} as my-mlir {VERSION} on {server.url}simple/my-mlir/",
    )  # fmt: skip
    assert [name for name in server.files if name.startswith("my_mlir-")] == names
    staged = pypi.stage(server.stage.forge, TAG, server.destination, tmp_path / "staged")
    assert isinstance(staged, pypi.Staged)
    assert staged.files == ()
    there = pypi.check(server.stage.forge, TAG, server.destination, pause=lambda _: None)
    assert isinstance(there, pypi.OnIndex)
    assert (sorted(there.files), there.urls) == (names, (f"{server.url}simple/my-mlir/",))
    python = venv.create(tmp_path / "environment", Path(sys.executable), pip=True).python
    got = run_pip(python, "install", "--no-cache-dir", "--index-url", f"{server.url}simple/", f"my-mlir=={VERSION}")
    assert got.returncode == 0, got.stderr
    program = "import importlib.metadata as m, mlir._release as r; print(r.tag, m.version('my-mlir'))"
    shown = subprocess.run([python, "-I", "-c", program], capture_output=True, text=True)
    assert shown.stdout.split() == [TAG, VERSION]


def test_several_names_go_there_together_or_not_at_all(server: PypiStage) -> None:
    configure(server, "my-mlir", ["my-mlir", "mlir-core"])
    names = server.publish(name="my-mlir")
    foreign = make_wheel(server.packages, tag="x", version="0.0.1", python=PYTHON, distribution="mlir-core")
    error = refused(lambda: server.put(), "pypi-name-foreign")
    assert (error.what, server.files) == ("the project mlir-core is not ours", [foreign.name])
    foreign.unlink()
    done = server.put()
    uploaded = [*names, f"mlir_core-{VERSION}-{PYTHON}-{PYTHON}-manylinux_2_28_x86_64.whl"]
    assert done.to_json()["uploaded"] == uploaded
    assert [(row.name, len(row.upload)) for row in done.plans] == [("my-mlir", 2), ("mlir-core", 1)]
    assert server.files == sorted(uploaded)
    assert server.put().upload == ()


@pytest.mark.parametrize("pypi", [None, []], ids=["not said", "none"])
def test_a_name_that_nobody_asked_for_stays_away(server: PypiStage, pypi: list[str] | None) -> None:
    """``mlir`` goes there by default; other names are asked for, because they may be somebody else's."""
    configure(server, "my-mlir", pypi)
    server.publish(name="my-mlir")
    done = publish_to_index(server.stage.forge, TAG, server.destination)
    assert "pypi in a [project.NAME] of targets.toml" in done.text()
    assert done.to_json() == {"tag": TAG, "distributions": False, "uploaded": [], "there": []}
    assert server.files == []


CANDIDATE = ("llvm-23.1rc1.01", "23.1rc1")


def test_a_candidate_stays_away_unless_it_is_wanted(server: PypiStage) -> None:
    server.publish(*CANDIDATE)
    done = publish_to_index(server.stage.forge, CANDIDATE[0], server.destination)
    assert "pypi-candidates = true" in done.text()
    assert done.to_json() == {"tag": CANDIDATE[0], "candidates": False, "uploaded": [], "there": []}
    assert server.files == []
    command = [sys.executable, "-m", "mlir_release", "pypi", CANDIDATE[0], "--repository-url", server.url]
    ran = subprocess.run([*command, "--forge", f"local:{server.stage.forge.root}"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.partition(" is ")[0]) == (0, CANDIDATE[0])


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_candidate_is_taken_only_by_who_asks_for_it(server: PypiStage, tmp_path: Path, installer: str) -> None:
    server.publish()
    server.put()
    set_candidates(server, True)
    names = server.publish(*CANDIDATE)
    done = server.put(CANDIDATE[0])
    assert done.to_json()["uploaded"] == names
    python = venv.create(tmp_path / "environment", Path(sys.executable), pip=True).python

    def install(*options: str) -> str:
        """The version that arrives."""
        index = ("--index-url", f"{server.url}simple/")
        place = tmp_path / f"target-{len(list(tmp_path.glob('target-*')))}"
        command = [str(python), "-m", "pip", "install", "--no-cache-dir", "--no-deps"]
        if installer == "uv":
            command = [sys.executable, "-m", "uv", "pip", "install", "--no-cache", "--no-deps", "--python", str(python)]
        ran = subprocess.run([*command, *index, "--target", str(place), *options], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        (info,) = place.glob("mlir-*.dist-info")
        return info.name.removeprefix("mlir-").removesuffix(".dist-info")

    pre = ("--pre",) if installer == "pip" else ("--prerelease", "allow")
    assert install("mlir>=1") == VERSION
    assert install(*pre, "mlir>=1") == CANDIDATE[1]
    assert install(f"mlir=={CANDIDATE[1]}") == CANDIDATE[1]


def test_without_the_password_nothing_goes_up_and_nobody_sees_it(
    server: PypiStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.publish()
    monkeypatch.setenv("TWINE_PASSWORD", "wrong-but-secret")
    error = refused(server.put, "forge-refused")
    assert "403" in error.why
    assert "wrong-but-secret" not in str(error)
    assert server.files == []
    assert pypi._said(Captured(returncode=1, stdout="it was wrong-but-secret", stderr="", ending="")) == "it was ***"


def test_the_server_refuses_a_duplicate_that_the_plan_did_not_see(server: PypiStage) -> None:
    # Another run uploads between the plan and the upload: the same bytes are as good as ours, others are not.
    names, folder = server.publish(), server.stage.dist / TAG

    def meanwhile(content: Callable[[Path], bytes]) -> PypiStage:
        def upload(what: str, name: str) -> None:  # the files are fetched between these two
            if what == "download" and name in names:
                (server.packages / name).write_bytes(content(folder / name))

        return replace(server, stage=replace(server.stage, forge=DisturbedForge(server.stage.forge, upload)))

    meanwhile(lambda path: path.read_bytes()).put()
    assert server.files == names
    for name in names:
        (server.packages / name).unlink()
    refused(meanwhile(lambda _: b"other").put, "lost-race", "other bytes")


def test_bad_metadata_is_refused_before_anything_is_uploaded(server: PypiStage) -> None:
    server.publish(description="MLIR\n=\n\n.. nonsense::\n")
    refused(server.put, "pypi-unsuitable", "twine check refuses")
    assert server.files == []
    server.publish("llvm-22.1.9.01", "22.1.9", description="")  # only a warning, but --strict
    with pytest.raises(VerificationError, match="twine check"):
        server.put("llvm-22.1.9.01")
    assert server.files == []


def test_what_does_not_go_to_an_index(server: PypiStage) -> None:
    refused(lambda: server.put("snapshot-20261120.02"), "release-unsuitable")
    server.stage.add_tag(TAG, VERSION)
    refused(server.put, "release-not-published")
    with_secret = Destination(repository_url="https://bot:secret@example.org/")
    error = refused(lambda: publish_to_index(server.stage.forge, TAG, with_secret), "option-invalid")
    assert "secret" not in str(error)


def test_a_release_that_changed_after_it_was_published(server: PypiStage) -> None:
    names = server.publish()
    folder = server.stage.forge.root / "releases" / TAG
    (folder / names[0]).write_bytes(b"changed")
    error = refused(server.put, kind=VerificationError)
    assert error.id in ("release-tampered", "file-damaged")
    assert server.files == []


def test_an_index_that_is_not_there(server: PypiStage) -> None:
    server.publish()
    refused(
        lambda: publish_to_index(server.stage.forge, TAG, Destination(repository_url="http://127.0.0.1:9/")),
        "network-failed",
    )


# -- killed in the middle --------------------------------------------------------------------------------------------


@contextmanager
def gate(
    target: str, on_upload: Callable[[int, str], None], *, lost: Collection[tuple[int, str]] = ()
) -> Iterator[str]:
    """Passes requests on to ``target``; calls ``on_upload(n, "before" | "after")`` around the n-th upload.

    Uploads in ``lost`` never arrive.
    """
    count = 0

    class Handler(Quiet):
        def do_GET(self) -> None:
            self.forward(None)

        def do_POST(self) -> None:
            nonlocal count
            count += 1
            mine, body = count, self.rfile.read(int(self.headers["Content-Length"]))
            on_upload(mine, "before")
            if (mine, "before") in lost:
                self.close_connection = True
                return
            self.forward(body, lambda: on_upload(mine, "after"))

        def forward(self, body: bytes | None, done: Callable[[], None] = lambda: None) -> None:
            kept = ("Authorization", "Content-Type", "Accept")
            headers = {name: self.headers[name] for name in kept if self.headers[name]}
            try:
                with urllib.request.urlopen(
                    urllib.request.Request(target + self.path[1:], data=body, headers=headers), timeout=30
                ) as answer:
                    status, content, kind = answer.status, answer.read(), answer.headers["Content-Type"]
            except urllib.error.HTTPError as error:
                with error:
                    status, content, kind = error.code, error.read(), error.headers["Content-Type"]
            done()
            self.answer(status, content, {"Content-Type": kind})

    with Loopback(Handler) as server:
        yield f"{server.url}/"


@pytest.mark.skipif(os.name == "nt", reason="NOT TRIED: processes are killed by their group")
def test_killed_at_each_upload_and_run_again(server: PypiStage) -> None:
    names = server.publish()
    for number in (1, 2):
        for moment in ("before", "after"):
            running: list[subprocess.Popen[bytes]] = []

            def kill(n: int, when: str, at: tuple[int, str] = (number, moment)) -> None:
                if (n, when) == at:
                    os.killpg(running[0].pid, signal.SIGKILL)  # noqa: B023
                    running[0].wait(30)  # noqa: B023

            with gate(server.url, kill, lost=[(number, moment)]) as url:
                command = [sys.executable, "-m", "mlir_release", "pypi", TAG, "--repository-url", url]
                command += ["--forge", f"local:{server.stage.forge.root}"]
                assert PASSWORD not in command
                running.append(subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL))
                assert running[0].wait(120) == -signal.SIGKILL
                there = server.put().there
            assert len(there) == (number if moment == "after" else number - 1)
            assert server.files == names
            for name in names:
                digest = hashlib.sha256((server.packages / name).read_bytes()).hexdigest()
                assert digest == hashlib.sha256((server.stage.dist / TAG / name).read_bytes()).hexdigest()
            shutil.rmtree(server.packages)
            server.packages.mkdir()


# -- releases that are signed ------------------------------------------------------------------------------------------


def test_only_what_is_signed_is_uploaded(server: PypiStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with signed_stage(tmp_path, monkeypatch) as snapshots:
        stage = snapshots.number(TAG, VERSION)
        stage.whole()
        name = stage.wheel.name
        bundle = stage.asset(f"{name}.sigstore.json")
        good = bundle.content
        bundle.content = stage.bundle(name, b"another", repository="octo/fork")
        refused(lambda: publish_to_index(stage.forge, TAG, server.destination), "signature-invalid")
        assert server.files == []
        # All of it signed by a run of another commit, from when the tag named that one.
        manifest = stage.asset("release.json")
        signature = stage.asset("release.json.sigstore.json")
        kept = manifest.content, signature.content
        manifest.content = manifest.content.replace(stage.commit.encode(), b"e" * 40)
        signature.content = stage.bundle("release.json", manifest.content, commit="e" * 40)
        bundle.content = stage.bundle(name, stage.asset(name).content, commit="e" * 40)
        error = refused(lambda: publish_to_index(stage.forge, TAG, server.destination), kind=VerificationError)
        assert "it was signed for another commit of the tag" in error.what
        assert server.files == []
        manifest.content, signature.content = kept
        bundle.content = good
        outcome = publish_to_index(stage.forge, TAG, server.destination)
        assert isinstance(outcome, PypiUpload)
        assert server.files == [name]
