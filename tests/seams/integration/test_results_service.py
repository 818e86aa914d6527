"""The service of artifacts and caches answers as the clients of the real actions ask."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest
import requests

from tests.workflows.results_service import ResultsService

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ResultsService]:
    with ResultsService(tmp_path / "results") as service:
        yield service


def ask(service: ResultsService, kind: str, method: str, **asked: Any) -> requests.Response:
    url = f"{service.url}/twirp/github.actions.results.api.v1.{kind}Service/{method}"
    return requests.post(url, json=asked, timeout=10)


def test_an_artifact_in_blocks_out_of_order(service: ResultsService) -> None:
    here = {"workflow_run_backend_id": "1", "workflow_job_run_backend_id": "job", "name": "wheel"}
    url = ask(service, "Artifact", "CreateArtifact", **here, version=7).json()["signed_upload_url"]
    for block, content in (("Yg==", b"second"), ("YQ==", b"first ")):
        assert requests.put(f"{url}&comp=block&blockid={block}", content, timeout=10).status_code == 201
    listed = "<BlockList><Latest>YQ==</Latest><Latest>Yg==</Latest></BlockList>"
    assert requests.put(f"{url}&comp=blocklist", listed, timeout=10).status_code == 201
    assert ask(service, "Artifact", "ListArtifacts", **here).json() == {"artifacts": []}  # it is not finished
    digest = "sha256:" + hashlib.sha256(b"first second").hexdigest()
    assert ask(service, "Artifact", "FinalizeArtifact", **here, size="12", hash=digest).json()["ok"]
    (row,) = ask(service, "Artifact", "ListArtifacts", **here, name_filter="wheel").json()["artifacts"]
    assert (row["name"], row["size"], row["digest"]) == ("wheel", "12", digest)
    for given, count in (({"id_filter": row["database_id"]}, 1), ({"id_filter": "99"}, 0), ({"name_filter": "x"}, 0)):
        assert len(ask(service, "Artifact", "ListArtifacts", **here | given).json()["artifacts"]) == count
    signed = ask(service, "Artifact", "GetSignedArtifactURL", **here).json()["signed_url"]
    assert requests.get(signed, timeout=10).content == b"first second"
    assert requests.get(signed, headers={"Range": "bytes=6-7"}, timeout=10).content == b"se"
    assert requests.head(signed, timeout=10).headers["Content-Length"] == "12"
    again = ask(service, "Artifact", "CreateArtifact", **here)
    assert (again.status_code, again.json()["code"]) == (409, "already_exists")
    assert ask(service, "Artifact", "DeleteArtifact", **here).json()["ok"]
    assert ask(service, "Artifact", "CreateArtifact", **here).status_code == 200
    service.is_full = True
    refused = ask(service, "Artifact", "CreateArtifact", **here | {"name": "other"})
    assert (refused.status_code, "insufficient usage" in refused.json()["msg"]) == (403, True)


def test_caches_are_found_by_key_then_by_prefix_newest_first(service: ResultsService) -> None:
    for number, key in enumerate(("linux-1", "linux-2", "mac-1")):
        url = ask(service, "Cache", "CreateCacheEntry", key=key, version="v").json()["signed_upload_url"]
        assert requests.put(url, b"x" * number, timeout=10).status_code == 201
        done = ask(service, "Cache", "FinalizeCacheEntryUpload", key=key, version="v", size_bytes=str(number))
        assert done.json()["ok"]
    assert not ask(service, "Cache", "CreateCacheEntry", key="mac-1", version="v").json()["ok"]
    for key, prefixes, version, matched in (
        ("linux-1", [], "v", "linux-1"), ("linux-9", ["linux-"], "v", "linux-2"), ("mac", [], "v", "mac-1"),
        ("linux-1", [], "other", None), ("windows", ["win"], "v", None),
    ):  # fmt: skip
        asked = {"key": key, "restore_keys": prefixes, "version": version}
        assert ask(service, "Cache", "GetCacheEntryDownloadURL", **asked).json().get("matched_key") == matched
