"""The dependencies of a release's wheels: resolved by the real uv, from a folder of wheels or from an index here."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs
from packaging.markers import default_environment
from packaging.pylock import PackageWheel, Pylock, PylockSelectError
from packaging.tags import compatible_tags, cpython_tags

from mlir_release.ground.programs.process import Captured
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.python.requirements import marker_environment
from mlir_release.ground.python.resolver import compile_lock, find_uv
from mlir_release.release.instructions.dependencies import lock_requirements, resolve_dependencies
from mlir_release.release.instructions.lockfiles import pylock
from tests.paper_forge import make_manifest, make_published
from tests.refusals import refused
from tests.serving import package_index, serve
from tests.wheel_factory import pack

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.model.manifest import Manifest

TAG = "snapshot-20261120.02"
PLATFORMS = ("manylinux_2_28_x86_64", "musllinux_1_2_x86_64", "macosx_13_0_arm64")
#: array 1 is for CPython 3.10 alone; helper is what array requires.
WHEELS = {
    "array-1-cp310-cp310": ">=3.10,<3.11",
    "array-2-cp311-cp311": ">=3.11",
    "array-2-cp314-cp314t": ">=3.11",
}


def add_wheel(folder: Path, name: str, requires_python: str, *requires: str) -> None:
    distribution, version, *_ = name.split("-")
    info = f"{distribution}-{version}.dist-info"
    lines = [f"Name: {distribution}", f"Version: {version}", f"Requires-Python: {requires_python}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    tags = "\n".join(f"Tag: {name.split('-', 2)[2]}".split("."))
    members = {
        f"{distribution}.py": b"",
        f"{info}/METADATA": ("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n").encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\n{tags}\n".encode(),
    }
    (folder / f"{name}.whl").write_bytes(pack(members, f"{info}/RECORD"))


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, the only place where pip is told to look."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for platform in ("manylinux_2_17_x86_64", "musllinux_1_1_x86_64", "macosx_11_0_universal2", "win_amd64"):
        for name, requires_python in WHEELS.items():
            add_wheel(folder, f"{name}-{platform}", requires_python, "helper; python_version >= '3.11'")
    add_wheel(folder, "helper-1.5-py3-none-any", ">=3.8")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def release(*requires: str, **options: Any) -> Manifest:
    options = {"platforms": PLATFORMS, "pythons": ("cp310", "cp311", "cp314t")} | options
    manifest = make_manifest(TAG, **options)
    wheels = (structs.replace(wheel, requires_dist=requires) for wheel in manifest.wheels)
    return structs.replace(manifest, wheels=tuple(wheels))


def selected(manifest: Manifest, python: str, platform: str) -> list[str]:
    """The files that an installer takes on a machine, by the rules of PEP 751."""
    published = make_published(manifest)
    lock = Pylock.from_dict(tomllib.loads(pylock(manifest, "mlir", published.urls)))
    cpython, tag = CPython.parse(python), PlatformTag.parse(platform)
    accepted = [platform, *tag.accepted, "musllinux_1_1_x86_64" if "musl" in platform else "any", "any"]
    if tag.macos:
        accepted += ["macosx_11_0_universal2"]
    tags = [*cpython_tags(cpython.release, [cpython.tag], accepted), *compatible_tags(cpython.release, None, accepted)]
    environment: Any = default_environment() | marker_environment(cpython, tag.platform)
    files = [file for _, file in lock.select(environment=environment, tags=tags)]
    return sorted(str(file.name) for file in files if isinstance(file, PackageWheel))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_on_each_machine_one_version_counts_with_all_that_it_requires(wheels: Path, platform: str) -> None:
    manifest = release("array>=1")
    manifest = structs.replace(manifest, dependencies=resolve_dependencies(manifest, local=True))
    own = {"many": "manylinux_2_17_x86_64", "musl": "musllinux_1_1_x86_64", "maco": "macosx_11_0_universal2"}
    theirs = own[platform[:4]]
    for python, tags, rest in (
        ("3.10", "array-1-cp310-cp310", []),
        ("3.11", "array-2-cp311-cp311", ["helper-1.5-py3-none-any.whl"]),
        ("3.14t", "array-2-cp314-cp314t", ["helper-1.5-py3-none-any.whl"]),
    ):
        cpython = CPython.parse(python)
        ours = f"mlir-20261120.2-{cpython.tag.rstrip('t')}-{cpython.tag}-{platform}.whl"
        assert selected(manifest, python, platform) == [f"{tags}-{theirs}.whl", *rest, ours]
    with pytest.raises(PylockSelectError):
        selected(manifest, "3.12", platform)
    names = [wheel.filename for row in manifest.dependencies for p in row.packages for wheel in p.wheels]
    assert names == list(dict.fromkeys(names))
    assert not [name for name in names if "win_amd64" in name]  # the release has no wheel for Windows


def test_a_version_for_other_cpythons_is_left_out(wheels: Path) -> None:
    manifest = release("array>=1", pythons=("cp310",))
    manifest = structs.replace(manifest, dependencies=resolve_dependencies(manifest, local=True))
    (row,) = manifest.dependencies
    assert [(package.name, package.version) for package in row.packages] == [("array", "1")]
    files = selected(manifest, "3.10", PLATFORMS[0])  # and it is valid
    assert "array-1-cp310-cp310-manylinux_2_17_x86_64.whl" in files


def test_it_is_asked_once_for_all_distributions_and_not_at_all_without_requirements(
    wheels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = release("helper", "array", distributions=("mlir", "mlir-core"))
    (row,) = resolve_dependencies(manifest, local=True)
    assert row.requires == ("array", "helper")
    assert [package.name for package in row.packages] == ["array", "array", "helper"]
    asked = [line for line in capsys.readouterr().err.splitlines() if line.startswith("==> ")]
    assert asked == ["==> lock what mlir, mlir-core depends on"]
    assert resolve_dependencies(release(), local=True) == ()
    assert capsys.readouterr().err == ""


def test_a_machine_that_a_dependency_has_no_wheel_for_is_named(
    wheels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resolve_dependencies(release("array", pythons=("cp311", "cp312")), local=True)
    said = " ".join(capsys.readouterr().err.split())
    assert "no wheel of array 2 for CPython 3.12 on Linux x86_64" in said
    assert "for CPython 3.11" not in said


def test_of_wheels_what_was_uploaded_after_the_tag_is_left_out_where_the_index_dates_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "simple" / "helper"
    folder.mkdir(parents=True)
    add_wheel(folder, "helper-1.5-py3-none-any", ">=3.8")
    add_wheel(folder, "helper-1.7-py3-none-any", ">=3.8")
    dated = {"helper-1.5-py3-none-any.whl": 19, "helper-1.6.tar.gz": 19, "helper-1.7-py3-none-any.whl": 21}
    files = [
        {"filename": name, "url": name, "hashes": {"sha256": "a" * 64}, "upload-time": f"2026-11-{day}T12:00:00Z"}
        for name, day in dated.items()
    ]
    page = {"meta": {"api-version": "1.1"}, "name": "helper", "versions": ["1.5", "1.6", "1.7"], "files": files}
    (folder / "index.json").write_text(json.dumps(page))
    with serve(tmp_path, json=True) as served:
        monkeypatch.setenv("PIP_INDEX_URL", f"{served.url}/simple/")
        done = compile_lock(["helper"], CPython(3, 10), until="2026-11-20T12:00:00Z")
    assert done.ok, done.stderr
    assert [package["version"] for package in tomllib.loads(done.stdout)["packages"]] == ["1.5"]


def test_an_index_that_does_not_date_its_files_is_taken_as_it_is(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    with package_index(wheels) as url:
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}simple/")
        (row,) = resolve_dependencies(release("helper"), local=False)
    assert row.packages[0].wheels[0].url.startswith("http://")


def test_requirements_that_nothing_fulfils_stop_the_publication(wheels: Path) -> None:
    refused(lambda: resolve_dependencies(release("helper>=2"), local=True), "release-not-ready", "helper>=2")


def test_files_of_this_machine_are_not_published(wheels: Path) -> None:
    error = refused(lambda: resolve_dependencies(release("helper"), local=False), "option-invalid", "nobody else has")
    assert "PIP_FIND_LINKS" in error.remedy


def test_an_index_that_can_not_be_reached_stops_the_publication() -> None:
    done = Captured(returncode=2, stdout="", stderr="error: Request failed after 3 retries", ending="exit code 2")
    error = refused(lambda: resolve(done), "network-failed", "helper")
    assert "publish again" in error.remedy
    assert "Request failed" in error.why


@pytest.mark.parametrize(
    "text",
    [
        "packages = 3",
        "[[packages]]\nname = 'helper'\nversion = '1'\n[packages.vcs]\n[[packages.wheels]]\nurl = 'x'\nhashes = {}",
        "[[packages]]\nname = 'helper'\nversion = '1'\nwheels = [{url = 'https://x/helper-1-py3-none-any.whl', "
        "hashes = {md5 = 'a'}}]",
        "not TOML",
    ],
)
def test_an_answer_that_no_lock_can_name_is_refused(text: str) -> None:
    done = Captured(returncode=0, stdout=text, stderr="", ending="exit code 0")
    refused(lambda: resolve(done), "network-failed")


def resolve(answer: Captured) -> object:
    """Where uv ends so."""
    return lock_requirements(["helper"], (), until="2026-11-20T12:00:00Z", local=True, resolve=lambda *_, **__: answer)


def test_without_uv_its_installation_is_the_remedy() -> None:
    refused(lambda: find_uv("resolves something", lambda _: None), "tool-missing", "uv is not installed")
