"""The signed pointer to the newest snapshot as jobs renew it: attest.yml signs, a job stores, the sweep has it done."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from mlir_release.ground.git.repository import Signature
from mlir_release.ground.git.trees import commit_files
from mlir_release.ground.storage.files import write_all
from mlir_release.release.forge.files import matrix_of_branch
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.index.generate import generate
from mlir_release.release.judging.signed import SignedBy
from mlir_release.release.latest.catalogue import read_index
from mlir_release.release.latest.latest import LATEST_WORKFLOW, POINTER_FILE, read_head
from mlir_release.release.latest.latest_branch import show_pointer, sign_pointer, store_pointer
from mlir_release.release.model.release_index import INDEX_NAME, QUALITY_NAME, Quality, make_index, parse_index
from mlir_release.release.provenance.pointer import pointer_policy, verify_pointer
from mlir_release.release.provenance.trust import load_trust
from mlir_release.release.transaction import decisions
from mlir_release.release.transaction.release_assets import RemoteRelease
from mlir_release.release.transaction.sweep import sweep
from mlir_release.use.install import install
from mlir_release.use.mirror import mirror
from tests.attacks.latest_stage import NEW, OLD, WHO, LatestStage, digest, latest_stage
from tests.github_server.stock import add_past, manifest_of
from tests.healthy import asked
from tests.refusals import refused
from tests.sigstore.instance import branch_claims
from tests.sigstore.services import CERTIFICATES, ENTRIES, Services, serve_sigstore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Half a year of two a day, and more rows than are listed.
PAST = 360


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LatestStage]:
    with pytest.MonkeyPatch.context() as patch, latest_stage(tmp_path_factory.mktemp("latest"), patch) as stage:
        repository = stage.signed.server.repositories["octo/releases"]
        repository.settings["workflows"] = ("release.yml", "pages.yml", LATEST_WORKFLOW)
        yield stage


@pytest.fixture
def stage(made: LatestStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LatestStage]:
    """The same repository, for each test without a pointer, and as it was."""
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    # The tests' clocks differ from the real one, which certificates and readers go by.
    made.signed.server.clock = lambda: datetime.now(UTC)
    repository = made.signed.server.repositories["octo/releases"]
    main, runs, releases = made.signed.forge.head("main"), list(repository.runs), deepcopy(repository.releases)
    yield made
    repository.git.run("update-ref", "-d", "refs/heads/latest")
    repository.git.run("update-ref", "refs/heads/main", str(main))
    repository.runs[:], repository.releases = runs, releases


@pytest.fixture
def services(stage: LatestStage, tmp_path: Path) -> Iterator[Services]:
    with serve_sigstore(tmp_path / "sigstore", made=stage.signed.made) as services:
        yield services


def sign(stage: LatestStage, services: Services, output: Path, **claims: str) -> None:
    """The job of attest.yml in a run of latest.yml on main."""
    url = stage.signed.server.url
    given = branch_claims(repository="octo/releases", server=url) | claims
    environ = services.environment(**given) | {"GITHUB_REPOSITORY": "octo/releases", "GITHUB_SERVER_URL": url}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        sign_pointer(stage.signed.forge, output, branch="main")


def current(stage: LatestStage) -> str:
    """The tag that the stored pointer names."""
    bundle = read_head(stage.signed.forge).bundle
    assert bundle is not None
    return verify_pointer(bundle, pointer_policy(stage.signed.url, "main"), load_trust()).tag


def test_what_is_the_newest_is_signed_stored_and_found_by_install(
    stage: LatestStage, services: Services, tmp_path: Path
) -> None:
    forge = stage.signed.forge
    sign(stage, services, tmp_path / "signed")
    main = forge.head("main")
    assert store_pointer(forge, tmp_path / "signed", branch="main").stored
    assert (current(stage), forge.head("main")) == (NEW, main)
    assert not store_pointer(forge, tmp_path / "signed", branch="main").stored  # again
    assert install(forge, "latest", python=sys.executable, dry_run=True).tag == NEW
    decisions.yank(forge, NEW, "miscompiles", branch="main")
    assert (
        install(forge, "latest", python=sys.executable, dry_run=True).tag == OLD
    )  # a yank on GitHub counts before it is signed
    stage.signed.server.clock = lambda: datetime.now(UTC) + timedelta(seconds=2)
    sign(stage, services, tmp_path / "signed")
    assert store_pointer(forge, tmp_path / "signed", branch="main").stored
    assert current(stage) == OLD


def test_the_index_is_signed_and_stored_with_the_pointer_and_begins_with_the_one_before(
    stage: LatestStage, services: Services, tmp_path: Path
) -> None:
    forge = stage.signed.forge

    def renew(name: str) -> list[str]:
        """Sign and store; the addresses that the index was made of."""
        before = len(stage.signed.server.requests)
        sign(stage, services, tmp_path / name)
        asked = [record.path for record in stage.signed.server.requests[before:] if not record.operation]
        assert store_pointer(forge, tmp_path / name, branch="main").stored
        return [path for path in asked if path.endswith("/release.json")]

    assert [OLD in path for path in renew("first")] == [True]  # that of NEW was read for the pointer
    found = read_index(forge)
    assert [each.tag for each in found.entries] == [NEW, OLD]
    assert found.index.channels == {"latest": NEW, "latest-good": NEW}
    assert found.index.repository == stage.signed.url
    assert found.quality == Quality(repository=stage.signed.url)
    shown = show_pointer(forge, SignedBy())
    assert "index.json has 2 releases" in shown.text()
    assert shown.to_json()["channels"] == found.index.channels
    decisions.yank(forge, OLD, "miscompiles\nloops", branch="main")
    assert swept(stage) == [(NEW, "index.json has other yanks")]
    stage.signed.server.clock = lambda: datetime.now(UTC) + timedelta(seconds=2)
    assert renew("second") == []
    assert read_index(forge).index.yanked == {OLD: "miscompiles loops"}
    assert swept(stage) == []
    # What nobody signed is no beginning.
    head = forge.head("latest")
    forge.commit("latest", expected=head, files={INDEX_NAME: b"{}"}, message="x\n")
    refused(lambda: read_index(forge), "tampered", "index.json is not the one that is signed")
    stage.signed.server.clock = lambda: datetime.now(UTC) + timedelta(seconds=4)
    assert [OLD in path for path in renew("third")] == [True]
    assert [each.tag for each in read_index(forge).entries] == [NEW, OLD]


def test_what_is_stored_is_what_was_signed_and_all_of_it(
    stage: LatestStage, services: Services, tmp_path: Path
) -> None:
    forge, folder = stage.signed.forge, tmp_path / "signed"
    sign(stage, services, folder)
    for name in (INDEX_NAME, QUALITY_NAME):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content + b" ")
        refused(lambda: store_pointer(forge, folder, branch="main"), "tampered", f"{name} is not the one")
        (folder / name).unlink()
        refused(lambda: store_pointer(forge, folder, branch="main"), "tampered", f"{name} is missing")
        (folder / name).write_bytes(content)
    assert forge.head("latest") is None
    (folder / "index").mkdir()
    (folder / "index" / "2026-01.json").write_bytes(b"not named")
    assert store_pointer(forge, folder, branch="main").stored
    head = forge.head("latest")
    assert head is not None
    assert forge.read("index/2026-01.json", commit=head) is None


def test_the_pages_serve_the_signed_index_or_one_of_what_they_show(
    stage: LatestStage, services: Services, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forge = stage.signed.forge

    def served() -> dict[str, bytes]:
        generate(forge, tmp_path / "site", base_url="https://octo.example/wheels")
        paths = [INDEX_NAME, QUALITY_NAME, POINTER_FILE]
        return {name: (tmp_path / "site" / name).read_bytes() for name in paths if (tmp_path / "site" / name).is_file()}

    unsigned = served()
    assert POINTER_FILE not in unsigned
    assert [row.tag for row in parse_index(unsigned[INDEX_NAME]).releases] == [NEW, OLD]
    sign(stage, services, tmp_path / "signed")
    assert store_pointer(forge, tmp_path / "signed", branch="main").stored
    signed = {name: (tmp_path / "signed" / name).read_bytes() for name in (INDEX_NAME, QUALITY_NAME, POINTER_FILE)}
    assert served() == signed
    whole = parse_index(signed[INDEX_NAME])  # the same releases; nobody but who signs says which is good
    assert whole.channels == {"latest": NEW, "latest-good": NEW}
    assert replace(whole, channels={"latest": NEW}) == parse_index(unsigned[INDEX_NAME])
    stage.point(NEW, forge=forge, age=20)
    capsys.readouterr()
    assert served() == unsigned
    assert "the pages serve an index that nobody signed" in capsys.readouterr().err


def test_a_run_that_listed_the_releases_before_another_does_not_take_the_pointer_back(
    stage: LatestStage, services: Services, tmp_path: Path
) -> None:
    """It signs later, and does not know the newest snapshot, which is published and not yanked."""
    forge = stage.signed.forge
    sign(stage, services, tmp_path / "newer")
    assert store_pointer(forge, tmp_path / "newer", branch="main").stored
    stage.signed.server.clock = lambda: datetime.now(UTC) + timedelta(seconds=3)
    releases = stage.signed.server.repositories["octo/releases"].releases
    (number,) = (number for number, release in releases.items() if release.tag == NEW)
    unseen = releases.pop(number)
    sign(stage, services, tmp_path / "older")
    releases[number] = unseen
    done = store_pointer(forge, tmp_path / "older", branch="main")
    assert (done.stored, current(stage)) == (False, NEW)
    assert NEW in done.done


def test_of_two_that_store_at_once_the_newer_stays(stage: LatestStage, services: Services, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("older", "newer")]
    for seconds, folder in enumerate(folders):
        late = timedelta(seconds=3 * seconds)
        stage.signed.server.clock = lambda late=late: datetime.now(UTC) + late  # type: ignore[misc]
        sign(stage, services, folder)
    for _ in range(3):
        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(lambda folder: store_pointer(stage.signed.forge, folder, branch="main"), folders))
        assert all(outcome.stored or outcome.done == "one that is as new is there" for outcome in done)
        assert read_head(stage.signed.forge).bundle == (folders[1] / POINTER_FILE).read_bytes()
        assert {each.tag for each in read_index(stage.signed.forge).entries} == {OLD, NEW}


def test_the_cost_does_not_grow_with_the_releases(
    stage: LatestStage, services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older months keep their files through every commit, and the sign and store jobs neither read nor write them."""
    server, forge = stage.signed.server, stage.signed.forge
    repository = server.repositories["octo/releases"]

    def renew(seconds: int) -> list[Counter[str]]:
        server.clock = lambda: datetime.now(UTC) + timedelta(seconds=seconds)
        counts, folder = [], tmp_path / str(seconds)
        for step in (
            lambda: sign(stage, services, folder),
            lambda: store_pointer(stage.signed.forge, folder, branch="main"),
        ):
            before = len(server.requests)
            step()
            counts.append(Counter(record.operation for record in server.requests[before:] if record.operation))
        return counts

    stage.point(NEW, forge=forge, age=1)
    young = renew(0)
    before = dict(repository.releases)
    until = datetime(2026, 11, 18, tzinfo=UTC)
    tags = add_past(server, "octo/releases", PAST, until=until, assets=1)
    try:
        times = [until - timedelta(hours=12) * back for back in reversed(range(PAST))]
        past = [manifest_of(tag, when, "") for tag, when in zip(tags, times, strict=True)]
        ours = [RemoteRelease(forge, found).manifest() for tag in (OLD, NEW) if (found := forge.published(tag))]
        files = make_index([*past, *ours], repository=stage.signed.url)
        bundle = stage.sign(stage.pointer(NEW, age=1, index=digest(files[INDEX_NAME])).statement())
        base = forge.head("main")
        repository.git.run("update-ref", "-d", "refs/heads/latest")
        forge.commit("latest", expected=None, files={**files, POINTER_FILE: bundle}, message="x\n", base=base)
        old = renew(2)
        assert old[0] == young[0]
        assert old[1] - young[1] == Counter({"GET /repos/{owner}/{repo}/git/trees/{tree_sha}": 1})  # the folder index
        catalogue = read_index(forge)
        assert catalogue.index.months
        assert {each.tag for each in catalogue.entries} == {*tags, OLD, NEW}
        # Someone changes a month on the branch.
        path, head = f"index/{catalogue.index.months[-1].month}.json", forge.head("latest")
        forge.commit("latest", expected=head, files={path: b"{}"}, message="x\n")
        monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "another"))
        refused(lambda: read_index(forge).entries, "tampered", f"{path} is not the one that is signed")
    finally:
        repository.releases.clear()
        repository.releases.update(before)
        for tag in tags:
            repository.git.run("update-ref", "-d", f"refs/tags/{tag}")


def test_a_pointer_is_stored_after_mains_workflows_have_changed(
    stage: LatestStage, services: Services, tmp_path: Path
) -> None:
    """A job's token may not move a branch to a commit with other workflow files than main's."""
    forge, git = stage.signed.forge, stage.signed.server.repositories["octo/releases"].git
    sign(stage, services, tmp_path / "signed")
    assert store_pointer(forge, tmp_path / "signed", branch="main").stored
    ada = Signature(name="Ada", email="ada@example.org", when=datetime.now(UTC))
    files = {".github/workflows/new.yml": b"on: push\n"}
    git.run("update-ref", "refs/heads/main", commit_files(git, git.resolve("main"), files, "Change\n", ada))
    stage.signed.server.clock = lambda: datetime.now(UTC) + timedelta(seconds=2)
    sign(stage, services, tmp_path / "signed")
    assert store_pointer(forge, tmp_path / "signed", branch="main").stored
    assert current(stage) == NEW


def test_latest_costs_two_requests_more_than_a_tag(stage: LatestStage) -> None:
    stage.point(NEW, forge=stage.signed.forge)
    counts = []
    for tag in (NEW, "latest"):
        before = len(stage.signed.server.requests)
        install(stage.signed.forge, tag, python=sys.executable, dry_run=True)
        counts.append(sum(bool(record.operation) for record in stage.signed.server.requests[before:]))
    assert counts[1] - counts[0] == 2


def test_on_github_a_pointer_that_has_expired_is_an_error(stage: LatestStage) -> None:
    stage.point(NEW, forge=stage.signed.forge, age=15)
    refused(lambda: install(stage.signed.forge, "latest", python=sys.executable, dry_run=True), "latest-stale")
    assert install(stage.signed.forge, NEW, python=sys.executable, dry_run=True).tag == NEW


def test_a_run_whose_signature_would_be_refused_signs_nothing(
    stage: LatestStage, services: Services, tmp_path: Path
) -> None:
    what = "it was signed in a run on another branch or tag"
    refused(lambda: sign(stage, services, tmp_path / "signed", ref=f"refs/tags/{NEW}"), "signature-invalid", what)
    assert not (tmp_path / "signed").exists()
    assert not {CERTIFICATES, ENTRIES} & set(services.requests)


def test_a_release_that_attest_did_not_sign_is_not_called_the_newest(
    stage: LatestStage, services: Services, tmp_path: Path
) -> None:
    release = next(r for r in stage.signed.server.repositories["octo/releases"].releases.values() if r.tag == NEW)
    manifest = next(asset for asset in release.own if asset.name == "release.json")
    manifest.content = manifest.content.replace(b'"required"', b'"none"')
    refused(lambda: sign(stage, services, tmp_path / "signed"), "provenance-missing")
    assert not {CERTIFICATES, ENTRIES} & set(services.requests)


def test_a_job_can_store_only_what_attest_signed_and_nothing_older(stage: LatestStage, tmp_path: Path) -> None:
    forge, folder = stage.signed.forge, tmp_path / "signed"
    folder.mkdir()
    assert store_pointer(forge, folder, branch="main").done == "nothing to store"
    write_all(folder, stage.index)
    (folder / POINTER_FILE).write_bytes(stage.sign(stage.pointer(OLD).statement(), ref=f"refs/tags/{OLD}"))
    refused(lambda: store_pointer(forge, folder, branch="main"), "signature-invalid")
    assert forge.head("latest") is None
    stage.point(NEW, forge=forge)
    (folder / POINTER_FILE).write_bytes(stage.sign(stage.pointer(OLD, age=1).statement()))
    assert not store_pointer(forge, folder, branch="main").stored
    assert current(stage) == NEW


# -- the sweep ---------------------------------------------------------------------------------------------------------


def swept(stage: LatestStage) -> list[tuple[str, str]]:
    """What a sweep does about the pointer."""
    return [(row.tag, row.reason) for row in sweep(stage.signed.forge, branch="main").rows
            if row.action == "latest" and row.result == "done"]  # fmt: skip


def runs(stage: LatestStage) -> int:
    return len(stage.signed.forge.runs(LATEST_WORKFLOW, ref="main"))


def test_the_sweep_renews_the_pointer_when_it_is_missing_and_waits_for_the_run(stage: LatestStage) -> None:
    assert swept(stage) == [(NEW, "nothing signed says that it is the newest")]
    assert (swept(stage), runs(stage)) == ([], 1)


@pytest.mark.parametrize(
    ("tag", "age", "reason"),
    [
        (NEW, 6, ""),
        (NEW, 8, "what says that it is the newest expires on"),
        (NEW, 20, "what says that it is the newest expires on"),
        (OLD, 0, f"the signed pointer still names {OLD}"),
    ],
)
def test_the_sweep_renews_the_pointer_after_half_its_lifetime(
    stage: LatestStage, tag: str, age: int, reason: str
) -> None:
    stage.point(tag, forge=stage.signed.forge, age=age)
    found = swept(stage)
    assert bool(found) == bool(reason)
    assert all(row[0] == NEW and row[1].startswith(reason) for row in found)
    assert runs(stage) == len(found)


def test_a_forged_pointer_that_never_expires_does_not_stop_the_renewal(stage: LatestStage) -> None:
    bundle = stage.sign(stage.pointer(NEW, lifetime=3000).statement(), repository="octo/fork")
    stage.put(bundle, forge=stage.signed.forge)
    assert swept(stage) == [
        (NEW, "the signed pointer to the newest snapshot is not to be trusted: it was signed for another repository")
    ]


def test_the_doctor_says_what_install_latest_would_refuse(stage: LatestStage) -> None:
    forge = stage.signed.forge
    matrix = matrix_of_branch(forge, "main")
    (missing,) = asked("latest", matrix, forge)
    assert (missing.level, "latest.yml" in missing.remedy) == ("problem", True)
    stage.point(NEW, forge=forge, age=20)
    (expired,) = asked("latest", matrix, forge)
    assert "expired on" in expired.text
    stage.point(NEW, forge=forge)
    (good,) = asked("latest", matrix, forge)
    assert (good.level, good.text.startswith(f"{NEW} is the newest snapshot")) == ("ok", True)
    unsigned = dataclasses.replace(matrix, release=replace(matrix.release, provenance="none"))
    assert asked("latest", unsigned, forge) == []


# -- the mirror --------------------------------------------------------------------------------------------------------


def test_a_mirror_gets_the_pointer_after_its_release_and_keeps_the_newer(stage: LatestStage, tmp_path: Path) -> None:
    there = LocalForge.create(tmp_path / "mirror", {"README": b"a mirror\n"}, identity=WHO)
    first = stage.point(NEW, forge=stage.signed.forge, age=2)
    plan = mirror(stage.signed.forge, there, dry_run=True)
    assert (plan.pointer, read_head(there).bundle) == (True, None)
    done = mirror(stage.signed.forge, there)
    assert done.pointer
    assert "the signed latest brought up to date" in done.text()
    assert read_head(there).bundle == first
    assert [each.tag for each in read_index(there, SignedBy(repository=stage.signed.url)).entries] == [NEW, OLD]
    assert not mirror(stage.signed.forge, there).pointer
    stage.point(OLD, forge=stage.signed.forge, age=3)  # someone put an older one back
    assert not mirror(stage.signed.forge, there).pointer
    assert read_head(there).bundle == first


def test_a_mirror_does_not_copy_a_pointer_that_would_be_refused(
    stage: LatestStage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = LocalForge.create(tmp_path / "mirror", {"README": b"a mirror\n"}, identity=WHO)
    for bundle in (
        stage.sign(stage.pointer(NEW).statement(), repository="octo/fork"),
        stage.sign(stage.pointer(NEW, age=20).statement()),
        b"{}",
    ):
        stage.put(bundle, forge=stage.signed.forge)
        assert not mirror(stage.signed.forge, there).pointer
        assert "the mirror keeps the one that it has" in capsys.readouterr().err
    assert there.head("latest") is None
    # A mirror of the mirror believes no claim of another repository, either.
    stage.point(NEW, forge=stage.signed.forge)
    assert mirror(stage.signed.forge, there).pointer
    third = LocalForge.create(tmp_path / "third", {"README": b"a mirror\n"}, identity=WHO)
    assert mirror(there, third).pointer
