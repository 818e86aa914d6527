from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mlir_release.ground.documents.trailers import format_message, parse_trailers

keys = st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,20}", fullmatch=True)
values = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=40)
lines = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")), max_size=60)


@given(st.dictionaries(keys, values, min_size=1, max_size=5), values, st.lists(lines, max_size=5))
def test_trailers_survive_a_message(trailers: dict[str, str], subject: str, body: list[str]) -> None:
    assert parse_trailers(format_message(subject, "\n".join(body), trailers)) == trailers


def test_prose_is_not_a_trailer() -> None:
    assert parse_trailers("Subject: only") == {}
    assert parse_trailers("Subject\n\nKey: value\nbut then prose") == {}
    assert parse_trailers("Subject\n\nKey: value\n\nprose") == {}
