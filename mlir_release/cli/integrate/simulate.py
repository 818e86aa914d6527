"""``integrate simulate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mlir_release.cli.options import json_option
from mlir_release.console import console


@click.command(context_settings={"show_default": True})
@click.option("--walks", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Recorded walks (JSON).")
@click.option("--commits", help="Generated walks: affecting commits in each.", type=click.IntRange(1), default=150)
@click.option(
    "--break-rate",
    help="Generated walks: how likely each commit breaks the downstream.",
    type=click.FloatRange(0, 1),
    default=0.02,
)
@click.option(
    "--flaky", help="How likely a smoke test fails though nothing is broken.", type=click.FloatRange(0, 1), default=0.0
)
@click.option("--seeds", help="Generated walks: how many.", type=click.IntRange(1), default=100)
@click.option("--strategy", "name", default="adaptive", help="The strategy to count for.")
@click.option("--width", type=click.IntRange(1, 256), default=1, help="Probes side by side.")
@click.option("--retries", type=click.IntRange(0), default=1, help="Of a failed smoke test.")
@json_option
def simulate(walks: Path | None, flaky: float, name: str, width: int, retries: int, **generated: Any) -> None:
    """Replay recorded or generated walks through a strategy, counting smoke tests and rounds."""
    from mlir_release.integrate.simulate import generate_walks, load_walks, summarize

    worlds = load_walks(walks) if walks else generate_walks(flaky=flaky, **generated)
    summary = summarize(worlds, name, width=width, retries=retries if flaky else 0).as_json()
    console.result("\n".join(f"{key}: {value}" for key, value in summary.items()), summary)
