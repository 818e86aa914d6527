"""Linux aarch64 without such a machine: a real wheel, cross-compiled by the toolkit, then tested by it under emulation.

The SDK is made, and the wheel tested, by the toolkit in a root of Debian for arm64, whose programs qemu runs: there it
sees a machine of that platform. The wheel is built on this machine. This shows that the wheel's code is right. It does
not show the runner, its image, its speed.

It takes long. The SDK and the root are kept in the toolkit's cache, and so is what the compiler made, so that a second
run has little more to do than the tests that failed; each prints its time (``-s`` shows it).
"""

from __future__ import annotations

import hashlib
import json
import resource
import shutil
import sys
import time
import tomllib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.builder.sdk.parts import DESCRIPTION
from mlir_release.builder.sdk.provision import available_releases, code_digest, provide_sdk
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.ground.storage.cache import cache_directory, locked
from tests.processes import run
from tests.roots import debian, foreign

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.sdk.sources.releases import LlvmRelease

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

#: Of the root: it must be of this machine's glibc or older, and this machine's LLVM packages.
SUITE = "bookworm"
SDK, VENV, SOURCES, WHEELS, REPORTS = "/root/sdk", "/root/venv", "/root/source", "/root/dist", "/root/reports"


@dataclass(frozen=True)
class Machine:
    """The emulated one, and what this one has for it. What wheels are built of is at the same path in every run."""

    root: debian.Root
    template: Path  #: what the root is a copy of
    kept: Path  #: its SDK, once that is made
    release: LlvmRelease
    native: Sdk
    python: str  #: ``3.11``

    def inside(self, path: str) -> Path:
        return self.root.path / path.lstrip("/")

    def toolkit(self, *arguments: str) -> str:
        """The toolkit's own command, on the emulated machine."""
        programs = f"{VENV}/bin:{VENV}/lib/python{self.python}/site-packages/bin"
        environment = {"PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        command = [f"{VENV}/bin/python", "-m", "mlir_release", *arguments]
        with timed(" ".join(arguments[:2]), "under emulation"):
            done = self.root.run(command, folder=debian.CLONE, environment=environment)
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout

    def build(self, output: Path, *arguments: str) -> Path:
        """A wheel, built here."""
        command: list[str | Path] = [
            *(sys.executable, "-m", "mlir_release", "wheels", "build", "--runtime", "linux-aarch64"),
            *("--sdk", self.kept, "--tools", self.native.root, "--target-python", self.template / "usr"),
            *(f"--python={self.python}", f"--output={output}"),
            *arguments,
        ]
        with timed(" ".join(["wheels build", *arguments]), "cross-compiled here"):
            run(*command, cwd=debian.SOURCES)
        (wheel,) = output.glob("*.whl")
        return wheel


@contextmanager
def timed(what: str, how: str) -> Iterator[None]:
    """Print how long it took: by the clock, and of the processors, which tells something on a busy machine too."""
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        yield
    finally:
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        print(f"\n*** {what}, {how}: {time.monotonic() - start:.0f} s, {cpu:.0f} s of processor time", flush=True)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    if reason := foreign.unusable():
        # Loud on purpose: without these tests nothing shows that anything works on aarch64.
        sys.stderr.write(f"\n*** Linux aarch64 IS NOT TESTED here: {reason} ***\n")
        pytest.skip(f"Linux aarch64 is not tested here: {reason}")
    cache = cache_directory()
    release, tree = next(available_releases(cache=cache))
    native = provide_sdk(release, release, cache=cache)
    major = int(release.version.split(".")[0])
    template = foreign.prepare(SUITE, major, cache)
    facts = [template.name, release.version, release.commit, str(release.epoch), code_digest()]
    kept = cache / "sdks" / f"emulated-{release.version}-{hashlib.sha256(' '.join(facts).encode()).hexdigest()[:12]}"
    with foreign.fresh(SUITE, major, cache) as root:
        (headers,) = (root.path / "usr/include").glob("python3.*")
        found = Machine(root, template, kept, release, native, headers.name.removeprefix("python"))
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
    extras = project["optional-dependencies"]
    wanted = ["pip", *project["dependencies"], *extras["release"], *extras["wheels"][1:]]  # the first is the release's
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", f"--target={packages}")
    run(*install, "--implementation=cp", f"--python-version={machine.python}", *platforms, *wanted)
    (packages / "toolkit.pth").write_text(debian.CLONE + "\n")


@pytest.fixture(scope="module")
def sdk(machine: Machine) -> Path:
    """The SDK of Debian's packages for arm64, made under emulation; or an equal one of an earlier run."""
    kept = machine.kept
    with locked(kept.with_name(f".{kept.name}.lock")):
        if not (kept / DESCRIPTION).is_file():
            import_there(machine)
            _copy(machine.inside(SDK), kept)
        elif not machine.inside(SDK).exists():
            _copy(kept, machine.inside(SDK))
    assert json.loads((kept / DESCRIPTION).read_text())["platform"] == "linux-aarch64"
    return kept


def import_there(machine: Machine) -> None:
    (prefix,) = machine.inside("usr/lib").glob("llvm-[0-9]*")
    machine.toolkit(
        *("sdk", "import", f"/usr/lib/{prefix.name}", "--source", SOURCES, "-o", SDK),
        *("--revision", machine.release.commit, "--source-epoch", str(machine.release.epoch)),
    )


def _copy(source: Path, target: Path) -> None:
    making = target.with_name(f"{target.name}.tmp")
    shutil.rmtree(making, ignore_errors=True)  # of a run that was killed
    run("cp", "--archive", "--reflink=auto", source, making)
    making.rename(target)


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


@pytest.fixture(scope="module")
def addon(machine: Machine, sdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return machine.build(tmp_path_factory.mktemp("addon"), "--test-addon")


def run_suite(machine: Machine, suite: str, wheel: Path, *others: Path) -> dict[str, Any]:
    """Exactly as a test job does it. Returns the report."""
    machine.inside(WHEELS).mkdir(exist_ok=True)
    for file in (wheel, *others):
        shutil.copy(file, machine.inside(WHEELS))
    words = ["wheels", "test", f"{WHEELS}/{wheel.name}", "--sdk", SDK, "--suite", suite, "--reports", REPORTS]
    print(machine.toolkit(*words, *(word for other in others for word in ("--addon", f"{WHEELS}/{other.name}"))))
    reports = (json.loads(path.read_text()) for path in machine.inside(REPORTS).glob("*.tests.json"))
    found: dict[str, Any] = next(report for report in reports if report["suite"] == suite)
    return found


def test_smoke_passes_under_emulation(machine: Machine, wheel: Path) -> None:
    report = run_suite(machine, "smoke", wheel)
    assert report["passed"]
    assert report["counts"]["pass"] > 20


def test_upstream_bindings_tests_pass_under_emulation(machine: Machine, wheel: Path, addon: Path) -> None:
    """With the test dialect, of the add-on."""
    report = run_suite(machine, "bindings", wheel, addon)
    assert report["passed"]
    assert report["counts"]["pass"] > 80
