"""The GitHub forge on a GitHub that somebody else wrote: npm's ``emulate``, where it covers what the forge asks for.

It has no git over HTTP (so tags can't be listed), no workflow dispatches and runs, and no bytes or digests of assets.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
import requests

from mlir_release.release.forge.base import BranchMoved, Taken
from mlir_release.release.forge.github.forge import GitHubForge
from tests import npm
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "0.12.2"
NAME = "octocat/wheels"
TOKEN = "emulated"


def answers(url: str) -> bool:
    try:
        requests.get(f"{url}/rate_limit", timeout=60)
        return True
    except requests.ConnectionError:
        return False


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        node, program = npm.node(), npm.provide("emulate", VERSION) / "dist" / "index.js"
    except RuntimeError as error:
        pytest.skip(f"NOT TRIED ON emulate: {error}")
    folder = tmp_path_factory.mktemp("emulate")
    owner, _, name = NAME.partition("/")
    seed = {
        "tokens": {TOKEN: {"login": owner, "scopes": ["repo"]}},
        "github": {
            "users": [{"login": owner, "name": owner, "email": "somebody@users.example"}],
            "repos": [{"owner": owner, "name": name, "auto_init": True}],
        },
    }
    (folder / "seed.json").write_text(json.dumps(seed))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [str(node), str(program), "start", "-s", "github", "-p", str(port), "--seed", "seed.json"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, "--base-url", url], cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 600
        while not answers(url):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def forge(address: str) -> GitHubForge:
    environ = {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": address, "GITHUB_SERVER_URL": address}
    return GitHubForge.open(NAME, environ=environ)


def head(forge: GitHubForge) -> str:
    found = forge.head("main")
    assert found is not None
    return found


def test_who_and_when(forge: GitHubForge) -> None:
    assert forge.whoami() == "octocat"
    assert forge.now().tzinfo is not None


def test_a_commit_is_a_compare_and_swap(forge: GitHubForge) -> None:
    before = head(forge)
    after = forge.commit("main", expected=before, files={"a/pin": b"new\n"}, message="Bump\n\nKey: value\n")
    assert head(forge) == after
    assert forge.read("a/pin", commit=after) == b"new\n"
    assert forge.read("nothing", commit=after) is None
    assert forge.repository.get_git_commit(after).message.rstrip("\n") == "Bump\n\nKey: value"
    with pytest.raises(BranchMoved):
        forge.commit("main", expected=before, files={"a/pin": b"other\n"}, message="Bump\n")
    assert head(forge) == after


def test_a_branch_and_a_tag_are_made_once(forge: GitHubForge) -> None:
    first = head(forge)
    second = forge.commit("main", expected=first, files={"b": b"1\n"}, message="m\n")
    made = forge.commit("release", expected=None, base=first, files={"c": b"1\n"}, message="m\n")
    assert forge.head("release") == made
    with pytest.raises(BranchMoved):
        forge.commit("release", expected=None, base=second, files={"c": b"2\n"}, message="m\n")
    assert forge.head("release") == made
    tag = forge.create_tag("snapshot-20261120.01", second, "text\n")
    assert (tag.commit, tag.message) == (second, "text\n")
    with pytest.raises(Taken):
        forge.create_tag("snapshot-20261120.01", first, "text\n")


def test_a_release_is_a_draft_and_then_published(forge: GitHubForge) -> None:
    commit = head(forge)
    forge.create_tag("snapshot-20261120.02", commit, "text\n")
    draft = forge.create_draft("snapshot-20261120.02", title="a", body="b", prerelease=True)
    assert draft.draft
    edited = forge.edit_release(draft, title="c", body="d")
    assert (edited.title, edited.body) == ("c", "d")
    assert not forge.publish(edited).draft
    (found,) = [release for release in forge.releases() if release.tag == "snapshot-20261120.02"]
    assert (found.title, found.draft) == ("c", False)


def test_a_draft_is_deleted(forge: GitHubForge) -> None:
    forge.create_tag("snapshot-20261120.03", head(forge), "text\n")
    draft = forge.create_draft("snapshot-20261120.03", title="a", body="b", prerelease=True)
    forge.delete_draft(draft)
    assert all(release.tag != "snapshot-20261120.03" for release in forge.releases())


def test_a_repository_that_is_not_there(address: str) -> None:
    environ = {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": address, "GITHUB_SERVER_URL": address}
    refused(lambda: GitHubForge.open("octocat/nothing", environ=environ).releases(), "not-on-forge")
