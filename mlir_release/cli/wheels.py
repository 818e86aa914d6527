"""SDKs and wheels: import, build, inspect, test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.common import forge_option, json_option
from mlir_release.cli.repository import REPOSITORY, read_matrix
from mlir_release.console import console, format_bytes, format_seconds
from mlir_release.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge
    from mlir_release.sdk.model import Sdk
    from mlir_release.wheels.inspect import WheelReport

FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
FILE = click.Path(path_type=Path)
JOBS = click.option("-j", "--jobs", type=int, help="Cores to use.  [default: all]")

# -- sdk ---------------------------------------------------------------------------------------------------------------


@click.group()
def sdk() -> None:
    """Import or build an SDK: one relocatable tree of an LLVM+MLIR revision."""


REVISION = click.option(
    "--revision", metavar="SHA", help="The llvm-project commit.  [default: what the catalogue says of the version]"
)
EPOCH = click.option(
    "--source-epoch", type=int, metavar="SECONDS", help="That commit's time.  [default: the catalogue's date of it]"
)
OUTPUT = click.option("-o", "--output", type=FILE, required=True, help="Folder of the SDK.")


def _identify(version: str, revision: str | None, source_epoch: int | None) -> tuple[str, int]:
    """The commit and its time; the catalogue's where they are not given."""
    from mlir_release.sdk.source import choose_release, read_catalogue

    if revision is None:
        known = choose_release([version])
    else:
        known = next((release for release in read_catalogue() if release.commit == revision), None)  # type: ignore[assignment]
        if known is None and source_epoch is None:
            raise UsageError(
                "source-epoch-missing",
                f"the time of commit {revision} is not known",
                why="it becomes SOURCE_DATE_EPOCH of the wheels; the catalogue has it for releases only",
                remedy="give it with --source-epoch (git log -1 --format=%ct)",
            )
    return revision or known.commit, source_epoch if source_epoch is not None else known.epoch


@sdk.command("import")
@click.argument("prefix", type=FOLDER)
@click.option("--source", type=FOLDER, help="llvm-project's tree of the same version.  [default: fetched]")
@OUTPUT
@REVISION
@EPOCH
@json_option
def sdk_import(prefix: Path, source: Path | None, output: Path, revision: str | None, source_epoch: int | None) -> None:
    """Make an SDK of the LLVM that is installed at PREFIX (/usr/lib/llvm-22, Homebrew's, an unpacked release)."""
    from mlir_release.cache import cache_directory
    from mlir_release.sdk.importer import import_sdk
    from mlir_release.sdk.prefix import inspect_prefix
    from mlir_release.sdk.provision import LLVM_PROJECT
    from mlir_release.sdk.source import fetch_source

    commit, epoch = _identify(inspect_prefix(prefix).version, revision, source_epoch)
    tree = fetch_source(commit, cache=cache_directory(), directory=source, upstream=LLVM_PROJECT)
    _show(import_sdk(prefix, source=tree.root, output=output, revision=commit, source_epoch=epoch))


@sdk.command("build")
@click.option("--source", type=FOLDER, help="All of llvm-project.  [default: fetched]")
@OUTPUT
@REVISION
@EPOCH
@click.option("--configuration", default="release", show_default=True, help="release, or release+asserts.")
@click.option("--until", metavar="TARGET", help="Configure and build only this ninja target; keep the build tree.")
@JOBS
@REPOSITORY
@json_option
def sdk_build(
    source: Path | None,
    output: Path,
    revision: str | None,
    source_epoch: int | None,
    configuration: str,
    until: str | None,
    jobs: int | None,
    repository: Path,
) -> None:
    """Build LLVM and MLIR from the pinned source; about 90 minutes on four cores, and it can be resumed."""
    from mlir_release.cache import cache_directory
    from mlir_release.pin import read_pin
    from mlir_release.sdk.build import build_sdk, build_until
    from mlir_release.sdk.provision import LLVM_PROJECT
    from mlir_release.sdk.source import fetch_source

    commit = revision or read_pin(repository)
    tree = fetch_source(commit, cache=cache_directory(), directory=source, upstream=LLVM_PROJECT, whole=True)
    commit, epoch = _identify(tree.version, commit, source_epoch)
    if until is not None:
        built = build_until(tree.root, until, output=output, source_epoch=epoch, configuration=configuration, jobs=jobs)
        console.result(f"built {until} in {built.root}", {"target": until, "tree": str(built.root)})
        return
    _show(
        build_sdk(tree.root, output=output, revision=commit, source_epoch=epoch, configuration=configuration, jobs=jobs)
    )


@sdk.command("provide")
@click.argument("tag")
@forge_option
@OUTPUT
@click.option("--budget", type=int, default=0, help="Minutes for a build from source; then it stops, to be resumed.")
@JOBS
@json_option
def sdk_provide(tag: str, forge: Forge, output: Path, budget: int, jobs: int | None) -> None:
    """Make the SDK of TAG's revision for this machine: imported where LLVM is packaged, else built from source.

    A build whose time is up is no error: the step output `finished` is false, and the same command goes on.
    """
    from mlir_release.cache import cache_directory
    from mlir_release.publish.draft import origin_of
    from mlir_release.repository import matrix_at
    from mlir_release.revision import Upstream
    from mlir_release.sdk.build import BudgetSpent
    from mlir_release.sdk.provision import provide_for

    origin = origin_of(forge, tag)
    config = matrix_at(forge, origin.commit).release
    revision = Upstream(config.upstream, branch=config.upstream_branch).resolve(origin.revision)
    try:
        made = provide_for(revision, cache=cache_directory(), budget=60.0 * budget or None, jobs=jobs)
    except BudgetSpent as error:
        console.output("finished", "false")
        console.result(str(error), {"finished": False})
        return
    copied = made.copy_to(output)
    console.output("finished", "true")
    _show(copied)


@sdk.command("show")
@click.argument("folder", type=FILE)
@click.option("--verify", is_flag=True, help="Hash every file, too.")
@json_option
def sdk_show(folder: Path, verify: bool) -> None:
    """Describe the SDK in FOLDER."""
    from mlir_release.sdk.model import Sdk

    found = Sdk.load(folder)
    if verify:
        found.verify()
    _show(found)


def _show(found: Sdk) -> None:
    import json

    from mlir_release.sdk.importer import describe

    if console.json_mode:
        console.result("", {"root": str(found.root), **json.loads(found.info.to_json())})
    else:
        console.table(["", str(found.root)], describe(found))


# -- wheels ------------------------------------------------------------------------------------------------------------


@click.group()
def wheels() -> None:
    """Build, inspect and test wheels of the MLIR Python bindings."""


SDK = click.option("--sdk", "sdk_folder", type=FILE, required=True, help="Folder of the SDK.")
PYTHONS = click.option("--python", "pythons", multiple=True, help="Version or path of a CPython; may be repeated.")


@wheels.command("build")
@SDK
@PYTHONS
@click.option("--llvm", default="mlir", show_default=True, help="The LLVM configuration in targets.toml.")
@click.option(
    "--tag", help="The release tag that the wheels are for.  [default: a version of today that is no release]"
)
@click.option("-o", "--output", type=FILE, default=Path("dist"), show_default=True, help="Folder of the wheels.")
@click.option("--backend", type=click.Choice(["auto", "cibuildwheel", "build"]), default="auto", show_default=True,
              help="cibuildwheel works in a manylinux container; build on this machine.")  # fmt: skip
@click.option("--forge", "forge_address", metavar="ADDRESS", help="With --tag: where the tag is.")
@JOBS
@REPOSITORY
@json_option
def wheels_build(
    sdk_folder: Path,
    pythons: tuple[str, ...],
    llvm: str,
    tag: str | None,
    output: Path,
    backend: Any,
    forge_address: str | None,
    jobs: int | None,
    repository: Path,
) -> None:
    """Build one wheel a CPython, several side by side."""
    from packaging.version import Version

    from mlir_release.sdk.model import Sdk
    from mlir_release.wheels.build import build_wheels, find_pythons
    from mlir_release.wheels.request import WheelRequest

    found = Sdk.load(sdk_folder)
    if tag is None:
        name, version, revision, matrix = (
            "local",
            Version("20200101.dev0"),
            found.info.revision,
            read_matrix(repository),
        )
    else:
        from mlir_release.cli.common import resolve_forge
        from mlir_release.publish.draft import origin_of
        from mlir_release.repository import matrix_at

        forge = resolve_forge(forge_address)
        origin = origin_of(forge, tag)
        name, version, revision = tag, Version(origin.version), origin.revision
        matrix = matrix_at(forge, origin.commit)
    fitting = [w for w in matrix.wheels if w.configuration.name == llvm and w.runtime.name == found.info.platform]
    if not fitting:
        raise UsageError(
            "target-unknown",
            f"no target has llvm={llvm} and runtime={found.info.platform}",
            remedy="mlir-release matrix shows all targets",
        )
    first = fitting[0]
    interpreters = find_pythons(pythons or [_plain(wheel.python) for wheel in fitting])
    request = WheelRequest(
        distribution=first.distribution,
        profile=first.profile,
        version=version,
        tag=name,
        target=first.name,
        revision=revision,
        sdk=found,
        floor=f"{first.runtime.floor}_{first.runtime.arch}" if first.runtime.os == "linux" else first.runtime.floor,
    )
    built = build_wheels(request, interpreters, output=output, backend=backend, jobs=jobs)
    if console.json_mode:
        rows = [
            {"file": str(w.path), "wall_seconds": round(w.wall_seconds, 2), "cpu_seconds": round(w.cpu_seconds, 2)}
            for w in built
        ]
        console.result("", rows)
        return
    console.table(
        ["wheel", ">size", ">wall", ">CPU"],
        [
            [
                wheel.path.name,
                format_bytes(wheel.path.stat().st_size),
                format_seconds(wheel.wall_seconds),
                format_seconds(wheel.cpu_seconds),
            ]
            for wheel in built
        ],
    )


def _plain(tag: str) -> str:
    from mlir_release.targets import python_version

    return python_version(tag)


@wheels.command("stage")
@SDK
@click.option(
    "--profile",
    type=click.Choice(["host", "core", "full"]),
    default="host",
    show_default=True,
    help="What is linked in: mlir, mlir-core or mlir-full.",
)
@click.option("--version", "version_text", default="20200101.dev0", show_default=True, help="Version of the wheels.")
@click.option("-o", "--output", type=FILE, required=True, help="Folder of the project.")
@json_option
def wheels_stage(sdk_folder: Path, profile: Any, version_text: str, output: Path) -> None:
    """Write the wheel project for an SDK, for `python -m build` by hand (wheel or source distribution)."""
    from packaging.version import Version

    from mlir_release.sdk.model import Sdk
    from mlir_release.wheels.request import WheelRequest
    from mlir_release.wheels.stage import stage

    found = Sdk.load(sdk_folder)
    names = {"host": "mlir", "core": "mlir-core", "full": "mlir-full"}
    request = WheelRequest(
        distribution=names[profile],
        profile=profile,
        version=Version(version_text),
        tag="local",
        target=f"{names[profile]}-{found.info.platform}",
        revision=found.info.revision,
        sdk=found,
    )
    project = stage(request, output)
    console.result(f"MLIR_RELEASE_SDK={found.root} python -m build {project}", {"project": str(project)})


@wheels.command("inspect")
@click.argument("wheel", type=FILE)
@click.option("--files", is_flag=True, help="List every file.")
@json_option
def wheels_inspect(wheel: Path, files: bool) -> None:
    """Say what is in WHEEL, how large it is, what it needs, and whether its tags are true."""
    from mlir_release.wheels.inspect import inspect

    report = inspect(wheel)
    if console.json_mode:
        console.result("", report.as_json())
    else:
        _show_wheel(report, files=files)
    if report.problems:
        click.get_current_context().exit(int(ExitCode.VERIFICATION))


def _show_wheel(report: WheelReport, *, files: bool) -> None:
    release = report.release or {}
    console.table(
        ["", report.filename],
        [
            ["size", f"{format_bytes(report.size)}, {format_bytes(report.unpacked_size)} installed"],
            ["sha256", report.sha256],
            ["distribution", f"{report.distribution} {report.version}"],
            ["requires", ", ".join([f"Python {report.requires_python}", *report.requires_dist])],
            ["tags", ", ".join(report.tags)],
            ["true platform tag", report.true_platform_tag],
            ["needs of the system", ", ".join(report.system)],
            ["needs and lacks", ", ".join(report.external) or "nothing"],
            *([key, str(value)] for key, value in sorted(release.items()) if key != "schema"),
        ],
    )
    console.table(
        ["part", ">files", ">compressed", ">installed"],
        [[part.name, part.files, format_bytes(part.compressed), format_bytes(part.size)] for part in report.parts],
    )
    if files:
        console.table(
            ["file", ">compressed", ">installed"],
            [[file.name, format_bytes(file.compressed), format_bytes(file.size)] for file in report.files],
        )
    for problem in report.problems:
        click.echo(f"problem[{problem.id}]: {problem.message}")


@wheels.command("test")
@click.argument("wheel", type=FILE, required=False)
@SDK
@click.option("--python", help="The CPython to test with.  [default: the wheel's, found on this machine]")
@click.option(
    "--suite",
    "suites",
    multiple=True,
    type=click.Choice(["smoke", "bindings", "regression"]),
    help="May be repeated.  [default: smoke and bindings; regression needs no wheel]",
)
@click.option("--addon", type=FILE, help="Wheel of test-only parts.  [default: built from the SDK]")
@click.option("--target", help="The test target's name in the report.  [default: made of suite and wheel]")
@click.option("--reports", type=FILE, help="Folder that the reports (JSON, JUnit XML) are written to.")
@click.option("--workdir", type=FILE, default=Path("build") / "tests", show_default=True, help="Logs and environments.")
@json_option
def wheels_test(
    wheel: Path | None,
    sdk_folder: Path,
    python: str | None,
    suites: tuple[str, ...],
    addon: Path | None,
    target: str | None,
    reports: Path | None,
    workdir: Path,
) -> None:
    """Test WHEEL in an empty environment; compare with the list of known failures, strictly."""
    from mlir_release.sdk.model import Sdk
    from mlir_release.wheels.run import run_suites

    chosen = suites or (("smoke", "bindings") if wheel is not None else ("regression",))
    found = run_suites(
        wheel, sdk=Sdk.load(sdk_folder), python=python, suites=chosen, addon=addon, target=target or "", workdir=workdir
    )
    for report in found:
        if reports is not None:
            report.write(reports)
            report.write_junit(reports)
        console.summary(report.markdown())
        if not console.json_mode:
            click.echo(report.markdown())
    if console.json_mode:
        console.result("", [report.as_json() for report in found])
    if not all(report.passed for report in found):
        click.get_current_context().exit(int(ExitCode.VERIFICATION))
