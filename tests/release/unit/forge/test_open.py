"""Which forge an address, or the environment, means."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.errors import UsageError
from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.release.forge.open import FORGE_VARIABLE, client_of_upstream, default_address, open_forge, served_at
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

WORKFLOW = {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "llvm/mlir-wheels"}


@pytest.mark.parametrize(
    ("environ", "address"),
    [
        ({}, None),
        ({FORGE_VARIABLE: "github:a/b", **WORKFLOW}, "github:a/b"),
        ({FORGE_VARIABLE: "", **WORKFLOW}, "github:llvm/mlir-wheels"),
        ({"GITHUB_REPOSITORY": "llvm/mlir-wheels"}, None),
    ],
)
def test_the_environment_implies_a_forge(environ: dict[str, str], address: str | None) -> None:
    assert default_address(environ) == address


def test_an_address_on_github() -> None:
    forge = open_forge("github:llvm/mlir-wheels", {})
    assert isinstance(forge, GitHubForge)
    assert forge.services.address == "github:llvm/mlir-wheels"
    assert forge.services.location == "github.com/llvm/mlir-wheels"


@pytest.mark.skipif(sys.platform == "win32", reason="the local forge needs POSIX")
def test_a_folder(tmp_path: Path) -> None:
    from mlir_release.release.forge.local.forge import LocalForge

    LocalForge.create(tmp_path / "forge", {"a": b"1\n"})
    for address in (f"local:{tmp_path / 'forge'}", str(tmp_path / "forge")):
        forge = open_forge(address, {})
        assert isinstance(forge, LocalForge)
        assert forge.root == tmp_path / "forge"
    assert served_at(forge, "https://example.org/wheels").page_url("t") == "https://example.org/wheels/t/index.html"
    refused(lambda: open_forge(str(tmp_path), {}), "input-missing")


@pytest.mark.skipif(sys.platform == "win32", reason="the local forge needs POSIX")
def test_github_serves_its_files_itself() -> None:
    refused(
        lambda: served_at(open_forge("github:a/b", {}), "https://example.org"),
        "option-invalid",
        "only the files of a local forge can be served from another address",
    )


ENTERPRISE = {
    "GITHUB_SERVER_URL": "https://git.example",
    "GITHUB_API_URL": "https://git.example/api/v3",
    "GITHUB_TOKEN": "secret",
}


@pytest.mark.parametrize(
    ("url", "environ", "api", "token"),
    [
        ("https://github.com/llvm/llvm-project.git", {"GITHUB_TOKEN": "secret"}, "https://api.github.com", True),
        ("git@github.com:llvm/llvm-project.git", {"GITHUB_TOKEN": "secret"}, "https://api.github.com", True),
        ("ssh://git@github.com/llvm/llvm-project", {}, "https://api.github.com", False),
        ("https://git.example/llvm/llvm-project/", ENTERPRISE, "https://git.example/api/v3", True),
        ("https://github.com/llvm/llvm-project", ENTERPRISE, "https://api.github.com", False),
        ("https://git.example/llvm/llvm-project", {"GITHUB_TOKEN": "x"}, "https://git.example/api/v3", False),
    ],
)
def test_the_token_goes_to_its_own_server_only(url: str, environ: dict[str, str], api: str, token: bool) -> None:
    client = client_of_upstream(url, environ)
    assert (client.name, client.api, client.authenticated) == ("llvm/llvm-project", api, token)


@pytest.mark.parametrize("url", ["/srv/llvm-project.git", "file:///srv/llvm/project", "https://github.com/llvm", ""])
def test_what_is_not_on_github(url: str) -> None:
    with pytest.raises(UsageError, match="only GitHub"):
        client_of_upstream(url, {})
