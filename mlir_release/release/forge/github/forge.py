"""A repository on GitHub as a forge: its refs, releases and workflow runs, through PyGithub and, for tags, git.

If the answer to a write is lost, the forge is read again before the write is repeated (:mod:`.client`).
"""

from __future__ import annotations

import itertools
import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import quote

from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.documents.digests import open_regular
from mlir_release.ground.errors import ForgeError
from mlir_release.ground.storage.files import replacing
from mlir_release.release.forge.base import Asset, Release, ReleaseRow, Tag, parents_of
from mlir_release.release.forge.github.client import GitHubClient
from mlir_release.release.forge.github.issues import GitHubTracker
from mlir_release.release.forge.github.pins import PinReader
from mlir_release.release.forge.github.refs import Refs, TagReader
from mlir_release.release.forge.github.refusals import NotFound, Refused
from mlir_release.release.forge.github.releases import ReleaseReader
from mlir_release.release.forge.github.runs import GitHubRuns
from mlir_release.release.forge.github.settings import SettingsReader
from mlir_release.release.forge.refusals import (
    asset_taken,
    branch_moved,
    check_name,
    release_immutable,
    release_tag_missing,
    release_taken,
    tag_taken,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from github.GitRelease import GitRelease
    from github.GitReleaseAsset import GitReleaseAsset

    from mlir_release.release.forge.observations import Observations
    from mlir_release.release.forge.services import Run
    from mlir_release.release.model.pin_commit import TreeEntry


class GitHubForge:
    """Adapter of :class:`~mlir_release.release.forge.base.Forge`."""

    def __init__(self, client: GitHubClient, *, actor: str = "") -> None:
        self.client = client
        self.repository = client.repository
        self._actor = actor
        self._pins = PinReader(client)
        self._refs = Refs(client, self._pins)
        self.tags = TagReader(client).read
        self.pin_facts = self._pins.read
        self._releases = ReleaseReader(client)
        self.file_url = self._releases.file_url
        self.services = GitHubServices(client)

    @classmethod
    def open(cls, repository: str, *, environ: Mapping[str, str] = os.environ) -> GitHubForge:
        """The forge at ``OWNER/NAME``, with the token and the addresses of the environment.

        :raises UsageError: ``option-invalid``
        """
        client = GitHubClient.of_environment(repository, environ)
        return cls(client, actor=environ.get("GITHUB_TRIGGERING_ACTOR") or environ.get("GITHUB_ACTOR") or "")

    @property
    def description(self) -> str:
        return self.client.where

    def now(self) -> datetime:
        """See :class:`Forge`. GitHub's ``Date`` header, of a request that no rate limit counts."""
        request = self.repository.requester.requestJsonAndCheck
        headers, _ = self.client.read(lambda: request("GET", "/rate_limit"))
        return parsedate_to_datetime(headers["date"]).astimezone(UTC)

    def whoami(self) -> str:
        """See :class:`Forge`. In a workflow, the person or bot that started it: a job's token is nobody's."""
        if self._actor:
            return self._actor
        try:
            return self.client.read(lambda: self.client.github.get_user().login)
        except ForgeError as error:
            if error.id != "token-lacks-right":
                raise
            return "github-actions[bot]"

    # -- repository ---------------------------------------------------------------------------------------------

    def head(self, branch: str) -> str | None:
        return self._refs.id(f"heads/{branch}")

    @property
    def default_branch(self) -> str:
        return self.client.default_branch

    def read(self, path: str, *, commit: str) -> bytes | None:
        """See :class:`Forge`. Files up to 1 MB, GitHub's limit."""
        try:
            found = self.client.read(lambda: self.repository.get_contents(path, ref=commit), about=path)
        except NotFound:
            return None
        return None if isinstance(found, list) else found.decoded_content

    def files(self, folder: str, *, commit: str) -> Sequence[str]:
        try:
            found = self.client.read(lambda: self.repository.get_contents(folder, ref=commit), about=folder)
        except NotFound:
            return []
        return sorted(row.path for row in found if row.type == "file") if isinstance(found, list) else []

    def commit(
        self,
        branch: str,
        *,
        expected: str | None,
        files: Mapping[str, bytes],
        message: str,
        base: str | None = None,
        keep: str = "",
    ) -> str:
        """See :class:`Forge`. A fast-forward from ``expected`` alone is what makes it a compare-and-swap."""
        kept = self._pins.files(expected, keep) if keep and expected is not None else ()
        made = self._make_commit(parents_of(expected, base), files, message, kept)
        if expected is None:
            if not self._refs.create(f"heads/{branch}", made, commit=made):
                raise branch_moved(branch, expected, where=self.description)
        else:
            self._refs.forward(branch, expected, made)
        return made

    def _make_commit(
        self, parents: Sequence[str], files: Mapping[str, bytes], message: str, kept: Iterable[TreeEntry]
    ) -> str:
        """A commit with the tree of the last parent in which files are set; no branch moves.

        :param kept: files that are in the repository already, by their paths
        """
        import base64

        from github import InputGitTreeElement

        client, repository = self.client, self.repository
        base = client.read(lambda: repository.get_git_commit(parents[-1]), about=parents[-1])
        elements = [
            InputGitTreeElement(path=entry.name, mode=entry.mode, type=entry.kind, sha=entry.oid)
            for entry in kept
            if entry.name not in files
        ]
        for path, content in files.items():
            encoded = base64.b64encode(content).decode()
            blob = client.write(lambda encoded=encoded: repository.create_git_blob(encoded, "base64"), about=path)  # type: ignore[misc]
            elements.append(InputGitTreeElement(path=path, mode="100644", type="blob", sha=blob.sha))
        tree = client.write(lambda: repository.create_git_tree(elements, base_tree=base.tree))
        commit = {"message": message, "tree": tree.sha, "parents": list(parents)}
        return str(client.write(lambda: client.request("POST", "/git/commits", input=commit))[1]["sha"])

    # -- tags ---------------------------------------------------------------------------------------------------

    def tag(self, name: str) -> Tag | None:
        """See :class:`Forge`. Two requests of REST; git would fetch all tags."""
        found = self._refs.object(f"tags/{name}")
        if found is None:
            return None
        kind, sha, message, when = found["type"], str(found["sha"]), None, None
        while kind == "tag":
            made = self.client.read(lambda sha=sha: self.repository.get_git_tag(sha), about=name)  # type: ignore[misc]
            if message is None:
                message, when = made.message, made.tagger.date if made.tagger else None
            kind, sha = made.object.type, made.object.sha
        return Tag(name=name, commit=sha, message=message or "", created_at=when)

    def create_tag(self, name: str, commit: str, message: str) -> Tag:
        made = self.client.write(lambda: self.repository.create_git_tag(name, message, commit, "commit"), about=name)
        if not self._refs.create(f"tags/{name}", made.sha, commit=commit):
            raise tag_taken(name, where=self.description)
        return Tag(name=name, commit=commit, message=message, created_at=made.tagger.date)

    # -- releases -----------------------------------------------------------------------------------------------

    def releases(self) -> Sequence[Release]:
        return sorted(itertools.chain.from_iterable(self._releases.pages()), key=lambda release: int(release.id))

    def recent(self, count: int | None) -> Sequence[ReleaseRow]:
        """See :class:`Forge`. Without a token, from REST."""
        if self.client.authenticated:
            return self._releases.newest(count)
        return list(itertools.islice(itertools.chain.from_iterable(self._releases.pages()), count))

    def drafts(self, tag: str) -> Sequence[Release]:
        """See :class:`Forge`. Drafts can't be seen without a token."""
        if not self.client.authenticated:
            return []
        found = [self.refresh(row) for row in self._releases.drafts(tag)]
        return [release for release in found if release is not None and release.draft]

    def refresh(self, release: ReleaseRow) -> Release | None:
        try:
            return self._releases.release(self._get(release))
        except NotFound:
            return None

    def published(self, tag: str) -> Release | None:
        try:
            return self._releases.release(self.client.read(lambda: self.repository.get_release(tag), about=tag))
        except NotFound:
            return None

    def published_newest_first(self) -> Iterator[Release]:
        """See :class:`Forge`. A page at a time, in GitHub's order: anonymous readers have sixty requests an hour."""
        for page in self._releases.pages():
            yield from (release for release in page if not release.draft)

    def _get(self, release: ReleaseRow) -> GitRelease:
        return self.client.read(lambda: self.repository.get_release(int(release.id)), about=release.tag)

    def _get_draft(self, release: Release) -> GitRelease:
        found = self._get(release)
        if not found.draft:
            raise release_immutable(release.tag, where=self.description)
        return found

    def create_draft(self, tag: str, *, title: str, body: str, prerelease: bool) -> Release:
        """See :class:`Forge`. After a lost answer, a draft with the same texts is taken for ours."""
        if self._refs.awaited(f"tags/{tag}") is None:  # GitHub would make a draft, and the tag when it is published
            raise release_tag_missing(tag, where=self.description)

        def create() -> Release:
            # PyGithub would ask for the latest, which neither a draft nor a prerelease can be.
            make = self.repository.create_git_release
            made = make(tag, title, body, draft=True, prerelease=prerelease, make_latest="false")
            return self._releases.release(made)

        def created() -> Release | None:
            made = [draft for draft in self.drafts(tag) if (draft.title, draft.body) == (title, body)]
            return made[-1] if made else None

        return self.client.write(create, done=created, about=tag)

    def edit_release(self, release: Release, *, title: str, body: str) -> Release:
        found = self._get_draft(release)
        edited = self.client.write(
            lambda: found.update_release(title, body, draft=True, prerelease=found.prerelease), about=release.tag
        )
        return self._releases.release(edited)

    def delete_draft(self, release: Release) -> None:
        with suppress(NotFound):
            self.client.write(self._get_draft(release).delete_release, about=release.tag)

    def upload(self, release: Release, name: str, source: Path) -> Asset:
        """See :class:`Forge`. A half of ours that a broken connection left is deleted before the next try."""
        found = self._get_draft(release)

        def send() -> Asset:
            with open_regular(source) as stream:
                size = source.stat().st_size
                made = found.upload_asset_from_memory(stream, size, name, content_type="application/octet-stream")
            return self._releases.asset(release.tag, made)

        def sent() -> Asset | None:
            for asset in self._assets(found):
                if asset.name == name:
                    record = self._releases.asset(release.tag, asset)
                    if record.complete:
                        return record
                    self._delete(asset)
            return None

        try:
            return self.client.write(send, done=sent, about=name)
        except Refused as error:
            if any(asset.name == name for asset in self._assets(found)):
                raise asset_taken(release.tag, name, where=self.description) from error
            raise

    def delete_asset(self, release: Release, asset: Asset) -> None:
        for found in self._assets(self._get_draft(release)):
            if found.name == asset.name:
                self._delete(found)

    def _assets(self, draft: GitRelease) -> list[GitReleaseAsset]:
        """All of them: asked for page by page, a later page would fail outside of what asks again."""
        return self.client.read(lambda: list(draft.get_assets()), about=draft.tag_name)

    def _delete(self, asset: GitReleaseAsset) -> None:
        with suppress(NotFound):
            self.client.write(asset.delete_asset, about=asset.name)

    def download(self, release: Release, asset: Asset, destination: Path) -> None:
        url = f"{self.client.api}/repos/{self.client.name}/releases/assets/{asset.id}"
        try:
            with replacing(destination) as temporary:
                self.client.read(lambda: self.client.fetch(url, temporary), about=asset.name)
        except NotFound as error:
            raise NotFound(
                "not-on-forge",
                f"{release.tag} has no asset {asset.name}",
                where=self.description,
                why=error.why,
                remedy="someone removed it; mlir-release release show lists those that are left",
            ) from error

    def fetch_published(self, tag: str, name: str, destination: Path) -> bool:
        """See :class:`Forge`. No limit counts a public address; a private repository's files need the API."""
        check_name("asset", name, where=self.description)
        url = self.file_url(tag, name)
        try:
            with replacing(destination) as temporary:
                self.client.read(lambda: self.client.fetch(url, temporary, public=True), about=name)
        except NotFound:
            release = self.published(tag)
            asset = release.asset(name) if release is not None else None
            if release is None or asset is None:
                return False
            self.download(release, asset, destination)
        return True

    def published_folder(self, tag: str) -> None:
        """See :class:`Forge`."""

    def publish(self, release: Release) -> Release:
        """See :class:`Forge`. Only a final numbered release becomes GitHub's "latest"."""
        found = self._get(release)
        if not found.draft:
            return self._releases.release(found)
        latest = "false" if found.prerelease else "legacy"
        try:
            published = self.client.write(
                lambda: found.update_release(
                    found.name or "", found.body or "", draft=False, prerelease=found.prerelease, make_latest=latest
                ),
                about=release.tag,
            )
        except Refused as error:
            raise release_taken(release.tag, where=self.description, why=error.why) from error
        return self._releases.release(published)

    def page_url(self, tag: str) -> str:
        return f"{self.client.where}/releases/tag/{quote(tag)}"

    def files_page(self, tag: str) -> str:
        """The list that a browser loads into :meth:`page_url`, and pip does not."""
        return f"{self.client.where}/releases/expanded_assets/{quote(tag)}"

    # -- workflow runs ------------------------------------------------------------------------------------------

    def dispatch(self, workflow: str, *, ref: str, inputs: Mapping[str, str]) -> Run | None:
        """See :class:`Forge`. A run that appeared although the answer was lost is taken for this one."""
        return self.services.runs.start(workflow, ref=ref, inputs=inputs)

    def runs(self, workflow: str, *, ref: str) -> Sequence[Run]:
        """See :class:`Forge`. The newest hundred."""
        return self.services.runs.of_workflow(workflow, ref=ref)

    def await_runs(self, attempt: int) -> bool:
        """See :class:`Forge`. GitHub lists a run some seconds after its dispatch."""
        return self.services.runs.await_runs(attempt)


class GitHubServices:
    """Adapter of :class:`~mlir_release.release.forge.services.Services`."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client
        self.address = f"github:{client.name}"
        self.url = client.where
        self.location = client.where.partition("://")[2]
        self.tracker = GitHubTracker(client)
        self.runs = GitHubRuns(client)

    def settings(self, files: Iterable[str], branch: str | None) -> Observations:
        return SettingsReader(self._client).observe(files, branch)

    def file_of(self, repository: str, path: str, *, ref: str) -> bytes | None:
        return SettingsReader(self._client.beside(repository)).file(path, ref)

    def tidy_caches(self, branch: str) -> Sequence[str]:
        """See :class:`~mlir_release.release.forge.services.Services`. A key ends in the run's number and attempt."""
        pages = self._client.pages(
            "/actions/caches", "actions_caches", ref=f"refs/heads/{branch}", sort="created_at", direction="desc"
        )
        newest: set[str] = set()
        superseded = {}
        for row in chain.from_iterable(pages):
            if (name := re.fullmatch(r"(compiled-.+)-\d+-\d+", row["key"])) is None:
                continue
            if name[1] in newest:
                superseded[row["id"]] = row["key"]
            newest.add(name[1])
        for number, key in superseded.items():
            with suppress(NotFound):  # GitHub has taken it away meanwhile, or another run has
                self._client.write(partial(self._client.request, "DELETE", f"/actions/caches/{number}"), about=key)
        return list(superseded.values())

    def keep_attestation(self, bundle: bytes) -> bool:
        """See :class:`~mlir_release.release.forge.services.Services`. A twin of a statement does no harm."""
        body = {"bundle": parse_json(bundle)}
        try:
            self._client.write(lambda: self._client.request("POST", "/attestations", input=body), about="attestations")
        except ForgeError as error:
            console.warn(f"GitHub does not store the attestation: {error.what}: {error.why}")
            return False
        return True
