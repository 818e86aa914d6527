"""``yanked.toml``: round trips, and the message about a wrong entry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.release.model.yanks import Yank, format_yanks, parse_yanks, yank_reason
from tests.refusals import refused

TAG = "snapshot-20261120.02"
TEXT = st.text(min_size=1).filter(lambda text: not set("\r\0") & set(text))


@given(st.lists(st.builds(Yank, tag=st.just(TAG), reason=TEXT, file=st.just("") | TEXT, by=TEXT), max_size=4))
def test_yanks_read_back(yanks: list[Yank]) -> None:
    assert list(parse_yanks(format_yanks(yanks))) == yanks


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[[yank]]\ntag = 'snapshot-20261120.02'\n", "yank[0].reason is missing"),
        ("[[yank]]\ntag = 'main'\nreason = 'x'\n", "yank[0].tag is 'main', which is not a release tag"),
        (
            "[[yank]]\ntag='snapshot-20261120.02'\nreason='x'\nflie='y'\n",
            "yank[0].flie is an unknown key; did you mean 'file'?",
        ),
        ("[[yanked]]\ntag='snapshot-20261120.02'\n", "yanked is an unknown key; did you mean 'yank'?"),
        ("tag = ", "Invalid value"),
    ],
)
def test_a_wrong_yank_is_named(content: str, said: str) -> None:
    error = refused(lambda: parse_yanks(content, where="main:yanked.toml"), "config-invalid")
    assert said in error.why


def test_a_release_is_yanked_whole_or_by_the_file() -> None:
    yanks = (Yank(tag=TAG, reason="file", file="a.whl"), Yank(tag="snapshot-20261120.01", reason="all"))
    assert yank_reason(yanks, TAG) is None
    assert yank_reason(yanks, TAG, "a.whl") == "file"
    assert yank_reason(yanks, TAG, "b.whl") is None
    assert yank_reason(yanks, "snapshot-20261120.01", "b.whl") == "all"


def test_a_reason_that_would_make_the_list_unreadable_is_refused() -> None:
    refused(lambda: format_yanks([Yank(tag=TAG, reason="a long story " * 100)]), "config-invalid")
