"""Linux aarch64 without such a machine: a real wheel, cross-compiled by the toolkit, then tested by it under emulation.

The SDK is made, and the wheel tested, by the toolkit in a root of Debian for arm64, whose programs qemu runs: there it
sees a machine of that platform. The wheel is built on this machine. This shows that the wheel's code is right. It does
not show the runner, its image, its speed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from mlir_release.host.cache import cache_directory
from mlir_release.sdk.provision import available_releases, provide_sdk
from mlir_release.wheels.inspect import inspect
from tests.roots import debian, foreign

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.sdk.info import Sdk
    from mlir_release.sdk.releases import Release

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

#: Of the root: it must be of this machine's glibc or older, and this machine's LLVM packages.
SUITE = "bookworm"
SDK, VENV, SOURCES, WHEELS, REPORTS = "/root/sdk", "/root/venv", "/root/source", "/root/dist", "/root/reports"


@dataclass(frozen=True)
class Machine:
    """The emulated one, and what this one has for it."""

    root: debian.Root
    release: Release
    native: Sdk
    python: str  #: ``3.11``

    def inside(self, path: str) -> Path:
        return self.root.path / path.lstrip("/")

    def toolkit(self, *arguments: str) -> str:
        """The toolkit's own command, on the emulated machine."""
        programs = f"{VENV}/bin:{VENV}/lib/python{self.python}/site-packages/bin"
        environment = {"PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        command = [f"{VENV}/bin/python", "-m", "mlir_release", *arguments]
        done = self.root.run(command, folder=debian.CLONE, environment=environment)
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout

    def build(self, output: Path, *arguments: str) -> Path:
        """A wheel, built here."""
        command: list[str | Path] = [
            *(sys.executable, "-m", "mlir_release", "wheels", "build", "--runtime", "linux-aarch64"),
            "--sdk",
            self.inside(SDK),
            "--tools",
            self.native.root,
            "--target-python",
            self.inside("usr"),
            f"--python={self.python}",
            f"--output={output}",
            *arguments,
        ]
        done = subprocess.run(
            command,
            cwd=debian.SOURCES,
            env=os.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-6000:]
        (wheel,) = output.glob("*.whl")
        return wheel


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    if reason := foreign.unusable():
        # Loud on purpose: without these tests nothing shows that anything works on aarch64.
        sys.stderr.write(f"\n*** Linux aarch64 IS NOT TESTED here: {reason} ***\n")
        pytest.skip(f"Linux aarch64 is not tested here: {reason}")
    cache = cache_directory()
    release, tree = next(available_releases(cache=cache))
    native = provide_sdk(release, revision=release.commit, source_epoch=release.epoch, cache=cache)
    with foreign.fresh(SUITE, int(release.version.split(".")[0]), cache) as root:
        (headers,) = (root.path / "usr/include").glob("python3.*")
        found = Machine(root, release, native, headers.name.removeprefix("python"))
        install_toolkit(found)
        shutil.copytree(tree.root, found.inside(SOURCES), symlinks=True)
        yield found


def install_toolkit(machine: Machine) -> None:
    """The toolkit of this working tree, in an environment there. pip runs here: emulated, it takes very long."""
    machine.root.clone()
    made = machine.root.run(["python3", "-m", "venv", "--without-pip", VENV])
    assert made.returncode == 0, made.stdout
    packages = machine.inside(f"{VENV}/lib/python{machine.python}/site-packages")
    platforms = [f"--platform=manylinux{name}_aarch64" for name in ("_2_28", "_2_17", "2014")]
    project = tomllib.loads((debian.SOURCES / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = ["pip", *project["dependencies"], *project["optional-dependencies"]["wheels"]]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", f"--target={packages}"),
            *("--implementation=cp", f"--python-version={machine.python}", *platforms, *wanted),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (packages / "toolkit.pth").write_text(debian.CLONE + "\n")


@pytest.fixture(scope="module")
def sdk(machine: Machine) -> Path:
    """The SDK of Debian's packages for arm64."""
    (prefix,) = machine.inside("usr/lib").glob("llvm-[0-9]*")
    machine.toolkit(
        *("sdk", "import", f"/usr/lib/{prefix.name}", "--source", SOURCES, "-o", SDK),
        *("--revision", machine.release.commit, "--source-epoch", str(machine.release.epoch)),
    )
    assert json.loads((machine.inside(SDK) / "sdk.json").read_text())["platform"] == "linux-aarch64"
    return machine.inside(SDK)


@pytest.fixture(scope="module")
def wheel(machine: Machine, sdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return machine.build(tmp_path_factory.mktemp("dist"))


def test_the_wheel_is_what_its_tag_says(wheel: Path) -> None:
    report = inspect(wheel)
    assert report.problems == ()
    assert report.external == ()
    assert {facts.machine for facts in report.elf.values()} == {"aarch64"}
    assert report.true_platform_tag.startswith("manylinux_2_")
    assert report.true_platform_tag.endswith("_aarch64")
    assert all(tag.endswith("_aarch64") for tag in report.tags)
    assert report.release is not None
    assert report.release.target.startswith("mlir-linux-aarch64-")
    modules = [name for name in report.elf if name.endswith("-aarch64-linux-gnu.so")]
    assert len(modules) > 10


def test_its_suites_pass_under_emulation(machine: Machine, wheel: Path, tmp_path: Path) -> None:
    """``smoke``, and upstream's tests of the bindings with the test dialect, exactly as a test job runs them."""
    addon = machine.build(tmp_path / "addon", "--test-addon")
    for file in (wheel, addon):
        machine.inside(WHEELS).mkdir(exist_ok=True)
        shutil.copy(file, machine.inside(WHEELS))
    print(
        machine.toolkit(
            *("wheels", "test", f"{WHEELS}/{wheel.name}", "--sdk", SDK, "--addon", f"{WHEELS}/{addon.name}"),
            *("--suite", "smoke", "--suite", "bindings", "--reports", REPORTS),
        )
    )
    reports = {path.name: json.loads(path.read_text()) for path in machine.inside(REPORTS).glob("*.tests.json")}
    assert {report["suite"] for report in reports.values()} == {"smoke", "bindings"}
    assert all(report["passed"] for report in reports.values())
    bindings = next(report for report in reports.values() if report["suite"] == "bindings")
    assert bindings["counts"]["pass"] > 80


def test_a_machine_of_another_platform_says_what_it_needs(machine: Machine, sdk: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mlir_release", "wheels", "build", "--sdk", sdk, "--output", tmp_path],
        cwd=debian.SOURCES,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "error[cross-needs-more]" in done.stderr
