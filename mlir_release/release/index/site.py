"""The published releases as the pages show them: records made of manifests, the forge's listing and the yanks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from packaging.version import Version

from mlir_release.builder.model.orders import NOTICE
from mlir_release.ground.python.platforms import Platform, PlatformTag
from mlir_release.release.judging.signed import KnownManifest
from mlir_release.release.model.release_settings import LINKED_DAYS
from mlir_release.release.model.release_tags import Kind, ReleaseTag, parse_release_tag
from mlir_release.release.model.yanks import Yank, newest_tag, yank_reason
from mlir_release.release.provenance.policy import BUNDLE_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from mlir_release.release.index.documents import Documents
    from mlir_release.release.model.manifest import WheelEntry

#: Each kind's folder on the site.
FOLDERS: Mapping[Kind, str] = {"snapshot": "snapshots", "numbered": "releases"}
#: Its name there.
HEADINGS: Mapping[Kind, str] = {"snapshot": "Snapshots", "numbered": "Releases"}

#: New releases of each kind that are probed at most: where nothing was served before, every release is new.
PROBED = 3


def to_probe(tags: Iterable[str]) -> list[str]:
    """The newest of some releases, a few of each kind, to be tried in clean environments."""
    orders = sorted((parse_release_tag(tag) for tag in tags), key=lambda order: (order.kind, order), reverse=True)
    return [str(order) for order in orders if order in [o for o in orders if o.kind == order.kind][:PROBED]]


@dataclass(frozen=True, kw_only=True)
class WheelLink:
    """A wheel as pip is told of it."""

    wheel: WheelEntry
    url: str
    provenance: str  #: URL, or empty
    yanked: str | None  #: the reason; None: not yanked
    uploaded: datetime
    bundle: str = ""  #: URL of its signature, or empty


@dataclass(frozen=True, kw_only=True)
class Published(KnownManifest):
    """A published release."""

    published_at: datetime
    page_url: str  #: on the forge
    urls: Mapping[str, str]  #: asset name -> URL
    yanks: tuple[Yank, ...] = field(default=())  #: those of this release
    folder: Path | None = None  #: of its files, where the forge is on this machine; their URLs may not be served yet

    @cached_property
    def order(self) -> ReleaseTag:
        """Its place among the releases of its kind."""
        return parse_release_tag(self.tag)

    @property
    def yanked(self) -> str | None:
        """Why all of it is yanked; None if it is not."""
        return yank_reason(self.yanks, self.tag)

    @cached_property
    def links(self) -> tuple[WheelLink, ...]:
        """Its wheels, in the manifest's order."""
        return tuple(
            WheelLink(
                wheel=wheel,
                url=self.urls[wheel.filename],
                provenance=self.urls[wheel.provenance] if wheel.provenance else "",
                bundle=self.urls.get(wheel.filename + BUNDLE_SUFFIX, ""),
                yanked=yank_reason(self.yanks, self.tag, wheel.filename),
                uploaded=self.published_at,
            )
            for wheel in self.manifest.wheels
        )


@dataclass(frozen=True, kw_only=True)
class Channel:
    """All published releases of one kind, newest first. The two kinds never share a page or an index."""

    kind: Kind
    releases: tuple[Published, ...]
    linked_days: int = LINKED_DAYS  #: of snapshots, that the shared pages link

    @classmethod
    def of(cls, kind: Kind, releases: Sequence[Published], *, linked_days: int = LINKED_DAYS) -> Channel:
        """The channel of ``kind`` among ``releases``."""
        mine = [release for release in releases if release.manifest.kind == kind]
        ordered = tuple(sorted(mine, key=lambda release: release.order, reverse=True))
        return cls(kind=kind, releases=ordered, linked_days=linked_days)

    @property
    def folder(self) -> str:
        """Its folder on the site."""
        return FOLDERS[self.kind]

    @cached_property
    def latest(self) -> Published | None:
        """The newest release that is not yanked."""
        yanks = [yank for release in self.releases for yank in release.yanks]
        return self.by_tag.get(newest_tag(self.by_tag, yanks, kind=self.kind))

    @property
    def offered(self) -> tuple[Published, ...]:
        """What pip chooses from where no version is named, best first: neither yanked nor a release candidate."""
        return tuple(
            release
            for release in self.releases
            if release.yanked is None and not Version(release.manifest.version).is_prerelease
        )

    @property
    def newest(self) -> Published | None:
        """What people get who name no version; where there are only candidates, the newest of them."""
        return next(iter(self.offered), self.latest)

    @cached_property
    def linked(self) -> tuple[Published, ...]:
        """What the shared pages link: every numbered release; of snapshots a window, and the newest that is not yanked.

        Their pages would grow for ever else: 25,000 links a year. A release's own page links its wheels for ever.
        """
        if self.kind == "numbered" or not self.releases:
            return self.releases
        # Measured from the newest release and not from the clock: the page is a function of what is published.
        since = self.releases[0].manifest.created - timedelta(days=self.linked_days)
        return tuple(r for r in self.releases if r.manifest.created >= since or r is self.latest)

    @cached_property
    def by_tag(self) -> Mapping[str, Published]:
        """The releases by their tags."""
        return {release.tag: release for release in self.releases}

    def previous(self, release: Published) -> Published | None:
        """The release that ``release`` followed, as its manifest says."""
        return self.by_tag.get(release.manifest.previous_tag)

    @property
    def projects(self) -> Mapping[str, Published]:
        """The newest linked release of each project, the main one's first: a weekly one is not in every snapshot."""
        found: dict[str, Published] = {}
        for release in (*self.offered, *self.releases):
            if release.yanked is None and release in self.linked:
                for name in release.manifest.projects:
                    found.setdefault(name, release)
        return found

    @property
    def newest_links(self) -> tuple[WheelLink, ...]:
        """The linked wheels that nobody yanked, newest release first: what those get who name no version."""
        return tuple(
            link
            for release in self.linked
            if release in self.offered or release is self.newest
            for link in release.links
            if link.yanked is None
        )

    def platforms(self, distribution: str) -> set[Platform]:
        """Those that the linked wheels of a distribution are for."""
        wheels = (link.wheel for link in self.newest_links if link.wheel.distribution == distribution)
        return {PlatformTag.parse(tag).platform for wheel in wheels for tag in wheel.platforms}

    def files(self) -> Mapping[str, list[WheelLink]]:
        """The linked wheels by distribution, oldest release first."""
        found: dict[str, list[WheelLink]] = {}
        for release in reversed(self.linked):
            for link in release.links:
                found.setdefault(link.wheel.distribution, []).append(link)
        return dict(sorted(found.items()))


def listed_channels(channels: Iterable[Channel]) -> list[dict[str, str]]:
    """The channels that the main navigation links: of numbered releases only where there are some."""
    return [
        {"folder": channel.folder, "heading": HEADINGS[channel.kind]}
        for channel in channels
        if channel.releases or channel.kind == "snapshot"
    ]


# -- what extras add: the hook ``mlir_release.pages`` (docs/extras.md) -------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a section shows of one release. The site's templates take it as it is."""

    html: str = ""  #: on the release's page, below the commands that install it
    link: str = ""  #: a folder of the site; every page links the newest release's by the section's title
    about: str = ""  #: the words of that link on the landing page, before "of this snapshot"
    #: Further forms to install or pin a distribution, by its name: title and text of each.
    forms: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)


class Section(Protocol):
    """A section of the pages. A module with these names is one."""

    @property
    def title(self) -> str:
        """Of links to it; empty if no page links it."""

    @property
    def options(self) -> Sequence[Callable[[Any], Any]]:
        """Decorators of click's that add options to ``mlir-release index``."""

    def provide(self, channels: Sequence[Channel], site: Path, base_url: str, given: Mapping[str, Any]) -> None:
        """Write the section's own files into ``site``, before the pages are drawn; not in a dry run.

        :param base_url: where ``site`` is served
        :param given: the values of all sections' options, by their parameters' names; and whether the site has further
            pages, ``has_status`` and ``has_documents``
        """

    def in_rehearsal(self) -> Mapping[str, Any]:
        """What a rehearsal gives as the values of its options."""

    def show(self, channels: Sequence[Channel], site: Path, base_url: str) -> Mapping[str, Shown]:
        """What is shown of each release that it has something of, by tag; the newest release of a channel first.

        The same ``channels`` and ``site`` give the same result.
        """


@dataclass(frozen=True, kw_only=True)
class SiteOptions:
    """How the pages look, and what is added to them."""

    title: str = ""  #: of all pages; empty: from the main project
    notice: str = NOTICE  #: a line in the footer of every page; empty: no such line
    linked_days: int = LINKED_DAYS  #: of snapshots, that the shared pages link
    core_metadata: bool = True  #: whether links announce the metadata files beside the wheels; for comparisons only
    sections: Mapping[str, Section] = field(default_factory=dict)  #: what extras add, by name
    given: Mapping[str, Any] = field(default_factory=dict)  #: the values of the sections' options
    documents: Documents | None = None  #: of the toolkit, to be shown among the pages
