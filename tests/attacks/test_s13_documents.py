"""S13: in no document that the toolkit writes does foreign text link, mention, refer to an issue, or add markup."""

from __future__ import annotations

import dataclasses
import html
import re
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown import markdown as as_mail_shows_it  # type: ignore[import-untyped]  # apprise makes mails with it
from markdown_it import MarkdownIt
from msgspec.structs import replace

from mlir_release.builder.model.test_report import TestFailure, TestReport
from mlir_release.builder.testing.report import TestOutcome, TestResult, TestRun
from mlir_release.ground.console import Console, in_markdown
from mlir_release.ground.errors import ForgeError
from mlir_release.ground.foreign import code, code_block, link, markdown, table
from mlir_release.ground.git.patch import T_DROP, T_LINK, T_WHY, Patch
from mlir_release.ground.git.trees import commit_tree, tree_of
from mlir_release.ground.strategy import Verdict
from mlir_release.integrate.config import LandTable
from mlir_release.integrate.deliver import deliver
from mlir_release.integrate.deliver.deliver import shortened
from mlir_release.integrate.deliver.page import SmokeRun, WalkPicture
from mlir_release.integrate.patches.patches import Stack
from mlir_release.integrate.project import Integration
from mlir_release.integrate.report import Suspect, WalkEnd, WalkReport
from mlir_release.integrate.state import T_UPSTREAM, T_VERDICT, LogFinding
from mlir_release.integrate.tables import UpstreamTable
from mlir_release.integrate.upstream import UpstreamCommit, UpstreamRepository
from mlir_release.integrate.walk import walk
from mlir_release.operate.doctor.results import Examination, Finding
from mlir_release.operate.issues import plan_changes
from mlir_release.release.instructions import install_snippets
from mlir_release.release.instructions.notes import notes
from mlir_release.release.model.manifest import LeftOut, TestedRelaxed, Waiver
from mlir_release.release.transaction.steps import SweepLine
from mlir_release.release.transaction.sweep import SweepOutcome
from tests.attacks.selected_stage import ADA, local_upstream
from tests.job_factory import make_job
from tests.paper_forge import make_manifest
from tests.standing_factory import make_standing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: A commit's subject, a name or a line of a log that tries everything.
HOSTILE = (
    "[x](https://evil.example) @llvm/team Fixes #1 GH-2 llvm/llvm-project#3 <img src=x onerror=y> | a | "
    "::error::z ##[set-output name=a]b \x1b[31m\x1b]0;t\x07 \u202e https://github.com/o/r/issues/4 www.evil.example "
    "deadbeef123 **b** `c\n\n# heading\n::set-output name=a::b\n- item\n</details>\n```\n@everyone"
)

#: Each of the marks at which a name, a number or a URL begins, as GitHub looks for them in rendered text.
_REFERENCES = re.compile(
    r"(?:^|\W)@[A-Za-z0-9]|#\d|\bGH-\d|https?://|\bwww\.|(?<![\w./-])(?=\d*[a-f])[0-9a-f]{7,40}(?!\w)", re.IGNORECASE
)

#: What the toolkit's own documents consist of.
_OURS = frozenset(
    "p h2 h3 ul li code pre strong em a table thead tbody tr th td details summary".split()  # noqa: SIM905
)

SUBJECT = " ".join(HOSTILE.split())
COMMIT = UpstreamCommit(sha="c" * 40, tree="d" * 40, subject=SUBJECT)
PAGE = f"https://github.com/llvm/llvm-project/commit/{COMMIT.sha}"


def render(document: str) -> str:
    """The HTML of a document, with raw HTML as it stands."""
    return str(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(document))


def check_harmless(document: str, *, links: tuple[str, ...] = ()) -> str:
    """Assert that a document has no markup but ours, and nothing outside of code that GitHub links.

    :param links: the only addresses that may be linked
    :return: the HTML
    """
    shown = render(document)
    assert {tag.lower() for tag in re.findall(r"<(\w+)", shown)} <= _OURS, shown
    assert set(re.findall(r'href="([^"]*)"', shown)) <= set(links), shown
    text = re.sub(r"<a [^>]*>.*?</a>|<pre>.*?</pre>|<code[^>]*>.*?</code>", "\0", shown, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]*>", "\0", text))
    assert not _REFERENCES.search(text), text
    assert not re.search("[\x01-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]", document), document
    return shown


def report(outcome: str) -> str:
    found = LogFinding(kind="compiler", where=HOSTILE, text=HOSTILE)
    suspect = Suspect(COMMIT, 3, (f"removes {HOSTILE}", "touches a.cpp"))
    end = WalkEnd(
        outcome=outcome, upstream=HOSTILE, branch=HOSTILE, base="a" * 40, remaining=1, good="a" * 40, bad="b" * 40,
        suspects=(COMMIT,), undone=SUBJECT,
    )  # fmt: skip
    url = "https://github.com/llvm/llvm-project/commit/"
    report = WalkReport(end=end, findings=(found,), suspects=(suspect,), log=HOSTILE, advice=HOSTILE, commit_url=url)
    return report.as_markdown()


@pytest.mark.parametrize("outcome", ["culprit", "range", "bad", "conflict"])
def test_the_report_of_a_walk_in_a_comment_or_a_notification(outcome: str) -> None:
    shown = check_harmless(report(outcome), links=(PAGE,))
    assert shown.count("<h") == {"culprit": 2}.get(outcome, 3)


def test_the_picture_of_a_walk() -> None:
    tests = (
        SmokeRun(COMMIT.sha, COMMIT.title, 1, "s", Verdict.GOOD, 1, 1.0),
        SmokeRun(COMMIT.sha, COMMIT.title, 2, "s", Verdict.BAD, 1, 1.0),
    )
    picture = WalkPicture(upstream=HOSTILE, commits=3, here=2, breaks=1, linear_tests=3, tests=tests)
    shown = check_harmless(picture.as_markdown())
    assert (shown.count("<tr>"), shown.count("<td")) == (3, 10)


class Downstream(SimpleNamespace):
    """One whose answers may be kept."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def test_the_pull_request_of_an_integrate(tmp_path: Path) -> None:
    git, base = local_upstream(tmp_path / "llvm.git", f"{SUBJECT}\n\nbody\n")

    def commit(ref: str, subject: str, *trailers: str) -> str:
        message = "\n".join([subject, "", "Text.", "", *trailers])
        made = commit_tree(git, tree_of(git, base), [git.resolve(ref) or base], message, ADA)
        git.run("update-ref", ref, made)
        return made

    commit("refs/mlir-release/upstream/main", f'Revert "x"\n\nThis reverts commit {base}.')
    told = [f"{key}: {SUBJECT}" for key in (T_WHY, T_LINK, T_DROP)]
    commit("refs/heads/pin", SUBJECT, *told)
    pin = commit("refs/heads/pin", "`closes #7 @team`", told[0], f"{T_LINK}: https://a.example/) [x](y)", told[2])
    for trailers in ((), (f"{T_UPSTREAM}: {base}", f"{T_VERDICT}: bad"), ()):
        commit("refs/heads/b", SUBJECT, *trailers)
    llvm = UpstreamTable(url="https://github.com/llvm/llvm-project.git", name=SUBJECT, submodule="llvm")
    project: SimpleNamespace = SimpleNamespace(
        pin=lambda _: pin,
        started_from=lambda _: base,
        main_ref=lambda: base,
        outer=git,
        upstream=UpstreamRepository(git.directory, llvm),
        config=SimpleNamespace(
            downstream=SimpleNamespace(branch="main"), smoke=SimpleNamespace(argv=["make", "check"]), land=LandTable()
        ),
        names=("",),
        slug="hostile",
        walked=lambda _: (project,),
    )
    for name in ("messages", "commits"):
        setattr(project, name, partial(getattr(Integration, name), project))
    _, body = deliver.pull_request_text(cast("Any", project), "b")
    for ours in (f"llvm/llvm-project@{base}", f"https://github.com/llvm/llvm-project/compare/{base}...{base}"):
        assert ours in body
        body = body.replace(ours, "llvm")
    shown = check_harmless(body, links=("https://a.example/%29%20%5Bx%5D%28y%29",))
    assert shown.count("<li>") == 6
    # The squashed commit has the same text, and GitHub reads that without Markdown.
    assert not re.search(r"#\d|\B@\w|://github.com/\S+/issues/\d", body)


def test_the_commits_of_a_walk_close_no_issue_when_they_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "export_stack", lambda *_: "")
    subject = "Fixes #1 (GH-2) @llvm/team, closes https://github.com/o/r/issues/3 \x1b[2J"
    patch = Patch(sha="e" * 40, subject=subject, kind="local", of="", why="", link="", drop_when="")
    project = Downstream(
        pin=lambda _: "3" * 40,
        upstream=SimpleNamespace(affecting=lambda *_: [1], config=SimpleNamespace(title="LLVM", patches=())),
        pin_commit=lambda _head, _tip, message, _generated: message,
        named=lambda trailers: trailers,
    )
    seen = SimpleNamespace(base="1" * 40, head="2" * 40)
    stack = Stack(base="1" * 40, tip="3" * 40, kept=(patch,), dropped=((patch, subject),))
    commit = UpstreamCommit(sha="c" * 40, tree="d" * 40, subject=subject)
    advance, text = cast("Any", walk.Walk.advance_commit), cast("Any", walk.Walk.advance_text)
    observer = SimpleNamespace(skipped=lambda *_: [subject])
    walking = SimpleNamespace(project=project, observer=observer)
    walking.advance_text = partial(text, walking)
    message = advance(walking, seen, commit, stack, "good", {})
    assert len(message.splitlines()) == 3 + 3 + 1 + 5
    assert not re.search(r"#\d|GH-\d|\B@\w|/issues/\d|\x1b", message)
    assert message.replace("\u200b", "").count("Fixes #1 (GH-2) @llvm/team") == 5


def test_the_issue_of_a_failing_target() -> None:
    job = make_job(HOSTILE, "failure")
    report = TestReport(target="smoke-a", suite="smoke", passed=False, failures=(TestFailure(name=HOSTILE),))
    failure = make_standing(
        "smoke-a",
        state="failed",
        report=report,
        takes_down=(HOSTILE,),
        leaves_out=(HOSTILE,),
        wheel=HOSTILE,
        jobs=(HOSTILE,),
    )
    failing = {"smoke-a": failure}
    (step,) = plan_changes("snapshot-20261120.01", [], failing=failing, passing=(), jobs={HOSTILE: job})
    check_harmless(step.text, links=(job.url,))


def test_the_notes_of_a_release() -> None:
    manifest = make_manifest(
        "snapshot-20261120.02",
        waivers=(Waiver(target=HOSTILE, reason=HOSTILE, by=HOSTILE, at=HOSTILE),),
        left_out=(LeftOut(target=HOSTILE, reason=HOSTILE),),
    )
    relaxed = TestedRelaxed(upstream=HOSTILE, requirement=HOSTILE, reason=HOSTILE, tested_with=(HOSTILE,))
    manifest = replace(
        manifest, relaxed=(relaxed,), llvm_version=HOSTILE, previous_tag=HOSTILE, previous_revision="f" * 40
    )
    base = "https://forge.example/dl/"
    urls = {wheel.filename: f"{base}{wheel.filename}" for wheel in manifest.wheels}
    text = notes(
        manifest, shown=[install_snippets.exact("https://forge.example/page", "mlir", "1")], urls=urls, previous=None
    )
    upstream = "https://github.com/llvm/llvm-project"
    links = [f"{base}{wheel.filename}#sha256={wheel.sha256}" for wheel in manifest.wheels]
    links += [f"{upstream}/commit/{manifest.revision}", f"{upstream}/compare/{'f' * 40}...{manifest.revision}"]
    shown = check_harmless(text, links=tuple(links))
    assert (shown.count("<li>"), shown.count("<tr>")) == (3, 1 + len(manifest.wheels))


def sweep_summary() -> str:
    error = ForgeError("an-id", HOSTILE, remedy=HOSTILE)
    line = SweepLine(tag=HOSTILE, action="publish", reason=HOSTILE)
    failed = dataclasses.replace(line, result="failed", detail=HOSTILE, error=error)
    return in_markdown(SweepOutcome(rows=(line, failed)))


def doctor_summary() -> str:
    return in_markdown(Examination([Finding(HOSTILE, "problem", HOSTILE, HOSTILE)]))


def suite_summary() -> str:
    """A report of tests, whose names and messages upstream chooses."""
    results = (
        TestResult(name=HOSTILE, outcome=TestOutcome.FAIL, message=HOSTILE),
        TestResult(name=HOSTILE, outcome=TestOutcome.EXPECTED_FAIL, message=HOSTILE),
    )
    return TestRun(
        target=HOSTILE, suite=HOSTILE, wheel=HOSTILE, wheel_sha256=None, results=results, seconds=1.0,
        installed={HOSTILE: HOSTILE},
    ).markdown()  # fmt: skip


@pytest.mark.parametrize("document", [sweep_summary, doctor_summary, suite_summary])
def test_the_summaries_of_steps(document: Callable[[], str]) -> None:
    check_harmless(document(), links=("https://forge.example/page",))


def test_the_summary_of_an_outcome(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    Console().outcome(SimpleNamespace(text=lambda: HOSTILE, to_json=dict), title="snapshot-20261120.01")
    check_harmless((tmp_path / "summary").read_text(encoding="utf-8").replace("20261120", "x"))


# -- the one escape ---------------------------------------------------------------------------------------------------

_MARKS = (
    "[ ] ( ) ! x http:// https://e.v www. evil.com @ llvm/team # 1 Fixes GH- <img > | * _ ~ ` `` ``` \\ & lt; &#35; - "
    "1. 12) + = --- $ : :: tada: ^1 [^1]: [a]: abcdef12 mailto: / !-- é \u202e \x1b[1m \r . \n \t"
)
_PIECES = st.lists(st.sampled_from([*_MARKS.split(" "), " "]), max_size=12)


@given(_PIECES)
def test_any_text_is_shown_as_it_is_and_nothing_else(pieces: list[str]) -> None:
    text = "".join(pieces)
    escaped = markdown(text)
    for document in (escaped, f"- {escaped}", f"## {escaped}", f"- `abc` {escaped} (x)"):
        check_harmless(document)
    shown = check_harmless(table(("a", ">b"), [(escaped, code(text))]))
    assert shown.count("<td") == 2
    assert "<img" not in as_mail_shows_it(escaped)
    assert "<a " not in as_mail_shows_it(escaped)


@given(_PIECES)
def test_nothing_ends_code(pieces: list[str]) -> None:
    text = "".join(pieces)
    check_harmless(f"a {code(text)} b")
    shown = check_harmless(code_block(text.split("\n")))
    assert shown.count("<pre>") == 1
    assert shown.rstrip().endswith("</pre>")


def test_nothing_ends_a_cell() -> None:
    shown = render(table(("a", "b"), [(code("x | y"), markdown("`x | y` | z"))]))
    assert "<td><code>x | y</code></td>" in shown
    assert "<td><code>x | y</code> | z</td>" in shown


def test_ordinary_subjects_stay_readable() -> None:
    assert markdown("[mlir][linalg] Add x86_64 to `Foo<T>`, a::b") == "[mlir][linalg] Add x86_64 to `Foo<T>`, a::b"
    assert markdown("[NFC] Fix it (#12345)").replace("\u200b", "") == "[NFC] Fix it (#12345)"
    assert markdown('Revert "x" of 0123abcd456') == 'Revert "x" of `0123abcd456`'
    assert "<p>Vec&lt;int&gt; a &lt; b &amp;&amp; c *p | q</p>" in render(markdown("Vec<int> a < b && c *p | q"))


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "//evil.example", "", "https:evil"])
def test_only_pages_and_files_are_linked(url: str) -> None:
    assert link("x", url) == "x"
    assert link("x", "https://a.example/a b)(<c>|`") == "[x](https://a.example/a%20b%29%28%3Cc%3E%7C%60)"


def test_a_notification_that_is_cut_leaves_no_code_open() -> None:
    body = f"## A\n\n{code_block(['```', *['x' * 20] * 50])}\n\nend"
    for limit in range(60, len(body), 37):
        cut = shortened(body, limit)
        assert len(cut) <= limit
        assert re.search(r"<p>…</p>\s*\Z", render(cut))
