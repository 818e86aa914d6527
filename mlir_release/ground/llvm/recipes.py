"""How projects say which commit of another project they are built with: ``recipes.toml``, read once."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from msgspec import Struct

from mlir_release.ground.documents.decode import from_toml


class FollowedProject(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A project that others follow."""

    name: str
    url: str
    word: str  #: of its names in other projects' files: ``LLVM`` of ``LLVM_COMMIT``
    paths: tuple[str, ...] = ()  #: that commits are tested for; none: LLVM's, as ``integrate.toml`` has them by default

    @property
    def repository(self) -> str:
        """The last part of its address, without ``.git``."""
        return self.url.rpartition("/")[2].removesuffix(".git")


class AlsoForm(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that stands beside a pin, in the same file."""

    value: str
    pattern: str


class Form(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way to write a pin into a file."""

    files: str  #: a regular expression of paths
    pattern: str
    upstream: str = ""  #: the only one that is written so; empty: any
    plain: bool = False  #: the file holds nothing else
    guess: bool = False  #: it only looks like a pin: it is one where an upstream has no other
    copy: str = ""  #: it is never the pin itself, but a copy of this kind
    also: tuple[AlsoForm, ...] = ()
    releases: str = ""
    distribution: str = ""
    note: str = ""

    def for_(self, followed: FollowedProject) -> tuple[re.Pattern[str], str, tuple[AlsoForm, ...]]:
        """Paths, pattern and further values, as the names of one upstream have them."""
        stem = re.escape(followed.word.lower()).replace("_", "[-_]")
        files = re.compile(self.files.replace("@WORD@", f"(?i:{stem})"))

        def filled(pattern: str) -> str:
            return pattern.replace("@WORD@", followed.word).replace("@REPOSITORY@", followed.repository)

        also = tuple(AlsoForm(value=each.value, pattern=filled(each.pattern)) for each in self.also)
        return files, filled(self.pattern), also


class KnownProject(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A project on GitHub, and the paths of its pins by the upstreams' names."""

    name: str
    pins: dict[str, str]


class Recipes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    upstream: tuple[FollowedProject, ...]
    form: tuple[Form, ...]
    project: tuple[KnownProject, ...]

    def pins(self, upstream: str) -> dict[str, str]:
        """Project -> path of its pin of an upstream."""
        return {project.name: project.pins[upstream] for project in self.project if upstream in project.pins}

    def followed(self, title: str, url: str) -> FollowedProject:
        """An upstream by its address; one that is not known is recognised by ``title``, as its files have it."""
        name = url.rstrip("/").removesuffix(".git").rpartition("/")[2]
        known = (each for each in self.upstream if each.repository == name)
        return next(known, FollowedProject(name=title, url=url, word=re.sub(r"\W+", "_", title).upper()))


@cache
def recipes() -> Recipes:
    """What the toolkit knows."""
    return from_toml((resources.files("mlir_release.ground.llvm") / "recipes.toml").read_bytes(), Recipes)
