"""A forge of releases that only have their manifests: as many releases as a test likes."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mlir_release.builder.model.sdk_wheel_info import SDK, SDK_TOOLS
from mlir_release.builder.model.test_report import ExpectedFailures, TestEntry
from mlir_release.ground.documents.times import format_time
from mlir_release.ground.python.cpython import ANY_PYTHON
from mlir_release.release.forge.base import Release, Tag
from mlir_release.release.index.generate import IndexOutcome, generate
from mlir_release.release.index.site import Published, SiteOptions
from mlir_release.release.model.manifest import Manifest, WheelEntry
from mlir_release.release.model.release_tags import SnapshotTag, parse_tag
from tests.memory_forge import MemoryForge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.release.forge.base import Asset
    from mlir_release.release.model.yanks import Yank

PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_28_aarch64",
    "macosx_11_0_arm64",
    "macosx_11_0_x86_64",
    "win_amd64",
)
PYTHONS = ("cp310", "cp311", "cp312", "cp313", "cp314", "cp314t")
SIZES = {"mlir": 35_200_000, "mlir-core": 18_400_000, "mlir-full": 41_700_000, SDK: 203_100_000, SDK_TOOLS: 142_000_000}
PROFILES = {"mlir": "host", "mlir-core": "core", "mlir-full": "full", SDK: "sdk", SDK_TOOLS: "sdk-tools"}
START = datetime(2026, 11, 20, 6, 13, 0, tzinfo=UTC)


class PaperForge(MemoryForge):
    """Its releases' wheels have no bytes; only manifests can be downloaded."""

    def __init__(self, *, base: str = MemoryForge.base, yanks: bytes = b"") -> None:
        super().__init__({"yanked.toml": yanks})
        self.base = base
        self.downloads = 0

    def add(self, manifest: Manifest, *, when: datetime | None = None, draft: bool = False) -> None:
        """Publish a manifest's release (or open its draft)."""
        content = manifest.to_text().encode()
        self.count += 1
        self.tag_list[manifest.tag] = Tag(name=manifest.tag, commit=f"{1:040x}", message="")
        id, tag, made = f"{self.count:06d}", manifest.tag, when or manifest.created
        self.contents[id, "release.json"] = content
        assets = [self.make_asset(tag, "release.json", len(content), _digest(content))]
        for wheel in manifest.wheels:
            assets.append(self.make_asset(tag, wheel.filename, wheel.size, wheel.sha256))
            assets.append(self.make_asset(tag, wheel.filename + ".metadata", 900, wheel.metadata_sha256))
            if wheel.provenance:
                assets.append(self.make_asset(tag, wheel.provenance, 4000, "c" * 64))
        if manifest.provenance == "required":
            self.contents[id, "release.json.sigstore.json"] = b"{}"
            assets += [self.make_asset(tag, f"{asset.name}.sigstore.json", 8000, "d" * 64) for asset in assets]
        self.release_list.append(
            Release(
                id=id,
                tag=tag,
                title=tag,
                body="",
                draft=draft,
                prerelease=True,
                created_at=made,
                published_at=None if draft else made + timedelta(minutes=47),
                assets=tuple(assets),
            )
        )

    def set_yanks(self, content: bytes) -> None:
        """Replace ``yanked.toml``."""
        self.commit("main", expected=self.branches["main"], files={"yanked.toml": content}, message="Yank\n")

    def download(self, release: Release, asset: Asset, destination: Path) -> None:
        self.downloads += 1
        super().download(release, asset, destination)


def make_index(forge: PaperForge, output: Path, **options: Any) -> IndexOutcome:
    """``generate`` with an address of its own, which nothing is fetched from."""
    looks = {field.name for field in fields(SiteOptions)} & options.keys()
    site = SiteOptions(**{name: options.pop(name) for name in looks})
    return generate(forge, output, options=site, **{"base_url": "file:///srv/wheels", **options})


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_manifest(
    tag: str,
    *,
    version: str | None = None,
    revision: str | None = None,
    previous: Manifest | None = None,
    distributions: Sequence[str] = ("mlir",),
    platforms: Sequence[str] = PLATFORMS,
    pythons: Sequence[str] = PYTHONS,
    created: datetime = START,
    projects: Mapping[str, str] | None = None,
    **fields: Any,
) -> Manifest:
    """A manifest of as many wheels as there are distributions x platforms x CPythons.

    :param projects: of distributions that are not MLIR's: each has one wheel for every CPython
    """
    projects = projects or {}
    parsed = parse_tag(tag)
    assert parsed is not None
    snapshot = isinstance(parsed, SnapshotTag)
    version = version or str(parsed.version)
    wheels = []
    for distribution in distributions:
        for platform in platforms:
            for python in (ANY_PYTHON,) if distribution in (SDK, SDK_TOOLS, *projects) else pythons:
                entry = _entry(tag, version, distribution, platform, python)
                wheels.append(replace(entry, project=projects.get(distribution, entry.project)))
    tests = [
        TestEntry(
            name=f"bindings-{wheel.target}",
            suite="bindings",
            wheel=wheel.filename,
            counts={"pass": 96, "expected_fail": 1, "unsupported": 3, "fail": 0},
        )
        for wheel in wheels
    ]
    values: dict[str, Any] = {
        "upstream": "https://github.com/llvm/llvm-project.git",
        "toolkit_version": "0.1.0",
        "llvm_version": "22.1.8",
        "previous_tag": previous.tag if previous else "",
        "previous_revision": previous.revision if previous else "",
        "tests": tuple(tests),
        **fields,
    }
    return Manifest(
        tag=tag,
        kind="snapshot" if snapshot else "numbered",
        version=version,
        revision=revision or _digest(tag.encode())[:40],
        commit="d" * 40,
        created_at=format_time(created),
        wheels=tuple(wheels),
        **values,
    ).sorted()


def with_known_failures(manifest: Manifest, runs: int, *rows: ExpectedFailures) -> Manifest:
    """The manifest with the same known failures in the first ``runs`` of its tests."""
    tests = [replace(test, known_failures=rows) for test in manifest.tests[:runs]]
    return replace(manifest, tests=(*tests, *manifest.tests[runs:]))


def make_published(manifest: Manifest, *yanks: Yank) -> Published:
    """The release of a manifest, on a forge of paper."""
    return Published(
        manifest=manifest,
        text=manifest.to_text(),
        page_url="https://forge.example/tag",
        published_at=datetime(2026, 11, 20, tzinfo=UTC),
        urls={wheel.filename: f"https://forge.example/{wheel.filename}" for wheel in manifest.wheels},
        yanks=yanks,
    )


def _entry(tag: str, version: str, distribution: str, platform: str, python: str) -> WheelEntry:
    abi = "none" if python == ANY_PYTHON else python
    name = f"{distribution.replace('-', '_')}-{version}-{python.removesuffix('t')}-{abi}-{platform}.whl"
    seed = hashlib.sha256(name.encode()).digest()
    return WheelEntry(
        filename=name,
        target=f"{distribution}-{platform}-{python}",
        distribution=distribution,
        profile=PROFILES.get(distribution, "library"),
        python=python,
        platforms=(platform,),
        requires_python=">=3.10",
        requires_dist=("numpy<3,>=1.19.5", "ml_dtypes<1,>=0.1"),
        size=SIZES.get(distribution, 1_000_000) + int.from_bytes(seed[:2]) * 10,
        sha256=_digest(name.encode()),
        metadata_sha256=_digest(b"metadata of " + name.encode()),
    )


def many(count: int, **options: Any) -> list[Manifest]:
    """``count`` snapshots, two a day up to :data:`START`, oldest first, each following the one before."""
    found: list[Manifest] = []
    for number in range(count):
        back = count - 1 - number
        created = START + timedelta(hours=12) - timedelta(hours=12 * back)
        tag = f"snapshot-{created:%Y%m%d}.{1 if created.hour < 12 else 2:02d}"
        found.append(make_manifest(tag, created=created, previous=found[-1] if found else None, **options))
    return found
