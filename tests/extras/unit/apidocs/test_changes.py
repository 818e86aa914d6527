"""What is shown of a comparison: in text, in Markdown and as JSON."""

from __future__ import annotations

from mlir_release.extras.apidocs.changes import ApiChange, Comparison, Detail, Side

OLD, NEW = (Side(name=f"snapshot-2026112{day}.01", wheel="mlir.whl", sha256=f"{day}" * 64) for day in (0, 1))


def comparison(*changes: ApiChange, uncompared: tuple[str, ...] = ()) -> Comparison:
    return Comparison(old=OLD, new=NEW, changes=changes, uncompared=uncompared)


def operation(name: str, *details: Detail, **fields: str) -> ApiChange:
    values = {"how": "changed", "kind": "operation", "group": name.partition(".")[0], **fields}
    return ApiChange(name=name, details=details, **values)  # type: ignore[arg-type]


GONE = Detail(level="breaking", text="gone: x", before="(x)", after="()")
NEWS = Detail(level="compatible", text="new", member="body")
TYPES = Detail(level="types", text="other types", before="(a)", after="(a: int)")


def test_the_same_api_is_one_line() -> None:
    found = comparison()
    assert found.text() == "the Python API, snapshot-20261120.01 → snapshot-20261121.01: no change"
    assert found.markdown().endswith("\nNo change.\n")
    assert (found.to_json()["changes"], found.to_json()["breaking"]) == ([], 0)


def test_breaking_changes_come_first_and_what_is_alike_shares_a_row() -> None:
    found = comparison(
        operation("a.plain", NEWS, TYPES),
        operation("b.new", how="added"),
        operation("c.two", GONE),
        operation("c.one", GONE, path="mlir.dialects.c.One"),
        operation("d.typed", TYPES),
        operation("e.gone", how="removed", path="mlir.dialects.e.Gone"),
    )
    assert found.text().splitlines() == [
        "the Python API, snapshot-20261120.01 → snapshot-20261121.01: 6 changes, 3 of them breaking",
        "operations: 1 added, 1 removed, 4 changed (2 breaking, 1 in types only)",
        "",
        "Breaking (3)",
        "  c.one, c.two",
        "      gone: x",
        "        - (x)",
        "        + ()",
        "  e.gone (mlir.dialects.e.Gone): removed",
        "",
        "Changed; what worked before still works (1)",
        "  a.plain",
        "      body: new",
        "",
        "Added (1)",
        "  b.new",
        "",
        "Only declared with other types (1)",
        "  d.typed",
        "      other types",
        "        - (a)",
        "        + (a: int)",
    ]
    assert "- `c.one`, `c.two`\n  - gone: x; `(x)` → `()`\n" in found.markdown()
    assert [change["level"] for change in found.to_json()["changes"]] == [
        "compatible",
        "compatible",
        "breaking",
        "breaking",
        "types",
        "breaking",
    ]


def test_members_of_which_the_same_is_said_are_named_together() -> None:
    found = comparison(operation("a.b", NEWS, Detail(level="compatible", text="new", member="tail")))
    assert "      body, tail: new" in found.text().splitlines()


def test_thousands_of_changes_of_types_are_only_counted() -> None:
    found = comparison(*(operation(f"a.op{number}", TYPES) for number in range(3000)))
    assert found.text().splitlines()[-1] == "Only declared with other types (3000)"
    assert len(found.markdown().splitlines()) < 10
    assert len(found.to_json()["changes"]) == 3000


def test_what_is_not_compared_is_named() -> None:
    found = comparison(uncompared=("mlir.dialects.gpu.Type",))
    assert found.text().endswith("no stubs of their modules: mlir.dialects.gpu.Type")
    assert found.markdown().rstrip().endswith("mlir.dialects.gpu.Type")


def test_markdown_shows_what_others_wrote_as_it_is() -> None:
    evil = "a`b\n## heading | <script> @someone \x1b]0;title\x07"
    detail = Detail(level="breaking", text=f"gone: {evil}", member=evil, before=evil, after=evil)
    found = comparison(operation(evil, detail, path=evil), uncompared=(evil,)).markdown()
    assert "\n## heading" not in found
    assert "\x1b" not in found
    assert "@someone" not in found.replace("`` a`b", "`` ").split("- ``")[0]
