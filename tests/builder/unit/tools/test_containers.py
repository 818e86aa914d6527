"""Which container engine is taken, and whether it works."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.tools.containers import Engine, find_engine, image_digest, image_name, why_unusable
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="makes programs of shell scripts")


def program(folder: Path, name: str, script: str = "") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_docker_before_podman_and_neither(path: Path) -> None:
    assert find_engine({}) is None
    program(path, "podman")
    assert find_engine({}) == Engine(name="podman")
    program(path, "docker")
    assert find_engine({}) == Engine(name="docker")


def test_what_people_set_for_cibuildwheel_counts(path: Path) -> None:
    setting = {"CIBW_CONTAINER_ENGINE": "podman; create_args: --cgroups=disabled --network=host"}
    assert find_engine(setting) is None
    program(path, "podman")
    assert find_engine(setting) == Engine(name="podman", create_args=("--cgroups=disabled", "--network=host"))


def test_the_image() -> None:
    assert "manylinux_2_28_x86_64" in image_name("x86_64", environment={})
    assert "manylinux_2_28_aarch64" in image_name("aarch64", environment={})
    assert "manylinux_2_34_x86_64" in image_name("x86_64", "manylinux_2_34_x86_64", {})
    setting = {"CIBW_MANYLINUX_X86_64_IMAGE": "manylinux_2_34"}
    assert "manylinux_2_34_x86_64" in image_name("x86_64", "manylinux_2_28_x86_64", setting)
    own = {"CIBW_MANYLINUX_X86_64_IMAGE": "localhost/own:latest"}
    assert image_name("x86_64", environment=own) == "localhost/own:latest"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 0", None),
        ('[ "$1" = run ] && { echo "crun: cgroups" >&2; exit 126; }; exit 0', "cannot run a container: crun: cgroups"),
        ('[ "$1" = run ] && exit 0; echo "no route to host" >&2; exit 125', "cannot fetch image: no route to host"),
        ('[ "$1" = image ] && exit 1; exit 0', None),
        ('[ "$1" = run ] && exit 1; exit 0', "cannot run a container: exit code 1 without an explanation"),
    ],
)
def test_an_engine_is_tried_before_it_is_trusted(path: Path, script: str, reason: str | None) -> None:
    program(path, "podman", script)
    found = why_unusable(Engine(name="podman"), "image")
    assert found is None if reason is None else found is not None and reason in found


@pytest.mark.parametrize(
    ("shown", "digest"),
    [
        ('{"Id": "sha256:1", "RepoDigests": ["example.org/image@sha256:2"]}', "example.org/image@sha256:2"),
        ('{"Id": "sha256:1", "RepoDigests": []}', "sha256:1"),
        ('{"Id": "sha256:1", "RepoDigests": null}', "sha256:1"),
    ],
)
def test_an_image_is_named_by_the_digest_that_others_can_fetch_it_by(path: Path, shown: str, digest: str) -> None:
    program(path, "docker", f"echo '[{shown}]'")
    assert image_digest(Engine(name="docker"), "example.org/image:latest") == digest


def test_an_image_that_is_not_here_has_no_digest(path: Path) -> None:
    program(path, "docker", 'echo "no such image" >&2; exit 1')
    error = refused(lambda: image_digest(Engine(name="docker"), "image"), said="containers can't be run here")
    assert "no such image" in error.why


def test_an_engine_that_hangs(path: Path) -> None:
    program(path, "podman", "exec /bin/sleep 60")
    assert "does not answer" in (why_unusable(Engine(name="podman"), "image", timeout=0.1) or "")
