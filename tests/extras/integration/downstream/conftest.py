"""Snapshots of ``mlir`` and of its SDK that are published and served, and a kit for one of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.model.sdk_wheel_info import SDK, SDK_TOOLS
from mlir_release.extras.downstream.kit import KitOptions, WrittenKit, write_kit
from mlir_release.ground.python.cpython import ANY_PYTHON
from mlir_release.release.index.generate import generate
from mlir_release.release.transaction.decisions import yank
from tests.release_stage import NOW, WHO, Stage, make_stage
from tests.serving import Served, main_index, serve
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import OTHER_PYTHON, PYTHON, TAG, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.extras.downstream.pin import Kind
    from mlir_release.ground.llvm.llvm_facts import LlvmFacts

TARGETS = make_targets(
    make_row(),
    *(make_row(name, required=False, suites=["sdk"]) for name in (SDK, SDK_TOOLS)),
    pythons=[OTHER_PYTHON, PYTHON],
)
NAME = "example-dialect"


@dataclass
class DownstreamStage:
    """A release repository, its pages, and the index on which others' packages are."""

    stage: Stage
    pages: Path
    served: Served
    main_index: str

    @property
    def base(self) -> str:
        return f"{self.served.url}/pages"

    @property
    def files(self) -> str:
        return f"{self.served.url}/forge/releases"

    def publish(self, tag: str, version: str, *, sdk: bool = False, facts: LlvmFacts | None = None) -> None:
        """Publish a release, with or without wheels of its SDK, and show it on the pages."""
        if tag != TAG:
            self.stage.add_tag(tag, version, facts=facts)
        folder = self.stage.fill(tag=tag, version=version)
        for distribution in (SDK, SDK_TOOLS) if sdk else ():
            self.stage.fill(tag=tag, version=version, pythons=[ANY_PYTHON], distribution=distribution)
        self.stage.publish(folder, tag=tag)
        self._show()

    def yank(self, tag: str) -> None:
        """Yank a whole release, and show that on the pages."""
        yank(self.stage.forge, tag, "miscompiles", branch="main")
        self._show()

    def _show(self) -> None:
        generate(self.stage.forge, self.pages, base_url=self.base)

    def kit(self, directory: Path, kind: Kind, *, tag: str = TAG, name: str = NAME, smoke: str = "") -> WrittenKit:
        """Write the kit for a release, a week after all were published."""
        forge = self.stage.forge
        late = type(forge)(forge.root, clock=lambda: NOW + timedelta(days=7), identity=WHO, base_url=self.files)
        return write_kit(late, directory, KitOptions(tag=tag, kind=kind, name=name, site=self.base, smoke=smoke))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[DownstreamStage]:
    """:data:`TAG` is published, with wheels of its SDK."""
    with serve(tmp_path) as served, main_index(tmp_path / "pypi") as main:
        stage = make_stage(tmp_path, base_url=f"{served.url}/forge/releases", targets=TARGETS)
        site = DownstreamStage(stage, tmp_path / "pages", served, main)
        site.publish(TAG, VERSION, sdk=True)
        yield site
