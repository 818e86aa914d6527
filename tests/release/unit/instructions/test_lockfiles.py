"""Pinned requirements and lock files: on every machine exactly one line counts, and it is the right one."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace

import pytest
from msgspec import structs
from packaging.pylock import Pylock
from packaging.requirements import Requirement
from packaging.tags import compatible_tags, cpython_tags

from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.python.cpython import ANY_PYTHON, CPython
from mlir_release.release.index.site import Channel, Published
from mlir_release.release.instructions import lockfiles
from mlir_release.release.instructions.lockfiles import lock_entries, lock_files, pylock_name, requirements_name
from mlir_release.release.model.manifest import Dependencies, LockedPackage, LockedWheel, Manifest, WheelEntry
from mlir_release.release.model.yanks import Yank
from tests.paper_forge import make_manifest, make_published

TAG = "snapshot-20261120.02"
MACHINES = {
    ("linux", "x86_64"): "manylinux_2_28_x86_64",
    ("linux", "aarch64"): "manylinux_2_28_aarch64",
    ("darwin", "arm64"): "macosx_11_0_arm64",
    ("darwin", "x86_64"): "macosx_11_0_x86_64",
    ("win32", "AMD64"): "win_amd64",
    ("win32", "ARM64"): None,
    ("linux", "riscv64"): None,
    ("freebsd14", "x86_64"): None,
}


def requirements(release: Published, distribution: str) -> str:
    return lockfiles.requirements(release.manifest, distribution, release.urls, yanked=release.yanked)


def pylock(release: Published, distribution: str) -> str:
    return lockfiles.pylock(release.manifest, distribution, release.urls, yanked=release.yanked)


def newest_requirements(channel: Channel, distribution: str) -> str:
    urls = {link.wheel.filename: link.url for link in channel.newest_links}
    return lockfiles.newest_requirements("snapshot", distribution, [link.wheel for link in channel.newest_links], urls)


def lines(text: str) -> list[Requirement]:
    return [Requirement(line) for line in text.splitlines() if line and not line.startswith("#")]


def chosen(channel: Channel, python: str, machine: str = "x86_64") -> str:
    """The file that the newest requirements give a Linux machine; empty if pip refuses it there."""
    environment = {"python_version": python, "sys_platform": "linux", "platform_machine": machine}
    found = [r for r in lines(newest_requirements(channel, "mlir")) if r.marker and r.marker.evaluate(environment)]
    assert len(found) == 1
    name = str(found[0].url).rpartition("/")[2].partition("#")[0]
    return name if f"-cp{python.replace('.', '')}-" in name or "-abi3-" in name else ""


def tag_of(wheel: WheelEntry) -> str:
    return wheel.filename.split("-", 2)[2].removesuffix(".whl")


def only(release: Published, *pythons: str) -> Published:
    kept = tuple(wheel for wheel in release.manifest.wheels if wheel.python in pythons)
    return replace(release, manifest=structs.replace(release.manifest, wheels=kept))


def test_the_newest_requirements_have_a_wheel_for_every_machine_that_ever_got_one() -> None:
    older = make_published(make_manifest("snapshot-20261119.01"))
    newer = only(make_published(make_manifest(TAG)), "cp312", "cp314")
    channel = Channel.of("snapshot", (older, newer))
    assert chosen(channel, "3.12").startswith("mlir-20261120.2-cp312-")
    assert chosen(channel, "3.10").startswith("mlir-20261119.1-cp310-")
    assert chosen(channel, "3.9") == ""


def test_the_newest_requirements_leave_out_what_is_yanked() -> None:
    older, manifest = make_published(make_manifest("snapshot-20261119.01")), make_manifest(TAG)
    name = next(wheel.filename for wheel in manifest.wheels if "cp312-manylinux_2_28_x86_64" in wheel.filename)
    newer = make_published(manifest, Yank(tag=TAG, file=name, reason="miscompiles"))
    channel = Channel.of("snapshot", (older, newer))
    assert chosen(channel, "3.12").startswith("mlir-20261119.1-cp312-")
    assert chosen(channel, "3.10").startswith("mlir-20261120.2-cp310-")
    whole = Channel.of("snapshot", (older, make_published(manifest, Yank(tag=TAG, reason="miscompiles"))))
    assert chosen(whole, "3.10").startswith("mlir-20261119.1-cp310-")


def test_a_wheel_for_the_stable_abi_excludes_older_ones_that_overlap_it() -> None:
    newer = only(make_published(make_manifest(TAG)), "cp312")
    wheels = [
        structs.replace(wheel, filename=wheel.filename.replace("-cp312-cp312-", "-cp312-abi3-"))
        for wheel in newer.manifest.wheels
    ]
    newer = make_published(structs.replace(newer.manifest, wheels=tuple(wheels)))
    channel = Channel.of("snapshot", (make_published(make_manifest("snapshot-20261119.01")), newer))
    assert {chosen(channel, python).partition("-cp")[0] for python in ("3.12", "3.13", "3.14")} == {"mlir-20261120.2"}
    assert chosen(channel, "3.10").startswith("mlir-20261119.1-cp310-")


def test_every_line_has_the_hash_of_its_wheel() -> None:
    manifest = make_manifest(TAG)
    digests = {wheel.filename: wheel.sha256 for wheel in manifest.wheels}
    for requirement in lines(requirements(make_published(manifest), "mlir")):
        name, _, fragment = str(requirement.url).rpartition("/")[2].partition("#sha256=")
        assert fragment == digests[name]


def test_free_threaded_wheels_are_named_but_not_chosen() -> None:
    text = requirements(make_published(make_manifest(TAG, platforms=("win_amd64",))), "mlir")
    said = "# Not listed, because markers can't select it: https://forge.example/mlir-20261120.2-cp314-cp314t-win"
    assert said in text
    assert "cp314t" not in "".join(str(requirement.url) for requirement in lines(text))


@pytest.mark.parametrize(
    "tags",
    [
        ("py3-none-any",),
        ("py2.py3-none-any", "cp312-cp312-manylinux_2_28_x86_64"),
        ("py3-none-macosx_11_0_universal2", "cp312-cp312-macosx_11_0_arm64"),
        ("cp314-cp314t-win_amd64",),
        ("cp314-cp314-win_amd64", "cp314-cp314t-win_amd64"),
        ("cp310-abi3-win_amd64", "cp312-cp312-win_amd64", "cp313-abi3-win_amd64"),
        ("py3-none-win_amd64", "cp312-abi3-win_amd64", "cp314-cp314t-win_amd64"),
        ("cp312-cp312-musllinux_1_2_x86_64",),
        ("cp312-cp312-plan9_x86",),
        pytest.param(tuple(tag_of(wheel) for wheel in make_manifest(TAG).wheels), id="all of a release"),
    ],
    ids=" ".join,
)
def test_one_line_counts_and_it_is_the_one_that_pip_takes_by_the_tags(tags: tuple[str, ...]) -> None:
    """Compared with the tags that an installer accepts, in its order: what ``pylock.toml`` leads to."""
    one, *_ = make_manifest(TAG, distributions=("mlir",)).wheels
    wheels = [
        structs.replace(
            one,
            filename=f"mlir-1-{tag}.whl",
            python=ANY_PYTHON if "py3" in tag else tag.partition("-")[0] + "t" * ("t-" in tag),
            platforms=(tag.rpartition("-")[2],),
        )
        for tag in tags
    ]
    urls = {wheel.filename: f"https://forge.example/{wheel.filename}" for wheel in wheels}
    listed = lines("\n".join(lockfiles.requirement_lines("mlir", wheels, urls)))
    assert listed
    for python in ("3.9", "3.10", "3.12", "3.13", "3.14", "3.14t", "3.15"):
        cpython = CPython.parse(python)
        for (system, machine), platform in MACHINES.items():
            names = [platform or "other", *["musllinux_1_2_x86_64"] * ("musl" in tags[0] and machine == "x86_64")]
            names += ["macosx_11_0_universal2"] * (system == "darwin")
            own = cpython_tags(cpython.release, [cpython.tag], names)
            order = [*map(str, own), *map(str, compatible_tags(cpython.release, cpython.tag, [*names, "any"]))]
            fitting = [tag for tag in tags if tag.replace("py2.", "") in order]
            environment = {"python_version": cpython.marker, "sys_platform": system, "platform_machine": machine}
            (counts,) = (each for each in listed if each.marker is None or each.marker.evaluate(environment))
            chosen = str(counts.url).rpartition("/mlir-1-")[2].partition(".whl")[0]
            if fitting and not (cpython.free_threaded and len(tags) > 1):  # which markers can't know
                assert chosen == min(fitting, key=lambda tag: order.index(tag.replace("py2.", "")))
            elif not fitting:  # and pip says so
                assert chosen.replace("py2.", "") not in order


def test_a_yanked_release_says_so_on_one_line() -> None:
    release = make_published(make_manifest(TAG), Yank(tag=TAG, reason="bad\nimport os ; evil"))
    for text in (requirements(release, "mlir"), pylock(release, "mlir")):
        assert "# YANKED: bad import os ; evil\n" in text
    assert len(lines(requirements(release, "mlir"))) == 26  # nothing was smuggled in


def test_the_lock_file_is_one() -> None:
    manifest = make_manifest(TAG, distributions=("mlir", "mlir-core"))
    release = make_published(manifest)
    lock = Pylock.from_dict(tomllib.loads(pylock(release, "mlir-core")))
    (package,) = lock.packages
    assert (package.name, str(package.version)) == ("mlir-core", manifest.version)
    assert package.wheels is not None
    wanted = {w.filename: w.sha256 for w in manifest.wheels if w.distribution == "mlir-core"}
    assert {wheel.name: wheel.hashes["sha256"] for wheel in package.wheels} == wanted


def test_names() -> None:
    manifest = make_manifest(TAG, distributions=("mlir-full", "mlir-core", "mlir"))
    assert manifest.distributions == ("mlir", "mlir-core", "mlir-full")
    pinned = [requirements_name(manifest, name, tag=TAG) for name in manifest.distributions]
    assert pinned[:2] == [f"requirements-{TAG}.txt", f"requirements-{TAG}-mlir-core.txt"]
    floating = [requirements_name(manifest, name) for name in manifest.distributions]
    assert floating[:2] == ["requirements.txt", "requirements-mlir-core.txt"]
    locks = [pylock_name(manifest, name) for name in manifest.distributions]
    assert locks[:2] == ["pylock.toml", "pylock.mlir-core.toml"]
    assert all(re.fullmatch(r"pylock(\.[^.]+)?\.toml", lock) for lock in locks)  # PEP 751


def test_a_release_has_both_files_for_each_distribution_and_names_them_with_their_digests() -> None:
    manifest = make_manifest(TAG, distributions=("mlir", "mlir-core"))
    files = lock_files(manifest, "https://forge.example/{}".format)
    assert sorted(files) == ["pylock.mlir-core.toml", "pylock.toml", "requirements-mlir-core.txt", "requirements.txt"]
    assert files["requirements.txt"].decode() == requirements(make_published(manifest), "mlir")
    locked = structs.replace(manifest, locks=lock_entries(files))
    assert Manifest.from_text(locked.to_text(), where="") == locked
    assert "locks" not in manifest.to_text()  # which older readers know


@pytest.mark.parametrize("name", ["release.json", "mlir-1-cp312-cp312-win_amd64.whl", "requirements-../x.txt", "x.txt"])
def test_a_manifest_names_no_other_file_as_a_lock(name: str) -> None:
    manifest = structs.replace(make_manifest(TAG), locks=lock_entries({"pylock.toml": b""}))
    with pytest.raises(VerificationError):
        Manifest.from_text(manifest.to_text().replace("pylock.toml", name), where="")


def test_the_lock_file_has_what_the_distribution_depends_on_and_an_older_release_s_stays_as_it_was() -> None:
    manifest = make_manifest(TAG, distributions=("mlir", "mlir-core"))
    requires = manifest.requires("mlir")
    wheel = LockedWheel(url="https://files.example/ab/numpy-2.4.6-cp311-cp311-win_amd64.whl", sha256="a" * 64, size=7)
    packages = (
        LockedPackage(name="ml-dtypes", version="0.6.0"),
        LockedPackage(name="numpy", version="2.4.6", marker="python_full_version == '3.11.*'", wheels=(wheel,)),
    )
    newer = structs.replace(manifest, dependencies=(Dependencies(requires=requires, packages=packages),))
    text = pylock(make_published(newer), "mlir")
    assert text.startswith("# mlir 20261120.2 (snapshot-20261120.02) with ml-dtypes 0.6.0, numpy 2.4.6.\n")
    rows = {package["name"]: package for package in tomllib.loads(text)["packages"]}
    assert rows["numpy"] == {
        "name": "numpy",
        "version": "2.4.6",
        "marker": "python_full_version == '3.11.*'",
        "wheels": [{"name": wheel.filename, "url": wheel.url, "size": 7, "hashes": {"sha256": "a" * 64}}],
    }
    assert requirements(make_published(newer), "mlir") == requirements(make_published(manifest), "mlir")
    # As toolkits wrote it before releases had dependencies: the digest is in those manifests.
    older = lock_files(make_manifest(TAG, platforms=("win_amd64",)), "https://forge.example/{}".format)
    assert sha256_of(older["pylock.toml"]) == "ab8c56df1e9482021257fd9e8ed17b6d635716403f0aaf01a0e6fc3989ffd5fe"
