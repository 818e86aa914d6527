"""LLVM itself, compiled in a container as production does it: stopped when its time is up, resumed elsewhere."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.build import build_sdk, prepare
from mlir_release.builder.sdk.components import SdkSpec, components, not_installed
from mlir_release.builder.sdk.progress import StageLog
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.builder.sdk.sources.upstream import read_source
from mlir_release.ground.python.platforms import SYSTEMS
from mlir_release.ground.storage.cache import cache_directory
from tests import upstream_tools
from tests.processes import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlir_release.builder.sdk.sources.releases import LlvmRelease
    from tests.podman import image as podman

ROOT = Path(__file__).parents[2]
FLOOR = "manylinux_2_28"  # older than any machine that these tests run on

#: Builds one library of LLVM: source, output, budget, library.
BUILD = f"""
import sys
from pathlib import Path
from mlir_release.builder.sdk.build import build_until, prepare
from mlir_release.builder.sdk.components import SdkSpec
from mlir_release.builder.sdk.progress import BudgetSpent
try:
    tree = prepare(Path(sys.argv[1]), SdkSpec(floor="{FLOOR}"), output=Path(sys.argv[2]), source_epoch=1, jobs=1)
    build_until(tree, sys.argv[4], budget=float(sys.argv[3]) or None)
    print("built in", tree.environment.image)
except BudgetSpent:
    print("time is up")
"""


def command(
    container: podman.Image, source: Path, output: Path, budget: float = 0, library: str = "LLVMDemangle"
) -> list[str]:
    return container.command([sys.executable, "-c", BUILD, source, output, str(budget), library])


def variables(container: podman.Image, compiler_cache: Path) -> dict[str, str]:
    return os.environ | container.environment | {"SCCACHE_DIR": str(compiler_cache)}


def build(container: podman.Image, source: Path, output: Path, compiler_cache: Path, budget: float = 0) -> str:
    return run(
        *command(container, source, output, budget), variables=variables(container, compiler_cache), cwd=ROOT
    ).strip()


def entries(compiler_cache: Path) -> set[Path]:
    """What has been compiled, ever."""
    return {path for path in compiler_cache.rglob("*") if path.is_file() and "preprocessor" not in path.parts}


def objects(output: Path) -> list[str]:
    (tree,) = (path for path in output.parent.glob(f".{output.name}.build-*") if path.is_dir())
    return sorted(path.name for path in tree.rglob("*.cpp.o") if "LLVMDemangle" in str(path))


def test_a_build_that_is_stopped_goes_on_elsewhere(
    container: podman.Image, release: LlvmRelease, tmp_path: Path
) -> None:
    source = fetch_source(release, cache=cache_directory(), whole=True).root
    compiler_cache = tmp_path / "sccache"
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    assert build(container, source, first, compiler_cache, budget=2) == "time is up"
    assert build(container, source, second, compiler_cache) == "built in localhost/mlir-release-test:latest"
    done = entries(compiler_cache)
    # Nothing was compiled twice, although the second build knows the first one's cache only.
    assert len(done) == len(objects(second)) >= 5
    build(container, source, third, compiler_cache)
    assert objects(third) == objects(second)
    assert entries(compiler_cache) == done
    stopped, cold, warm = (StageLog(output).stages[-1] for output in (first, second, third))
    assert stopped.outcome == "stopped"
    assert (warm.hits, warm.misses) == (len(done), 0)
    assert stopped.misses + cold.misses == len(done)
    assert cold.hits == stopped.misses


def test_a_killed_build_leaves_a_container_that_the_next_one_removes(
    container: podman.Image, release: LlvmRelease, tmp_path: Path
) -> None:
    source = fetch_source(release, cache=cache_directory(), whole=True).root
    compiler_cache, output = tmp_path / "sccache", tmp_path / "sdk"
    # A large library, so that its container is there for minutes; its session has all processes but the container's.
    process = subprocess.Popen(
        command(container, source, output, library="LLVMSupport"), cwd=ROOT, env=variables(container, compiler_cache),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    wait_until(lambda: entries(compiler_cache), process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    (left,) = containers(container, output)
    assert left.startswith("mlir-release-sdk-")
    assert build(container, source, output, compiler_cache) == "built in localhost/mlir-release-test:latest"
    assert containers(container, output) == []
    outcomes = [(stage.name, stage.outcome) for stage in StageLog(output).stages]
    assert outcomes[:2] == [("configure", "done"), ("build LLVMSupport", "killed")]
    assert outcomes[-1] == ("build LLVMDemangle", "done")
    assert len(entries(compiler_cache)) >= len(objects(output)) >= 5


def containers(container: podman.Image, output: Path) -> list[str]:
    """The names of the containers that build for ``output``."""
    listed = container.run(["podman", "ps", "--all", "--format", "{{.Names}}"]).stdout.split()
    return [name for name in listed if re.sub(r"[^A-Za-z0-9]+", "-", str(output))[-40:] in name]


def wait_until(ready: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    """Wait for what the process does. It must not end before."""
    deadline = time.monotonic() + 600
    while not ready():
        assert process.poll() is None, "the build ended too early"
        assert time.monotonic() < deadline, "nothing was compiled within 10 minutes"
        time.sleep(0.1)


def test_the_list_of_what_upstreams_tests_run_is_upstreams(release: LlvmRelease) -> None:
    source = read_source(fetch_source(release, cache=cache_directory(), whole=True).root)
    wanted = upstream_tools.read_wanted(source.root)
    assert {"FileCheck", "mlir-opt", "mlir_runner_utils"} <= wanted
    assert wanted <= upstream_tools.WANTED, "upstream's tests run more than tests/upstream_tools.py lists"
    assert upstream_tools.not_built(wanted, [*components(source, SYSTEMS["linux"]), *not_installed(source)]) == []


@pytest.mark.slow
def test_a_whole_reduced_build(release: LlvmRelease, tmp_path: Path) -> None:
    """All of LLVM and MLIR but the code generators of GPUs, on this machine: hours without a warm compiler cache."""
    source = fetch_source(release, cache=cache_directory(), whole=True).root
    tree = prepare(source, SdkSpec(code_generators=("host",)), output=tmp_path / "sdk", source_epoch=1)
    sdk = build_sdk(tree, revision=release.commit)
    sdk.verify()
    assert (sdk.info.provider, sdk.info.llvm_version) == ("source", release.version)
    assert sdk.info.code_generators == (sdk.info.native_code_generator,), "reduced"
    carried = {path.name for path in sdk.tools.iterdir()} | {
        path.name.removeprefix("lib").partition(".")[0] for path in sdk.libraries.glob("libmlir_*")
    }
    assert upstream_tools.not_built(upstream_tools.read_wanted(source), carried) == []
    outcomes = [(stage.name, stage.outcome) for stage in StageLog(tree.output).stages]
    assert outcomes == [(name, "done") for name in ("configure", "build", "install", "import")]
