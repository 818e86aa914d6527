"""What extras add to the pages: the hook ``mlir_release.pages`` (docs/extras.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from mlir_release.release.index.site import Channel


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
