"""The honest platform tag, by the real auditwheel, on small libraries."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from mlir_release.builder.projects.mlir import PROJECT
from mlir_release.builder.sdk.info import Sdk, SdkInfo
from mlir_release.builder.wheels.backends import BuildJob, retag
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.ground.python.platforms import Platform
from mlir_release.ground.python.pythons import describe
from tests.refusals import refused
from tests.wheel_factory import REVISION, make_wheel

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="auditwheel is Linux's"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="compiles a small library"),
]

PLATFORM = sysconfig.get_platform().replace("-", "_").replace(".", "_")
EXTENSION = f"mlir/_x{sysconfig.get_config_var('EXT_SUFFIX')}"


@pytest.fixture
def job(tmp_path: Path) -> BuildJob:
    info = SdkInfo(
        revision=REVISION, llvm_version="22.1.8", provider="debian", configuration="release",
        platform=Platform("linux", "x86_64"),
        code_generators=("X86",), native_code_generator="X86", binding_library="nanobind", binding_requirements=(),
        runtime_requirements=(), minimum_python="3.10", source_epoch=1_700_000_000, linked=(), file_count=0, size=0,
        digest="x",
    )  # fmt: skip
    return BuildJob(
        sdk=Sdk(root=tmp_path / "sdk", info=info), python=describe(Path(sys.executable)), project=tmp_path,
        smoke=PROJECT.smoke,
        profile="core", workdir=tmp_path, cache=tmp_path, log=tmp_path / "log",
    )  # fmt: skip


def compiled(folder: Path, source: str, name: str, *flags: str) -> bytes:
    (folder / "x.c").write_text(source)
    command = ["cc", "-shared", "-fPIC", "-o", str(folder / name), str(folder / "x.c"), *flags]
    subprocess.run(command, check=True, capture_output=True)
    return (folder / name).read_bytes()


def test_the_tag_is_what_the_binaries_need_and_the_bytes_are_the_same_each_time(job: BuildJob, tmp_path: Path) -> None:
    source = (
        "#include <sys/random.h>\nlong f(void *p) { return getrandom(p, 1, 0); }\nvoid *PyInit__x(void) { return 0; }"
    )
    extension = compiled(tmp_path, source, "x.so")
    wheel = make_wheel(tmp_path / "built", python=job.python.tag, platform=PLATFORM, files={EXTENSION: extension})
    first, usage = retag(wheel, job)
    report = inspect(first)
    assert report.problems == ()
    assert report.tags == (f"{job.python.tag}-{job.python.tag}-{report.true_platform_tag}",)
    assert report.true_platform_tag.startswith("manylinux_2_")
    assert usage.cpu > 0
    assert inspect(retag(wheel, job)[0]).sha256 == report.sha256


def test_a_wheel_that_needs_an_outside_library_is_refused(job: BuildJob, tmp_path: Path) -> None:
    compiled(tmp_path, "int other(void) { return 1; }", "libother.so", "-Wl,-soname,libother.so")
    source = "int other(void);\nint f(void) { return other(); }\nvoid *PyInit__x(void) { return 0; }"
    extension = compiled(tmp_path, source, "x.so", f"-L{tmp_path}", "-lother")
    wheel = make_wheel(tmp_path / "built", python=job.python.tag, platform=PLATFORM, files={EXTENSION: extension})
    error = refused(lambda: retag(wheel, job), "wheel-unsuitable")
    assert "libother.so" in error.why


def test_a_glibc_that_auditwheel_has_no_policy_for_needs_none(job: BuildJob, tmp_path: Path) -> None:
    """The library asks for a version of libc's symbols that no distribution has yet."""
    (tmp_path / "versions").write_text("GLIBC_2.99 { global: new; local: *; };")
    script = f"-Wl,--version-script={tmp_path / 'versions'}"
    compiled(tmp_path, "int new(void) { return 1; }", "libfuture.so", "-Wl,-soname,libc.so.6", "-nostdlib", script)
    source = "int new(void);\nint f(void) { return new(); }\nvoid *PyInit__x(void) { return 0; }"
    extension = compiled(tmp_path, source, "x.so", "-nostdlib", f"-L{tmp_path}", "-lfuture")
    wheel = make_wheel(tmp_path / "built", python=job.python.tag, platform=PLATFORM, files={EXTENSION: extension})
    report = inspect(retag(wheel, job)[0])
    assert report.problems == ()
    assert report.external == ()
    arch = PLATFORM.removeprefix("linux_")
    assert report.true_platform_tag == f"manylinux_2_99_{arch}"
    assert report.tags == (f"{job.python.tag}-{job.python.tag}-manylinux_2_99_{arch}",)
    assert inspect(retag(wheel, job)[0]).sha256 == report.sha256
