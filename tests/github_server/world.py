"""A repository: git on disk, everything else in memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mlir_release.ground.git.repository import Git, Signature
from mlir_release.ground.git.trees import commit_files
from tests.github_server.records import Dispatch, Json, stamp, user

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from pathlib import Path

    from tests.github_server.server import GitHubServer


@dataclass
class Asset:
    id: int
    name: str
    content: bytes
    created: datetime
    state: str = "uploaded"


@dataclass
class Release:
    id: int
    tag: str
    name: str
    body: str
    draft: bool
    prerelease: bool
    created: datetime
    published: datetime | None = None
    immutable: bool = False
    own: list[Asset] = field(default_factory=list)
    stock: Callable[[], list[Asset]] | None = None  #: makes its assets each time they are asked for (:mod:`.stock`)
    ids: range = range(0)  #: of the assets in stock

    @property
    def assets(self) -> list[Asset]:
        return self.own if self.stock is None else self.stock()

    def asset(self, number: int) -> Asset | None:
        """The asset with an id."""
        if self.stock is not None and number not in self.ids:
            return None
        return next((asset for asset in self.assets if asset.id == number), None)


class Repository:
    """One repository of the server. ``settings``: workflows (file names), protected (branches), default_branch."""

    def __init__(self, github: GitHubServer, name: str, folder: Path, settings: dict[str, Any]) -> None:
        self.github = github
        self.name = name
        self.git = Git(folder)
        self.settings = {"workflows": ("release.yml",), "protected": (), **settings}
        self.burned: set[str] = set()  #: tags of immutable releases, for ever
        self._kinds: dict[str, str] = {}  #: of objects of git, by their names
        self.releases: dict[int, Release] = {}
        self.dispatches: list[Dispatch] = []
        self.runs: list[Json] = []
        self.unseen: dict[int, int] = {}  #: by run: how many listings it does not appear in yet
        self.unseen_refs: dict[str, int] = {}  #: by full name: how many reads it does not appear in yet
        self.listed_from: dict[int, datetime] = {}  #: by run: when it appears, if not at once
        self.jobs: dict[int, list[Json]] = {}  #: by run
        self.comments: dict[int, Json] = {}  #: by id
        self.attestations: list[Json] = []  #: bundles, oldest first
        self.checks: dict[str, dict[str, str | None]] = {}  #: by commit: conclusions by name
        self.labels: set[str] = set()
        self.caches: list[Json] = []  #: of Actions: id, ref, key, when
        self.issues: list[Json] = []  #: and pull requests, in the order of their numbers
        self.statuses: dict[str, dict[str, str]] = {}  #: by commit: states by context

    def initialize(self, files: Mapping[str, bytes]) -> None:
        """An empty bare repository with one commit on ``main``."""
        self.git.directory.mkdir(parents=True)
        self.git.run("init", "--quiet", "--bare", "--initial-branch=main")
        for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
            self.git.run("config", key, "true")
        commit = commit_files(self.git, None, files, "Begin\n", self.signature("somebody"))
        self.git.run("update-ref", "refs/heads/main", commit)

    def signature(self, login: str) -> Signature:
        return Signature(name=login, email=f"{login}@users.example", when=self.github.clock())

    @property
    def api(self) -> str:
        return f"{self.github.api_url}/repos/{self.name}"

    @property
    def default_branch(self) -> str:
        return str(self.settings.get("default_branch", "main"))

    def hides(self, ref: str) -> bool:
        """Whether one more read does not see a ref that was made just now (by its full name)."""
        left = self.unseen_refs.pop(ref, 0)
        if left > 1:
            self.unseen_refs[ref] = left - 1
        return left > 0

    def publish(self, release: Release) -> None:
        """From now on anybody sees it; and it can't be changed, if the repository is set up so."""
        release.draft, release.published = False, self.github.clock()
        if self.settings.get("immutable"):
            release.immutable = True
            self.burned.add(release.tag)

    # -- how things are shown -----------------------------------------------------------------------------------

    def ref_json(self, ref: str) -> Json | None:
        """GitHub's git-ref; None if there is none. Asked for so often that git is not started for it."""
        loose, packed = self.git.directory / ref, self.git.directory / "packed-refs"
        sha = loose.read_text().strip() if loose.is_file() else ""
        if not sha and packed.is_file():
            rows = (line.split(" ") for line in packed.read_text().splitlines() if line[0] not in "#^")
            sha = next((sha for sha, name in rows if name == ref), "")
        if not sha:
            return None
        if sha not in self._kinds:
            self._kinds[sha] = self.git.text("cat-file", "-t", sha)
        return self.ref_row(ref, sha, self._kinds[sha])

    def ref_row(self, name: str, sha: str, kind: str) -> Json:
        place = "tags" if kind == "tag" else "commits"
        target = {"sha": sha, "type": kind, "url": f"{self.api}/git/{place}/{sha}"}
        return {"ref": name, "node_id": "R_1", "url": f"{self.api}/git/{name}", "object": target}

    def asset_json(self, release: Release, asset: Asset) -> Json:
        where = f"{self.github.url}/{self.name}/releases/download/{quote(release.tag)}/{quote(asset.name)}"
        digest = f"sha256:{hashlib.sha256(asset.content).hexdigest()}" if asset.state == "uploaded" else None
        return {
            "url": f"{self.api}/releases/assets/{asset.id}", "browser_download_url": where, "id": asset.id,
            "node_id": "A_1", "name": asset.name, "label": "", "state": asset.state, "digest": digest,
            "content_type": "application/octet-stream", "size": len(asset.content), "download_count": 0,
            "created_at": stamp(asset.created), "updated_at": stamp(asset.created),
            "uploader": user(self.github.url, "bot"),
        }  # fmt: skip

    def release_json(self, release: Release) -> Json:
        api = f"{self.api}/releases/{release.id}"
        uploads = f"{api}/assets"
        shown = f"untagged-{release.id}" if release.draft else release.tag
        return {
            "url": api, "html_url": f"{self.github.url}/{self.name}/releases/tag/{quote(shown)}",
            "assets_url": f"{api}/assets", "upload_url": uploads + "{?name,label}", "tarball_url": None,
            "zipball_url": None, "id": release.id, "node_id": "RE_1", "tag_name": release.tag,
            "target_commitish": "main", "name": release.name, "body": release.body, "draft": release.draft,
            "prerelease": release.prerelease, "created_at": stamp(release.created), "immutable": release.immutable,
            "published_at": stamp(release.published) if release.published else None,
            "author": user(self.github.url, "bot"), "assets": [self.asset_json(release, a) for a in release.assets],
        }  # fmt: skip
