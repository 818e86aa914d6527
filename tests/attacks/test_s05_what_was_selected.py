"""S5: a fork's commit that someone pinned, and a tag's message that decides which targets the release has."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from mlir_release.ground.documents.times import format_time
from mlir_release.ground.git.trees import commit_files
from mlir_release.ground.llvm.llvm_facts import REQUIREMENTS_FILE, LlvmFacts
from mlir_release.release.transaction.decisions import waive
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from tests.attacks.selected_stage import ADA, FACTS, NOW, TAG, TREE, VERSION, Selected, selected_stage
from tests.fake_pip import fake_pip  # noqa: F401
from tests.github_server import GitHubServer
from tests.refusals import refused
from tests.revision_factory import LLVM_FILES
from tests.wheel_factory import OTHER_PYTHON, PYTHON, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fake_pip import FakePip

EXCLUDED = f"mlir-linux-x86_64-{OTHER_PYTHON}"
BECAUSE = {f"linux-x86_64-{OTHER_PYTHON}": "because"}


@pytest.fixture
def selected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_waiting: None) -> Iterator[Selected]:
    with GitHubServer(tmp_path / "github", clock=lambda: NOW) as server:
        yield selected_stage(tmp_path, server, monkeypatch)


@pytest.mark.parametrize(
    "command",
    [
        ("matrix", "--missing", TAG, "--github"),
        ("sdk", "provide", TAG, "--output", "out"),
        ("attest", TAG, ".", "--output", "out"),
        ("publish", TAG),
        ("release", "check-run", "1", TAG),
    ],
    ids=["plan", "provide", "attest", "publish", "compiler caches"],
)
def test_a_forks_commit_that_was_pinned_by_hand_is_refused(selected: Selected, command: tuple[str, ...]) -> None:
    forked = selected.fork()
    selected.tag(forked)
    error = selected.error_of(*command)
    assert (error.id, error.exit_code) == ("revision-not-upstream", 6)
    assert forked in error.what
    assert TAG in error.remedy
    assert selected.nothing_was_done()


def test_the_sweep_does_not_build_a_forks_commit(selected: Selected) -> None:
    selected.tag(selected.fork())
    selected.server.clock = lambda: NOW + timedelta(hours=1)
    assert "revision-not-upstream" in selected.run("release", "sweep")
    assert selected.nothing_was_done()


def test_upstreams_own_commit_is_built(selected: Selected) -> None:
    selected.tag(selected.head)
    assert EXCLUDED in selected.run("matrix", "--missing", TAG)
    selected.server.clock = lambda: NOW + timedelta(hours=1)
    selected.run("release", "sweep")
    assert not selected.nothing_was_done()


def test_the_upstream_is_the_one_that_the_protected_branch_names_now(selected: Selected) -> None:
    """An older commit of the branch, which named another upstream, is a base that anyone can choose."""
    forge, head = selected.forge, selected.forge.head("main")
    assert head is not None
    selected.tag(selected.head)
    targets = forge.read("targets.toml", commit=head)
    assert targets is not None
    moved = targets.replace(b"llvm-project.git", b"another.git")
    selected.server.add_repository("llvm/another", {"README": b"not llvm-project"})
    forge.commit("main", expected=head, files={"targets.toml": moved}, message="Follow another upstream\n")
    selected.error_of("matrix", "--missing", TAG, id="revision-not-upstream")


# -- the tag's message ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "trailer"),
    [
        (replace(FACTS, minimum_python="3.30"), "Minimum-Python"),
        (replace(FACTS, has_stable_abi=True), "Stable-ABI"),
        (replace(FACTS, binding_requirements=("nanobind==0.1",)), "Binding-Requirements"),
        (replace(FACTS, runtime_requirements=("evil",)), "Runtime-Requirements"),
        (replace(FACTS, version="99.0.0"), "LLVM-Version"),
        (replace(FACTS, lacks=("mlir",)), "lacks mlir, which it has"),
        (replace(FACTS, lacks=("another", "clang", "mlir")), "lacks clang, mlir, which it has"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_tag_that_says_of_its_revision_what_is_not_so_is_refused(
    selected: Selected, facts: LlvmFacts, trailer: str
) -> None:
    selected.tag(selected.head, facts=facts)
    is_foreign(selected, trailer)


def is_foreign(selected: Selected, said: str) -> None:
    """Check that each command refuses the tag."""
    for command in (("matrix", "--missing", TAG), ("attest", TAG, ".", "--output", "out"), ("publish", TAG)):
        error = selected.error_of(*command)
        assert (error.id, said in error.why) == ("tag-foreign", True)
    assert selected.nothing_was_done()


@pytest.mark.parametrize("lacks", [(), ("clang",), ("another", "clang")], ids=" ".join)
def test_a_tag_need_not_know_every_project_that_is_looked_for_today(selected: Selected, lacks: tuple[str, ...]) -> None:
    """An older toolkit knew fewer, and the machine that made the tag may have had others."""
    without = {path: content for path, content in TREE.items() if not path.startswith("clang/")}
    commit = commit_files(selected.upstream, None, without, "[mlir] Without clang\n", ADA)
    selected.upstream.run("update-ref", "refs/heads/main", commit)
    selected.tag(selected.head, facts=replace(FACTS, lacks=lacks))
    assert EXCLUDED in selected.run("matrix", "--missing", TAG)


@pytest.mark.parametrize("facts", [FACTS, None], ids=["with facts", "without"])
@pytest.mark.parametrize("date", ["2026-11-21T12:00:00Z", "yesterday"])
def test_a_tag_that_dates_its_revision_otherwise_is_refused(
    selected: Selected, date: str, facts: LlvmFacts | None
) -> None:
    selected.tag(selected.head, date=date, facts=facts)
    is_foreign(selected, "LLVM-Revision-Date")


def test_the_manifest_has_the_date_of_its_revision(selected: Selected) -> None:
    epoch = int(selected.upstream.text("log", "-1", "--format=%ct", selected.head))
    date = format_time(datetime.fromtimestamp(epoch, UTC))
    selected.tag(selected.head, date=date, excluded=BECAUSE)
    fill(selected)
    waive(selected.forge, TAG, EXCLUDED, "nobody uses it")
    assert publish(Draft.load(selected.forge, TAG)).manifest.revision_date == date


def fill(selected: Selected) -> None:
    """Put the wheel of one CPython into the draft, with its passing report."""
    dist = selected.folder / "dist"
    wheel = make_wheel(dist, tag=TAG, version=VERSION, revision=selected.head, python=PYTHON)
    make_report(dist, wheel, target=f"smoke-mlir-linux-x86_64-{PYTHON}")
    upload(Draft.load(selected.forge, TAG), dist)


def test_a_required_target_that_only_the_tag_leaves_out_is_missing_until_a_person_waives_it(selected: Selected) -> None:
    selected.tag(selected.head, excluded=BECAUSE)
    fill(selected)
    error = refused(lambda: publish(Draft.load(selected.forge, TAG)), "release-not-ready")
    assert f"{EXCLUDED}: only the tag leaves it out (because)" in error.why
    assert not selected.forge.published(TAG)
    waive(selected.forge, TAG, EXCLUDED, "nobody uses it")
    manifest = publish(Draft.load(selected.forge, TAG)).manifest
    assert [(waiver.target, waiver.reason) for waiver in manifest.waivers] == [(EXCLUDED, "nobody uses it")]


@pytest.mark.parametrize("excluded", [BECAUSE, {}], ids=["left out by the tag", "left out"])
def test_a_manifest_that_lacks_a_required_target_is_not_signed(selected: Selected, excluded: dict[str, str]) -> None:
    """The toolkit at the tag wrote it, which may be from before that was checked."""
    selected.tag(selected.head, excluded=excluded)
    fill(selected)
    waive(selected.forge, TAG, EXCLUDED, "nobody uses it")
    manifest = publish(Draft.load(selected.forge, TAG), dry_run=True).manifest
    place = selected.folder / "manifest" / "release.json"
    place.parent.mkdir()
    attest = ("attest", TAG, str(place.parent), "--kind", "manifest", "--output", str(selected.folder / "out"))
    place.write_text(manifest.to_text())
    selected.error_of(*attest, id="needs-github")  # there is nothing else to be said against it
    place.write_text(structs.replace(manifest, waivers=()).to_text())
    assert EXCLUDED in selected.error_of(*attest, id="tampered").why
    for change in ({"revision": "f" * 40}, {"revision_date": "2026-11-21T12:00:00Z"}, {"commit": "f" * 40}):
        place.write_text(structs.replace(manifest, **change).to_text())
        selected.error_of(*attest, id="tampered")
    assert not (selected.folder / "out").exists()


def test_what_the_index_confirms_needs_no_person(selected: Selected, pip: FakePip) -> None:
    more = {REQUIREMENTS_FILE: LLVM_FILES[REQUIREMENTS_FILE].encode()}
    head = commit_files(selected.upstream, selected.head, more, "[mlir] Require more\n", ADA)
    selected.upstream.run("update-ref", "refs/heads/main", head)
    facts = LlvmFacts.read({path: content.decode() for path, content in (TREE | more).items()}.get)
    pip.answer(code=1, stderr="Could not find a version that satisfies the requirement numpy (from versions: 1.0)")
    selected.tag(selected.head, excluded=BECAUSE, facts=facts)
    fill(selected)
    manifest = publish(Draft.load(selected.forge, TAG)).manifest
    assert [word for words in pip.asked for word in words if "abi=cp" in word] == [f"--abi={OTHER_PYTHON}"]
    assert not manifest.waivers
    assert [(row.target, row.reason) for row in manifest.left_out] == [(EXCLUDED, "because")]
