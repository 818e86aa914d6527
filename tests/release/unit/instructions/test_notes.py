"""The text of a release's page."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from msgspec.structs import replace

from mlir_release.builder.model.sdk_wheel_info import SDK
from mlir_release.builder.model.test_report import ExpectedFailures
from mlir_release.release.instructions import install_snippets
from mlir_release.release.instructions.notes import (
    LIMIT,
    format_total,
    github_page,
    notes,
    python_name,
    runs_on,
    total_change,
    write_page,
)
from mlir_release.release.model.manifest import LeftOut, Manifest, TestedRelaxed, Waiver
from tests.paper_forge import PaperForge, make_manifest, with_known_failures
from tests.release.unit.model.test_measures import TARGET, history

PAGE = "https://forge.example/releases/tag/snapshot-20261120.02"
FILES = "https://forge.example/releases/expanded_assets/snapshot-20261120.02"
SHOWN = [install_snippets.exact(page, "mlir", "20261120.2") for page in (PAGE, FILES)]


def body(manifest: Manifest, previous: Manifest | None = None, *, base: str = "https://forge.example/dl") -> str:
    urls = {wheel.filename: f"{base}/{wheel.filename}" for wheel in manifest.wheels}
    return notes(manifest, shown=SHOWN, urls=urls, previous=previous)


def html(text: str) -> str:
    return str(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))


def test_pip_finds_every_wheel_with_its_hash() -> None:
    manifest = make_manifest("snapshot-20261120.02")
    links = re.findall(r'<a href="([^"]+)"', html(body(manifest)))
    for wheel in manifest.wheels:
        assert f"https://forge.example/dl/{wheel.filename}#sha256={wheel.sha256}" in links


def test_the_command_names_the_version() -> None:
    assert f"pip install -f {PAGE} mlir==20261120.2\n" in body(make_manifest("snapshot-20261120.02"))


def test_an_sdks_wheels_are_told_how_to_be_used() -> None:
    manifest = make_manifest("snapshot-20261120.02", distributions=("mlir", SDK))
    assert "`python -m mlir_sdk --cmakedir` prints the folder for CMake's `MLIR_DIR`" in body(manifest)
    assert "mlir_sdk --cmakedir" not in body(make_manifest("snapshot-20261120.02"))


def test_what_the_release_is_not_is_said_where_it_is_to_be() -> None:
    manifest = make_manifest("snapshot-20261120.02", notice="These are <b>ours</b>.")
    assert "<p>These are &lt;b&gt;ours&lt;/b&gt;.</p>" in html(body(manifest))


def test_a_body_that_github_would_refuse_loses_the_least_important_first() -> None:
    manifest = make_manifest("snapshot-20261120.02")
    first, count, base = (
        manifest.wheels[0],
        400,
        "https://github.com/llvm/mlir-wheels/releases/download/snapshot-20261120.02",
    )
    names = [f"mlir-20261120.2-{n:03}-cp312-cp312-manylinux_2_28_x86_64.whl" for n in range(count)]
    wheels = [replace(first, filename=name) for name in names]
    left_out = (LeftOut(target="t", reason="it fails"),)
    waivers = (Waiver(target="w", reason="a reason", by="ada", at="2026-11-20T12:00:00Z"),)
    text = body(replace(manifest, wheels=tuple(wheels), left_out=left_out, waivers=waivers), base=base)
    assert LIMIT - 5_000 < len(text.encode()) <= LIMIT
    links = re.findall(r'<a href="([^"]+)#sha256=', html(text))
    assert [link.rpartition("/")[2] for link in links] == [wheel.filename for wheel in wheels[: len(links)]]
    assert f"{count - len(links)} more wheels have no room here: `pip install -f {FILES} mlir==20261120.2`" in text
    assert "No room here, but in `release.json`: Waived, Left out." in text
    few = body(replace(manifest, left_out=(LeftOut(target="t", reason="x" * LIMIT),) * 2, waivers=waivers))
    assert "a reason" in few  # only what is too long is gone
    assert "more wheels" not in few
    assert "No room here, but in `release.json`: Left out." in few


def test_what_changed() -> None:
    before = make_manifest("snapshot-20261120.01", revision="a" * 40)
    after = make_manifest("snapshot-20261120.02", revision="b" * 40, previous=before)
    text = body(after, before)
    assert f"https://github.com/llvm/llvm-project/compare/{'a' * 40}...{'b' * 40}" in text
    assert re.search(r"\| 35\.\d MB \| [+-]\d\.\d% \|", text)
    assert "built again" in body(replace(after, revision="a" * 40), before)
    assert "The first release of its kind." in body(before)
    mirror = replace(after, upstream="/srv/llvm-project.git")
    assert f"llvm-project `{'a' * 12}...{'b' * 12}`" in body(mirror, before)


def test_the_change_is_of_the_wheels_that_both_have() -> None:
    before = make_manifest("snapshot-20261120.01", platforms=("win_amd64",))
    wheels = tuple(replace(wheel, size=wheel.size * 2) for wheel in before.wheels)
    more = make_manifest("snapshot-20261120.01", platforms=("macosx_11_0_arm64",)).wheels
    assert total_change(replace(before, wheels=wheels + more), before) == "+100.0%"
    assert total_change(before, None) == ""
    assert total_change(replace(before, wheels=more), before) == ""


def test_requirements_that_differ_from_upstreams_are_shown() -> None:
    row = TestedRelaxed(
        upstream="numpy<=2.1.2,>=2.1.0",
        requirement="numpy<3,>=2.1.0",
        reason="2.1.2 has no wheel for CPython <b>3.14</b>",
        tested_with=("2.4.6", "2.5.5"),
    )
    manifest = make_manifest("snapshot-20261120.02")
    assert "Requirements" not in body(manifest)
    shown = html(body(replace(manifest, relaxed=(row,))))
    assert "<code>numpy&lt;3,&gt;=2.1.0</code> for upstream's <code>numpy&lt;=2.1.2,&gt;=2.1.0</code>" in shown
    assert "&lt;b&gt;3.14&lt;/b&gt;; tested with 2.4.6, 2.5.5" in shown


def test_known_failures_are_named_with_their_reasons() -> None:
    link = "https://github.com/llvm/llvm-project/blob/main/mlir/test/CAPI"
    program = ExpectedFailures(tests=tuple(f"CAPI/{n}.c" for n in range(7)), reason="needs a <program>", link=link)
    engine = ExpectedFailures(tests=("python/multithreaded_tests.py",), reason="has no engine")
    manifest = make_manifest("snapshot-20261120.02")
    assert "Known failures" not in body(manifest)
    shown = html(body(with_known_failures(with_known_failures(manifest, 2, program), 1, program, engine)))
    count = sum(test.counts["expected_fail"] for test in manifest.tests)
    assert f"tests passed, {count} failed for known reasons." in shown
    both = ", ".join(f"<code>{test.name}</code>" for test in manifest.tests[:2])
    assert f"<code>CAPI/4.c</code>, 2 more, in {both}: needs a &lt;program&gt;" in shown
    assert f'(<a href="{link}">details</a>)' in shown
    name = manifest.tests[0].name
    assert f"<code>python/multithreaded_tests.py</code>, in <code>{name}</code>: has no engine" in shown


def test_known_failures_of_every_wheel_and_of_many_have_room() -> None:
    manifest = make_manifest("snapshot-20261120.02")
    row = ExpectedFailures(tests=("x",), reason="why")
    every = html(body(with_known_failures(manifest, len(manifest.tests), row)))
    assert "<code>x</code>, in <code>bindings-*</code>: why" in every
    names = [test.name for test in manifest.tests]
    assert len(names) > 6
    most = html(body(with_known_failures(manifest, 6, row)))
    assert f"<code>{names[4]}</code>, 1 more: why" in most
    assert names[5] not in most[most.index("Known failures") :]
    alone = replace(manifest, tests=manifest.tests[:1])
    assert f"in <code>{names[0]}</code>: why" in html(body(with_known_failures(alone, 1, row)))


def test_upstreams_on_github() -> None:
    page = "https://github.com/llvm/llvm-project"
    for upstream in (page, f"{page}.git", f"{page}/", "git@github.com:llvm/llvm-project.git"):
        assert github_page(upstream) == page
    for upstream in ("/srv/llvm", "https://evil.example/github.com/a/b", "https://github.com/a/b/c", f"{page}\n<x>"):
        assert github_page(upstream) == ""


def test_words_for_people() -> None:
    assert str(runs_on(("manylinux_2_17_x86_64", "manylinux2014_x86_64"))) == "Linux x86_64, glibc ≥ 2.17"
    assert str(runs_on(("macosx_11_0_arm64",))) == "macOS arm64, version ≥ 11.0"
    assert str(runs_on(("win_amd64",))) == "Windows x86_64"
    assert sorted([runs_on(("win_amd64",)), runs_on(("linux_x86_64",))])[0].name == "Linux x86_64"
    assert [python_name(tag) for tag in ("cp312", "cp314t", "py3")] == ["3.12", "3.14t", "py3"]
    assert [format_total(n) for n in (999, 2_635_500_000)] == ["999 B", "2.64 GB"]


def test_one_wheel_for_several_cpythons_says_which_and_what_it_gives_up() -> None:
    plain = make_manifest("snapshot-20261120.02", platforms=("manylinux_2_28_x86_64",), pythons=("cp312",))
    shared = replace(plain, wheels=(replace(plain.wheels[0], serves=("cp312", "cp313")),))
    assert "3.12, 3.13 (one wheel, stable ABI)" in html(body(shared))
    assert "loc_tracebacks" in html(body(shared))
    assert "loc_tracebacks" not in html(body(plain))
    assert '"serves"' not in plain.to_text()
    assert Manifest.from_text(shared.to_text(), where="here") == shared


def test_a_measure_that_moved_has_a_line() -> None:
    rows = history([10_000_000, 10_000_000, 10_050_000, 10_900_000])
    lines = [line for line in notes_of(rows, 3).splitlines() if "parse" in line]
    assert lines == [f"- parse +9.0% ({TARGET})"]
    assert "### Performance" not in notes_of(rows, 2)


def notes_of(rows: list[Manifest], number: int) -> str:
    """The body that :func:`write_page` gives the draft of one of some releases, those before which are published."""
    forge = PaperForge()
    for row in rows[:number]:
        forge.add(row)
    forge.add(rows[number], draft=True)
    draft = forge.drafts(rows[number].tag)[0]
    return write_page(forge, draft, rows[number], rows[number - 1]).body
