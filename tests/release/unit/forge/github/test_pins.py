"""What GitHub's answers about a commit make of it, where a server in a test can't be made to give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from mlir_release.release.forge.github.pins import PinReader
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlir_release.release.forge.github.client import GitHubClient

COMMIT, BASE = "c" * 40, "b" * 40


class Answering:
    """A client whose answers are given, by the address below the repository's."""

    where = "https://github.com/llvm/mlir-wheels"

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def read(self, request: Callable[[], Any], *, about: str = "") -> Any:
        return request()

    def request(self, method: str, path: str = "", **options: Any) -> tuple[dict[str, Any], Any]:
        return {}, self.answers[path]


def test_a_list_that_is_cut_off_is_not_taken_for_the_whole() -> None:
    answers = {
        f"/git/commits/{COMMIT}": {"parents": [{"sha": BASE}]},
        f"/git/trees/{COMMIT}": {"truncated": True, "tree": []},
    }
    error = refused(lambda: PinReader(cast("GitHubClient", Answering(answers))).read(COMMIT), "forge-refused")
    assert error.remedy
