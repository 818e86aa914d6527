"""What must hold at the end of a month, read from GitHub's own records and not by the toolkit's code."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest
from mlir_release.release.model.yanks import parse_yanks
from tests.month.month import RED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.release.pinning.state import TagState
    from tests.github_server.world import Release, Repository
    from tests.month.month import Month

#: A pending snapshot that a newer one supersedes is abandoned after three days, by one of the next two sweeps.
OLDEST_DRAFT = timedelta(hours=72 + 24)

#: An hour's limits of a job's token; of writes also a minute's.
REST, GRAPHQL, WRITES, WRITES_A_MINUTE = 1000, 1000, 500, 80


def verdict(month: Month) -> list[str]:
    """What does not hold; empty if everything does."""
    repository = month.repository
    states = month.states
    return [
        *(problem for release in published(repository) for problem in _incomplete(month, release)),
        *_tags(repository, states),
        *_publications(month, repository),
        *_drafts(month, repository, states),
        *_issues(month, repository),
        *_pins(repository, states),
        *_pages(month, repository),
        *_limits(month),
    ]


def published(repository: Repository) -> list[Release]:
    """The published releases, oldest first."""
    return [release for release in repository.releases.values() if not release.draft]


def manifest_of(release: Release) -> Manifest:
    """What it says of itself."""
    content = next(asset.content for asset in release.assets if asset.name == MANIFEST_NAME)
    return Manifest.from_text(content, where=release.tag)


def _incomplete(month: Month, release: Release) -> Iterator[str]:
    """Each release has the wheels of its manifest, byte for byte; each required target is there and tested, or waived.

    Only targets that a person waived are waived, and only experimental ones are left out.
    """
    files = {asset.name: hashlib.sha256(asset.content).hexdigest() for asset in release.assets}
    unfinished = [asset.name for asset in release.assets if asset.state != "uploaded"]
    manifest, matrix = manifest_of(release), month.matrix
    for wheel in manifest.wheels:
        if files.get(wheel.filename) != wheel.sha256:
            yield f"{release.tag}: {wheel.filename} is not what the manifest says"
        if files.get(f"{wheel.filename}.metadata") != wheel.metadata_sha256:
            yield f"{release.tag}: the metadata of {wheel.filename} is not what the manifest says"
        if not month.built[release.tag, wheel.target]:
            yield f"{release.tag}: nobody built {wheel.target}"
    there, tests = {wheel.target for wheel in manifest.wheels}, {test.name for test in manifest.tests}
    waived = {waiver.target for waiver in manifest.waivers}
    for target in matrix.wheels:
        if target.required and target.name not in there | waived:
            yield f"{release.tag}: {target.name} is neither there nor waived"
        if not target.required and target.name not in there | {row.target for row in manifest.left_out}:
            yield f"{release.tag}: {target.name} is neither there nor named as left out"
        lacking = {test.name for test in target.tests} - tests - waived
        if target.name in there and lacking:
            yield f"{release.tag}: {sorted(lacking)} did not pass"
    if waived - set(month.people.waived.get(release.tag, [])) or not all(w.reason for w in manifest.waivers):
        yield f"{release.tag}: nobody waived {sorted(waived)}, or without a reason"
    if unfinished:
        yield f"{release.tag}: {unfinished} are not whole"


def _tags(repository: Repository, states: list[TagState]) -> Iterator[str]:
    """Tags strictly increase in the order in which they were made."""
    names = [state.name for state in states]
    git = repository.git
    made = git.text("for-each-ref", "--sort=creatordate", "--format=%(refname:short)", "refs/tags/snapshot-*").split()
    if made != sorted(set(made)):
        yield f"tags were not made in their order: {made}"
    if sorted(made) != sorted(names):
        yield f"tags that are not ours: {sorted(set(made) - set(names))}"


def _publications(month: Month, repository: Repository) -> Iterator[str]:
    """No tag is published twice, and each published one is a tag that was not given up."""
    counted = Counter(release.tag for release in published(repository))
    yield from (f"{tag} is published {count} times" for tag, count in counted.items() if count > 1)
    if gone := sorted(counted.keys() & set(month.people.abandoned)):
        yield f"a person abandoned {gone}, and they are published"
    refs = {ref.name.removeprefix("refs/tags/") for ref in repository.git.refs("refs/tags/")}
    yield from (f"{tag} is published without its tag" for tag in counted.keys() - refs)


def _drafts(month: Month, repository: Repository, states: list[TagState]) -> Iterator[str]:
    """One draft of each pending tag, none of any other, and none that is too old."""
    pending = {state.name for state in states if state.state == "pending"}
    drafts = [release for release in repository.releases.values() if release.draft]
    counted = Counter(draft.tag for draft in drafts)
    yield from (f"{tag} has {count} drafts" for tag, count in counted.items() if count > 1)
    yield from (f"the draft of {tag} is an orphan" for tag in counted.keys() - pending)
    yield from (f"{tag} is pending, and has no draft" for tag in pending - counted.keys())
    for draft in drafts:
        if month.schedule.now - draft.created > OLDEST_DRAFT:
            yield f"the draft of {draft.tag} is {(month.schedule.now - draft.created).days} days old"


def _issues(month: Month, repository: Repository) -> Iterator[str]:
    """Nothing fails at the end, so no issue is open; while a platform was red, one was."""
    for issue in repository.issues:
        if issue["state"] == "open":
            yield f"issue {issue['number']} ({issue['title']}) is still open"
    keys = Counter(match[1] for issue in repository.issues if (match := _KEY.search(issue["body"] or "")))
    if not any(RED in key for key in keys):
        yield f"{RED} was red for days, and no issue said so: {sorted(keys)}"
    for number, first in enumerate(repository.issues):
        for second in repository.issues[number + 1 :]:
            if first["title"] == second["title"] and (first["closed"] or month.schedule.now) > second["created"]:
                both = first["closed"] is None or first["closed"] - second["created"] > timedelta(minutes=30)
                if both:
                    yield f"issues {first['number']} and {second['number']} are about one target"


_KEY = re.compile(r"<!-- mlir-release: (\S+) -->")


def _pins(repository: Repository, states: list[TagState]) -> Iterator[str]:
    """Each pin commit is for one tag; one for none is what a killed process left."""
    by_commit: dict[str, list[TagState]] = {}
    for state in states:
        by_commit.setdefault(state.commit, []).append(state)
        pinned = repository.git.read(state.commit, "llvm-project.version") or b""
        if pinned.decode().strip() != state.revision:
            yield f"{state.name} is for {state.revision}, and its commit pins {pinned!r}"
    for commit, mine in by_commit.items():
        living = [state.name for state in mine if state.state != "abandoned"]
        if len(living) > 1:
            yield f"{commit[:12]} is the pin of {living}"
    revisions = Counter(state.revision for state in states if state.state != "abandoned")
    yield from (f"{count} tags are for {revision}" for revision, count in revisions.items() if count > 1)


def _pages(month: Month, repository: Repository) -> Iterator[str]:
    """The index lists exactly the published releases, with their wheels' digests and the yanks."""
    there = {release.tag: manifest_of(release) for release in published(repository)}
    sites = month.sites
    listed = {row["tag"] for row in json.loads(gzip.decompress(sites["manifests.json.gz"]))["releases"]}
    if listed != there.keys():
        yield f"the index lists {sorted(listed ^ there.keys())} wrongly"
    pages = {path.split("/")[1] for path in sites if re.fullmatch(r"snapshots/snapshot-[^/]+/index\.html", path)}
    if pages != there.keys():
        yield f"there are pages of {sorted(pages ^ there.keys())}, or none"
    rows = json.loads(sites["snapshots/simple/mlir/index.json"])["files"]
    digests = {row["filename"]: row["hashes"]["sha256"] for row in rows}
    if digests != {wheel.filename: wheel.sha256 for manifest in there.values() for wheel in manifest.wheels}:
        yield "the simple index lists other files than the manifests"
    yanked = {row["filename"] for row in rows if row.get("yanked")}
    if yanked != {wheel.filename for tag in month.people.yanked for wheel in there[tag].wheels}:
        yield f"the simple index yanks {sorted(yanked)}"
    text = (repository.git.read("main", "yanked.toml") or b"").decode()
    if {row.tag for row in parse_yanks(text)} != set(month.people.yanked):
        yield "yanked.toml is not what people yanked"


def _limits(month: Month) -> Iterator[str]:
    """No hour (and, of writes, no minute) asks more of GitHub than it allows."""
    for kind, allowed in (("rest", REST), ("graphql", GRAPHQL), ("writes", WRITES)):
        most = max(month.requests_per(timedelta(hours=1), kind).values(), default=0)
        if most > allowed:
            yield f"{most} requests of {kind} in an hour, of {allowed}"
    most = max(month.requests_per(timedelta(minutes=1), "writes").values(), default=0)
    if most > WRITES_A_MINUTE:
        yield f"{most} writes in a minute"
