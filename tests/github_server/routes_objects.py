"""Reading git's objects and refs, and comparing commits."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.github_server.records import Answer, Json, refuse, stamp, user
from tests.github_server.routes import REPO, Call, route
from tests.github_server.routes_checks import commit_row

if TYPE_CHECKING:
    from tests.github_server.world import Repository


@route(f"GET {REPO}/git/matching-refs/{{ref}}")
def matching_refs(call: Call) -> Answer:
    found, prefix = call.repository, f"refs/{call.names['ref']}"
    lines = found.git.text("for-each-ref", "--format=%(refname) %(objectname) %(objecttype)").splitlines()
    rows = [line.split() for line in lines if line.startswith(prefix)]
    part, headers = call.page([found.ref_row(*row) for row in rows])
    return Answer(200, part, headers)


@route(f"DELETE {REPO}/git/refs/{{ref}}")
def delete_ref(call: Call) -> Answer:
    call.need("contents")
    name = f"refs/{call.names['ref']}"
    if name.removeprefix("refs/tags/") in call.repository.burned:
        raise refuse(422, "Repository rule violations found: Cannot delete this tag")
    old = call.repository.git.resolve(name)
    if old is None:
        raise refuse(422, "Reference does not exist")
    call.repository.git.run("update-ref", "-d", name, old)
    return Answer(204)


@route(f"GET {REPO}/git/tags/{{tag_sha}}")
def get_tag(call: Call) -> Answer:
    found, sha = call.repository, call.names["tag_sha"]
    done = found.git.run("cat-file", "tag", sha, check=False)
    if done.returncode != 0:
        raise refuse(404, "Not Found")
    head, _, message = done.stdout.decode().partition("\n\n")
    fields = dict(line.split(" ", 1) for line in head.splitlines())
    person, _, when = fields["tagger"].rpartition("> ")
    name, _, email = person.partition(" <")
    date = stamp(datetime.fromtimestamp(int(when.split()[0]), UTC))
    place = f"{found.api}/git/commits/{fields['object']}"
    verification = dict.fromkeys(("signature", "payload", "verified_at")) | {"verified": False, "reason": "unsigned"}
    return Answer(200, {
        "node_id": "T_1", "sha": sha, "url": f"{found.api}/git/tags/{sha}", "tag": fields["tag"],
        "message": message.rstrip("\n"), "tagger": {"name": name, "email": email, "date": date},
        "object": {"sha": fields["object"], "type": fields["type"], "url": place}, "verification": verification,
    })  # fmt: skip


@route(f"GET {REPO}/git/trees/{{tree_sha}}")
def get_tree(call: Call) -> Answer:
    found, sha = call.repository, call.names["tree_sha"]
    options = ["-r", "-t"] if call.query.get("recursive") else []
    done = found.git.run("ls-tree", "-l", *options, sha, check=False)
    if done.returncode != 0:
        raise refuse(404, "Not Found")
    rows: list[Json] = []
    for line in done.stdout.decode().splitlines():
        facts, _, path = line.partition("\t")
        mode, kind, object_sha, size = facts.split()
        row: Json = {"path": path, "mode": mode, "type": kind, "sha": object_sha}
        row["url"] = f"{found.api}/git/{kind}s/{object_sha}"
        rows.append(row | ({"size": int(size)} if kind == "blob" else {}))
    tree = found.git.text("rev-parse", f"{sha}^{{tree}}").strip()
    return Answer(200, {"sha": tree, "url": f"{found.api}/git/trees/{tree}", "truncated": False, "tree": rows})


@route(f"GET {REPO}/git/blobs/{{file_sha}}")
def get_blob(call: Call) -> Answer:
    found, sha = call.repository, call.names["file_sha"]
    done = found.git.run("cat-file", "blob", sha, check=False)
    if done.returncode != 0:
        raise refuse(404, "Not Found")
    content = base64.encodebytes(done.stdout).decode()
    address = f"{found.api}/git/blobs/{sha}"
    return Answer(200, {
        "sha": sha, "node_id": "B_1", "url": address, "size": len(done.stdout), "encoding": "base64",
        "content": content,
    })  # fmt: skip


@route(f"GET {REPO}/commits/{{ref}}")
def one_commit(call: Call) -> Answer:
    found = call.repository
    sha = found.git.resolve(f"{call.names['ref']}^{{commit}}")
    if sha is None:
        raise refuse(422, f"No commit found for SHA: {call.names['ref']}")
    return Answer(200, commit_row(found, sha) | {"stats": {"additions": 0, "deletions": 0, "total": 0}, "files": []})


@route(f"GET {REPO}/compare/{{basehead}}")
def compare(call: Call) -> Answer:
    found = call.repository
    base, _, head = call.names["basehead"].partition("...")
    both = [found.git.resolve(f"{name}^{{commit}}") for name in (base, head)]
    if None in both:
        raise refuse(404, "Not Found")
    ahead = found.git.text("rev-list", "--reverse", f"{both[0]}..{both[1]}").split()
    behind = len(found.git.text("rev-list", f"{both[1]}..{both[0]}").split())
    fork = found.git.text("merge-base", *map(str, both)).strip()
    status = "diverged" if ahead and behind else "ahead" if ahead else "behind" if behind else "identical"
    rows, headers = call.page([commit_row(found, sha) for sha in ahead])
    address = f"{found.api}/compare/{call.names['basehead']}"
    links = dict.fromkeys(("url", "html_url", "permalink_url", "diff_url", "patch_url"), address)
    return Answer(200, {
        **links, "base_commit": commit_row(found, str(both[0])), "merge_base_commit": commit_row(found, fork),
        "status": status, "ahead_by": len(ahead), "behind_by": behind, "total_commits": len(ahead), "commits": rows,
        "files": [],
    }, headers)  # fmt: skip


def branch_json(place: Repository, name: str, sha: str) -> Json:
    """GitHub's base of a pull request: a branch with its repository."""
    return {
        "label": f"{place.name.partition('/')[0]}:{name}", "ref": name, "sha": sha, "repo": None,
        "user": user(place.github.url, place.name.partition("/")[0]),
    }  # fmt: skip
