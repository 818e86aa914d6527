"""``integrate patches``: the carried patches and why each is carried."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from mlir_release.cli.options import ForeignCommand
from mlir_release.ground.console import console
from mlir_release.integrate.commands.options import At, at_as_json, push_option


@click.group()
def patches() -> None:
    """The carried patches and their ledger."""


@patches.command("list")
@at_as_json
def patches_list(at: At) -> None:
    """What is carried, and what was dropped and may come back."""
    from mlir_release.integrate.open import open_observers
    from mlir_release.integrate.patches.files import patch_files

    observers = open_observers(*at)
    lines, found = [], {}
    for each in observers:
        seen, title = each.look(fetch=False), each.project.upstream.config.title
        of = f"{title}: " if len(observers) > 1 else ""
        for patch in seen.patches:
            until = f" until {patch.until} has it" if patch.until else ""
            lines.append(f"{of}{patch.sha[:12]} {patch.subject} [{patch.kind}]{until}")
        asleep, files = [one.patch for one in seen.asleep], patch_files(each.project, seen.head)
        lines += [f"{of}{patch.sha[:12]} {patch.subject} [{patch.kind}, dropped]" for patch in asleep]
        lines += [f"{of}{file.text}" for file in files]
        rows = [asdict(patch) | {"dropped": patch in asleep} for patch in (*seen.patches, *asleep)]
        found[title] = [*rows, *(file.as_json() for file in files)]
    console.result("\n".join(lines) or "nothing is carried", found if len(found) > 1 else next(iter(found.values())))


@patches.command("explain")
@click.argument("patch")
@at_as_json
def patches_explain(at: At, patch: str) -> None:
    """One patch: why, where upstream, when to drop it, and whether upstream has it."""
    from mlir_release.integrate.open import open_observers
    from mlir_release.integrate.status import explain

    data = explain(open_observers(*at), patch)
    console.result("\n".join(f"{key}: {value}" for key, value in data.items() if value), data)


@patches.command("add", cls=ForeignCommand, starts="the downstream's refresh command")
@click.argument("commit")
@click.option("--revert", is_flag=True, help="Revert it instead of picking it.")
@click.option("--why", required=True, help="Why this is carried.")
@click.option("--link", default="", metavar="URL", help="Where it is discussed upstream.")
@click.option("--drop-when", default="", help="When it can go.  [default: once upstream has it, or reverts it, too]")
@click.option(
    "--until-dependency",
    "until",
    default="",
    metavar="PATH",
    help="Carry it until that submodule, or other upstream, pins an LLVM with COMMIT.",
)
@push_option
@at_as_json
def patches_add(at: At, /, commit: str, push: bool, **ledger: Any) -> None:
    """Carry an upstream COMMIT, or its revert."""
    from mlir_release.integrate.deliver.branch import carry
    from mlir_release.integrate.open import open_walk

    tip = carry(open_walk(*at, push=push), commit, **ledger)
    console.result(f"carrying {tip[:12]}", {"commit": tip})


@patches.command("drop", cls=ForeignCommand, starts="the downstream's refresh command")
@click.argument("patch")
@push_option
@at_as_json
def patches_drop(at: At, patch: str, push: bool) -> None:
    """Stop carrying PATCH."""
    from mlir_release.integrate.deliver.branch import drop
    from mlir_release.integrate.open import open_walks

    dropped = drop(open_walks(*at, push=push), patch)
    console.result(f"dropped {dropped.sha[:12]} {dropped.subject}", dropped)
