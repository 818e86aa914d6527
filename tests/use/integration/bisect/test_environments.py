"""What is installed beside a wheel: the same for all snapshots, from the index that pip is configured with."""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from mlir_release.ground.programs.process import Captured
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.use.bisect import environments
from mlir_release.use.bisect.bisect_record import RECORD_NAME
from mlir_release.use.bisect.run import Wish, bisect
from tests.bisect_stage import Bench, make_forge, tag_of
from tests.refusals import refused
from tests.serving import main_index
from tests.wheel_factory import pack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.use.bisect.result import Bisected


def package(folder: Path, name: str, version: str, *requires: str) -> None:
    """A pure wheel whose module knows its version."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {r}" for r in requires),
    ]
    members = {
        f"{name}.py": f"version = '{version}'\n".encode(),
        f"{info}/METADATA": ("\n".join(lines) + "\n").encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    (folder / f"{name}-{version}-py3-none-any.whl").write_bytes(pack(members, f"{info}/RECORD"))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An index with three versions of a helper, packages that need mlir, and somebody else's mlir."""
    folder = tmp_path_factory.mktemp("index") / "packages"
    for version in ("1.0", "2.0", "3.0"):
        package(folder, "helper", version)
    package(folder, "needy", "1.0", "mlir>=2026")
    package(folder, "demanding", "1.0", "mlir>=99999999")
    with main_index(folder) as url:
        yield url


@pytest.fixture(scope="module")
def needing(tmp_path_factory: pytest.TempPathFactory, index: str) -> Path:
    """A forge of five snapshots: the older two need another helper than the newer ones, and the fourth a third one."""
    older, newer, odd = ("helper<3",), ("helper>=2",), ("helper<2",)
    root = tmp_path_factory.mktemp("needing") / "forge"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_INDEX_URL", index)
        patch.delenv("PIP_FIND_LINKS", raising=False)
        make_forge(root, 5, requires={1: older, 2: older, 3: newer, 4: odd, 5: newer})
    return root


@pytest.fixture
def asking(here: Bench, needing: Path, index: str, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The bench, on that forge, with that index."""
    monkeypatch.setenv("PIP_INDEX_URL", index)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    here.forge = needing
    return here


def run(here: Bench, code: str, **options: Any) -> Bisected:
    command = ("python", "-c", f"import mlir; {code}")
    ends = {"good": tag_of(1), "bad": tag_of(5), "python": sys.executable}
    return bisect(LocalForge(here.forge), Wish(command=command, **{**ends, **options}))


def test_all_snapshots_are_tried_with_the_same_versions_as_far_as_they_allow_it(asking: Bench) -> None:
    code = "import helper; print(helper.version); raise SystemExit(mlir.number >= 5)"
    answer = run(asking, code)
    assert (answer.before.tag, answer.after.tag) == (tag_of(4), tag_of(5))
    assert answer.record.packages == ("helper==2.0",)
    said = {tag_of(n): (answer.logs / f"{tag_of(n)}-1.log").read_text().strip() for n in (1, 3, 4, 5)}
    assert said == {tag_of(1): "2.0", tag_of(3): "2.0", tag_of(4): "1.0", tag_of(5): "2.0"}


def test_a_snapshot_that_does_not_go_with_what_is_wanted_is_skipped(asking: Bench) -> None:
    answer = run(asking, "raise SystemExit(mlir.number >= 5)", requirements=("helper==2.0",))
    assert (answer.before.tag, answer.after.tag) == (tag_of(3), tag_of(5))
    assert "not installable" in answer.skipped[tag_of(4)]
    assert "helper" in answer.skipped[tag_of(4)]


def test_requirements_come_from_options_and_files(asking: Bench) -> None:
    (asking.folder / "needs.txt").write_text("needy\n")
    code = "import helper, needy; print(helper.version); raise SystemExit(mlir.number >= 3)"
    answer = run(asking, code, bad=tag_of(3), requirements=("helper<2.5",), files=(asking.folder / "needs.txt",))
    assert answer.after.tag == tag_of(3)
    assert answer.record.packages == ("helper==2.0", "needy==1.0")


def test_mlir_is_the_release_s_even_if_another_package_asks_for_it(asking: Bench) -> None:
    code = "from mlir import _release; assert _release.tag; raise SystemExit(mlir.number >= 3)"
    answer = run(asking, code, bad=tag_of(3), requirements=("needy",))
    assert answer.after.tag == tag_of(3)
    error = refused(lambda: run(asking, code, bad=tag_of(3), requirements=("demanding",)), "option-invalid")
    assert "mlir" in error.why


def test_what_no_index_has_is_refused(asking: Bench) -> None:
    error = refused(lambda: run(asking, "pass", requirements=("helper>=4",)), "option-invalid", "--with")
    assert "helper>=4" in error.why


@pytest.mark.parametrize("wanted", ["./helper", "helper==", "-e ."])
def test_what_is_no_requirement_is_refused(asking: Bench, wanted: str) -> None:
    refused(lambda: run(asking, "pass", requirements=(wanted,)), "option-invalid", "is no requirement")


def test_a_wrong_requirements_file_is_refused(asking: Bench) -> None:
    file = asking.folder / "needs.txt"
    file.write_text("helper==\n")
    refused(lambda: run(asking, "pass", files=(file,)), "option-invalid", "the requirements file")


def test_an_index_that_does_not_answer_is_an_error_and_the_next_run_goes_on(
    asking: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
        refused(lambda: run(asking, "raise SystemExit(mlir.number >= 3)", requirements=("needy<9",)), "network-failed")
    answer = run(asking, "raise SystemExit(mlir.number >= 3)", requirements=("needy<9",))
    assert answer.after.tag == tag_of(3)


def test_without_a_network_what_uv_has_is_enough(
    asking: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the versions are chosen and cached, no index is asked for a snapshot that takes them."""
    package(tmp_path / "packages", "helper", "2.0")
    code, state = "import helper; raise SystemExit(mlir.number >= 2)", asking.folder / "state"
    with main_index(tmp_path / "packages") as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        first = run(asking, code, bad=tag_of(2), state=state)
    for marker in Path(os.environ["MLIR_RELEASE_CACHE"]).glob("bisect/environments/*/.complete"):
        marker.unlink()
    (state / RECORD_NAME).write_bytes(structs.replace(first.record, runs=()).to_text())
    answer = run(asking, code, bad=tag_of(2), state=state)
    assert answer.after.tag == first.after.tag


def test_a_full_disk_is_told_as_such(asking: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    why = f"error: failed to write to file: {os.strerror(errno.ENOSPC)} (os error 28)"
    full = Captured(returncode=2, stdout="", stderr=why, ending="exit code 2")
    monkeypatch.setattr(environments.Environments, "_run", lambda *_, **__: full)
    error = refused(lambda: run(asking, "raise SystemExit(mlir.number >= 3)"), "disk-full")
    assert "run again" in error.remedy


def test_what_nobody_used_for_a_week_is_removed(asking: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    run(asking, "raise SystemExit(mlir.number >= 2)", bad=tag_of(2))
    old = [path for kind in ("environments", "wheels") for path in (tmp_path / "cache" / "bisect" / kind).glob("*/")]
    assert len(old) == 4
    for path in old[:3]:
        marker = path / ".complete"
        os.utime(marker if marker.exists() else path, (0, time.time() - 8 * 86400))
    run(asking, "raise SystemExit(mlir.number >= 4)", bad=tag_of(4), good=tag_of(3))
    assert [path.exists() for path in old] == [False, False, False, True]
