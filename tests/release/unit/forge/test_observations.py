"""Patterns of rulesets and environments, as GitHub's documentation tells them."""

from __future__ import annotations

import pytest

from mlir_release.release.forge.observations import matches

TAG = "refs/tags/snapshot-20261120.01"


@pytest.mark.parametrize(
    ("pattern", "ref", "well"),
    [
        ("~ALL", TAG, True),
        ("~DEFAULT_BRANCH", TAG, False),
        ("refs/tags/snapshot-*", TAG, True),
        ("refs/tags/*", TAG, True),
        ("refs/tags/**", TAG, True),
        ("refs/tags/**/*", TAG, True),
        ("refs/**/snapshot-*", TAG, True),
        ("**/*", TAG, True),
        ("refs/tags/[ls]*", TAG, True),
        ("refs/tags/[!s]*", TAG, False),
        ("refs/tags/snapshot-????????.01", TAG, True),
        ("refs/*", TAG, False),  # * does not cross /
        ("refs/**", TAG, False),  # nor does ** that no / follows
        ("*snapshot*", TAG, False),
        ("snapshot-*", TAG, False),
        ("refs/heads/*", TAG, False),
        ("refs/tags/Snapshot-*", TAG, False),
        # docs.github.com, "Creating rulesets for a repository"
        ("qa/*", "qa/foo", True),
        ("qa/*", "qa/foo/bar", False),
        ("qa/**/*", "qa/foo/bar/foobar/hello-world", True),
        ("qa/**/*", "qa/foo", True),
        ("qa**/**/*", "qa-old/foo/bar", True),
        ("qa/*", "qa", False),
        ("", "qa", False),
    ],
)
def test_patterns(pattern: str, ref: str, well: bool) -> None:
    assert matches(pattern, ref) is well
