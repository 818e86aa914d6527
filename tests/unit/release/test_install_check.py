"""Where the dependencies of wheels are installed from."""

from __future__ import annotations

from mlir_release.release.install_check import dependency_options


def test_a_folder_and_an_index_are_told_apart() -> None:
    assert dependency_options("wheels") == ["--no-index", "--find-links", "wheels"]
    assert dependency_options("https://example.org/simple/") == ["--index-url", "https://example.org/simple/"]
    assert dependency_options("file:///srv/simple") == ["--index-url", "file:///srv/simple"]
