from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir.suites.lit_site import LitSetup, write_site_configuration
from tests.build_job import make_job
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk


@pytest.fixture
def sdk(tmp_path: Path) -> Sdk:
    sdk = make_job(tmp_path).sdk
    (sdk.source / "test").mkdir(parents=True)
    return sdk


def setup(sdk: Sdk, tmp_path: Path, *, bindings: bool = False, execution_engine: bool = True) -> LitSetup:
    return LitSetup(
        sdk=sdk,
        python=tmp_path / "python",
        bindings=bindings,
        code_generators=("NVPTX",),
        execution_engine=execution_engine,
    )


def test_upstreams_template_is_filled_in(sdk: Sdk, tmp_path: Path) -> None:
    template = (
        "@LIT_SITE_CFG_IN_HEADER@\n"
        "config.python = '@Python3_EXECUTABLE@'\n"
        "config.bindings = @MLIR_ENABLE_BINDINGS_PYTHON@\n"
        "config.cuda = @LLVM_HAS_NVPTX_TARGET@\n"
        "config.rocm = @MLIR_ENABLE_ROCM_CONVERSIONS@\n"
        "config.new = @FROM_TOMORROW@\n"
        "config.lib = path(r'@SHLIBDIR@')\n"
    )
    (sdk.source / "test" / "lit.site.cfg.py.in").write_text(template)
    folder = write_site_configuration(setup(sdk, tmp_path, bindings=True, execution_engine=False), tmp_path / "work")

    class Configuration:
        excludes = ("a",)
        available_features = {"host-supports-jit", "other"}  # noqa: RUF012
        environment: dict[str, str] = {}  # noqa: RUF012

    config = Configuration()
    exec((folder / "lit.site.cfg.py").read_text(), {"config": config})
    assert vars(config) == {
        "python": (tmp_path / "python").as_posix(), "bindings": 1, "cuda": 1, "rocm": 0, "new": 0,
        "lib": sdk.libraries.as_posix(), "excludes": {"a", "Unit"},
    }  # fmt: skip
    assert config.available_features == {"other"}
    assert config.environment == {"PYTHONDONTWRITEBYTECODE": "1"}  # nothing may write into an SDK


def test_an_sdk_without_tests(sdk: Sdk, tmp_path: Path) -> None:
    refused(lambda: write_site_configuration(setup(sdk, tmp_path), tmp_path / "work"), "llvm-unsuitable")
