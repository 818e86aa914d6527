"""``mlir-release wheels``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlir_release.builder.commands.wheels_test import wheels_test
from mlir_release.cli.options import (
    PATH,
    ForeignCommand,
    budget_option,
    forge_address_option,
    forge_option,
    jobs_option,
    json_option,
    output_option,
    pythons_option,
    repository_option,
    sdk_option,
    signed_by_options,
)
from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.builder.model.wheel_info import WheelInfo
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.wheels.inspect import WheelReport
    from mlir_release.builder.wheels.request import WheelRequest
    from mlir_release.release.forge.base import Forge


@dataclass(frozen=True, kw_only=True)
class ByHand:
    """Which wheels a person asks for; a job of a release has orders instead."""

    pythons: tuple[str, ...]
    llvm: str
    tag: str | None
    forge: str | None
    runtime: str | None
    tools: Path | None
    target_python: Path | None
    test_addon: bool

    def request(self, sdk: Sdk, repository: Path) -> tuple[WheelRequest, Sequence[str]]:
        """What is to be built, and for which CPythons: of the tag's matrix, or of the checkout's."""
        from mlir_release.builder.wheels.request import WheelRequest
        from mlir_release.release.forge.checkout import matrix_of_checkout
        from mlir_release.release.forge.open import open_forge
        from mlir_release.release.model.wheel_target import common_target
        from mlir_release.release.pinning.state import find_state, matrix_of

        if self.tag is None:
            matrix, release = matrix_of_checkout(repository), {}
        else:
            place = open_forge(self.forge)
            state = find_state(place, self.tag)
            matrix, release = matrix_of(place, state), state.of_release
        targets = matrix.for_platform(sdk.info.platform, configuration=self.llvm, runtime=self.runtime).wheels
        pythons = self.pythons or [target.python.version for target in targets if target.python]
        return WheelRequest.of_order(common_target(targets).order(**release), sdk, repository), pythons


@click.group()
def wheels() -> None:
    """Build, inspect and test wheels of MLIR's Python bindings, and of other projects of LLVM."""


wheels.add_command(wheels_test)


@wheels.command("build", cls=ForeignCommand, starts="upstream's build, build backends")
@sdk_option
@pythons_option("to build for", default="those of the targets")
@click.option("--llvm", default="mlir", show_default=True, help="The LLVM configuration in targets.toml.")
@click.option(
    "--orders",
    metavar="JSON",
    help="Build these targets, each into a folder of its name; a row of `matrix --kind platforms` has them.",
)
@budget_option
@click.option("--tag", help="The release that the wheels are for.  [default: none; a development version]")
@output_option("the wheels", default=Path("dist"))
@click.option(
    "--backend",
    type=click.Choice(["auto", "cibuildwheel", "build"]),
    default="auto",
    show_default=True,
    help="cibuildwheel builds in a manylinux container; build, on this machine. Auto: cibuildwheel; where containers "
    "can't be run, build, with a note, but never with --orders.",
)
@click.option("--runtime", help="The runtime that the wheels are for.  [default: the first for the SDK's platform]")
@click.option("--tools", type=PATH, help="To cross-compile: an SDK of the same LLVM for this machine.")
@click.option("--target-python", type=PATH, help="To cross-compile: prefix of a CPython of the other platform.")
@click.option("--test-addon", is_flag=True, help="Build what upstream's tests need beyond the wheels instead.")
@forge_address_option("With --tag: ")
@jobs_option
@repository_option
@json_option
def wheels_build(
    sdk_folder: Path,
    orders: str | None,
    budget: float | None,
    output: Path,
    backend: Any,
    jobs: int | None,
    repository: Path,
    **asked: Any,
) -> None:
    """Build one wheel for each CPython, several in parallel; with --runtime for another Linux, too.

    An LLVM configuration with the profile sdk or sdk-tools makes one wheel of the SDK, for all CPythons; one with the
    profile source makes the source distribution.
    """
    from mlir_release.builder.commands.each import each
    from mlir_release.builder.model.orders import WheelOrder, read_orders
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.wheels.backends import BuildBackend
    from mlir_release.builder.wheels.build import BuiltWheel, build_wheels
    from mlir_release.builder.wheels.cross import Cross
    from mlir_release.builder.wheels.request import WheelRequest
    from mlir_release.builder.wheels.source import pack
    from mlir_release.ground.programs.needs import need
    from mlir_release.ground.python.cpython import CPython
    from mlir_release.ground.python.platforms import Platform
    from mlir_release.ground.python.pythons import find_pythons
    from mlir_release.release.forge.checkout import pass_named_variables

    by_hand = ByHand(**asked)
    if orders is not None and by_hand.tag:
        raise click.UsageError("--orders says which targets of which release to build")
    need("build", "elftools")
    pass_named_variables(repository)
    if orders is not None:
        ordered = {order.target: order for order in read_orders(orders, list[WheelOrder])}
        backend = "cibuildwheel" if backend == "auto" else backend  # a job of a release builds as asked, or fails
        if budget is not None or len(ordered) != 1:
            words = ["wheels", "build", "--sdk", sdk_folder, "-o", output, "--backend", backend, "-C", repository]
            words += ["--jobs", jobs] if jobs else []
            each(words, ordered, lambda target: (output / target).glob("*"), budget=budget)
            return
        (order,) = ordered.values()
        sdk, output = Sdk.load(sdk_folder), output / order.target
        pythons: Sequence[str] = [CPython.of_tag(order.python).version] if order.python else []
        request = WheelRequest.of_order(order, sdk, repository)
    else:
        sdk = Sdk.load(sdk_folder)
        request, pythons = by_hand.request(sdk, repository)
    if request.is_packed:
        (made,) = pack([request], output=output)
        console.result(str(made), [{"file": str(made), "size": made.stat().st_size}])
        return
    native = Sdk.load(by_hand.tools) if by_hand.tools else None
    cross = Cross.to(sdk, host=Platform.of_host(), tools=native, python=by_hand.target_python)
    built = build_wheels(
        replace(request, test_addon=by_hand.test_addon),
        find_pythons(pythons) if pythons else [],
        output=output,
        backend=BuildBackend(cross=cross) if cross else backend,
        jobs=jobs,
    )
    console.table(BuiltWheel.COLUMNS, [wheel.row() for wheel in built])
    console.result("", built)


@wheels.command("rebuild", cls=ForeignCommand, starts="upstream's build, build backends")
@click.argument("tag")
@click.argument("target")
@forge_option
@click.option("--sdk", type=PATH, help="Folder of the SDK that it was built from.  [default: the one in the cache]")
@click.option(
    "--from",
    "origin",
    type=click.Choice(["sdk", "source"]),
    default="sdk",
    show_default=True,
    help="From source: make its SDK again, too, as the release did. Compiling LLVM takes hours.",
)
@pythons_option("to build with", default="the target's")
@output_option("the wheel", default=Path("dist") / "rebuilt")
@signed_by_options
@jobs_option
@json_option
def wheels_rebuild(tag: str, target: str, forge: Forge, sdk: Path | None, origin: str, **asked: Any) -> None:
    """Make the wheel of TARGET in TAG, a published release, again, and compare the bytes.

    With the toolkit, the SDK and the container image that the release's manifest names, and nothing that was compiled
    before. Where the two differ, the members that do are listed.
    """
    from mlir_release.builder.sdk.provision import provide_pinned
    from mlir_release.release.forge.checkout import pass_named_variables
    from mlir_release.use.rebuild import rebuild

    pass_named_variables()
    if sdk is not None and origin == "source":
        raise click.UsageError("--sdk names an SDK that was made before, and --from source makes it again")
    rebuilt = rebuild(forge, tag, target, sdk=provide_pinned if origin == "source" else sdk, **asked)
    console.outcome(rebuilt)
    if not rebuilt.equal:
        click.get_current_context().exit(int(ExitCode.VERIFICATION))


@wheels.command("stage")
@sdk_option
@click.option(
    "--profile", help="What the wheel contains. MLIR has host, core, full and all.  [default: the project's first]"
)
@click.option("--version", default="20200101.dev0", show_default=True, help="Version of the wheels.")
@output_option("the project")
@json_option
def wheels_stage(sdk_folder: Path, profile: str | None, version: str, output: Path) -> None:
    """Write the wheel project for an SDK, for `python -m build` by hand (wheel or source distribution)."""
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.wheels.request import WheelRequest
    from mlir_release.builder.wheels.stage import stage
    from mlir_release.ground.llvm.projects import find_project

    sdk = Sdk.load(sdk_folder)
    profile = profile or next(iter(find_project(sdk.info.project).profiles))
    project = stage(WheelRequest.of_profile(profile, sdk=sdk, version=version), output)
    console.result(f"MLIR_RELEASE_SDK={sdk.root} python -m build {project}", {"project": str(project)})


@wheels.command("inspect")
@click.argument("wheel", type=PATH)
@click.option("--files", is_flag=True, help="List every file.")
@json_option
def wheels_inspect(wheel: Path, files: bool) -> None:
    """Show what WHEEL contains and needs, its sizes, and whether its tags are correct."""
    from mlir_release.builder.wheels.inspect import inspect

    report = inspect(wheel)
    _show_wheel(report, files=files)
    console.result("", report)
    if report.problems:
        click.get_current_context().exit(int(ExitCode.VERIFICATION))


def _show_wheel(report: WheelReport, *, files: bool) -> None:
    rows = [
        ("size", f"{format_bytes(report.size)}, {format_bytes(report.unpacked_size)} installed"),
        ("sha256", report.sha256),
        ("distribution", f"{report.distribution} {report.version}"),
        ("requires", ", ".join([f"Python {report.requires_python or 'of any version'}", *report.requires_dist])),
        ("tags", ", ".join(report.tags)),
        ("true platform tag", report.true_platform_tag),
        ("needs of the system", ", ".join(report.system) or "nothing"),
        ("needs and lacks", ", ".join(report.external) or "nothing"),
        *(_of_release(report.release) if report.release is not None else []),
        *([("SDK", report.sdk.title)] if report.sdk else []),
    ]
    console.table(["", ""], rows, title=report.filename)
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
        console.show(f"problem[{problem.id}]: {problem.message}")


def _of_release(release: WheelInfo) -> list[tuple[str, str]]:
    """What a wheel says about its release: labels and values. What it says nothing of is left out."""
    rows = [
        ("release", release.tag),
        ("revision", release.revision),
        ("LLVM", release.llvm_version),
        ("target", release.target),
        ("project", release.project),
        ("profile", release.profile),
        ("serves", ", ".join(release.serves)),
        ("assertions", "on" if release.assertions else ""),
        *(("relaxed", f"{one.upstream} to {one.requirement}: {one.reason}") for one in release.relaxed),
        ("register allocator", str(release.regalloc_model or "")),
        ("digest of the SDK", release.sdk),
        ("the SDK as a wheel", release.sdk_wheel),
        ("image", release.image),
        ("made by", f"mlir-release {release.toolkit_version}" if release.toolkit_version else ""),
    ]
    return [(label, value) for label, value in rows if value]
