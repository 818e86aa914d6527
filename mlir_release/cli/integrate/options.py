"""Options that the commands of integrates share, each in one wording."""

from __future__ import annotations

import click

#: ``push``: whether to publish what a command records.
push_option = click.option("--push", is_flag=True, help="Push the branch and the verdicts as they come.")

#: ``until``: the upstream commit that a walk ends at.
until_option = click.option("--until", metavar="REV", help="Go no farther than this upstream commit.")

#: ``strategy``: its name; default: that of ``integrate.toml``.
strategy_option = click.option("--strategy", metavar="NAME", help="linear, head, adaptive or parallel.")

#: ``width``: a number of smoke tests at once; default: that of ``integrate.toml``.
width_option = click.option("--width", type=click.IntRange(1, 256), help="Probes side by side.")

#: ``good``: the first end of a bisection.
good_option = click.option("--good", required=True, metavar="REV", help="A commit that passes.")

#: ``bad``: the other end of a bisection.
bad_option = click.option("--bad", required=True, metavar="REV", help="A commit that fails.")
