"""What changed for Python from release to release, for their pages: kept in one file of the site.

A comparison is made once, because a published wheel never changes. If the folder lacks the file, as in a new job, it is
fetched from the served pages. Nobody needs to believe it: what is not of these wheels is not shown, and all is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, json

from mlir_release.extras.apidocs.changes import ChangeRow, Side
from mlir_release.extras.apidocs.comparison import make_comparison
from mlir_release.extras.apidocs.outline import read_outline
from mlir_release.extras.apidocs.published import best_described, described_link, fetch_wheel
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import MalformedError, Sha256, from_large_json
from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.storage.download import download
from mlir_release.ground.storage.files import check_inside, read_document, read_if_there, write_atomically
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.index.drawing import end_of_links, make_templates

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.index.site import Channel, Published, WheelLink

HISTORY_NAME = "api-changes.json"

#: Bytes of the file: ten thousand releases, of which most changed nothing.
_LIMIT = 64 << 20
#: Releases that are compared in one run at most, the newest first. Each may take two downloads.
COMPARED = 4
#: Rows of a release that are kept and shown. `release diff` shows all.
_ROWS = 60


class ReleaseChanges(Struct, frozen=True, kw_only=True):
    """What a release's page says."""

    previous: str  #: the tag of the release that it is compared with
    old: Sha256  #: of that release's wheel
    new: Sha256
    summary: str
    counts: tuple[str, ...] = ()
    parts: tuple[tuple[str, tuple[ChangeRow, ...]], ...] = ()
    more: int = 0  #: rows that are left out


class _Pair(NamedTuple):
    """A release and the one that it followed, with the wheels that tell how they differ."""

    release: Published
    previous: Published
    new: WheelLink
    old: WheelLink

    def is_in(self, known: Mapping[str, ReleaseChanges]) -> bool:
        """Whether these wheels were compared."""
        found = known.get(self.release.tag)
        wheels = (self.previous.tag, self.old.wheel.sha256, self.new.wheel.sha256)
        return found is not None and (found.previous, found.old, found.new) == wheels


class _History(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    releases: Mapping[str, ReleaseChanges]


def make_history(channels: Sequence[Channel], site: Path, base_url: str) -> None:
    """Compare the newest releases that nobody has compared yet with those that they followed.

    Releases beyond the shared pages are left as they are. What can't be compared is a warning, and tried again.

    :param base_url: where the site is served, with what earlier runs compared, unless the forge is a folder
    """
    is_local = any(release.folder is not None for channel in channels for release in channel.releases)
    known = dict(_read(site, None if is_local else base_url))
    pairs = {pair.release.tag: pair for pair in _pairs(channels)}
    recent = [pairs[release.tag] for channel in channels for release in channel.linked if release.tag in pairs]
    recent.sort(key=lambda pair: (pair.release.published_at, pair.release.tag), reverse=True)
    for pair in [pair for pair in recent if not pair.is_in(known)][:COMPARED]:
        tag = pair.release.tag
        try:
            with console.step(f"comparing the API of {tag} with the one before", without="its page lacks that"):
                sides = []
                for release, link in ((pair.previous, pair.old), (pair.release, pair.new)):
                    with scratch_folder("apidocs") as scratch:
                        outline = read_outline(link.wheel.sha256, partial(fetch_wheel, release, link, scratch))
                    side = Side(name=release.tag, wheel=link.wheel.filename, sha256=link.wheel.sha256)
                    sides.append((side, outline))
                found = make_comparison(*sides[0], *sides[1])
                left, parts, more = _ROWS, [], 0
                for title, rows in found.parts():
                    parts.append((title, tuple(rows[:left])))
                    more += len(rows[left:])
                    left -= len(rows[:left])
                known[tag] = ReleaseChanges(
                    previous=found.old.name,
                    old=found.old.sha256,
                    new=found.new.sha256,
                    summary=found.summary(),
                    counts=tuple(found.counts()),
                    parts=tuple(parts),
                    more=more,
                )
        except ReleaseError as error:
            console.warn(f"the API of {tag} is not compared: {error.what} ({error.why})")
    check_inside(site, site / HISTORY_NAME)
    kept = {tag: known[tag] for tag in sorted(known.keys() & pairs.keys())}
    write_atomically(site / HISTORY_NAME, json.encode(_History(releases=kept), order="sorted") + b"\n")


def show_history(channels: Sequence[Channel], site: Path, base_url: str) -> Mapping[str, str]:
    """What is known of each release, by tag, as HTML for its page."""
    template = make_templates("mlir_release.extras.apidocs").get_template("changes.html.j2")
    known = _read(site, None)
    return {
        tag: template.render(tag=tag, changes=known[tag], end=end_of_links(base_url))
        for tag, is_known in ((pair.release.tag, pair.is_in(known)) for pair in _pairs(channels))
        if is_known
    }


def _pairs(channels: Sequence[Channel]) -> Iterator[_Pair]:
    for channel in channels:
        for release in channel.releases:
            previous, new = channel.previous(release), described_link(release)
            if previous is not None and new is not None:
                links = {link.wheel: link for link in previous.links}
                old = best_described(wheel for wheel in links if wheel.distribution == new.wheel.distribution)
                if old is not None:
                    yield _Pair(release, previous, new, links[old])


def parse_history(content: bytes) -> Mapping[str, ReleaseChanges]:
    """What was compared, by tag. :raises MalformedError:"""
    return from_large_json(content, _History).releases


def _read(site: Path, base_url: str | None) -> Mapping[str, ReleaseChanges]:
    """What was compared: in the folder of the site, else where it is served; empty if that can't be read."""
    content = read_if_there(site / HISTORY_NAME, limit=_LIMIT)
    try:
        if content is None and base_url is not None and base_url.startswith(("https:", "http:")):
            with scratch_folder("apidocs") as scratch:
                download(f"{base_url.rstrip('/')}/{HISTORY_NAME}", scratch / HISTORY_NAME, limit=_LIMIT)
                content = read_document(scratch / HISTORY_NAME, limit=_LIMIT)
        return parse_history(content) if content is not None else {}
    except ReleaseError as error:
        console.say(f"{error.where}: {error.why}; the newest releases are compared anew")
    except MalformedError as error:
        console.warn(f"{HISTORY_NAME} {error.problem}; the newest releases are compared anew")
    return {}
