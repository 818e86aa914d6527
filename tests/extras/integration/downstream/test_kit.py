"""The kit is written whole or not at all; its files are tried with the tools that they are for."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from functools import partial
from importlib import resources
from pathlib import Path
from typing import get_args

import pytest
from msgspec import structs

from mlir_release.extras.downstream.kit import LLVM_PIN, KitOptions, make_kit, write_kit
from mlir_release.extras.downstream.pin import Kind, make_pin
from mlir_release.ground.python import venv
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.storage.files import write_all
from mlir_release.integrate.config import load_config
from mlir_release.release.instructions.install_snippets import explicit_index
from mlir_release.release.model.manifest import Manifest
from mlir_release.release.model.stack import CarriedCommit, CarriedStack
from tests.extras.integration.downstream.conftest import NAME, DownstreamStage
from tests.refusals import refused
from tests.revision_factory import FACTS
from tests.serving import serve
from tests.wheel_factory import PYTHON, REVISION, TAG, VERSION, make_wheel

ROOT = Path(__file__).parents[4]
KINDS = get_args(Kind)

#: A build backend without requirements: its wheel tells the version of what it was built with.
BACKEND = """
import zipfile
from importlib.metadata import version

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "example_dialect-0.1-py3-none-any.whl"
    info = "example_dialect-0.1.dist-info"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.writestr("built_with.txt", version(DISTRIBUTION))
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: example-dialect\\nVersion: 0.1\\n" + REQUIRES)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""


def run(site: DownstreamStage, directory: Path, *command: str | Path, **environment: str) -> str:
    """What a tool prints that ends well, where nothing but the pages and a stand-in for PyPI can be reached."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
    indexes = {"UV_DEFAULT_INDEX": site.main_index, "PIP_INDEX_URL": site.main_index, "PIP_NO_CACHE_DIR": "1"}
    done = subprocess.run(
        [*map(str, command)],
        cwd=directory,
        env=inherited | indexes | {"UV_CACHE_DIR": str(site.pages.parent / "uv-cache")} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def program(name: str) -> Path:
    """A program of the tests' environment."""
    return Path(sys.executable).with_name(name)


def use_backend(directory: Path, kind: Kind) -> str:
    """Replace scikit-build-core, which is on no index here, by :data:`BACKEND`; the distribution that it looks at."""
    path = directory / "pyproject.toml"
    content = path.read_text()
    project = tomllib.loads(content)
    distribution = "mlir" if kind == "extension" else "mlir-sdk"
    requires = "".join(f"Requires-Dist: {each}\n" for each in project["project"].get("dependencies", []))
    (directory / "backend.py").write_text(f"DISTRIBUTION = {distribution!r}\nREQUIRES = {requires!r}\n{BACKEND}")
    content = content.replace('"scikit-build-core>=0.11", ', "")
    content = content.replace('"scikit_build_core.build"', '"backend"\nbackend-path = ["."]')
    path.write_text(content)
    return distribution


def install_as_tested(site: DownstreamStage, project: Path) -> str:
    """Build an extension and install it with what it needs, as cibuildwheel's test does; the tag of its ``mlir``."""
    run(site, project, program("uv"), "build", "--wheel", "--python", sys.executable, "-o", "by-uv")
    wheel = next((project / "by-uv").glob("*.whl"))
    settings = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["cibuildwheel"]["test-environment"]
    run(site, project, program("uv"), "pip", "install", "--target", "unpacked", wheel, **settings)
    return str(json.loads((project / "unpacked" / "mlir" / "_release.json").read_text())["tag"])


@pytest.mark.parametrize("kind", KINDS)
def test_uv_locks_and_installs_exactly_the_pinned_release(site: DownstreamStage, tmp_path: Path, kind: Kind) -> None:
    site.publish("snapshot-20261121.01", "20261121.1", sdk=True)  # newer, and not wanted
    written = site.kit(tmp_path / NAME, kind)
    assert (written.pin, written.to_add) == ("20261120.02", "")
    project = tmp_path / NAME
    run(site, project, program("uv"), "lock")
    locked = tomllib.loads((project / "uv.lock").read_text())["package"]
    mine = {package["name"]: package for package in locked if package["name"] != NAME}
    assert sorted(mine) == (["mlir"] if kind == "extension" else ["mlir-sdk", "mlir-sdk-tools"])
    for package in mine.values():
        assert package["version"] == VERSION
        assert all(f"/{TAG}/" in wheel["url"] and wheel["hash"] for wheel in package["wheels"])
    run(site, project, program("uv"), "sync", "--locked", "--no-install-project", "--python", sys.executable)
    listed = json.loads(run(site, project, program("uv"), "pip", "list", "--format", "json"))
    assert {row["name"]: row["version"] for row in listed} == dict.fromkeys(mine, VERSION)


def test_by_the_lines_of_the_pages_uv_locks_the_newest_version_that_has_every_platform(
    site: DownstreamStage, tmp_path: Path
) -> None:
    """Without a word of the platforms it would take the newest, which serves Linux alone."""
    index, platforms = tmp_path / "index" / "simple" / "mlir", ("manylinux_2_28_x86_64", "win_amd64")
    for version, has in (("20261121.1", platforms), ("20261122.1", platforms[:1])):
        for platform in has:
            make_wheel(index, version=version, platform=platform)
    (index / "index.html").write_text("".join(f'<a href="{path.name}">x</a>' for path in index.iterdir()))
    found = {}
    for case, served in (("all", platforms), ("one", platforms[:1])):
        (tmp_path / case).mkdir()
        with serve(index.parents[1]) as pages:
            known = [PlatformTag.parse(tag).platform for tag in served]
            lines = explicit_index(f"{pages.url}/simple/", "mlir", "mlir", known)
            head = f'[project]\nname = "x"\nversion = "1"\nrequires-python = ">={CPython.of_tag(PYTHON).version}"\n'
            (tmp_path / case / "pyproject.toml").write_text(f'{head}dependencies = ["mlir>=22.1"]\n{lines}\n')
            run(site, tmp_path / case, program("uv"), "lock")
        locked = tomllib.loads((tmp_path / case / "uv.lock").read_text())["package"]
        found[case] = next(package["version"] for package in locked if package["name"] == "mlir")
    assert found == {"all": "20261121.1", "one": "20261122.1"}


def test_a_numbered_release_is_pinned_by_its_version_alone(site: DownstreamStage, tmp_path: Path) -> None:
    for tag, version in (("llvm-22.1.8.01", "22.1.8"), ("llvm-22.1.9.01", "22.1.9")):
        site.publish(tag, version)
    written = site.kit(tmp_path / NAME, "extension", tag="llvm-22.1.8.01")
    assert written.pin == "22.1.8"
    run(site, tmp_path / NAME, program("uv"), "lock")
    locked = tomllib.loads((tmp_path / NAME / "uv.lock").read_text())["package"]
    (package,) = (package for package in locked if package["name"] == "mlir")
    assert package["version"] == "22.1.8"
    assert package["source"] == {"registry": f"{site.base}/releases/simple/"}
    use_backend(tmp_path / NAME, "extension")
    assert install_as_tested(site, tmp_path / NAME) == "llvm-22.1.8.01"
    assert (tmp_path / NAME / "unpacked" / "built_with.txt").read_text() == "22.1.8"


@pytest.mark.parametrize("kind", KINDS)
def test_constrained_pip_builds_with_the_pinned_release(site: DownstreamStage, tmp_path: Path, kind: Kind) -> None:
    site.kit(tmp_path / NAME, kind)
    project = tmp_path / NAME
    distribution = use_backend(project, kind)
    python = venv.create(tmp_path / "environment", Path(sys.executable), pip=True).python
    suffix = "" if kind == "extension" else f"-{distribution}"
    constraints = f"{site.base}/snapshots/{TAG}/requirements-{TAG}{suffix}.txt"
    assert f"# {constraints}\n" in (project / "pyproject.toml").read_text()
    pinned = {"PIP_CONSTRAINT": constraints, "PIP_BUILD_CONSTRAINT": constraints}
    run(site, project, python, "-m", "pip", "install", "--target", "by-pip", ".", **pinned)
    assert (project / "by-pip" / "built_with.txt").read_text() == VERSION
    if kind == "extension":
        assert json.loads((project / "by-pip" / "mlir" / "_release.json").read_text())["tag"] == TAG


@pytest.mark.parametrize("kind", KINDS)
def test_cibuildwheel_reads_the_project_and_selects_its_builds(
    site: DownstreamStage, tmp_path: Path, kind: Kind
) -> None:
    site.kit(tmp_path / NAME, kind)
    options = ("--platform", "linux", "--archs", "x86_64", "--print-build-identifiers")
    found = run(site, tmp_path / NAME, program("cibuildwheel"), *options).split()
    tags = ["cp310"] if kind == "extension" else ["cp310", PYTHON]
    assert found == [f"{tag}-manylinux_x86_64" for tag in tags]
    table = tomllib.loads((tmp_path / NAME / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    (tmp_path / "options.json").write_text(json.dumps(table))
    # The library of mlir's wheel has other names in older releases, which the pin may move from, or back to.
    for words in (shlex.split(table[name]["repair-wheel-command"]) for name in ("linux", "macos") if name in table):
        pattern = f"*{words[words.index('--exclude') + 1]}*"
        assert all(fnmatch(f"libMLIRPythonCAPI{end}", pattern) for end in (".so", "-mlir_release.so", ".dylib"))
    schema = resources.files("cibuildwheel") / "resources" / "cibuildwheel.schema.json"
    run(site, tmp_path, program("check-jsonschema"), "--schemafile", str(schema), "options.json")


@pytest.fixture
def published_kit(site: DownstreamStage, tmp_path: Path) -> Path:
    """The whole kit of a release on GitHub, in a folder."""
    path = site.pages / "snapshots" / TAG / "release.json"
    manifest = Manifest.from_text(path.read_bytes(), where=str(path))
    pin = make_pin(manifest, name=NAME, kind="bundle", repository="https://github.com/llvm/mlir-wheels")
    assert pin.index == f"https://llvm.github.io/mlir-wheels/snapshots/{TAG}/"
    write_all(tmp_path / "kit", make_kit(pin, smoke="build_tools/smoke.sh"))
    return tmp_path / "kit"


def test_workflows_and_configurations_pass_the_checks_of_our_own(site: DownstreamStage, published_kit: Path) -> None:
    folder = published_kit / ".github"
    workflows = sorted((folder / "workflows").iterdir())
    assert [path.name for path in workflows] == ["llvm.yml", "wheels.yml"]
    run(site, published_kit, program("zizmor"), "--quiet", "--offline", "--persona=auditor", ".")
    subprocess.run(["git", "init", "--quiet", published_kit], check=True)  # actionlint looks for a repository
    actionlint = run(site, ROOT, sys.executable, "tools/go_tool.py", "actionlint").strip()
    run(site, published_kit, actionlint, *workflows)
    for schema, paths in (
        ("vendor.github-workflows", workflows),
        ("vendor.dependabot", [folder / "dependabot.yml"]),
        ("vendor.renovate", [published_kit / "renovate.json"]),
    ):
        run(site, published_kit, program("check-jsonschema"), "--builtin-schema", schema, *paths)


def test_a_project_with_patches_uses_the_release_of_its_pin(site: DownstreamStage, tmp_path: Path) -> None:
    path = site.pages / "snapshots" / TAG / "release.json"
    manifest = Manifest.from_text(path.read_bytes(), where=str(path))
    row = CarriedCommit(commit=manifest.revision, subject="A patch", kind="local")
    stack = CarriedStack(upstream="https://github.com/llvm/llvm-project.git", base="b" * 40, commits=(row,))
    wheels = tuple(
        structs.replace(each, distribution="acme-mlir", filename=f"acme_{each.filename}")
        for each in manifest.wheels
        if each.distribution == "mlir"
    )
    fork = "https://github.com/acme/llvm-project.git"
    patched = structs.replace(manifest, stack=stack, wheels=wheels, main="acme-mlir", upstream=fork)
    pin = make_pin(patched, name=NAME, kind="extension", repository="https://github.com/acme/releases")
    kit = make_kit(pin, smoke="build_tools/smoke.sh", branch="acme-carried")
    write_all(tmp_path / "kit", kit)
    (table,) = load_config(tmp_path / "kit").upstreams
    assert table.export is not None
    assert (table.url, table.export.remote, table.export.branch) == (stack.upstream, fork, "acme-carried")
    assert tomllib.loads(kit["pyproject.toml"])["project"]["dependencies"] == [f"acme-mlir=={pin.text}"]
    workflow = kit[".github/workflows/llvm-wheels.yml"]
    assert "secrets." not in workflow
    assert f"acme/releases/actions/setup-mlir@{manifest.commit}" in workflow
    run(site, tmp_path / "kit", program("zizmor"), "--quiet", "--offline", "--persona=auditor", ".")
    place = tmp_path / "kit/.github/workflows/llvm-wheels.yml"
    run(site, tmp_path, program("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", str(place))


def test_the_integrate_begins_at_the_releases_commit_with_the_documented_workflow(published_kit: Path) -> None:
    config = load_config(published_kit)
    assert config.smoke.argv == ("build_tools/smoke.sh",)
    assert [upstream.carrier for upstream in config.upstreams] == [LLVM_PIN]
    assert (published_kit / LLVM_PIN).read_text() == f"{REVISION}\n"

    def lines(text: str) -> list[str]:
        return [line for line in text.splitlines() if "uses:" not in line]

    guide = (ROOT / "docs" / "integrate.md").read_text(encoding="utf-8")
    documented = guide.partition("```yaml\n")[2].partition("```")[0]
    assert lines((published_kit / ".github" / "workflows" / "llvm.yml").read_text()) == lines(documented)


# -- what is written ------------------------------------------------------------------------------------------------


FILES = (".github/dependabot.yml", ".github/workflows/wheels.yml", "pyproject.toml", "renovate.json")


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_the_same_release_gives_the_same_files_and_one_has_the_pin(site: DownstreamStage, tmp_path: Path) -> None:
    first, second = tmp_path / "first" / NAME, tmp_path / "second" / NAME
    assert sorted(site.kit(first, "extension", name="").written) == list(FILES)
    site.kit(second, "extension", name="")
    assert files(first) == files(second)
    pyproject = files(first)["pyproject.toml"]
    assert f'name = "{NAME}"' in pyproject
    assert pyproject.count("20261120.02") - pyproject.count(TAG) == 3  # the comment, to build with, to run with
    assert "20261120.2" not in pyproject


def test_files_that_are_there_are_listed_together_and_nothing_is_written(site: DownstreamStage, tmp_path: Path) -> None:
    (tmp_path / "kit" / ".github").mkdir(parents=True)
    for name in ("renovate.json", ".github/dependabot.yml"):
        (tmp_path / "kit" / name).write_text("mine")
    before = files(tmp_path / "kit")
    error = refused(lambda: site.kit(tmp_path / "kit", "extension"), "output-in-the-way")
    assert all(name in error.what for name in before)
    assert files(tmp_path / "kit") == before


def test_a_pyproject_that_is_there_is_kept_and_what_it_lacks_is_shown(site: DownstreamStage, tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "pyproject.toml").write_text("[project]\nname = 'mine'\n")
    written = site.kit(tmp_path / "kit", "bundle")
    assert (tmp_path / "kit" / "pyproject.toml").read_text() == "[project]\nname = 'mine'\n"
    assert sorted(written.written) == [name for name in FILES if name != "pyproject.toml"]
    assert 'requires = ["scikit-build-core>=0.11", "mlir-sdk==20261120.02"]' in written.text()


def test_a_bundle_is_built_with_what_the_bindings_of_its_llvm_are(site: DownstreamStage, tmp_path: Path) -> None:
    site.publish("snapshot-20261121.01", "20261121.1", sdk=True, facts=FACTS)
    requires = {}
    for kind in get_args(Kind):
        site.kit(tmp_path / kind, kind, tag="snapshot-20261121.01")
        pyproject = tomllib.loads((tmp_path / kind / "pyproject.toml").read_text())
        requires[kind] = pyproject["build-system"]["requires"][1:]
    needed = ["nanobind>=2.9, <3.0", "typing_extensions>=4.12.2"]
    assert requires == {"extension": ["mlir==20261121.01"], "bundle": ["mlir-sdk==20261121.01", *needed]}


def test_what_could_not_be_written_whole_is_removed(site: DownstreamStage, tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / ".github").write_text("a file where a folder is needed")
    refused(lambda: site.kit(tmp_path / "kit", "extension"), "system-refused")
    assert list(files(tmp_path / "kit")) == [".github"]


def test_a_draft_a_release_without_an_sdk_and_wrong_arguments_are_refused(
    site: DownstreamStage, tmp_path: Path
) -> None:
    site.stage.add_tag("snapshot-20261125.01", "20261125.1")
    site.publish("snapshot-20261121.01", "20261121.1")
    kit = partial(site.kit, tmp_path / "kit", "bundle")
    refused(partial(kit, tag="snapshot-20261125.01"), "release-not-published")
    refused(partial(kit, tag="snapshot-20261121.01"), "release-unsuitable")
    refused(partial(kit, name="-x-"), "option-invalid")
    refused(partial(kit, smoke="make check"), "needs-github")  # it calls a workflow
    asked = KitOptions(tag=TAG, kind="bundle", name=NAME)
    error = refused(lambda: write_kit(site.stage.forge, tmp_path / "kit", asked), "option-invalid")
    assert error.what == "where are the pages?"
    assert not (tmp_path / "kit").exists()


def test_a_pin_of_latest_good_follows_that_channel(site: DownstreamStage, tmp_path: Path) -> None:
    site.publish("snapshot-20261121.01", "20261121.1")
    site.yank("snapshot-20261121.01")
    assert site.kit(tmp_path / "good", "extension", tag="latest-good").tag == TAG
    site.kit(tmp_path / "tag", "extension")
    good, tag = (json.loads(files(tmp_path / name)["renovate.json"]) for name in ("good", "tag"))
    followed = good["customDatasources"]["mlir"]
    assert followed["defaultRegistryUrlTemplate"] == f"{site.base}/index.json"
    assert "channels.`latest-good`" in followed["transformTemplates"][0]
    assert {**good, "customDatasources": None} == {**tag, "customDatasources": None}
