"""Shortening a message to what a service takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as given_

from mlir_release.integrate.deliver.deliver import shortened


def test_a_short_message_stays() -> None:
    assert shortened("## Fails\n", 9) == "## Fails\n"


def test_a_long_one_ends_after_a_line() -> None:
    assert shortened("one\ntwo\nthree\nfour\nfive\n", 16) == "one\ntwo\n…"


def test_a_code_block_is_closed() -> None:
    assert shortened("a\n```text\nerror\nerror\n```\n", 23) == "a\n```text\nerror\n```\n…"


@given(given_.lists(given_.sampled_from(["```", "x", "a longer line of text", ""])), given_.integers(10, 80))
def test_it_always_fits_and_closes_what_it_opens(lines: list[str], limit: int) -> None:
    text = "\n".join([*lines, "```"] if lines.count("```") % 2 else lines)
    short = shortened(text, limit)
    assert len(short) <= limit
    assert short.count("```") % 2 == 0
