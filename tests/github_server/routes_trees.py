"""Trees, blobs, and whether one commit is an ancestor of another."""

from __future__ import annotations

import base64

from tests.github_server.records import Answer, refuse
from tests.github_server.routes import REPO, Call, route
from tests.github_server.routes_checks import commit_row


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
