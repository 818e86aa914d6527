"""The release that a downstream pins: its spelling in the files, and its index."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from packaging.utils import InvalidName, canonicalize_name

from mlir_release.builder.model.sdk_wheel_info import SDK, SDK_TOOLS
from mlir_release.ground.errors import UsageError
from mlir_release.ground.python.cpython import CPython, split_target
from mlir_release.ground.python.platforms import Platform, PlatformTag
from mlir_release.ground.python.requirements import of_names
from mlir_release.release.index.site import FOLDERS
from mlir_release.release.instructions.install_snippets import required_environments
from mlir_release.release.instructions.lockfiles import requirements_name

if TYPE_CHECKING:
    from mlir_release.ground.llvm.llvm_facts import LlvmFacts
    from mlir_release.release.model.manifest import Manifest

#: ``extension`` of the installed ``mlir``, or a ``bundle``: a package with its own MLIR, built against ``mlir-sdk``.
Kind = Literal["extension", "bundle"]

#: The distributions that each kind takes from the release's index. It is built with the first.
DISTRIBUTIONS: dict[Kind, tuple[str, ...]] = {"extension": ("mlir",), "bundle": (SDK, SDK_TOOLS)}


def distributions_of(manifest: Manifest, kind: Kind) -> tuple[str, ...]:
    """Those of a release: bindings with carried patches have a name of their own."""
    patched = manifest.stack is not None and kind == "extension"
    return (manifest.main,) if patched else DISTRIBUTIONS[kind]


#: The runner of GitHub's for each platform, as in our own ``targets.toml``.
RUNNERS = {
    "linux-x86_64": "ubuntu-24.04",
    "linux-aarch64": "ubuntu-24.04-arm",
    "macos-arm64": "macos-15",
    "macos-x86_64": "macos-15-intel",
    "windows-x86_64": "windows-2022",
}

#: glibc's minor versions that manylinux images are made for (github.com/pypa/manylinux).
_IMAGES = (28, 34, 39)


@dataclass(frozen=True, kw_only=True)
class Pin:
    """A release as a downstream sees it. :raises UsageError: see :func:`make_pin`"""

    name: str  #: of the downstream, a distribution's
    kind: Kind
    manifest: Manifest
    site: str  #: URL of the pages, without a slash at the end
    repository: str  #: ``https://HOST/OWNER/NAME`` of the release repository; empty if it is on no host
    facts: LlvmFacts | None = None  #: of the release's revision, where upstream's bindings are compiled, too

    @property
    def tag(self) -> str:
        """The release's."""
        return self.manifest.tag

    @property
    def is_snapshot(self) -> bool:
        """Whether the release is a snapshot, whose page is its index."""
        return self.manifest.kind == "snapshot"

    @property
    def text(self) -> str:
        """The pin in the files: of a snapshot ``20261120.02``, as in its tag.

        That is the wheels' version, too: PEP 440 reads ``02`` as 2, so one spelling serves tag, version and URL.
        """
        return self.tag.removeprefix("snapshot-") if self.is_snapshot else self.manifest.version

    @property
    def folder(self) -> str:
        """URL of the kind's folder on the pages."""
        return f"{self.site}/{FOLDERS[self.manifest.kind]}"

    @property
    def index(self) -> str:
        """URL of the wheels' index: a snapshot's own page, which links them for good. The simple index forgets them."""
        return f"{self.folder}/{self.tag}/" if self.is_snapshot else f"{self.folder}/simple/"

    @property
    def requirements(self) -> str:
        """URL of the file that names each wheel by URL and digest: pip's constraints."""
        return f"{self.folder}/{self.tag}/{requirements_name(self.manifest, self.distributions[0], tag=self.tag)}"

    @property
    def distributions(self) -> tuple[str, ...]:
        """The distributions that the downstream takes from the release. It is built with the first."""
        return distributions_of(self.manifest, self.kind)

    @property
    def requires(self) -> list[str]:
        """``[build-system] requires``."""
        found = ["scikit-build-core>=0.11", f"{self.distributions[0]}=={self.text}"]
        if self.facts is not None:
            found += of_names(self.facts.binding_requirements, self.facts.binding_library, "typing-extensions")
        return found

    @property
    def repository_name(self) -> str:
        """``OWNER/NAME`` of the release repository; empty if it is on no host."""
        return "/".join(self.repository.split("/")[-2:])

    @property
    def module(self) -> str:
        """The import name of the downstream's package, if it keeps to the usual rule."""
        return self.name.replace("-", "_")

    @property
    def pythons(self) -> tuple[CPython, ...]:
        """The CPythons with the GIL that the release has wheels for, the oldest first."""
        every = {CPython.of_tag(tag) for tag in self.manifest.pythons}
        return tuple(sorted(python for python in every if not python.free_threaded))

    @property
    def platforms(self) -> tuple[Platform, ...]:
        """Those that the project builds: the release serves them, and GitHub has a runner for them."""
        served = {tag.platform for tag in self._platform_tags}
        return tuple(platform for platform in map(Platform.parse, RUNNERS) if platform in served)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The platforms that the release set out to serve and does not."""
        found: dict[str, None] = {}
        waived = (row.target for row in self.manifest.waivers)
        for target in (*(row.target for row in self.manifest.left_out), *waived):
            before, _, runtime = split_target(target)[0].partition(f"{self.distributions[0]}-")
            with suppress(ValueError):  # a test's, or a runtime with a name of its own
                found[str(Platform.parse(before + runtime))] = None
        return tuple(platform for platform in found if Platform.parse(platform) not in self.platforms)

    @property
    def runners(self) -> tuple[str, ...]:
        """A runner for each of its platforms."""
        return tuple(RUNNERS[str(platform)] for platform in self.platforms)

    @property
    def environments(self) -> str:
        """Its platforms, for uv."""
        return required_environments(self.platforms)

    @property
    def images(self) -> dict[str, str]:
        """For each architecture of Linux the manylinux image whose glibc the release's wheels accept."""
        needed: dict[str, int] = {}
        for tag in self._platform_tags:
            if tag.glibc is not None and str(tag.platform) in RUNNERS:
                needed[tag.arch] = max(needed.get(tag.arch, 0), tag.glibc[1])
        return {
            arch: f"manylinux_2_{next((image for image in _IMAGES if image >= minor), _IMAGES[-1])}"
            for arch, minor in sorted(needed.items())
        }

    @property
    def _platform_tags(self) -> list[PlatformTag]:
        """One for each wheel of the distribution that the downstream is built with."""
        wheels = [wheel for wheel in self.manifest.wheels if wheel.distribution == self.distributions[0]]
        # The tag that promises least counts: of several, a wheel's own is the oldest that fits it.
        return [min(map(PlatformTag.parse, wheel.platforms), key=lambda tag: tag.version or (0, 0)) for wheel in wheels]


def make_pin(
    manifest: Manifest,
    *,
    name: str,
    kind: Kind,
    site: str = "",
    repository: str = "",
    facts: LlvmFacts | None = None,
) -> Pin:
    """The pin of a published release.

    :param site: URL of the pages; empty: those of the repository on GitHub Pages
    :param repository: the release repository's address
    :raises UsageError: ``option-invalid``, ``release-unsuitable``
    """
    try:
        canonical = canonicalize_name(name, validate=True)
    except InvalidName:
        raise UsageError(
            "option-invalid",
            f"{name!r} is not the name of a Python package",
            why="a name has letters and digits, and between them dots, hyphens or underscores",
            remedy="give another one with --name",
        ) from None
    missing = [needed for needed in distributions_of(manifest, kind) if needed not in manifest.distributions]
    if missing:
        raise UsageError(
            "release-unsuitable",
            f"{manifest.tag} has no wheel of {' and '.join(missing)}, which a project of the kind {kind} is built with",
            why=f"it has: {', '.join(manifest.distributions) or 'none'}",
            remedy="choose a release that has them: docs/downstream.md, In releases",
        )
    host, _, path = repository.partition("://")[2].partition("/")
    owner, _, project = path.partition("/")
    site = site or (f"https://{owner.lower()}.github.io/{project}" if host == "github.com" and project else "")
    parts = urlsplit(site)
    if parts.scheme not in ("https", "http") or not parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            "option-invalid",
            f"{site!r} is not the URL of a release repository's pages" if site else "where are the pages?",
            why="a downstream's files name the page of the release, and this release repository is not on github.com"
            if not site
            else "",
            remedy="give the URL of the pages with --index",
        )
    return Pin(name=canonical, kind=kind, manifest=manifest, site=site.rstrip("/"), repository=repository, facts=facts)
