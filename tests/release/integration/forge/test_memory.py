"""The forges of unit tests keep the port's promises, so that what passes with them means something."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from mlir_release.release.forge.local.releases import render_page
from tests.memory_forge import MemoryForge
from tests.paper_forge import PaperForge
from tests.release.integration.forge.conformance import ForgeConformance, Setting

if TYPE_CHECKING:
    from mlir_release.release.forge.base import Forge


class OneAtATime:
    """A forge that several threads use in turn."""

    def __init__(self, forge: MemoryForge) -> None:
        self._forge = forge
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._forge, name)
        return partial(self._call, found) if callable(found) else found

    def _call(self, method: Any, *args: Any, **options: Any) -> Any:
        with self._lock:
            return method(*args, **options)


def setting_of(forge: MemoryForge) -> Setting:
    """What is published, and nothing else, is served."""

    def get(url: str) -> bytes | None:
        for release in forge.releases():
            if not release.draft:
                if url == forge.page_url(release.tag):
                    return render_page(release, url).encode()
                for asset in release.assets:
                    if asset.url == url:
                        return forge.contents[release.id, asset.name]
        return None

    shared = cast("Forge", OneAtATime(forge))
    return Setting(forge=shared, again=lambda: shared, stranger=get, message=forge.commit_message)


class TestMemoryForge(ForgeConformance):
    @pytest.fixture
    def setting(self) -> Setting:
        return setting_of(MemoryForge({"README.md": b"hello\n"}))


class TestPaperForge(ForgeConformance):
    @pytest.fixture
    def setting(self) -> Setting:
        return setting_of(PaperForge())
