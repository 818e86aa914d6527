"""What installers make of the pages: the documented forms, against real servers on the loopback interface."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.python.cpython import ANY_PYTHON
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.index.generate import generate
from mlir_release.release.index.site import SiteOptions
from mlir_release.release.instructions import install_snippets
from mlir_release.release.instructions.install_check import run_pip
from mlir_release.release.instructions.install_snippets import own_commands, projects
from mlir_release.release.probe.probe import CleanRoom, Patience, documented, probe, probe_published
from mlir_release.release.transaction.decisions import yank
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from tests import installers
from tests.bindings_factory import FILES
from tests.refusals import refused
from tests.release_stage import NOW, WHO, Stage, make_stage
from tests.serving import Served, serve
from tests.wheel_factory import OTHER_PYTHON, PYTHON, TAG, VERSION, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.release.instructions.install_snippets import Command
    from mlir_release.release.model.manifest import Manifest
    from mlir_release.release.probe.probe import ProbeOutcome

#: Snapshots that are published, oldest first, before and after :data:`TAG`.
OLDER, NEWER, DRAFT = "snapshot-20261120.01", "snapshot-20261121.01", "snapshot-20261122.01"
NUMBERED = "llvm-22.1.8.01"


@dataclass
class PagesWithPip:
    """Published releases, their pages, and the main index on which somebody else's mlir lies."""

    stage: Stage
    pages: Path
    served: Served
    main_index: str
    python: Path  #: of an environment that has nothing but pip

    @property
    def base(self) -> str:
        return f"{self.served.url}/pages"

    def publish(self, tag: str, version: str, python: str, *requires: str) -> Manifest:
        """Publish a release with a wheel for one CPython, by a matrix that has no other."""
        if not any(release.tag == tag for release in self.stage.forge.releases()):
            self.stage.add_tag(tag, version)
        folder = self.stage.dist / tag
        wheel = make_wheel(folder, tag=tag, version=version, python=python, requires=requires)
        make_report(folder, wheel, target=f"smoke-mlir-linux-x86_64-{python}")
        matrix = self.stage.matrix.only(f"python={python} and llvm=mlir")
        draft = Draft.load(self.stage.forge, tag, matrix=matrix)
        upload(draft, folder)
        return publish(draft).manifest

    def index(self, **options: Any) -> None:
        generate(self.stage.forge, self.pages, base_url=self.base, options=SiteOptions(**options))

    def download(self, command: Command, folder: Path, *options: str) -> list[str]:
        """Run a documented command as a download; the files that arrive, none if pip fails."""
        done = run_pip(
            self.python,
            *("download", "--no-cache-dir", "--no-deps", "--index-url", self.main_index, "--dest", str(folder)),
            *options,
            *command.arguments,
        )
        files = sorted(path.name for path in folder.glob("*"))
        assert bool(files) == (done.returncode == 0), done.stdout + done.stderr
        return files


def room_of(site: PagesWithPip, **more: Any) -> CleanRoom:
    return CleanRoom(pythons=[Path(sys.executable)], pip_options=["--index-url", site.main_index], **more)


@pytest.fixture
def site(tmp_path: Path, python: Path, pypi: str) -> Iterator[PagesWithPip]:
    with serve(tmp_path) as served:
        stage = make_stage(tmp_path, base_url=f"{served.url}/forge/releases")
        yield PagesWithPip(stage, tmp_path / "pages", served, pypi, python)


def wheel_name(version: str, python: str = PYTHON) -> str:
    return f"mlir-{version}-{python}-{python}-manylinux_2_28_x86_64.whl"


def test_every_documented_command_gets_the_wheel(site: PagesWithPip) -> None:
    manifest = site.publish(TAG, VERSION, PYTHON)
    site.index()
    outcome = probe(manifest, site.base, room_of(site), own=own_commands(site.stage.forge, manifest))
    assert [step.command.label for step in outcome.installed] == [
        "pinned",
        "exact",
        "newest",
        "page",
        "index",
        "pinned",
        "exact",
        "pinned",
        "lock",
    ]
    assert [step.got for step in outcome.installed[-2:]] == ["installed; imported mlir"] * 2
    assert not outcome.refused


def test_uv_pdm_and_poetry_lock_the_wheel_by_the_lines_that_the_page_shows(site: PagesWithPip) -> None:
    manifest = site.publish(TAG, VERSION, PYTHON)
    site.publish(NEWER, "20261121.1", PYTHON)  # and not this one
    site.index()
    page = html.unescape((site.pages / "snapshots" / TAG / "index.html").read_text())
    forms = projects(f"{site.base}/snapshots/{TAG}/", "mlir", VERSION, "mlir")
    assert [form.tool for form in forms if form.lines in page] == ["uv", "pdm", "poetry"]
    tools = {form.tool: installers.provide(form.tool) for form in forms}
    outcome = probe(manifest, site.base, room_of(site, tools=tools), newest=False)
    commands = {step.command.text for step in outcome.installed if step.command.label == "lock"}
    lock = f"{site.base}/snapshots/{TAG}/pylock.toml"
    assert commands == {f"pip install -r {lock}", f"uv pip install -r {lock}"}
    assert all(f"<code>{command}</code>" in page for command in commands)
    locked = {step.command.label: step.got for step in outcome.installed if step.command.label in tools}
    assert locked == dict.fromkeys(tools, f"locked {wheel_name(VERSION)}")


def test_the_probe_notices_a_page_that_a_project_can_not_use(site: PagesWithPip) -> None:
    manifest = site.publish(TAG, VERSION, PYTHON)
    site.index()
    (site.pages / "snapshots" / TAG / "index.html").unlink()
    room = room_of(site, tools={"uv": installers.provide("uv")})
    error = refused(lambda: probe(manifest, site.base, room), kind=VerificationError)
    assert "uv lock" in error.why


def test_without_a_fitting_wheel_every_documented_command_fails(site: PagesWithPip) -> None:
    # The stub on the main index fits every Python: whoever forgets the floor would get it.
    snapshot = site.publish(TAG, VERSION, OTHER_PYTHON)
    numbered = site.publish(NUMBERED, "22.1.8", OTHER_PYTHON)
    site.index()
    for manifest in (snapshot, numbered):
        outcome = probe(manifest, site.base, room_of(site), own=own_commands(site.stage.forge, manifest))
        assert len(outcome.refused) == 8
        assert not outcome.installed
    done = run_pip(
        site.python, "download", "--no-deps", "--dest", str(site.pages), "--index-url", site.main_index, "mlir"
    )
    assert "mlir-0.0.1" in done.stdout  # so the stub really was there to be taken


def test_the_probe_notices_the_stub(site: PagesWithPip, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = site.publish(TAG, VERSION, OTHER_PYTHON)
    site.index()
    monkeypatch.setitem(install_snippets.FLOORS, "snapshot", "")  # somebody documents it without the floor
    error = refused(lambda: probe(manifest, site.base, room_of(site)), "tests-failed")
    assert error.why.count("mlir-0.0.1-py3-none-any.whl") == 2
    with pytest.raises(UsageError):
        probe(manifest, site.base, CleanRoom(pythons=[]))


def test_the_probe_notices_other_bytes(site: PagesWithPip) -> None:
    manifest = site.publish(TAG, VERSION, PYTHON)
    site.index()
    path = site.stage.forge.root / "releases" / TAG / wheel_name(VERSION)
    path.write_bytes(path.read_bytes() + b"\0")
    error = refused(lambda: probe(manifest, site.base, room_of(site)), kind=VerificationError)
    assert "DO NOT MATCH THE HASHES" in error.why


@pytest.mark.parametrize("minutes", [5, 11], ids=["within its time", "for longer than it may"])
def test_the_probe_waits_for_a_cache_that_serves_old_pages(site: PagesWithPip, minutes: int) -> None:
    site.publish(OLDER, "20261120.1", PYTHON)
    site.index()
    newest = site.publish(NEWER, "20261121.1", PYTHON)
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        if now >= 60 * minutes:
            site.index()

    patience = Patience(seconds=600, pause=300, clock=lambda: now, sleep=sleep)

    def check() -> ProbeOutcome:
        return probe(newest, site.base, room_of(site, patience=patience))

    if minutes < 10:
        assert len(check().installed) == 7
        assert now == 300
    else:
        refused(check, "tests-failed")
        assert now == 600


@pytest.mark.parametrize("json", [False, True], ids=["html", "json"])
def test_a_yanked_snapshot_is_not_chosen_and_a_draft_never_appears(
    site: PagesWithPip, tmp_path: Path, json: bool
) -> None:
    site.publish(OLDER, "20261120.1", PYTHON)
    newest = site.publish(NEWER, "20261121.1", PYTHON)
    site.stage.add_tag(DRAFT, "20261122.1")
    draft = site.stage.dist / "draft"
    make_wheel(draft, tag=DRAFT, version="20261122.1")
    site.stage.upload(draft, tag=DRAFT)
    site.index()
    floating = documented(newest, site.base)[2:]
    assert [command.label for command in floating] == ["newest", "page", "index"]
    with serve(tmp_path, json=json) as served:
        moved = [
            type(command)(
                label=command.label,
                arguments=tuple(a.replace(site.served.url, served.url) for a in command.arguments),
            )
            for command in floating
        ]
        for number, command in enumerate(moved):
            assert site.download(command, tmp_path / f"a{number}") == [wheel_name("20261121.1")]
        yank(site.stage.forge, NEWER, "miscompiles", branch="main")
        site.index()
        for number, command in enumerate(moved):
            assert site.download(command, tmp_path / f"b{number}") == [wheel_name("20261120.1")]
        assert any(path.endswith("/simple/mlir/") for path in served.paths())
    assert not [path for path in (*site.served.paths(), *served.paths()) if "20261122" in path]
    # Who pinned it still gets it.
    pinned, exact = documented(newest, site.base)[:2]
    assert site.download(exact, tmp_path / "exact") == [wheel_name("20261121.1")]
    assert site.download(pinned, tmp_path / "pinned") == [wheel_name("20261121.1")]


@pytest.mark.parametrize("core_metadata", [True, False])
def test_pip_reads_metadata_instead_of_wheels(
    site: PagesWithPip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, core_metadata: bool
) -> None:
    site.publish(OLDER, "20261120.1", PYTHON)
    with monkeypatch.context() as patched:  # whoever publishes has a package that nobody else has
        make_wheel(
            tmp_path / "own", distribution="there-is-no-such-thing", version="1", python=ANY_PYTHON, platform="any"
        )
        patched.setenv("PIP_NO_INDEX", "1")
        patched.setenv("PIP_FIND_LINKS", str(tmp_path / "own"))
        newest = site.publish(NEWER, "20261121.1", PYTHON, "there-is-no-such-thing==1")
    site.index(core_metadata=core_metadata)
    for number, command in enumerate(documented(newest, site.base)[3:]):
        site.served.requests.clear()
        options = ["download", "--no-cache-dir", "--index-url", site.main_index, "--dest", str(tmp_path / str(number))]
        done = run_pip(site.python, *options, *command.arguments)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / str(number) / wheel_name("20261120.1")).is_file()
        asked = [path.rpartition("/")[2] for path in site.served.paths() if "/releases/" in path]
        if core_metadata:  # of the one that can't be installed, nothing but its metadata
            assert f"{wheel_name('20261121.1')}.metadata" in asked
            assert wheel_name("20261121.1") not in asked
        else:
            assert wheel_name("20261121.1") in asked
            assert not [name for name in asked if name.endswith(".metadata")]


def test_pins_hold_with_every_hash_required(site: PagesWithPip, tmp_path: Path) -> None:
    manifest = site.publish(TAG, VERSION, PYTHON)
    site.index()
    pinned = documented(manifest, site.base)[0]
    assert site.download(pinned, tmp_path / "strict", "--require-hashes") == [wheel_name(VERSION)]
    requirements = Path(site.pages / "snapshots" / TAG / f"requirements-{TAG}.txt")
    # As a constraint: whoever asks for mlir gets this one.
    done = run_pip(
        site.python,
        *("download", "--no-cache-dir", "--no-deps", "--index-url", site.main_index, "--dest", str(tmp_path / "c")),
        *("-c", str(requirements), "mlir"),
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "c" / wheel_name(VERSION)).is_file()
    # Vendored by a downstream, the file is the authority: other bytes at that address are refused.
    path = site.stage.forge.root / "releases" / TAG / wheel_name(VERSION)
    path.write_bytes(path.read_bytes() + b"\0")
    assert site.download(pinned, tmp_path / "other") == []


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_the_lock_file_brings_the_dependencies_and_asks_no_index(
    site: PagesWithPip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    if tool == "pip" and "pylock.toml" not in run_pip(Path(sys.executable), "install", "--help").stdout:
        pytest.skip("LOCK FILE NOT TRIED: the pip that runs the tests does not read pylock.toml")
    own = tmp_path / "own"
    helper = make_wheel(own, distribution="helper", version="1", python=ANY_PYTHON, platform="any", requires=("more",))
    make_wheel(own, distribution="more", version="2", python=ANY_PYTHON, platform="any")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(own))
    site.publish(TAG, VERSION, PYTHON, "helper>=1")
    site.publish(NEWER, "20261121.1", OTHER_PYTHON, "helper>=1")
    site.index()

    def install(tag: str, folder: str) -> int | None:
        lock = f"{site.base}/snapshots/{tag}/pylock.toml"
        options = ["install", "--target", str(tmp_path / folder), "--no-index", "-r", lock]
        if tool == "pip":
            return run_pip(Path(sys.executable), *options, "--no-cache-dir").returncode
        uv = [str(installers.provide("uv")), "pip", *options, "--no-cache", "--python", sys.executable]
        return subprocess.run(uv, capture_output=True, check=False).returncode

    assert install(TAG, "good") == 0
    assert {path.name for path in (tmp_path / "good").iterdir()} >= {"mlir", "helper", "more"}
    assert install(NEWER, "none") != 0
    assert not list(tmp_path.glob("none/*.dist-info"))
    helper.write_bytes(helper.read_bytes() + b"\0")
    assert install(TAG, "other") != 0


def test_a_pin_holds_when_the_shared_pages_have_forgotten_it(site: PagesWithPip, tmp_path: Path) -> None:
    old = site.publish(OLDER, "20261120.1", PYTHON)
    later = NOW + timedelta(days=101)
    base_url = f"{site.served.url}/forge/releases"
    site.stage.forge = LocalForge(site.stage.forge.root, clock=lambda: later, base_url=base_url, identity=WHO)
    newest = site.publish("snapshot-20270301.01", "20270301.1", PYTHON)
    site.index(linked_days=1)
    pinned, exact = documented(old, site.base)[:2]
    assert site.download(exact, tmp_path / "exact") == [wheel_name("20261120.1")]
    assert site.download(pinned, tmp_path / "pinned") == [wheel_name("20261120.1")]
    assert site.download(pinned, tmp_path / "hashes", "--require-hashes") == [wheel_name("20261120.1")]
    for number, command in enumerate(documented(newest, site.base)):
        assert site.download(command, tmp_path / str(number)) == [wheel_name("20270301.1")]
    for page in ("latest", "simple/mlir"):
        assert "20261120.1" not in (site.pages / "snapshots" / page / "index.html").read_text()


def test_pages_in_a_folder(site: PagesWithPip) -> None:
    manifest = site.publish(TAG, VERSION, PYTHON)
    generate(site.stage.forge, site.pages, base_url=site.pages.as_uri())
    outcome = probe(manifest, site.pages.as_uri(), room_of(site))
    assert len(outcome.installed) == 7


def test_where_the_newest_has_no_wheel_an_older_one_is_right(site: PagesWithPip) -> None:
    site.publish(OLDER, "20261120.1", PYTHON)
    site.publish(NEWER, "20261121.1", OTHER_PYTHON)
    site.index()
    outcome = probe_published(site.stage.forge, site.pages, NEWER, room_of(site), base_url=site.base, branch="main")
    got = {step.command.label: step.got for step in outcome.steps}
    assert got["newest"] == got["page"] == got["index"] == wheel_name("20261120.1")
    assert got["exact"].startswith("ERROR:")
    assert got["pinned"].startswith("ERROR:")


def test_a_project_comes_from_eudsl_by_the_lines_of_the_page(site: PagesWithPip, tmp_path: Path) -> None:
    """And a dependency that asks for the old name does not bring it along."""
    site.publish(TAG, VERSION, PYTHON)
    site.index()
    page = (Path(__file__).parents[4] / "docs" / "from-eudsl.md").read_text(encoding="utf-8")
    page = page.replace("https://OWNER.github.io/NAME", site.base).replace("snapshot-20260728.01", TAG)
    before, after, override = re.findall(r"```toml\n(.*?)```", page.replace("20260728.1", VERSION), re.DOTALL)
    asks = make_wheel(
        tmp_path / "links", distribution="asks", version="1", requires=("mlir-python-bindings==20260728",)
    )
    project = tmp_path / "project"
    project.mkdir()
    text = (
        after.replace('dependencies = ["', 'dependencies = ["asks", "')
        + f"asks = {{ path = {str(asks)!r} }}\n"
        + override
    )
    assert tomllib.loads(before)["tool"]["uv"]["sources"].keys() == {"mlir-python-bindings"}
    (project / "pyproject.toml").write_text(text)
    command = [str(installers.provide("uv")), "lock", "--default-index", site.main_index, "--no-cache"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    locked = {each["name"]: each for each in tomllib.loads((project / "uv.lock").read_text())["package"]}
    assert locked.keys() == {"our-project", "mlir", "asks"}
    assert locked["mlir"]["version"] == VERSION
    assert site.base in json.dumps(locked["mlir"]["source"])


# -- the pages of a forge in a folder, made before anything of them is served -----------------------------------------


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A forge with one release, whose wheels have an API to document."""
    stage = make_stage(tmp_path)
    stage.publish(stage.fill(files={name: text.encode() for name, text in FILES.items()}))
    return stage


def test_no_address_is_asked_that_is_yet_to_be_served(stage: Stage, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with serve(tmp_path / "nothing") as served:
        urls = ["--base-url", f"{served.url}/site", "--files-url", f"{served.url}/releases"]
        command = ["index", "--api", "--forge", f"local:{stage.forge.root}", "-o", str(site), *urls]
        done = CliRunner().invoke(app, command, standalone_mode=False)
        assert done.exception is None, done.output
        assert served.requests == []
    assert (site / "snapshots" / "latest" / "api" / "mlir.dialects.toy.html").is_file()
    page = (site / "snapshots" / TAG / "index.html").read_text(encoding="utf-8")
    assert f"{served.url}/releases/{TAG}/mlir-" in page
    assert "The Python API of these wheels" in page


def test_a_wheel_that_was_changed_in_the_folder_is_not_documented(stage: Stage, tmp_path: Path) -> None:
    for wheel in (stage.forge.root / "releases" / TAG).glob("*.whl"):
        wheel.chmod(0o644)
        with wheel.open("ab") as file:
            file.write(b"more")
    command = ["index", "--api", "--forge", f"local:{stage.forge.root}", "-o", str(tmp_path / "site")]
    done = CliRunner().invoke(app, command, standalone_mode=False)
    assert "is not documented" in done.output
    assert not list((tmp_path / "site").rglob("mlir.dialects.toy.html"))
