"""A local forge with others at work, in the middle of what a test does there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlir_release.release.forge.local.forge import LocalForge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mlir_release.release.forge.base import Asset, Release, Tag


class DisturbedForge(LocalForge):
    """Calls ``disturb`` before a change and after a download.

    It gets the method's name, and that of the tag, the branch or the file.
    """

    def __init__(self, forge: LocalForge, disturb: Callable[[str, str], object]) -> None:
        vars(self).update(vars(forge))
        self._disturb = disturb

    def create_tag(self, name: str, commit: str, message: str) -> Tag:
        self._disturb("create_tag", name)
        return super().create_tag(name, commit, message)

    def commit(self, branch: str, **options: Any) -> str:
        self._disturb("commit", branch)
        return super().commit(branch, **options)

    def upload(self, release: Release, name: str, source: Path) -> Asset:
        self._disturb("upload", name)
        return super().upload(release, name, source)

    def publish(self, release: Release) -> Release:
        self._disturb("publish", release.tag)
        return super().publish(release)

    def download(self, release: Release, asset: Asset, destination: Path) -> None:
        super().download(release, asset, destination)
        self._disturb("download", asset.name)
