from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import structs
from packaging.version import Version

import mlir_release
from mlir_release.builder.model.orders import NOTICE
from mlir_release.builder.model.wheel_info import WheelInfo
from mlir_release.builder.projects.mlir import PROJECT, WHEEL
from mlir_release.builder.projects.mlir.for_wheels import pin_binding_library
from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.sdk.parts import TOOLS, list_of
from mlir_release.builder.wheels.build import for_python
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.builder.wheels.stage import stage, wheel_info
from mlir_release.ground.python import installed
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.pythons import Python
from mlir_release.ground.python.requirements import Override
from tests.prefix_factory import EPOCH, REVISION
from tests.refusals import refused

Profile = Literal["core", "host", "full", "all"]


def request(sdk: Sdk, *, profile: Profile = "host", **others: Any) -> WheelRequest:
    names = {"core": "mlir-core", "host": "mlir", "full": "mlir-full", "all": "mlir-all"}
    return WheelRequest(
        project=PROJECT,
        distribution=names[profile],
        profile=profile,
        version=Version("20261120.2"),
        tag="snapshot-20261120.02",
        target="mlir-linux-x86_64-cp312",
        sdk=sdk,
        **{"revision": REVISION, **others},
    )


def python_of(tag: str) -> Python:
    cpython = CPython.of_tag(tag)
    return Python(cpython=cpython, version=f"{cpython.marker}.1", executable=Path(sys.executable))


def read_project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())


def test_the_project_is_filled_in(sdk: Sdk, tmp_path: Path) -> None:
    project = read_project(stage(request(sdk), tmp_path / "project"))
    assert project["project"]["name"] == "mlir"
    assert project["project"]["version"] == "20261120.2"
    assert project["project"]["entry-points"] == {"cmake.prefix": {"mlir": "mlir._extension"}}
    assert project["project"]["requires-python"] == ">=3.10"
    assert "numpy<=2.1.2,>=1.19.5" in project["project"]["dependencies"]
    requires = project["build-system"]["requires"]
    assert requires[1:] == ["nanobind~=2.9.0", "typing_extensions>=4.12.2", "pyelftools>=0.31"]
    settings = project["tool"]["scikit-build"]
    assert settings["env"] == {"SOURCE_DATE_EPOCH": str(EPOCH)}
    assert settings["install"]["components"] == ["mlir_package"]
    defined = settings["cmake"]["define"]
    assert defined == {"MLIR_RELEASE_SDK": {"env": "MLIR_RELEASE_SDK"}, "MLIR_RELEASE_PROFILE": "host"}


def test_a_wheel_for_the_stable_abi_says_which_cpythons_it_was_tested_on(sdk: Sdk, tmp_path: Path) -> None:
    serves = tuple(CPython(3, minor) for minor in (12, 13, 14))
    shared = for_python(request(sdk, serves=serves), python_of("cp312"))
    assert shared.target.endswith("-cp312-abi3")
    folder = stage(shared, tmp_path / "project")
    project = read_project(folder)
    assert project["project"]["requires-python"] == ">=3.12,<3.15"
    settings = project["tool"]["scikit-build"]
    assert settings["wheel"]["py-api"] == "cp312"
    assert settings["wheel"]["reproducible"]
    assert settings["cmake"]["define"]["MLIR_ENABLE_PYTHON_STABLE_ABI"] is True
    info = json.loads((folder / "mlir" / "_release.json").read_text())
    assert info["serves"] == ["cp312", "cp313", "cp314"]
    for tag in ("cp311", "cp313"):
        plain = for_python(request(sdk, serves=serves), python_of(tag))
        assert (plain.serves, plain.target.endswith(f"-{tag}")) == ((), True)


def test_which_build_it_is_stands_in_the_package(sdk: Sdk, tmp_path: Path) -> None:
    folder = stage(request(sdk), tmp_path / "project")
    assert json.loads((folder / "mlir" / "_release.json").read_text()) == {
        "schema": 1,
        "tag": "snapshot-20261120.02",
        "revision": REVISION,
        "llvm_version": "22.1.8",
        "distribution": "mlir",
        "profile": "host",
        "target": "mlir-linux-x86_64-cp312",
        "toolkit_version": mlir_release.__version__,
        "sdk": sdk.info.digest,
    }


def test_it_names_the_sdk_as_a_wheel_where_its_release_makes_one(sdk: Sdk, tmp_path: Path) -> None:
    info = wheel_info(request(sdk, sdk_wheel=True))
    assert (info.sdk, info.sdk_wheel) == (sdk.info.digest, "mlir-sdk==20261120.2")
    assert WheelInfo.from_text(info.to_text()) == info
    without = wheel_info(request(sdk)).to_text()
    assert WheelInfo.from_text(without).sdk_wheel == "", "as in wheels of older toolkits"


def test_a_wheel_with_all_code_generators_needs_an_sdk_with_more_than_the_usual_ones(sdk: Sdk, tmp_path: Path) -> None:
    assert set(sdk.info.code_generators) == {"X86", "NVPTX", "AMDGPU"}
    error = refused(lambda: request(sdk, profile="all"), "sdk-mismatch")
    assert "mlir-all is to have all" in error.what
    more = Sdk(root=sdk.root, info=structs.replace(sdk.info, code_generators=("X86", "RISCV")))
    assert request(more, profile="all").code_generators == ("X86", "RISCV")
    project = read_project(stage(request(more, profile="all"), tmp_path / "project"))
    assert project["tool"]["scikit-build"]["cmake"]["define"]["MLIR_RELEASE_PROFILE"] == "all"
    assert "all of LLVM's code generators" in project["project"]["description"]


@pytest.mark.parametrize("notice", [NOTICE, "Ours alone.", ""])
def test_the_description_says_what_the_wheel_is_not(sdk: Sdk, tmp_path: Path, notice: str) -> None:
    project = stage(request(sdk, notice=notice), tmp_path / "project")
    lines = (project / "README.md").read_text(encoding="utf-8").splitlines()
    original = (WHEEL / "README.md").read_text(encoding="utf-8").splitlines()
    assert lines == [*original[:2], *([notice, ""] if notice else []), *original[2:]]
    assert "Development Status :: 4 - Beta" in read_project(project)["project"]["classifiers"]


def test_everything_that_a_source_distribution_needs_is_in_the_project(sdk: Sdk, tmp_path: Path) -> None:
    folder = stage(request(sdk), tmp_path / "project")
    for name in (
        "CMakeLists.txt",
        "README.md",
        "cmake/MLIRReleasePackage.cmake",
        "licenses/LLVM.txt",
        "licenses/zstd.txt",
        "mlir/_installed.py",
        "mlir/_release.py",
        "mlir/_mlir_libs/_site_initialize_0.py",
        "sboms/mlir.cdx.json",
        "upstream/mlir/include/mlir/IR/Kept.td",
        "upstream/mlir/lib/Bindings/Python/MainModule.cpp",
        "upstream/mlir/python/mlir/ir.py",
    ):
        assert (folder / name).is_file(), name
    assert not list(folder.rglob("__pycache__"))


def test_wheels_that_nothing_is_compiled_for_have_no_project(sdk: Sdk, tmp_path: Path) -> None:
    of_sdk = WheelRequest.of_profile("sdk-tools", sdk=sdk)
    refused(lambda: stage(of_sdk, tmp_path / "project"), "option-invalid", "sdk-tools of the project mlir has files of")
    assert not (tmp_path / "project").exists()


def test_the_same_request_gives_the_same_files(sdk: Sdk, tmp_path: Path) -> None:
    def contents(folder: Path) -> dict[str, bytes]:
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    assert contents(stage(request(sdk), tmp_path / "one")) == contents(stage(request(sdk), tmp_path / "two"))


def test_no_path_of_this_machine_is_in_the_project(sdk: Sdk, tmp_path: Path) -> None:
    folder = stage(request(sdk), tmp_path / "project")
    paths = [str(sdk.root.parent).encode(), str(tmp_path).encode()]
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert not [file for file in files if any(path in file.read_bytes() for path in paths)]


def test_staging_again_keeps_the_build_folder_and_nothing_else(sdk: Sdk, tmp_path: Path) -> None:
    folder = stage(request(sdk), tmp_path / "project")
    for stray in (folder / "build" / "kept", folder / "mlir" / "stray.py", folder / "stray" / "file"):
        stray.parent.mkdir(exist_ok=True)
        stray.touch()
    stage(request(sdk, profile="core"), folder)
    assert (folder / "build" / "kept").is_file()
    assert not (folder / "mlir" / "stray.py").exists()
    assert not (folder / "stray").exists()
    assert read_project(folder)["project"]["name"] == "mlir-core"


def test_a_folder_with_something_else_is_refused_and_stays(sdk: Sdk, tmp_path: Path) -> None:
    """Such as a project of one's own, with the same names in it."""
    for name in ("pyproject.toml", "README.md", "src/main.cpp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    refused(lambda: stage(request(sdk), tmp_path), "output-in-the-way")
    assert (tmp_path / "src" / "main.cpp").read_text() == "mine"


@pytest.mark.parametrize(
    ("floor", "glibc"),
    [("manylinux_2_36_x86_64", "2.36"), ("manylinux_2_28_aarch64", "2.28"), ("macosx_14_0_arm64", None), ("", None)],
)
def test_packed_relocations_depend_on_the_platform_tag(sdk: Sdk, tmp_path: Path, floor: str, glibc: str | None) -> None:
    project = read_project(stage(request(sdk, floor=floor), tmp_path / "project"))
    assert project["tool"]["scikit-build"]["cmake"]["define"].get("MLIR_RELEASE_GLIBC") == glibc


def test_the_test_addon_is_another_project_that_nobody_mistakes(sdk: Sdk, tmp_path: Path) -> None:
    project = read_project(stage(request(sdk, test_addon=True), tmp_path / "project"))
    assert project["project"]["name"] == "mlir-test-addon"
    assert "entry-points" not in project["project"]
    assert project["tool"]["scikit-build"]["install"]["components"] == ["mlir_test_addon"]
    assert (tmp_path / "project" / "upstream" / "mlir" / "test" / "python" / "python_test_ops.td").is_file()
    assert project["project"]["dependencies"] == []


def test_a_wheel_is_made_of_the_build_part_alone(sdk: Sdk, tmp_path: Path) -> None:
    part = sdk.copy_to(tmp_path / "sdk")
    shutil.rmtree(part.source / "test")
    list_of(part.root, TOOLS).unlink()
    one, other = stage(request(sdk), tmp_path / "one"), stage(request(part), tmp_path / "other")
    files = {path.relative_to(one) for path in one.rglob("*")}
    assert {path.relative_to(other) for path in other.rglob("*")} == files
    refused(lambda: stage(request(part, test_addon=True), tmp_path / "addon"), "input-missing")


@pytest.mark.parametrize(
    ("requirement", "pinned"),
    [
        ("nanobind>=2.9, <3.0", "nanobind~=2.9.0"),
        ("nanobind>=2.4.1, <3", "nanobind~=2.4.1"),
        ("pybind11>=2.9.0, <=2.10.3", "pybind11==2.10.3"),
        ("pybind11==2.13.6", "pybind11==2.13.6"),
    ],
)
def test_the_binding_library_is_what_upstream_tested(requirement: str, pinned: str) -> None:
    assert pin_binding_library(("PyYAML>=5", requirement)) == pinned


def test_no_binding_library_is_an_error() -> None:
    refused(lambda: pin_binding_library(("numpy>=1",)), "revision-unsuitable")


def test_an_override_is_in_the_metadata_and_recorded(sdk: Sdk, tmp_path: Path) -> None:
    override = Override(name="numpy", specifier="<3", reason="no wheel for CPython 3.14")
    project = stage(request(sdk, overrides=(override,)), tmp_path / "project")
    assert "numpy<3,>=1.19.5" in read_project(project)["project"]["dependencies"]
    assert json.loads((project / "mlir" / "_release.json").read_text())["relaxed"] == [
        {"upstream": "numpy<=2.1.2,>=1.19.5", "requirement": "numpy<3,>=1.19.5", "reason": override.reason}
    ]
    addon = stage(request(sdk, overrides=(override,), test_addon=True), tmp_path / "addon")
    assert read_project(addon)["project"]["dependencies"] == []


def test_an_override_of_what_upstream_does_not_require(sdk: Sdk, tmp_path: Path) -> None:
    override = Override(name="nunpy", specifier="<3", reason="…")
    error = refused(lambda: stage(request(sdk, overrides=(override,)), tmp_path / "project"), "config-invalid")
    assert "did you mean 'numpy'" in error.remedy


class TestBillOfMaterials:
    def read(self, sdk: Sdk, folder: Path, profile: Profile = "full") -> dict[str, Any]:
        made = stage(request(sdk, profile=profile), folder)
        (path,) = (made / "sboms").iterdir()
        document: dict[str, Any] = json.loads(path.read_text())
        return document

    def test_it_names_what_is_linked_in(self, sdk: Sdk, tmp_path: Path) -> None:
        document = self.read(sdk, tmp_path / "project")
        assert document["bomFormat"] == "CycloneDX"
        components = {component["name"]: component for component in document["components"]}
        assert components.keys() == {"llvm-project", "zlib", "zstd", "nanobind", "robin-map"}
        assert components["llvm-project"]["version"] == "22.1.8"
        assert components["llvm-project"]["purl"] == f"pkg:github/llvm/llvm-project@{REVISION}"
        properties = {entry["name"]: entry["value"] for entry in components["llvm-project"]["properties"]}
        assert properties["mlir-release:code-generators"] == "X86,NVPTX,AMDGPU"
        assert all(component["licenses"] for component in components.values())
        (dependency,) = document["dependencies"]
        assert set(dependency["dependsOn"]) == {component["bom-ref"] for component in components.values()}
        assert dependency["ref"] == document["metadata"]["component"]["bom-ref"]

    def test_profiles_differ_and_the_serial_number_follows(self, sdk: Sdk, tmp_path: Path) -> None:
        full, core = self.read(sdk, tmp_path / "full"), self.read(sdk, tmp_path / "core", "core")
        assert full["serialNumber"] != core["serialNumber"]
        assert self.read(sdk, tmp_path / "again")["serialNumber"] == full["serialNumber"]


class TestReleaseModule:
    """``mlir/_release.py`` and the check for mixed distributions, as installed beside a stand-in for the rest."""

    @pytest.fixture
    def site(self, sdk: Sdk, tmp_path: Path) -> Path:
        site = tmp_path / "site-packages"
        folder = stage(request(sdk), tmp_path / "project")
        (folder / "mlir").rename(site)
        package = tmp_path / "site" / "mlir"
        package.parent.mkdir()
        site.rename(package)
        (package / "_mlir_libs" / "__init__.py").write_text("from . import _site_initialize_0\n")
        self.add(package.parent, "mlir-20261120.2", "mlir/ir.py,,")
        return package.parent

    def add(self, site: Path, name: str, record: str) -> None:
        (site / f"{name}.dist-info").mkdir()
        (site / f"{name}.dist-info" / "RECORD").write_text(f"{record}\n")

    def run(self, site: Path, code: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "always", "-c", code]
        return subprocess.run(command, cwd=site, capture_output=True, text=True, check=True)

    def test_it_says_which_build_it_is(self, site: Path) -> None:
        done = self.run(site, "import mlir._release as r; print(r.TAG, r.PROFILE, r.REVISION)")
        assert done.stdout.split() == ["snapshot-20261120.02", "host", REVISION]

    def test_only_mlir_all_compiles_for_other_processors(self, site: Path) -> None:
        code = "import mlir._release as r\ntry: r.compile_llvm_ir('', 'riscv64')\nexcept RuntimeError as e: print(e)"
        assert "mlir can't compile for other processors: install mlir-all" in self.run(site, code).stdout
        code = code.replace("\ntry", "; r.PROFILE = 'all'\ntry").replace("'riscv64'", "'riscv64', level=4")
        assert "level is 4" in self.run(site, code.replace("RuntimeError", "ValueError")).stdout

    def test_one_distribution_is_quiet(self, site: Path) -> None:
        # Others', in a package of theirs or beside ours; PyPI's mlir-python-bindings has no files of mlir.
        self.add(site, "mlir_tools-1", "mlir_tools/ir.py,,")
        self.add(site, "eudsl_python_extras-1", "mlir/extras/ir.py,,")
        self.add(site, "mlir_python_bindings-0.0.1", "mlir_python_bindings/__init__.py,,")
        assert self.run(site, "import mlir._mlir_libs").stderr == ""

    @pytest.mark.parametrize("name", ["mlir-core", "xtc-mlir-python-bindings"])
    def test_mixed_distributions_are_named(self, site: Path, name: str) -> None:
        self.add(site, f"{name.replace('-', '_')}-22.1.8.4", "mlir/__init__.py,,\nmlir/ir.py,sha256=x,1")
        stderr = self.run(site, "import mlir._mlir_libs").stderr
        assert f"RuntimeWarning: mlir and {name} are installed in one environment" in stderr
        assert f"pip uninstall mlir {name}" in stderr

    def test_the_bindings_of_eudsl_and_of_conda_forge_are_known(self, site: Path, tmp_path: Path) -> None:
        in_conda = f"import sys; sys.prefix = {str(tmp_path)!r}; import mlir._mlir_libs"
        assert self.run(site, in_conda).stderr == ""
        meta = tmp_path / "conda-meta" / "mlir-python-bindings-21.1.8-py311h1234567_0.json"
        meta.parent.mkdir()
        meta.touch()
        assert "mlir and mlir-python-bindings are installed in one environment" in self.run(site, in_conda).stderr
        self.add(site, "mlir_python_bindings-20261101+abc", "mlir/ir.py,,")
        assert "pip uninstall mlir mlir-python-bindings" in self.run(site, "import mlir._mlir_libs").stderr


def test_the_files_for_old_pythons_compile_there() -> None:
    """The package's own files must run on the oldest CPython that any supported revision has: 3.9."""
    files = [*sorted((WHEEL / "mlir").rglob("*.py")), Path(installed.__file__)]
    assert len(files) == 5
    for file in files:
        ast.parse(file.read_text(), feature_version=(3, 9))
