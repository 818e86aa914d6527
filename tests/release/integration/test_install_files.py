"""An environment that has something else in the place of a verified wheel: it ends with exactly that wheel's files."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import shutil
import subprocess
import sys
from compileall import compile_dir
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.programs.surroundings import also_pass
from mlir_release.ground.python import venv
from mlir_release.ground.python.cpython import ANY_PYTHON
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.use.install import install
from mlir_release.use.install_target import find_target
from tests.kill import NEEDS_COMPILER, kill_everywhere
from tests.refusals import refused
from tests.release.integration.signed_stage import TAG as SIGNED
from tests.release.integration.signed_stage import signed_stage
from tests.release_stage import make_stage
from tests.use.integration.test_install import publish_in
from tests.wheel_factory import TAG, VERSION, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable

INFO = f"mlir-{VERSION}.dist-info"

#: What a foreign file does when Python runs it.
RAN = "open({!r}, 'a').close()\n"

#: Where the packages of an environment are.
SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def place_of(folder: Path) -> Path:
    """The interpreter of the environment in ``folder``."""
    return folder / "environment" / "bin" / "python"


def open_forge(folder: Path) -> LocalForge:
    return LocalForge(folder / "forge")


def make_forge(folder: Path, *requires: str) -> None:
    """A forge with a release, and an empty environment."""
    stage = make_stage(folder)
    publish_in(stage.forge, stage.dist, TAG, VERSION, requires=requires)
    venv.create(folder / "environment", Path(sys.executable))


def by_pip(python: Path, wheel: Path) -> None:
    """Install a wheel as anybody may have."""
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", "--force-reinstall", wheel], check=True)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A forge, and an environment that its release was installed into."""
    folder = tmp_path_factory.mktemp("template")
    make_forge(folder)
    install(open_forge(folder), TAG, python=place_of(folder))
    return folder


@pytest.fixture
def forge(template: Path, tmp_path: Path) -> LocalForge:
    shutil.copytree(template / "environment", tmp_path / "environment", symlinks=True)
    return open_forge(template)


@pytest.fixture
def site(forge: LocalForge, tmp_path: Path) -> Path:
    return tmp_path / "environment" / SITE


@pytest.fixture
def python(site: Path) -> Path:
    return place_of(site.parents[3])


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """It is there once a foreign file ran."""
    return tmp_path / "ran"


def content(site: Path) -> dict[str, str]:
    """The files of the environment that Python reads, compiled ones aside: the check has imported the package."""
    return {
        str(path.relative_to(site)): str(path.readlink())
        if path.is_symlink()
        else sha256(path.read_bytes()).hexdigest()
        for path in sorted(site.rglob("*"))
        if (path.is_symlink() or path.is_file()) and ".pyc" not in path.name and path.suffix != ".lock"
    }


# -- what was there ----------------------------------------------------------------------------------------------------


def another_build(site: Path, code: str) -> None:
    files = {"mlir_start.pth": f"import mlir_start; {code}".encode(), "mlir_start.py": code.encode()}
    by_pip(place_of(site.parents[3]), make_wheel(site.parents[3] / "tampered", content=code, files=files))


def an_older_one(site: Path, code: str) -> None:
    files = {"mlir/gone.py": b"", "mlir_helper/__init__.py": b""}
    by_pip(
        place_of(site.parents[3]),
        make_wheel(site.parents[3] / "older", version="20251120.1", content=code, files=files),
    )


def a_changed_file(site: Path, code: str) -> None:
    (site / "mlir" / "__init__.py").write_text(code)


def a_changed_file_and_its_record(site: Path, code: str) -> None:
    a_changed_file(site, code)
    (site / INFO / "RECORD").write_text("mlir/__init__.py,,\n")


def a_missing_file(site: Path, _: str) -> None:
    (site / "mlir" / "__init__.py").unlink()


def a_compiled_file(site: Path, code: str) -> None:
    """One that Python takes for the source's: the header has the source's time and size."""
    source = site / "mlir" / "_release.py"
    other = site.parents[3] / "other.py"
    other.write_text(code + "tag = 'other'\n" + "#" * (source.stat().st_size - len(code) - 15))
    os.utime(other, ns=(source.stat().st_mtime_ns,) * 2)
    py_compile.compile(str(other), importlib.util.cache_from_source(str(source)), doraise=True)


def a_compiled_file_alone(site: Path, code: str) -> None:
    other = site.parents[3] / "other.py"
    other.write_text(code)
    py_compile.compile(str(other), str(site / "mlir" / "more.pyc"), doraise=True)


def a_file_more(site: Path, code: str) -> None:
    (site / "mlir" / "sub").mkdir()
    (site / "mlir" / "sub" / "more.py").write_text(code)


def a_module_beside(site: Path, code: str) -> None:
    (site / "mlir.py").write_text(code)
    (site / "mlir.abi3.so").write_text("")


def no_record(site: Path, code: str) -> None:
    """As a killed pip leaves it."""
    a_changed_file(site, code)
    (site / INFO / "RECORD").unlink()


def no_description(site: Path, code: str) -> None:
    a_changed_file(site, code)
    shutil.rmtree(site / INFO)


def half_removed(site: Path, _: str) -> None:
    (site / "mlir").rename(site / "~lir")
    (site / INFO / "METADATA").unlink()
    (site / "~lir-20251120.1.dist-info").mkdir()


def an_entry_point(site: Path, _: str) -> None:
    (site / INFO / "entry_points.txt").write_text("[pytest11]\nmlir = mlir.other\n")


def a_linked_folder(site: Path, code: str) -> None:
    elsewhere = site.parents[3] / "elsewhere"
    (site / "mlir").rename(elsewhere)
    (site / "mlir").symlink_to(elsewhere)
    (elsewhere / "__init__.py").write_text(code)


def a_linked_file(site: Path, _: str) -> None:
    elsewhere = site.parents[3] / "same.py"
    (site / "mlir" / "__init__.py").rename(elsewhere)
    (site / "mlir" / "__init__.py").symlink_to(elsewhere)


def a_file_for_a_folder(site: Path, code: str) -> None:
    shutil.rmtree(site / "mlir")
    (site / "mlir").write_text(code)


def a_pipe(site: Path, _: str) -> None:
    (site / "mlir" / "__init__.py").unlink()
    os.mkfifo(site / "mlir" / "__init__.py")
    (site / INFO / "RECORD").unlink()
    os.mkfifo(site / INFO / "RECORD")


def an_editable_one(site: Path, code: str) -> None:
    source = site.parents[3] / "source"
    (source / "mlir").mkdir(parents=True)
    (source / "mlir" / "__init__.py").write_text(code)
    shutil.rmtree(site / "mlir")
    shutil.rmtree(site / INFO)
    (site / "__editable__.mlir-1.pth").write_text(f"{source}\nimport os; {code}")
    info = site / "mlir-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mlir\nVersion: 1\n")
    (info / "RECORD").write_text("__editable__.mlir-1.pth,,\nmlir-1.dist-info/METADATA,,\nmlir-1.dist-info/RECORD,,\n")


SPOILT: list[Callable[[Path, str], None]] = [
    *(another_build, an_older_one, a_changed_file, a_changed_file_and_its_record, a_missing_file),
    *(a_compiled_file, a_compiled_file_alone, a_file_more, a_module_beside, no_record, no_description, half_removed),
    *(an_entry_point, a_linked_folder, a_linked_file, a_file_for_a_folder, a_pipe, an_editable_one),
]


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__)
def test_whatever_was_there_it_ends_with_the_wheel_s_files(
    forge: LocalForge, site: Path, python: Path, mark: Path, spoil: Callable[[Path, str], None]
) -> None:
    expected = content(site)
    spoil(site, RAN.format(str(mark)))
    mark.unlink(missing_ok=True)  # pip has run it, when it installed it
    install(forge, TAG, python=python)
    assert content(site) == expected
    assert not mark.exists()
    code = "import mlir._release as r; print(r.tag)"
    assert subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip() == TAG
    assert not mark.exists()


def test_what_is_outside_of_the_environment_stays(forge: LocalForge, site: Path, python: Path, tmp_path: Path) -> None:
    """A RECORD can name anything; a package of another distribution stays, too."""
    (tmp_path / "mine").write_text("")
    (site / "other").mkdir()
    (site / "other" / "__init__.py").write_text("")
    (site / "other-1.dist-info").mkdir()
    (site / "other-1.dist-info" / "RECORD").write_text("other/__init__.py,,\n")
    lines = (
        "../../../../mine,,",
        f"{tmp_path / 'mine'},,",
        "other/__init__.py,,",
        "../../../../environment,,",
        "a" * 300 + ",,",
        "a\0,,",
    )
    for more in ("", "bad\n", "a" * 200_000):
        (site / INFO / "RECORD").write_text("\n".join([*lines, more]))
        install(forge, TAG, python=python)
    assert (tmp_path / "mine").exists()
    assert (site / "other" / "__init__.py").exists()


def test_what_is_right_is_not_written_again(forge: LocalForge, site: Path, python: Path) -> None:
    def times() -> dict[Path, int]:
        return {path: path.stat().st_ino for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc"}

    before = times()
    install(forge, TAG, python=python)
    assert times() == before


# -- what is not ours to replace ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [True, False])
def test_what_conda_installed_is_not_replaced(forge: LocalForge, site: Path, python: Path, record: bool) -> None:
    (site / INFO / "INSTALLER").write_text("conda\n")
    if not record:
        (site / INFO / "RECORD").unlink()
    before = content(site)
    error = refused(lambda: install(forge, TAG, python=python), "install-failed", "conda installed")
    assert "conda remove mlir" in error.remedy
    assert content(site) == before


def test_one_of_the_user_s_own_packages_would_come_first(
    forge: LocalForge, site: Path, python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only outside of virtual environments, where nothing of the user's counts."""
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "user"))
    assert find_target(python).user_site is None
    user = find_target(os.path.realpath(sys.executable)).user_site
    assert user is not None
    (user / "mlir").mkdir(parents=True)
    outside = tmp_path / "python"  # it says of itself what one outside of environments says
    outside.write_text(f"""#!/bin/sh\n{python} "$@" | sed 's|"user_site": null|"user_site": "{user}"|'\n""")
    outside.chmod(0o755)
    refused(lambda: install(forge, TAG, python=outside), "install-failed", "would be imported instead")


# -- signed, at once, killed -------------------------------------------------------------------------------------------


def test_a_tampered_build_of_the_same_version_is_replaced_before_its_signed_one_is_imported(
    tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = venv.create(tmp_path / "environment", Path(sys.executable))
    site = environment.root / SITE
    with signed_stage(tmp_path, monkeypatch) as stage:
        stage.whole()
        another_build(site, RAN.format(str(mark)))
        mark.unlink(missing_ok=True)
        found = install(stage.forge, SIGNED, python=environment.python, pip_options=["--no-deps"])
    assert found.provenance
    assert not mark.exists()
    assert "open(" not in (site / "mlir" / "__init__.py").read_text()


def test_eight_at_once_end_well(forge: LocalForge, site: Path, python: Path, tmp_path: Path, mark: Path) -> None:
    expected = content(site)
    another_build(site, RAN.format(str(mark)))
    command = [
        sys.executable,
        "-m",
        "mlir_release",
        "install",
        TAG,
        "--forge",
        f"local:{forge.root}",
        "--python",
        str(python),
    ]

    def run(_: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(run, range(8)))
    assert [each.returncode for each in done] == [0] * 8, [each.stderr for each in done]
    assert content(site) == expected


def with_tampered(folder: Path) -> None:
    """The environment has another build of the same version, and an older version of what the release needs."""
    tree = {f"helper/part{number}.py": b"" for number in range(3)}
    for version in ("0.1", "1"):
        helper = make_wheel(
            folder / "packages", distribution="helper", version=version, python=ANY_PYTHON, platform="any", files=tree
        )
        helper.rename(helper.with_name(f"helper-{version}-py3-none-any.whl"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder / "packages"))
        make_forge(folder, "helper>=1")
    by_pip(place_of(folder), folder / "packages" / "helper-0.1-py3-none-any.whl")
    compile_dir(
        str(distribution("pip").locate_file("pip")), quiet=1
    )  # else the first run has more to write than those that are killed
    by_pip(place_of(folder), make_wheel(folder / "tampered", content="raise SystemExit(3)\n", files={"mlir/x.py": b""}))


def run_install(folder: Path) -> None:
    os.environ.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(folder / "packages"))
    also_pass(["KILLPOINTS"])  # pip is killed, too
    install(open_forge(folder), TAG, python=place_of(folder))


@NEEDS_COMPILER
def test_killed_anywhere_it_ends_with_the_wheel_s_files(
    exhaustive: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tampered build is there, and a dependency is installed by pip, which is killed, too."""
    killing = kill_everywhere(
        f"{__file__}:run_install",
        prepare=with_tampered,
        observe=lambda folder: content(folder / "environment" / SITE),
        work=tmp_path,
        sample=None if exhaustive else 8,
    )
    with capsys.disabled():
        print(f"\n{killing}")
    assert killing.tried > 4
