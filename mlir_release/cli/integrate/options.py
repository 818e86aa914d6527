"""Options that the commands of integrates share, each in one wording."""

from __future__ import annotations

import click

push_option = click.option("--push", is_flag=True, help="Push the branch and the verdicts as they come.")

until_option = click.option("--until", metavar="REV", help="Go no farther than this upstream commit.")

next_round_option = click.option(
    "--next-round", metavar="WORKFLOW", help="Where no probe runs: dispatch it if more probes are needed."
)

# The defaults of these two are those of ``integrate.toml``.
strategy_option = click.option("--strategy", metavar="NAME", help="linear, head, adaptive or parallel.")
width_option = click.option("--width", type=click.IntRange(1, 256), help="Probes side by side.")

good_option = click.option("--good", required=True, metavar="REV", help="A commit that passes.")

bad_option = click.option("--bad", required=True, metavar="REV", help="A commit that fails.")
