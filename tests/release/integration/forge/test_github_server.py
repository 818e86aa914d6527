"""The GitHub on loopback behaves as GitHub does where it hurts. Plain HTTP and git: no client of ours in between."""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import requests

from tests.github_server import Fault, GitHubServer
from tests.github_server.stock import add_past

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "llvm/mlir-wheels"
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github", clock=lambda: NOW) as server:
        server.add_repository(NAME, {"README": b"wheels\n"}, workflows=("release.yml",))
        yield server


def ask(
    github: GitHubServer, method: str, path: str, token: str = "", body: Any = None, **options: Any
) -> requests.Response:
    """One request below the repository; ``path`` may be a whole address, too."""
    url = path if path.startswith("http") else f"{github.api_url}/repos/{NAME}{path}"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= options.pop("headers", {})
    return requests.request(method, url, headers=headers, json=body, timeout=600, **options)


def make_draft(github: GitHubServer, token: str, tag: str = "v1") -> dict[str, Any]:
    made = ask(github, "POST", "/releases", token, {"tag_name": tag, "draft": True})
    assert made.status_code == 201
    found: dict[str, Any] = made.json()
    return found


def upload(github: GitHubServer, token: str, release: dict[str, Any], name: str, content: bytes) -> requests.Response:
    url = release["upload_url"].partition("{")[0]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
    return requests.post(url, params={"name": name}, data=content, headers=headers, timeout=600)


def test_an_assets_bytes_come_from_a_storage_that_refuses_tokens(github: GitHubServer) -> None:
    token = github.token()
    release = make_draft(github, token)
    asset = upload(github, token, release, "a.whl", b"wheel").json()
    assert asset["digest"] == f"sha256:{hashlib.sha256(b'wheel').hexdigest()}"
    assert (asset["state"], asset["size"]) == ("uploaded", 5)
    assert upload(github, token, release, "a.whl", b"other").status_code == 422
    accept = {"Accept": "application/octet-stream"}
    moved = ask(github, "GET", asset["url"], token, headers=accept, allow_redirects=False)
    assert moved.status_code == 302
    assert requests.get(moved.headers["Location"], timeout=600).content == b"wheel"
    assert ask(github, "GET", moved.headers["Location"], token).status_code == 400
    ask(github, "PATCH", f"/releases/{release['id']}", token, {"draft": False})
    assert requests.get(asset["browser_download_url"], timeout=600).content == b"wheel"
    page = requests.get(f"{github.url}/{NAME}/releases/expanded_assets/v1", timeout=600).text
    assert "/releases/download/v1/a.whl" in page


def test_an_upload_that_breaks_off_leaves_a_starter(github: GitHubServer) -> None:
    token = github.token()
    release = make_draft(github, token)
    github.faults = lambda record: Fault(drop="truncate") if record.operation.endswith("/assets") else None
    with pytest.raises(requests.ConnectionError):
        upload(github, token, release, "a.whl", b"a wheel")
    github.faults = lambda record: None
    (asset,) = ask(github, "GET", f"/releases/{release['id']}/assets", token).json()
    assert (asset["state"], asset["digest"]) == ("starter", None)
    assert upload(github, token, release, "a.whl", b"a wheel").status_code == 422  # its name is taken
    assert ask(github, "DELETE", asset["url"], token).status_code == 204
    assert upload(github, token, release, "a.whl", b"a wheel").status_code == 201


def test_large_pages_of_releases_are_slow_and_too_large_ones_end_in_504(github: GitHubServer) -> None:
    tags = add_past(github, NAME, 100, until=NOW)
    assert ask(github, "GET", "/releases?per_page=100").status_code == 504
    github.seconds_of_an_asset = 0.001
    started = time.monotonic()
    page = ask(github, "GET", "/releases?per_page=10")
    assert time.monotonic() - started > 1.5
    assert [row["tag_name"] for row in page.json()] == tags[:-11:-1]
    assert len(page.content) > 10 * 150 * 1000
    asset = page.json()[0]["assets"][7]
    assert ask(github, "GET", asset["url"]).json()["name"] == asset["name"]
    content = requests.get(asset["browser_download_url"], timeout=600).content
    assert hashlib.sha256(content).hexdigest() == asset["digest"].removeprefix("sha256:")
    assert len(github.repositories[NAME].git.refs("refs/tags/")) == 100


def test_an_upload_can_stay_a_starter_although_it_arrived(github: GitHubServer) -> None:
    token = github.token()
    github.stuck = lambda name: name == "a.whl"
    made = upload(github, token, make_draft(github, token), "a.whl", b"a wheel")
    assert (made.status_code, made.json()["state"], made.json()["digest"]) == (201, "starter", None)


def test_pages_are_yesterdays_for_ten_minutes(tmp_path: Path) -> None:
    now = [NOW]
    site = tmp_path / "site"
    site.mkdir()
    with GitHubServer(tmp_path / "github", clock=lambda: now[0]) as server:
        server.add_repository(NAME, {"README": b"wheels\n"})
        seen = []
        for text, minutes in (("old", 0), ("new", 9), ("new", 1)):
            (site / "index.html").write_text(text)
            address = server.deploy_pages(NAME, site)
            now[0] += timedelta(minutes=minutes)
            seen.append(requests.get(address, timeout=600).text)
        assert seen == ["old", "old", "new"]
        assert requests.get(f"{address}nothing", timeout=600).status_code == 404
