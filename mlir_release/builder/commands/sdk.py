"""``mlir-release sdk``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.options import (
    EXISTING_FOLDER,
    PATH,
    ForeignCommand,
    forge_address_option,
    jobs_option,
    json_option,
    output_option,
    repository_option,
)
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk


@click.group()
def sdk() -> None:
    """Import or build an SDK: one relocatable tree of an LLVM revision, for one project."""


revision_option = click.option(
    "--revision", metavar="SHA", help="The llvm-project commit.  [default: the checkout's, or that of the release]"
)
epoch_option = click.option(
    "--source-epoch", type=int, metavar="SECONDS", help="That commit's time.  [default: the release's, or upstream's]"
)
#: The default is ``DEFAULT_PROJECT`` of ``model.projects``, which takes long to import.
project_option = click.option("--project", default="mlir", show_default=True, help="Whose wheels it is for.")


@sdk.command("import", cls=ForeignCommand, starts="the installed LLVM's programs, compilers")
@click.argument("prefix", type=EXISTING_FOLDER)
@click.option("--source", type=EXISTING_FOLDER, help="llvm-project's tree of the same version.  [default: fetched]")
@output_option("the SDK")
@revision_option
@epoch_option
@click.option("--other-patch", is_flag=True, help="Accept sources of another patch release of PREFIX's X.Y, for tests.")
@project_option
@json_option
def sdk_import(
    prefix: Path,
    source: Path | None,
    output: Path,
    revision: str | None,
    source_epoch: int | None,
    other_patch: bool,
    project: str,
) -> None:
    """Make an SDK of the LLVM that is installed at PREFIX (/usr/lib/llvm-22, Homebrew's, an unpacked release)."""
    from mlir_release.builder.sdk.components import SdkSpec
    from mlir_release.builder.sdk.importer import import_sdk
    from mlir_release.builder.sdk.port import recipe_of
    from mlir_release.builder.sdk.prefix import inspect_prefix
    from mlir_release.builder.sdk.provision import LLVM_PROJECT
    from mlir_release.builder.sdk.sources.releases import identify_revision
    from mlir_release.builder.sdk.sources.source import fetch_source
    from mlir_release.ground.storage.cache import cache_directory

    version = inspect_prefix(prefix, recipe_of(project).pieces.values()).version
    release = identify_revision(version, revision, source_epoch, source=source, upstream=LLVM_PROJECT)
    tree = fetch_source(release, cache=cache_directory(), directory=source, upstream=LLVM_PROJECT, project=project)
    made = import_sdk(
        prefix,
        source=tree.root,
        output=output,
        revision=release.commit,
        source_epoch=release.epoch,
        other_patch=other_patch,
        spec=SdkSpec(project=project),
    )
    _show(made)


@sdk.command("build", cls=ForeignCommand, starts="upstream's build, compilers")
@click.option("--source", type=EXISTING_FOLDER, help="All of llvm-project.  [default: fetched]")
@output_option("the SDK")
@revision_option
@epoch_option
@click.option("--configuration", default="release", show_default=True, help="release, or release+asserts.")
@click.option("--floor", default="", help="Oldest platform of its wheels: manylinux_2_28, …  [default: this machine]")
@click.option(
    "--regalloc-model", type=EXISTING_FOLDER, help="A learned eviction policy to compile in, as mlgo embed wrote it."
)
@click.option("--until", metavar="TARGET", help="Configure and build only this ninja target; keep the build tree.")
@project_option
@jobs_option
@repository_option
@json_option
def sdk_build(
    source: Path | None,
    output: Path,
    revision: str | None,
    source_epoch: int | None,
    regalloc_model: Path | None,
    until: str | None,
    jobs: int | None,
    repository: Path,
    **asked: Any,
) -> None:
    """Build LLVM with the project from the pinned source. Takes about 90 minutes on four cores, and can be resumed."""
    from mlir_release.builder.sdk.build import build_sdk, build_until, prepare
    from mlir_release.builder.sdk.components import SdkSpec
    from mlir_release.builder.sdk.provision import LLVM_PROJECT
    from mlir_release.builder.sdk.regalloc_model import ModelFolder
    from mlir_release.builder.sdk.sources.releases import identify_revision, release_at
    from mlir_release.builder.sdk.sources.source import fetch_source
    from mlir_release.ground.storage.cache import cache_directory
    from mlir_release.release.forge.checkout import pass_named_variables, read_pin

    pass_named_variables(repository)
    regalloc = ModelFolder.load(regalloc_model) if regalloc_model else None
    spec = SdkSpec(regalloc=regalloc, **asked)
    commit = revision or read_pin(repository)
    tree = fetch_source(
        release_at(commit),
        cache=cache_directory(),
        directory=source,
        upstream=LLVM_PROJECT,
        project=spec.project,
        whole=True,
    )
    epoch = identify_revision(tree.version, commit, source_epoch, source=source, upstream=LLVM_PROJECT).epoch
    build = prepare(tree.root, spec, output=output, source_epoch=epoch, jobs=jobs)
    if until is not None:
        build_until(build, until)
        console.result(f"built {until} in {build.root}", {"target": until, "tree": str(build.root)})
        return
    _show(build_sdk(build, revision=commit))


@sdk.command("provide", cls=ForeignCommand, starts="upstream's build, compilers")
@click.argument("tag", required=False)
@click.option(
    "--order", metavar="JSON", help="Instead of TAG: what a row of `matrix --kind platforms` orders; asks no forge."
)
@forge_address_option("With TAG: ")
@output_option("the SDK")
@click.option("--runtime", help="With TAG: one of targets.toml.  [default: the first that is for this machine]")
@click.option(
    "--budget", type=int, default=0, help="Minutes for a build from source, which then stops and can be resumed."
)
@jobs_option
@repository_option
@json_option
def sdk_provide(
    tag: str | None,
    order: str | None,
    forge: str | None,
    output: Path,
    runtime: str | None,
    budget: int,
    jobs: int | None,
    repository: Path,
) -> None:
    """Make the SDK of TAG's revision for this machine: imported where LLVM is packaged, else built from source.

    On a Linux that is newer than the runtime's floor it is built in a manylinux container. A build that reaches its
    --budget is not an error: the step output `finished` is false, and running the same command again resumes it.
    """
    from mlir_release.builder.model.orders import SdkOrder, read_orders
    from mlir_release.builder.sdk.progress import BudgetSpent
    from mlir_release.builder.sdk.provision import provide_pinned
    from mlir_release.ground.storage.cache import cache_directory
    from mlir_release.release.forge.checkout import pass_named_variables

    if (tag is None) == (order is None):
        raise click.UsageError("give either a TAG or --order")
    pass_named_variables(repository)
    if order is not None:
        wanted = read_orders(order, SdkOrder)
    else:  # what the plan of the release would order for this machine, after a check of the pin
        from mlir_release.ground.python.platforms import Platform
        from mlir_release.release.forge.open import open_forge
        from mlir_release.release.pinning.pinned import check_pinned
        from mlir_release.release.pinning.state import find_state, matrix_of

        place = open_forge(forge)
        state = find_state(place, tag or "")
        check_pinned(place, state)
        matrix = matrix_of(place, state)
        wanted = matrix.runtime(Platform.of_host(), runtime).order(matrix.release, state.revision)
    try:
        made = provide_pinned(
            wanted, cache=cache_directory(), repository=repository, budget=60.0 * budget or None, jobs=jobs
        )
    except BudgetSpent as error:
        console.output("finished", "false")
        console.result(str(error), {"finished": False})
        return
    copied = made.copy_to(output)
    console.output("finished", "true")
    _show(copied)


@sdk.command("show")
@click.argument("folder", type=PATH)
@click.option("--verify", is_flag=True, help="Also check the digest of every file.")
@json_option
def sdk_show(folder: Path, verify: bool) -> None:
    """Describe the SDK in FOLDER."""
    from mlir_release.builder.sdk.info import Sdk

    found = Sdk.load(folder)
    if verify:
        found.verify()
    _show(found)


@sdk.command("pack")
@click.argument("folder", type=EXISTING_FOLDER)
@output_option("the archives")
@json_option
def sdk_pack(folder: Path, output: Path) -> None:
    """Pack the SDK in FOLDER: one archive for what builds need, one for what tests need beyond that."""
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.sdk.packing import pack

    archives = pack(Sdk.load(folder), output)
    console.result("\n".join(map(str, archives)), {"archives": [str(archive) for archive in archives]})


@sdk.command("unpack")
@click.argument("archives", type=PATH, nargs=-1, required=True)
@output_option("the SDK")
@json_option
def sdk_unpack(archives: tuple[Path, ...], output: Path) -> None:
    """Unpack ARCHIVES of one SDK (or folders of them) into one folder, verifying every file."""
    from mlir_release.builder.sdk.packing import unpack

    _show(unpack(archives, output))


@sdk.command("wheel", cls=ForeignCommand, starts="the SDK's programs")
@click.argument("folder", type=EXISTING_FOLDER)
@click.option("--version", default="20200101.dev0", show_default=True, help="Version of the wheels.")
@output_option("the wheels")
@json_option
def sdk_wheel(folder: Path, version: str, output: Path) -> None:
    """Make the wheels of the SDK in FOLDER: of MLIR's, mlir-sdk, mlir-sdk-tools and mlir-test-tools.

    Downstream projects build against the first; the others have its programs: all of them, or FileCheck, count, not
    and split-file alone.
    """
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.wheels.port import sdk_wheels_of
    from mlir_release.ground.llvm.projects import find_project

    sdk = Sdk.load(folder)
    made = sdk_wheels_of(find_project(sdk.info.project)).pack_all(sdk, version, output=output)
    console.result("\n".join(map(str, made.values())), {name: str(path) for name, path in made.items()})


def _show(found: Sdk) -> None:
    from mlir_release.builder.sdk.importer import describe
    from mlir_release.ground.documents.decode import parse_json

    console.table(["", ""], describe(found), title=str(found.root))
    console.result("", {"root": str(found.root), **parse_json(found.info.to_json())})
