"""``mlir-release wheels test``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlir_release.builder.model.suites import SUITES
from mlir_release.cli.options import PATH, ForeignCommand, budget_option, json_option, sdk_option
from mlir_release.ground.console import console
from mlir_release.ground.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable


@click.command("test", cls=ForeignCommand, starts="upstream's tests, the wheel, its dependencies")
@click.argument("wheel", type=PATH, required=False)
@sdk_option
@click.option("--python", help="The CPython to test with.  [default: the wheel's, found on this machine]")
@click.option(
    "--suite",
    "suites",
    multiple=True,
    type=click.Choice(list(SUITES)),
    help="May be repeated.  [default: all that gate such a wheel; regression needs none]",
)
@click.option("--addon", type=PATH, help="Wheel of the test-only parts.  [default: built from the SDK]")
@click.option(
    "--target", default="", help="Name of the test target in the report.  [default: from the suite and the wheel]"
)
@click.option(
    "--orders",
    metavar="JSON",
    help="Test these targets instead of WHEEL; a row of `matrix --kind platforms` has them.",
)
@budget_option
@click.option(
    "--dist", type=PATH, default=Path("dist"), help="With --orders: the wheels, in folders of their targets' names."
)
@click.option("--reports", type=PATH, help="Folder to write the reports to (JSON, JUnit XML).")
@click.option(
    "--propose-known-failures",
    "proposed",
    type=PATH,
    metavar="FILE",
    help="Write what fails to FILE, as a list of known failures for a person to review.",
)
@click.option("--workdir", type=PATH, default=Path("build") / "tests", show_default=True, help="Logs and environments.")
@json_option
def wheels_test(
    wheel: Path | None,
    sdk_folder: Path,
    orders: str | None,
    budget: float | None,
    dist: Path,
    reports: Path | None,
    proposed: Path | None,
    **asked: Any,
) -> None:
    """Test WHEEL in a clean environment, and compare strictly with the list of known failures."""
    import shutil

    from mlir_release.builder.commands.each import each
    from mlir_release.builder.model.names import DISTRIBUTION_SUFFIXES
    from mlir_release.builder.model.orders import TestOrder, read_orders
    from mlir_release.builder.model.test_report import REPORT_SUFFIX
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.testing.known_failures import write_proposal
    from mlir_release.builder.testing.run import run_suites
    from mlir_release.ground.programs.surroundings import withheld
    from mlir_release.release.forge.checkout import pass_named_variables

    pass_named_variables()
    if orders is not None:
        ordered = {order.name: order for order in read_orders(orders, list[TestOrder])}
        reports = reports or Path("reports")
        if budget is not None or len(ordered) != 1:
            workdir = asked["workdir"]

            def files_of(name: str) -> Iterable[Path]:
                shutil.rmtree(workdir / name, ignore_errors=True)  # a runner has no room for all environments at once
                return reports.glob(f"{name}{REPORT_SUFFIX}")

            words = ["wheels", "test", "--sdk", sdk_folder, "--dist", dist, "--reports", reports, "--workdir", workdir]
            each(words, ordered, files_of, budget=budget)
            return
        (order,) = ordered.values()
        folder = dist / order.wheel
        # A wheel that was not built is an error of the targets that it is ordered for.
        built = [path for path in sorted(folder.glob("*")) if path.name.endswith(DISTRIBUTION_SUFFIXES)]
        wheel = (built or [folder])[0] if order.wheel else None
        asked |= {"target": order.name, "suites": (order.suite,), "python": order.python or None}
    sdk = Sdk.load(sdk_folder)
    found = run_suites(wheel, sdk=sdk, **asked)
    if proposed is not None:
        write_proposal(found, sdk.info, proposed)
    for run in found:
        if reports is not None:
            run.write(reports)
        console.summary(run.markdown())
        console.show(run.text())
        if not run.passed and (note := withheld()):
            console.say(note.removeprefix("; "))
    console.result("", [run.report for run in found])
    if not all(run.passed for run in found):
        click.get_current_context().exit(int(ExitCode.VERIFICATION))
