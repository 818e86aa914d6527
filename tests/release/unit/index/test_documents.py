"""The toolkit's documentation among the pages."""

from __future__ import annotations

import html
from pathlib import Path

from mlir_release.release.index.documents import ABOUT, Documents
from tests.html_links import dangling, repeated_ids
from tests.paper_forge import PaperForge, make_index, make_manifest

DOCS = Path(__file__).parents[4] / "docs"


def folder(tmp_path: Path, **files: str) -> Documents:
    (tmp_path / "docs").mkdir()
    for name, text in files.items():
        (tmp_path / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    return Documents.read(tmp_path / "docs", "https://github.com/o/n/blob/main")


def test_links_between_documents_lead_to_their_pages(tmp_path: Path) -> None:
    documents = folder(tmp_path, a="# A\n[b](b.md#two-words), [here](#a)", b="# B\n## Two words")
    assert '<a href="b.html#two-words">b</a>, <a href="#a">here</a>' in documents.html(documents.files[0])
    assert '<h2 id="two-words">' in documents.html(documents.files[1])


def test_links_out_of_the_folder_lead_to_the_repository(tmp_path: Path) -> None:
    documents = folder(tmp_path, a="[map](../README.md#map), [site](https://mlir.llvm.org/)")
    text = documents.html(documents.files[0])
    assert '<a href="https://github.com/o/n/blob/main/README.md#map">map</a>' in text
    assert '<a href="https://mlir.llvm.org/">site</a>' in text
    nowhere = Documents(files=documents.files)
    assert nowhere.html(nowhere.files[0]).startswith("<p>map, <a ")


def test_headings_of_the_same_words_have_githubs_anchors(tmp_path: Path) -> None:
    documents = folder(tmp_path, a="# `a.toml`: what, and why\n## Same\n## Same\n")
    text = documents.html(documents.files[0])
    assert '<h1 id="atoml-what-and-why">' in text
    assert '<h2 id="same">' in text
    assert '<h2 id="same-1">' in text


def test_html_and_images_are_not_shown_as_such(tmp_path: Path) -> None:
    documents = folder(tmp_path, a="<script>alert(1)</script> ![x](https://example.org/x.png)\n")
    text = documents.html(documents.files[0])
    assert "<script>" not in text
    assert "<img" not in text


def test_our_own_documentation_has_no_link_that_leads_nowhere(tmp_path: Path) -> None:
    forge = PaperForge()
    forge.add(make_manifest("snapshot-20261120.01"))
    documents = Documents.read(DOCS, "https://github.com/o/n/blob/main")
    make_index(forge, tmp_path / "site", documents=documents, base_url="https://mlir.example/wheels")
    found = tmp_path / "site" / "docs"
    assert len(list(found.glob("*.html"))) == len(list(DOCS.glob("*.md"))) + 1
    assert [link for link in dangling(found) if not link.split(": ")[1].startswith("..")] == []
    assert repeated_ids(found) == []
    assert 'href="security.html">Security</a>' in (found / "index.html").read_text(encoding="utf-8")
    assert 'href="docs/">Docs</a>' in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")


def test_our_own_documents_are_described_in_the_order_of_need(tmp_path: Path) -> None:
    documents = Documents.read(DOCS)
    assert [each.name for each in documents.files if not each.about] == []
    assert [each.name for each in documents.listed] == [name for name in ABOUT if (DOCS / f"{name}.md").is_file()]
    forge = PaperForge()
    make_index(forge, tmp_path / "site", documents=folder(tmp_path, other="# Other", security="# Security"))
    page = (tmp_path / "site" / "docs" / "index.html").read_text(encoding="utf-8")
    about = html.escape(ABOUT["security"]).replace("&#x27;", "&#39;")
    assert f'<a href="security.html">Security</a></dt><dd>{about}</dd>' in page
    assert page.index("security.html") < page.index('<a href="other.html">Other</a></dt><dd></dd>')


def test_wide_tables_scroll_by_the_keyboard_and_code_keeps_its_empty_lines(tmp_path: Path) -> None:
    documents = folder(tmp_path, a="# A\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\none\n\ntwo\n```\n")
    make_index(PaperForge(), tmp_path / "site", documents=documents)
    page = (tmp_path / "site" / "docs" / "a.html").read_text(encoding="utf-8")
    assert '<div class="wide" role="group" aria-label="Table" tabindex="0">\n<table>' in page
    assert "</table>\n</div>" in page
    assert "one\n\ntwo" in page


def test_only_a_changed_document_is_drawn_again(tmp_path: Path) -> None:
    forge = PaperForge()
    forge.add(make_manifest("snapshot-20261120.01"))
    documents = folder(tmp_path, a="# A\n", b="# B\n")
    make_index(forge, tmp_path / "site", documents=documents)
    (tmp_path / "docs" / "b.md").write_text("# B\nchanged\n", encoding="utf-8")
    outcome = make_index(forge, tmp_path / "site", documents=Documents.read(tmp_path / "docs", documents.source))
    assert outcome.written == ("docs/b.html",)
    gone = make_index(forge, tmp_path / "site")
    assert set(gone.removed) == {"docs/a.html", "docs/b.html", "docs/index.html"}
