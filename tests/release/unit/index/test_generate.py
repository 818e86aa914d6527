"""The pages: what is shown, and that the way there leaves no trace."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from mlir_release.builder.model.orders import NOTICE
from mlir_release.builder.model.sdk_wheel_info import SDK, SDK_TOOLS
from mlir_release.builder.model.test_report import ExpectedFailures
from mlir_release.ground.foreign import visible
from mlir_release.release.index.generate import _index_files
from mlir_release.release.instructions import install_snippets
from mlir_release.release.judging.signed import SignedBy
from mlir_release.release.model.manifest import LeftOut, Manifest, Waiver
from mlir_release.release.model.release_index import (
    INDEX_NAME,
    QUALITY_NAME,
    Quality,
    ReleaseQuality,
    Revert,
    parse_index,
    to_bytes,
)
from mlir_release.release.model.release_settings import LATEST_BRANCH, TARGETS_FILE
from mlir_release.release.model.schemas import read_schemas
from mlir_release.release.model.yanks import Yank, format_yanks
from mlir_release.release.transaction.ledger import RECENT
from tests.html_links import dangling
from tests.paper_forge import START, PaperForge, make_index, make_manifest, many, with_known_failures
from tests.refusals import refused
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.release.forge.base import Release

SMALL: dict[str, Any] = {"platforms": ("manylinux_2_28_x86_64", "win_amd64"), "pythons": ("cp312", "cp313")}
HOSTILE = "\"'><script>alert(1)</script>{{ 7*7 }}</title>&amp;\u202e"
#: As a page shows it: nothing in it turns the text around.
SHOWN = visible(HOSTILE)


def tree(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def site(
    tmp_path: Path,
    *manifests: Manifest,
    yanks: tuple[Yank, ...] = (),
    branches: Mapping[str, Mapping[str, bytes]] = MappingProxyType({}),
    **options: object,
) -> dict[str, str]:
    """The pages of some releases, made from nothing. ``branches``: files to commit to them"""
    forge = PaperForge(yanks=format_yanks(yanks).encode())
    for branch, files in branches.items():
        forge.commit(branch, expected=forge.head(branch), files=files, message="x\n", base=forge.head("main"))
    for manifest in manifests:
        forge.add(manifest)
    shutil.rmtree(tmp_path / "site", ignore_errors=True)
    make_index(forge, tmp_path / "site", **options)
    return {name: data.decode() for name, data in tree(tmp_path / "site").items() if name != "manifests.json.gz"}


class Page(HTMLParser):
    """Checks that elements nest, and that no script is there but the pages' own; collects links and text."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[dict[str, str | None]] = []
        self.text = ""
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            assert dict(attrs).get("src") in ("copy.js", "../copy.js", "../../copy.js"), attrs
        if tag not in self.VOID:
            self.open.append(tag)
        if tag in ("a", "link"):
            self.links.append(dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_files_that_there_are(tmp_path: Path) -> None:
    found = site(tmp_path, *many(2, **SMALL), make_manifest("llvm-22.1.8.01", version="22.1.8", **SMALL))
    tag = "snapshot-20261120.02"
    for folder, one in (("snapshots", tag), ("releases", "llvm-22.1.8.01")):
        for name in ("index.html", "latest/index.html", "simple/index.html", "simple/index.json"):
            assert f"{folder}/{name}" in found
        for name in ("index.html", "index.json"):
            assert f"{folder}/simple/mlir/{name}" in found
        for name in ("index.html", f"requirements-{one}.txt", "pylock.toml", "release.json"):
            assert f"{folder}/{one}/{name}" in found
    assert {"index.html", "style.css", "icon.svg", "copy.js", "feed.xml", "state.json"} <= set(found)
    for name, text in found.items():
        if name.endswith(".html"):
            page = Page(text)
            for link in page.links:  # nothing is loaded from elsewhere
                assert link.get("rel") is None or not re.match(r"https?:|//", link["href"] or "")


def test_the_schemas_are_served(tmp_path: Path) -> None:
    found = site(tmp_path, *many(1, **SMALL))
    schemas = {name.removeprefix("schemas/"): text for name, text in found.items() if name.startswith("schemas/")}
    assert schemas == read_schemas()
    names = ("targets", "line", "integrate", "release", "rebuilt", "index", "index-month", "quality")
    assert {f"{name}.schema.json" for name in names} == set(schemas)


@pytest.mark.parametrize(
    ("snapshots", "numbered", "yanked"),
    [(0, 0, False), (1, 0, True), (1, 0, False), (0, 1, False), (0, 1, True), (1, 1, True), (2, 1, False)],
)
def test_every_link_and_every_address_of_ours_leads_somewhere(
    tmp_path: Path, snapshots: int, numbered: int, yanked: bool
) -> None:
    """Whether there are releases or not, and whether all of them are yanked."""
    release = make_manifest("llvm-22.1.8.01", version="22.1.8", **SMALL)
    found = [*many(snapshots, **SMALL), release][: snapshots + numbered]
    yanks = tuple(Yank(tag=manifest.tag, reason="r") for manifest in found) if yanked else ()
    pages = site(tmp_path, *found, yanks=yanks)
    assert dangling(tmp_path / "site") == []
    text = "\n".join(pages[name] for name in pages if name.endswith((".html", ".xml")))
    named = {path.partition("#")[0] for path in re.findall(r"https://mlir\.example/wheels/([^\s\"'<>&]*)", text)}
    lost = [path for path in named if not {path, f"{path}index.html", f"{path}/index.html"} & pages.keys()]
    assert lost == []
    assert ("snapshots/latest/requirements.txt" in pages) == bool(snapshots and not yanked)


def test_pages_follow_an_upgrade_of_the_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they are drawn by: a page shows what many modules say."""
    forge = PaperForge()
    for manifest in many(2, **SMALL):
        forge.add(manifest)
    make_index(forge, tmp_path / "site")
    before = install_snippets.newest
    monkeypatch.setattr(
        install_snippets, "newest", lambda url: replace(before(url), arguments=("--upgraded", *before(url).arguments))
    )
    assert "getting-started/index.html" in make_index(forge, tmp_path / "site").written
    make_index(forge, tmp_path / "fresh")
    assert tree(tmp_path / "site") == tree(tmp_path / "fresh")
    assert "--upgraded" in (tmp_path / "site" / "index.html").read_text()


def test_a_list_of_an_older_toolkit_tells_what_may_be_removed(tmp_path: Path) -> None:
    forge = PaperForge()
    forge.add(*many(1, **SMALL))
    make_index(forge, tmp_path / "site")
    state = tmp_path / "site" / "state.json"
    state.write_text(json.dumps({"schema": 1, "files": {"old/a.html": {"inputs": "a" * 64, "sha256": "b" * 64}}}))
    (tmp_path / "site" / "old").mkdir()
    (tmp_path / "site" / "old" / "a.html").touch()
    assert make_index(forge, tmp_path / "site").removed == ("old/a.html",)


def test_snapshots_and_numbered_releases_never_share_a_page(tmp_path: Path) -> None:
    found = site(tmp_path, *many(2, **SMALL), make_manifest("llvm-22.1.8.01", version="22.1.8", **SMALL))
    for name, text in found.items():
        if name.startswith("snapshots/"):
            assert "mlir-22.1.8-" not in text, name
        if name.startswith("releases/"):
            assert "mlir-2026" not in text, name


def test_only_published_releases_with_our_tags_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forge = PaperForge()
    shown, draft, bare = many(3, **SMALL)
    forge.add(shown)
    forge.add(draft, draft=True)
    forge.add(bare)
    forge.release_list[-1] = replace(forge.release_list[-1], assets=())  # published by hand
    forge.release_list.append(replace(forge.release_list[0], id="9", tag="v1.2.3"))  # the toolkit's own release
    outcome = make_index(forge, tmp_path / "site")
    assert outcome.releases == 1
    everything = b"".join(tree(tmp_path / "site").values())
    assert shown.version.encode() in everything
    for hidden in (draft.version, bare.version, "v1.2.3"):
        assert hidden.encode() not in everything
    assert "published without release.json" in capsys.readouterr().err


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_way_to_the_same_releases_gives_the_same_bytes(tmp_path: Path, data: st.DataObject) -> None:
    one: dict[str, Any] = {"platforms": ("win_amd64",), "pythons": ("cp312",)}
    manifests = [*many(3, **one), make_manifest("llvm-22.1.8.01", version="22.1.8", **one)]
    forge = PaperForge()
    incremental = tmp_path / "incremental"
    shutil.rmtree(incremental, ignore_errors=True)
    for manifest in data.draw(st.permutations(manifests)):
        forge.add(manifest)
        action = data.draw(st.sampled_from(["index", "wait", "yank", "damage", "lose state"]))
        if action == "yank":
            forge.set_yanks(format_yanks([Yank(tag=manifest.tag, reason="r")]).encode())
        if action == "damage" and incremental.exists():
            victim = data.draw(st.sampled_from(sorted(tree(incremental))))
            (incremental / victim).write_bytes(b"damaged")
        if action == "lose state":
            (incremental / "state.json").unlink(missing_ok=True)
        if action != "wait":
            make_index(forge, incremental)
    forge.set_yanks(b"")
    make_index(forge, incremental)
    fresh = tmp_path / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    make_index(forge, fresh)
    assert tree(incremental) == tree(fresh)


def test_the_shared_pages_link_a_window_and_every_release_its_own_wheels(tmp_path: Path) -> None:
    snapshots = many(20, **SMALL)  # of ten days
    numbered = make_manifest("llvm-22.1.8.01", version="22.1.8", **SMALL)
    old = make_manifest("llvm-19.1.7.01", version="19.1.7", created=START - timedelta(days=700), **SMALL)
    found = site(tmp_path, *snapshots, numbered, old, linked_days=3)
    shared = [f"snapshots/{name}" for name in ("latest/index.html", "simple/mlir/index.html", "simple/mlir/index.json")]
    for release in snapshots:
        linked = release.created >= snapshots[-1].created - timedelta(days=3)
        for wheel in release.wheels:
            assert [wheel.filename in found[name] for name in shared] == [linked] * 3
            for name in ("index.html", "pylock.toml", f"requirements-{release.tag}.txt"):
                assert wheel.filename in found[f"snapshots/{release.tag}/{name}"]
        assert release.tag in found["snapshots/index.html"]
    assert sum(release.version in found[shared[0]] for release in snapshots) == 7
    assert "of the last 3 days" in found[shared[0]]
    for wheel in (*numbered.wheels, *old.wheels):
        assert wheel.filename in found["releases/simple/mlir/index.html"]
        assert wheel.filename in found["releases/latest/index.html"]


def test_the_newest_that_is_not_yanked_is_always_linked(tmp_path: Path) -> None:
    old, *newer = many(8, **SMALL)
    found = site(tmp_path, old, *newer, yanks=tuple(Yank(tag=m.tag, reason="r") for m in newer), linked_days=1)
    assert old.wheels[0].filename in found["snapshots/latest/index.html"]
    assert old.wheels[0].filename in found["snapshots/simple/mlir/index.json"]
    assert newer[0].wheels[0].filename not in found["snapshots/latest/index.html"]


def test_one_release_more_touches_what_is_about_all_of_them(tmp_path: Path) -> None:
    forge = PaperForge()
    *older, newest = many(6, **SMALL)
    for manifest in older:
        forge.add(manifest)
    make_index(forge, tmp_path / "site")
    forge.add(newest)
    forge.downloads = 0
    outcome = make_index(forge, tmp_path / "site")
    assert (outcome.new, forge.downloads) == ((newest.tag,), 1)
    others = [name for name in outcome.written if f"snapshots/{newest.tag}/" not in name]
    assert others == [
        "snapshots/simple/mlir/index.html",
        "snapshots/simple/mlir/index.json",
        "snapshots/latest/requirements.txt",
        "snapshots/latest/index.html",
        "snapshots/index.html",
        "manifests.json.gz",
        "getting-started/index.html",
        "feed.xml",
        "index.html",
        "index.json",
    ]
    assert not make_index(forge, tmp_path / "site").written
    assert forge.downloads == 1


def test_a_release_that_is_gone_leaves_no_page(tmp_path: Path) -> None:
    forge = PaperForge()
    for manifest in many(2, **SMALL):
        forge.add(manifest)
    make_index(forge, tmp_path / "site")
    (tmp_path / "site" / "CNAME").write_text("mlir.example")
    gone = forge.release_list.pop()
    outcome = make_index(forge, tmp_path / "site")
    assert f"snapshots/{gone.tag}/release.json" in outcome.removed
    assert not [name for name in tree(tmp_path / "site") if gone.tag in name]
    assert (tmp_path / "site" / "CNAME").is_file()  # somebody else's file stays


ONE: dict[str, Any] = {"platforms": ("win_amd64",), "pythons": ("cp312",)}


def test_an_old_tag_that_is_published_late_and_one_that_is_deleted_are_seen_without_a_listing(tmp_path: Path) -> None:
    class Counting(PaperForge):
        services = SimpleNamespace(address="github:o/n", url="https://github.com/o/n")  # type: ignore[assignment]

        def recent(self, count: int | None) -> Sequence[Release]:
            self.listed = count
            return super().recent(count)

    forge = Counting()
    late, *others = many(RECENT + 30, **ONE)
    forge.add(late, draft=True)
    for manifest in others:
        forge.add(manifest)
    assert make_index(forge, tmp_path / "site").releases == RECENT + 29
    forge.publish(forge.release_list[0])
    gone = forge.release_list.pop(-7)
    outcome = make_index(forge, tmp_path / "site")
    assert (forge.listed, outcome.releases, len(outcome.new)) == (RECENT, RECENT + 29, 1)
    assert f"snapshots/{late.tag}/index.html" in outcome.written
    assert f"snapshots/{gone.tag}/index.html" in outcome.removed
    make_index(forge, tmp_path / "fresh")
    assert tree(tmp_path / "site") == tree(tmp_path / "fresh")


def test_the_pages_of_a_repository_that_was_made_anew_with_the_same_tags(tmp_path: Path) -> None:
    for day, revision in enumerate(("a" * 40, "b" * 40)):
        forge = PaperForge()
        forge.add(make_manifest("snapshot-20260401.01", revision=revision), when=START + timedelta(days=day))
        make_index(forge, tmp_path / "site")
    page = (tmp_path / "site" / "manifests.json.gz").read_bytes()
    assert "b" * 40 in gzip.decompress(page).decode()
    assert "a" * 40 not in gzip.decompress(page).decode()


def test_no_path_of_the_machine_is_published(tmp_path: Path) -> None:
    forge = PaperForge()
    forge.add(make_manifest("snapshot-20260401.01"))
    make_index(forge, tmp_path / "site")
    assert json.loads(gzip.decompress((tmp_path / "site" / "manifests.json.gz").read_bytes()))["source"] == "local"


def test_nothing_is_published_yet(tmp_path: Path) -> None:
    found = site(tmp_path)
    assert "Nothing is published yet" in Page(found["index.html"]).text
    assert found["snapshots/latest/index.html"]
    assert not [name for name in found if name.startswith("releases/")]
    ET.fromstring(found["feed.xml"])


def test_yanked_releases_are_marked_everywhere_and_not_offered(tmp_path: Path) -> None:
    older, newest = many(2, **SMALL)
    yank = Yank(tag=newest.tag, reason=HOSTILE)
    found = site(tmp_path, older, newest, yanks=(yank,))
    for name in (
        "snapshots/latest/index.html",
        "snapshots/simple/mlir/index.html",
        f"snapshots/{newest.tag}/index.html",
    ):
        page = Page(found[name])
        mine = [link for link in page.links if f"mlir-{newest.version}-" in (link["href"] or "")]
        assert mine
        assert all(link["data-yanked"] == HOSTILE for link in mine), name
        theirs = [link for link in page.links if f"mlir-{older.version}-" in (link["href"] or "")]
        assert not [link for link in theirs if "data-yanked" in link]
    files = json.loads(found["snapshots/simple/mlir/index.json"])["files"]
    assert {file["yanked"] for file in files} == {False, HOSTILE}
    landing = Page(found["index.html"])
    assert f"{older.tag}\n" in landing.text
    assert SHOWN in landing.text
    assert "# YANKED:" in found[f"snapshots/{newest.tag}/requirements-{newest.tag}.txt"]


def test_one_yanked_file(tmp_path: Path) -> None:
    (manifest,) = many(1, **SMALL)
    file = manifest.wheels[0].filename
    found = site(tmp_path, manifest, yanks=(Yank(tag=manifest.tag, file=file, reason="bad"),))
    for name in ("index.html", "snapshots/latest/index.html", "snapshots/simple/mlir/index.html"):
        for link in Page(found[name]).links:
            if ".whl" in (link["href"] or ""):
                assert ("data-yanked" in link) == (file in (link["href"] or ""))


def test_all_links_to_one_wheel_say_the_same(tmp_path: Path) -> None:
    # pip takes each link of a page for a file: one without the attributes would undo the others'.
    for name, text in site(tmp_path, *many(2, **SMALL)).items():
        if name.endswith(".html"):
            seen: dict[str, dict[str, str | None]] = {}
            for link in Page(text).links:
                href = link["href"] or ""
                if ".whl" in href:
                    attributes = {key: value for key, value in link.items() if key not in ("title", "aria-label")}
                    assert seen.setdefault(href.partition("#")[0], attributes) == attributes


def test_a_release_names_what_was_waived_and_what_is_left_out(tmp_path: Path) -> None:
    tag = "snapshot-20261120.02"
    manifest = make_manifest(
        tag,
        waivers=(Waiver(target="mlir-macos-arm64-cp312", reason="no runner", by="ada", at="2026-11-20T12:00:00Z"),),
        left_out=(LeftOut(target="mlir-linux-aarch64-cp312", reason="there is no tested wheel"),),
        **SMALL,
    )
    text = Page(site(tmp_path, manifest)[f"snapshots/{tag}/index.html"]).text
    assert "mlir-macos-arm64-cp312: no runner" in " ".join(text.split())
    assert "mlir-linux-aarch64-cp312: there is no tested wheel" in " ".join(text.split())


def test_a_release_names_its_known_failures_with_reasons(tmp_path: Path) -> None:
    tag, link = "snapshot-20261120.02", "https://github.com/llvm/llvm-project/issues/1"
    row = ExpectedFailures(tests=("CAPI/ir.c", "CAPI/pass.c"), reason=HOSTILE, link=link)
    script = ExpectedFailures(tests=("python/a.py",), reason="no engine", link="javascript:alert(1)")
    manifest = with_known_failures(make_manifest(tag, **SMALL), 2, row, script)
    page = Page(site(tmp_path, manifest)[f"snapshots/{tag}/index.html"])
    text = " ".join(page.text.split())
    both = ", ".join(test.name for test in manifest.tests[:2])
    assert f"CAPI/ir.c, CAPI/pass.c, in {both}: {SHOWN} (details)" in text
    assert f"python/a.py, in {both}: no engine" in text
    every = with_known_failures(manifest, len(manifest.tests), script)
    assert "python/a.py, in bindings-*: no engine" in Page(site(tmp_path, every)[f"snapshots/{tag}/index.html"]).text
    assert link in [each.get("href") for each in page.links]
    assert not [each for each in page.links if (each.get("href") or "").startswith("javascript:")]
    plain = site(tmp_path, make_manifest(tag, **SMALL))
    assert "and why:" not in plain[f"snapshots/{tag}/index.html"]


def test_a_snapshot_names_the_commits_that_upstream_has_reverted_since(tmp_path: Path) -> None:
    tag = "snapshot-20261120.02"
    manifest, other = make_manifest(tag, **SMALL), make_manifest("snapshot-20261120.01", **SMALL)
    reverts = [
        Revert(commit=digit * 40, subject=subject, by="e" * 40, date="2026-11-21T10:00:00Z", affects=affects)
        for digit, subject, affects in (("a", "[clang] Elsewhere", False), ("b", HOSTILE, True))
    ]
    plain = site(tmp_path / "plain", other, manifest)
    known = Quality(repository="local", releases={tag: ReleaseQuality(reverted=tuple(reverts))})
    branches = {
        "main": {TARGETS_FILE: make_targets(make_row(), provenance="none").encode()},
        LATEST_BRANCH: {QUALITY_NAME: to_bytes(known)},
    }
    found = site(tmp_path / "known", other, manifest, branches=branches)
    page = Page(found[f"snapshots/{tag}/index.html"])
    text = " ".join(page.text.split())
    assert f"{SHOWN}: {'b' * 12}, reverted by {'e' * 12} on 2026-11-21 [clang] Elsewhere: {'a' * 12}" in text
    assert f"https://github.com/llvm/llvm-project/commit/{'b' * 40}" in [link.get("href") for link in page.links]
    assert "Reverted since" not in plain[f"snapshots/{tag}/index.html"]
    changed = {name for name in found if found[name] != plain[name] and name != "state.json"}
    assert {name for name in changed if name.startswith("snapshots/snapshot-")} == {f"snapshots/{tag}/index.html"}


def test_hostile_texts_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    manifest = make_manifest(
        "snapshot-20261120.02",
        upstream=f"https://github.com/llvm/{HOSTILE}",
        llvm_version=HOSTILE,
        waivers=(Waiver(target="a", reason=HOSTILE, by=HOSTILE, at=HOSTILE),),
        left_out=(LeftOut(target="b", reason=HOSTILE),),
        **SMALL,
    )
    found = site(tmp_path, manifest, title=HOSTILE)
    for name, text in found.items():
        if name.endswith(".html") and "/simple/" not in name:
            page = Page(text)
            assert SHOWN in page.text, name
    feed = ET.fromstring(found["feed.xml"])
    assert feed.findtext("{http://www.w3.org/2005/Atom}title") == SHOWN


def test_an_sdks_wheels_have_a_heading_of_their_own_and_how_they_are_used(tmp_path: Path) -> None:
    tag = "snapshot-20261120.02"
    found = site(tmp_path, make_manifest(tag, distributions=("mlir", SDK, SDK_TOOLS), **SMALL))
    text = found[f"snapshots/{tag}/index.html"]
    assert "Install one of these" not in text  # there is one
    page = text[text.index('<h2 id="build">Build against it</h2>') : text.index('<h2 id="wheels">')]
    sdk, tools = page.index("<h3><code>mlir-sdk</code>"), page.index("<h3><code>mlir-sdk-tools</code>")
    assert sdk < page.index("<code>python -m mlir_sdk --cmakedir</code>") < tools < page.index("mlir-opt --version")
    assert "<code>llvm-config</code>" in page
    constraint = f"PIP_BUILD_CONSTRAINT=file:///srv/wheels/snapshots/{tag}/requirements-{tag}-mlir-sdk.txt pip wheel ."
    assert constraint in page
    assert "pip 25.3 or newer" in page
    assert "-DMLIR_INCLUDE_TESTS=ON" in page
    assert "/mlir/examples/standalone" in page
    assert 'href="../../getting-started/index.html#build"' in page


def test_bindings_that_exclude_each_other_are_told_so(tmp_path: Path) -> None:
    tag = "snapshot-20261120.02"
    found = site(tmp_path, make_manifest(tag, distributions=("mlir", "mlir-core", SDK), **SMALL))
    page = found[f"snapshots/{tag}/index.html"]
    assert page.index("elsewhere pip stops with an error") < page.index("<pre>")
    start, sdk = page.index("Install one of these, and not two"), page.index("<h3><code>mlir-sdk</code>")
    assert start < page.index("<h3><code>mlir</code>") < page.index("<h3><code>mlir-core</code>") < sdk


def test_empty_lines_of_code_are_kept(tmp_path: Path) -> None:
    found = site(tmp_path, *many(1, **SMALL))
    assert "explicit = true\n\n[tool.uv.sources]" in found["index.html"]
    assert "\n\n\n" not in found["index.html"]


def test_where_the_sources_are_and_bugs_are_reported_is_on_every_page(tmp_path: Path) -> None:
    class Hosted(PaperForge):
        services = SimpleNamespace(address="github:o/n", url="https://github.com/o/n")  # type: ignore[assignment]

    for forge, times in ((Hosted(), 1), (PaperForge(), 0)):
        forge.add(many(1, **SMALL)[0])
        folder = tmp_path / str(times)
        make_index(forge, folder)
        for page in folder.rglob("*.html"):
            if "simple" not in page.parts:
                text = page.read_text(encoding="utf-8")
                assert text.count('<a href="https://github.com/o/n/issues">Report a bug</a>') == times, page


@pytest.mark.parametrize("notice", [NOTICE, "This is <b>ours</b>.", ""])
def test_the_pages_say_what_the_releases_are_not(tmp_path: Path, notice: str) -> None:
    found = site(tmp_path, *many(1, **SMALL), notice=notice)
    pages = {name: Page(text).text for name, text in found.items() if name.endswith(".html") and "/simple/" not in name}
    assert len(pages) > 4
    for name, text in pages.items():
        assert NOTICE not in text or notice == NOTICE, name
        assert notice in text, name


def test_a_link_that_shows_a_size_is_read_out_with_its_file(tmp_path: Path) -> None:
    (manifest,) = many(1, **SMALL)
    named = {link.get("aria-label"): link for link in Page(site(tmp_path, manifest)["index.html"]).links}
    for wheel in manifest.wheels:
        assert named[f"{wheel.size / 1e6:.1f} MB: {wheel.filename}"]["title"] == wheel.filename


def test_a_snapshot_is_spelled_as_its_tag(tmp_path: Path) -> None:
    """Its version, of which PEP 440 drops a zero, is in commands, code and names of files only."""
    forge = PaperForge()
    forge.add(make_manifest("snapshot-20261120.02"))
    make_index(forge, tmp_path)
    pages = ["index.html", "snapshots/index.html", "snapshots/latest/index.html", "getting-started/index.html"]
    for name in (*pages, "snapshots/snapshot-20261120.02/index.html"):
        text = (tmp_path / name).read_text()
        assert "snapshot-20261120.02" in text
        bare = re.sub(r"<(pre|code|a)\b.*?</\1>", "", text, flags=re.DOTALL)
        assert not re.search(r"(?<!snapshot-)20261120\.0?2", bare), name


def test_the_feed(tmp_path: Path) -> None:
    manifests = many(3, **SMALL)
    feed = ET.fromstring(site(tmp_path, *manifests, yanks=(Yank(tag=manifests[1].tag, reason="r"),))["feed.xml"])
    atom = "{http://www.w3.org/2005/Atom}"
    titles = [entry.findtext(f"{atom}title") for entry in feed.iter(f"{atom}entry")]
    assert titles == [
        "MLIR snapshot-20261120.02",
        "MLIR snapshot-20261120.01 (yanked)",
        "MLIR snapshot-20261119.02",
    ]
    assert feed.findtext(f"{atom}updated") == "2026-11-20T19:00:00Z"


def test_provenance_is_linked_where_there_is_any(tmp_path: Path) -> None:
    (manifest,) = many(1, **SMALL)
    first = structs.replace(manifest.wheels[0], provenance=manifest.wheels[0].filename + ".provenance")
    found = site(tmp_path, structs.replace(manifest, wheels=(first, *manifest.wheels[1:])))
    links = [link for link in Page(found["snapshots/simple/mlir/index.html"]).links if "data-provenance" in link]
    assert [str(link["data-provenance"]).rpartition("/")[2] for link in links] == [first.provenance]
    assert "provenance" in Page(found[f"snapshots/{manifest.tag}/index.html"]).text


def test_signatures_are_linked_where_there_are_any(tmp_path: Path) -> None:
    (manifest,) = many(1, **SMALL)
    assert "signature" not in Page(site(tmp_path / "none", manifest)[f"snapshots/{manifest.tag}/index.html"]).text
    signed = structs.replace(manifest, provenance="required", repository="https://github.com/octo/releases")
    # Integration tests have real ones.
    shown = site(tmp_path / "signed", signed, signed_by=SignedBy(expectation="skip"))
    page = Page(shown[f"snapshots/{manifest.tag}/index.html"])
    links = [str(link["href"]) for link in page.links if str(link.get("href")).endswith(".sigstore.json")]
    assert [link.rpartition("/")[2] for link in links] == [f"{wheel.filename}.sigstore.json" for wheel in signed.wheels]
    assert f"mlir-release verify {manifest.tag}" in page.text


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    forge = PaperForge()
    for manifest in many(2, **SMALL):
        forge.add(manifest)
    outcome = make_index(forge, tmp_path / "site", dry_run=True)
    assert outcome.dry_run
    assert len(outcome.written) > 10
    assert not tree(tmp_path / "site")


def test_a_file_system_has_no_index_pages(tmp_path: Path) -> None:
    url = (tmp_path / "site").as_uri()
    found = site(tmp_path, *many(1, **SMALL), base_url=url)
    assert f"pip install -f {url}/snapshots/latest/index.html" in Page(found["index.html"]).text


@pytest.mark.parametrize("name", ["tag", "asset"])
def test_a_release_whose_manifest_does_not_fit_it(tmp_path: Path, name: str) -> None:
    forge = PaperForge()
    first, second = many(2, **SMALL)
    forge.add(first)
    forge.add(second)
    if name == "tag":
        forge.release_list[1] = replace(forge.release_list[1], assets=forge.release_list[0].assets)
        ids = [release.id for release in forge.release_list]
        forge.contents[ids[1], "release.json"] = forge.contents[ids[0], "release.json"]
        said = "the release.json of"
    else:
        kept = tuple(asset for asset in forge.release_list[1].assets if asset.name != second.wheels[0].filename)
        forge.release_list[1] = replace(forge.release_list[1], assets=kept)
        said = "is published, but lacks"
    refused(lambda: make_index(forge, tmp_path / "site"), "release-tampered", said)
    assert not tree(tmp_path / "site")


def test_yanks_that_cannot_be_read_stop_everything(tmp_path: Path) -> None:
    forge = PaperForge(yanks=b"[[yank]\n")
    refused(lambda: make_index(forge, tmp_path / "site"), "config-invalid")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "site").write_text("a file")
    refused(lambda: make_index(PaperForge(), tmp_path / "site"), "system-refused")


def test_the_index_names_no_good_release_that_the_pages_do_not_show() -> None:
    files = _index_files([], None, Quality(repository="local"), "snapshot-20261120.01")
    assert parse_index(files[INDEX_NAME]).channels == {}
