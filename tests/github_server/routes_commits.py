"""What is known of commits: their order and files, check runs and statuses, and attestations of what they make."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tests.github_server.records import Answer, Json, refuse, stamp, user
from tests.github_server.routes import REPO, Call, commit_json, minimal_json, route

if TYPE_CHECKING:
    from tests.github_server.world import Repository


@route(f"GET {REPO}/commits")
def list_commits(call: Call) -> Answer:
    repository = call.repository
    paths = ("--", call.query["path"]) if "path" in call.query else ()
    shas = repository.git.text("rev-list", call.query.get("sha", "main"), *paths).split()
    rows, headers = call.page(shas)
    return Answer(200, [commit_row(repository, sha) for sha in rows], headers)


def commit_row(repository: Repository, sha: str) -> Json:
    data = commit_json(repository, sha)
    address = f"{repository.api}/commits/{sha}"
    somebody = user(repository.github.url, "somebody")
    inner = {key: data[key] for key in ("author", "committer", "message", "tree", "verification")}
    return {
        "sha": sha, "node_id": "C_1", "url": address, "html_url": address, "comments_url": f"{address}/comments",
        "commit": {**inner, "url": data["url"], "comment_count": 0}, "author": somebody, "committer": somebody,
        "parents": data["parents"],
    }  # fmt: skip


@route(f"GET {REPO}/commits/{{ref}}/check-runs")
def check_runs(call: Call) -> Answer:
    repository, sha = call.repository, call.names["ref"]
    given: Any = repository.checks.get(sha, {})  # pairs, oldest first, where a check ran several times
    found = list(given.items()) if isinstance(given, Mapping) else given
    numbered = list(enumerate(found, 1))
    rows, headers = call.page([_check(repository, sha, number, *entry) for number, entry in reversed(numbered)])
    return Answer(200, {"total_count": len(found), "check_runs": rows}, headers)


def _check(repository: Repository, sha: str, number: int, name: str, conclusion: str | None) -> Json:
    address, now = f"{repository.api}/check-runs/{number}", stamp(repository.github.clock())
    output = {"title": None, "summary": None, "text": None, "annotations_count": 0, "annotations_url": address}
    return {
        "id": number, "head_sha": sha, "node_id": "CR_1", "external_id": "", "url": address, "html_url": address,
        "details_url": address, "name": name, "status": "completed" if conclusion else "in_progress",
        "conclusion": conclusion, "started_at": now, "completed_at": now if conclusion else None, "output": output,
        "check_suite": {"id": 1}, "app": None, "pull_requests": [],
    }  # fmt: skip


@route(f"GET {REPO}/commits/{{ref}}/status")
def combined_status(call: Call) -> Answer:
    """The newest status of each context."""
    repository, sha = call.repository, call.names["ref"]
    now, address = stamp(repository.github.clock()), f"{repository.api}/statuses/{sha}"
    found = [
        {
            "id": number, "node_id": "S_1", "url": address, "avatar_url": None, "context": context, "state": state,
            "description": None, "target_url": None, "created_at": now, "updated_at": now,
        }
        for number, (context, state) in enumerate(repository.statuses.get(sha, {}).items(), 1)
    ]  # fmt: skip
    rows, headers = call.page(found)
    states = {row["state"] for row in found}
    overall = "failure" if states & {"failure", "error"} else "success" if states == {"success"} else "pending"
    body = {
        "state": overall, "statuses": rows, "sha": sha, "total_count": len(found), "commit_url": address,
        "repository": minimal_json(repository), "url": address,
    }  # fmt: skip
    return Answer(200, body, headers)


# After those above, as a ref can have slashes.
@route(f"GET {REPO}/commits/{{ref}}")
def get_commit(call: Call) -> Answer:
    """Of a commit by its id, perhaps abbreviated, or of a branch or a tag. What it changes is not told."""
    repository, ref = call.repository, call.names["ref"]
    sha = repository.git.resolve(ref)
    if sha is None:
        raise refuse(422, f"No commit found for SHA: {ref}")
    return Answer(200, commit_row(repository, sha))


@route(f"GET {REPO}/git/trees/{{tree_sha}}")
def get_tree(call: Call) -> Answer:
    repository, sha = call.repository, call.names["tree_sha"]
    done = repository.git.run("ls-tree", "-z", "--full-tree", sha, check=False)
    if done.returncode != 0:
        raise refuse(404, "Not Found")
    rows = [row.decode().partition("\t") for row in done.stdout.split(b"\0")[:-1]]
    tree = repository.git.text("rev-parse", f"{sha}^{{tree}}")
    entries = [
        {"path": path, "mode": mode, "type": kind, "sha": oid, "url": f"{repository.api}/git/{kind}s/{oid}"}
        for words, _, path in rows
        for mode, kind, oid in [words.split()]
    ]
    address = f"{repository.api}/git/trees/{tree}"
    return Answer(200, {"sha": tree, "url": address, "truncated": False, "tree": entries})


@route(f"GET {REPO}/git/blobs/{{file_sha}}")
def get_blob(call: Call) -> Answer:
    repository, sha = call.repository, call.names["file_sha"]
    done = repository.git.run("cat-file", "blob", sha, check=False)
    if done.returncode != 0:
        raise refuse(404, "Not Found")
    return Answer(200, {
        "sha": sha, "node_id": "B_1", "size": len(done.stdout), "url": f"{repository.api}/git/blobs/{sha}",
        "encoding": "base64", "content": base64.encodebytes(done.stdout).decode(),
    })  # fmt: skip


@route(f"GET {REPO}/compare/{{basehead}}")
def compare(call: Call) -> Answer:
    """Of two commits or refs. What differs between them is not told."""
    repository, git = call.repository, call.repository.git
    base, head = (git.resolve(name) for name in call.names["basehead"].split("..."))
    if base is None or head is None:
        raise refuse(404, "Not Found")
    merge_base = git.run("merge-base", base, head, check=False).stdout.decode().strip()
    if not merge_base:
        raise refuse(404, f"No common ancestor between {base} and {head}.")
    ahead = git.text("rev-list", f"{base}..{head}").split()[::-1]
    behind = git.text("rev-list", f"{head}..{base}").split()
    status = "diverged" if ahead and behind else "ahead" if ahead else "behind" if behind else "identical"
    rows, headers = call.page(ahead)
    address = f"{repository.api}/compare/{base}...{head}"
    urls = dict.fromkeys(("url", "html_url", "permalink_url", "diff_url", "patch_url"), address)
    return Answer(200, {
        **urls, "base_commit": commit_row(repository, base), "merge_base_commit": commit_row(repository, merge_base),
        "status": status, "ahead_by": len(ahead), "behind_by": len(behind), "total_commits": len(ahead),
        "commits": [commit_row(repository, sha) for sha in rows], "files": [],
    }, headers)  # fmt: skip


@route(f"GET {REPO}/contents/{{path}}")
def get_contents(call: Call) -> Answer:
    repository, path, ref = call.repository, call.names["path"], call.query.get("ref", "main")
    ref = repository.settings.get("commits", {}).get(ref, ref)
    content = repository.git.read(ref, path)
    if content is None:
        inside = repository.git.run("ls-tree", "--name-only", "-z", f"{ref}:{path}", check=False).stdout.decode()
        if not inside:
            raise refuse(404, "Not Found")
        files = [f"{path}/{name}" for name in inside.rstrip("\0").split("\0")]
        return Answer(200, [_entry(repository, name, repository.git.read(ref, name)) for name in files])
    body = {"encoding": "base64", "content": base64.encodebytes(content).decode()}
    return Answer(200, _entry(repository, path, content) | body)


def _entry(repository: Repository, path: str, content: bytes | None) -> Json:
    """A file, or a folder, as a listing shows it."""
    sha = repository.git.run("hash-object", "--stdin", input=content or b"").stdout.decode().strip()
    address = f"{repository.api}/contents/{path}"
    return {
        "type": "dir" if content is None else "file", "size": len(content or b""), "name": path.rpartition("/")[2],
        "path": path, "sha": sha, "url": address, "git_url": address, "html_url": address,
        "download_url": None if content is None else address,
        "_links": {"self": address, "git": address, "html": address},
    }  # fmt: skip


@route(f"POST {REPO}/attestations")
def create_attestation(call: Call) -> Answer:
    call.need("attestations")
    call.repository.attestations.append(call.input["bundle"])
    return Answer(201, {"id": call.github.next_id()})
