"""The command ``integrate init``."""

from __future__ import annotations

import click

from mlir_release.ground.console import console
from mlir_release.integrate.commands.options import At, at_as_json


@click.command()
@click.option("--upstream", "upstreams", multiple=True, metavar="NAME", help="Follow this one only; repeatable.")
@click.option("--pin", "pins", multiple=True, metavar="PATH", help="The pin, where several places may be it.")
@click.option("--smoke", default="", metavar="COMMAND", help="The smoke command.")
@click.option("--print", "dry_run", is_flag=True, help="Print the file; write nothing.")
@at_as_json
def init(at: At, upstreams: tuple[str, ...], pins: tuple[str, ...], smoke: str, dry_run: bool) -> None:
    """Recognise where this repository pins its upstreams, and write integrate.toml."""
    from mlir_release.integrate.pins import init as initial

    path, text, found = initial.init(at.directory, upstreams=upstreams, pins=pins, smoke=smoke, dry_run=dry_run)
    followed = [{"upstream": table.title, "pin": table.carrier, "files": table.carriers} for table in found.tables]
    data = {"path": str(path), "text": text, "upstreams": followed, "notes": found.notes}
    if dry_run:
        console.result(text.rstrip("\n"), data)
        return
    for note in found.notes:
        console.say(f"    {note}")
    lines = [f"wrote {path.name}: follows {', '.join(f'{table.title} ({table.carrier})' for table in found.tables)}"]
    if not smoke:
        lines.append("write the smoke command into it")
    console.result("\n".join([*lines, "commit it on the main branch; then: mlir-release integrate start"]), data)
