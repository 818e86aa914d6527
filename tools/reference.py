#!/usr/bin/env python3
"""Write ``docs/commands.md`` and ``docs/configuration.md`` from the command line and the JSON Schemas.

In ``docs/design.md`` it draws the stages of a tag, as the code has them.

``--write`` rewrites the pages; without it, the exit code says whether they are up to date.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

ROOT = Path(__file__).resolve().parent.parent

sys.path.insert(0, str(ROOT))

from mlir_release.cli.app import COMMANDS, app  # noqa: E402
from mlir_release.integrate.config import CONFIG_FILE  # noqa: E402
from mlir_release.release.model.filters import FILTER_KEYS  # noqa: E402
from mlir_release.release.model.release_settings import TARGETS_FILE  # noqa: E402
from mlir_release.release.model.schemas import read_schemas  # noqa: E402
from mlir_release.release.transaction.steps import WAYS  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMANDS_HEAD = """# Commands

`mlir-release COMMAND --help` explains every option. The links lead to the help and a typical run of each command; tests
compare both with the real output. Every command can be run again after a crash. Commands that report something take
`--json`. A failure has [an id](errors.md) and one of these exit codes:

| exit code | meaning |
|--:|---|
| 0 | done, or nothing to do |
| 1 | a bug |
| 2 | wrong usage or input |
| 3 | the machine lacks something |
| 4 | someone else changed the same thing |
| 5 | the forge failed |
| 6 | verification failed |
| 7 | a person must decide |
| 125 | `integrate probe`: a commit that can't be tested |
| 141 | nobody reads the output any more, as in `mlir-release tag list \\| head -1` |

This page is generated: `python tools/reference.py --write`.

## Completion in the shell
The shell completes commands, options, their values and file names with one line in the file behind it:
```
eval "$(_MLIR_RELEASE_COMPLETE=bash_source mlir-release)"  # ~/.bashrc, bash 4.4 or newer
eval "$(_MLIR_RELEASE_COMPLETE=zsh_source mlir-release)"   # ~/.zshrc, below compinit
_MLIR_RELEASE_COMPLETE=fish_source mlir-release | source   # ~/.config/fish/completions/mlir-release.fish, 3.1 or newer
```
The line takes effect in the next shell. zsh and fish also describe each command. Completion asks no forge and no
network. A mistyped command or option is answered with the closest name: `No such command 'relase'. Did you mean
'release'?`
"""

CONFIGURATION_HEAD = """# Configuration

Every key of `targets.toml` and `integrate.toml`, and the variables that commands read. The pages of a release
repository serve [JSON Schemas](../mlir_release/release/model/schemas) at `schemas/`. An editor completes and checks a
file whose first line is `#:schema URL`. This page is generated from them: `python tools/reference.py --write`.

A [release line](operating.md#release-lines)'s `matrices/X.Y.toml` has all tables of `targets.toml` but `[release]`.

## Variables
| variable | meaning |
|---|---|
| `MLIR_RELEASE_FORGE` | the release repository, `github:OWNER/NAME` or `local:PATH`: the default of `--forge` |
| `GITHUB_TOKEN`, `GH_TOKEN` | the token for GitHub ([which rights](operating.md#tokens)) |
| `GITHUB_API_URL`, `GITHUB_SERVER_URL` | the addresses of a GitHub Enterprise |
| `HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`, `CURL_CA_BUNDLE`, `REQUESTS_CA_BUNDLE` | proxies, certificates |
| `MLIR_RELEASE_CACHE` | the folder of all caches, in place of the user's cache folder |
| `MLIR_RELEASE_BUILD_ROOT` | the folder that every SDK is built in, one at a time |
| `MLIR_RELEASE_LOGS` | the folder that gets the whole logs of compilers and tests |
| `MLIR_RELEASE_TRUST_CONFIG` | configuration of [a Sigstore of your own](operating.md#private-repositories) |
| `MLIR_RELEASE_NOTIFY`, `MLIR_RELEASE_EXPORT_TOKEN` | reports and the export of [integrates](integrate.md) |
| `MLIR_RELEASE_PROBES_ON` | the machines whose verdicts count, where others plan and gather: integrate.yml sets it |
| `MLIR_RELEASE_TRACEBACK` | `1` shows the traceback of a bug in place of the file that has it |

Variables of a repository on GitHub (*Settings > Secrets and variables > Actions > Variables*):

| variable | meaning |
|---|---|
| `MLIR_RELEASE_SCHEDULE` | `on` lets the scheduled snapshots run |
| `MLIR_RELEASE_ROLL` | the mode of scheduled [integrates](integrate.md): `running`, `dry-run`, or `stopped: why` |
| `MLIR_RELEASE_PYPI_OWNER` | the users or organisations that own our names on PyPI |
| `MLIR_RELEASE_BACKEND` | how release jobs build wheels: `cibuildwheel` (default), or `build`, on the runner itself |
| `MLIR_RELEASE_INSTALLERS` | the programs that check a new release's page, such as `uv pdm` |
| `MLIR_RELEASE_CONDA_CHANNEL` | the channel of prefix.dev that [`conda.yml`](conda.md#by-the-workflow) uploads to |
| `MLIR_RELEASE_CONDA_URL` | the address of [conda packages](conda.md#a-channel) that are served elsewhere |
"""

FILTERS_HEAD = """## Filters
The option `--only FILTER` of `mlir-release matrix` and `release waive` chooses targets by terms: `key=value`,
`key!=value`, or a tag alone. A value is a glob (`*`, `?`, `[12]`). `and` or a comma joins terms, and all have to hold:
`os=linux and python=cp31[12] and required`. An architecture may have any usual spelling, here and in `targets.toml`:
`x86_64`, `amd64` and `x64` are one, and so are `aarch64` and `arm64`.
"""


def command_rows(command: click.Command, *words: str) -> Iterator[str]:
    """A row for each command, also of the groups below; groups themselves have none."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            yield from command_rows(below, *words, name)
        return
    help_text = command.get_short_help_str(limit=1000).replace("|", "\\|")
    yield f"| [`{' '.join(words)}`](../tests/commands/{'-'.join(words)}.txt) | {help_text} |"


def commands_page() -> str:
    """The commands under their headings of ``--help``."""
    context = click.Context(app)
    sections: dict[str, list[str]] = {}
    for name in app.list_commands(context):
        heading = COMMANDS[name][0] if name in COMMANDS else "Extras"
        command = app.get_command(context, name)
        assert command is not None, name
        sections.setdefault(heading, []).extend(command_rows(command, name))
    parts = [COMMANDS_HEAD]
    for heading, rows in sections.items():
        parts += [f"## {heading}", "| command | what it does |", "|---|---|", *rows, ""]
    return "\n".join(parts)


def configuration_page() -> str:
    """Each table of both files, with its keys."""
    lines = [CONFIGURATION_HEAD]
    for document in (TARGETS_FILE, CONFIG_FILE):
        schema = json.loads(read_schemas()[f"{document.partition('.')[0]}.schema.json"])
        lines.append(f"## `{document}`")
        lines += tables(schema, schema, "")
        if document == TARGETS_FILE:
            lines += filters()
    return "\n".join(lines)


def filters() -> list[str]:
    """The keys of filters."""
    rows = [f"| `{key}` | {meaning} | `{example}` |" for key, (meaning, example) in FILTER_KEYS.items()]
    return [FILTERS_HEAD, "| key | of a target | example |", "|---|---|---|", *rows, ""]


def tables(schema: dict[str, Any], table: dict[str, Any], name: str) -> list[str]:
    """A table's keys, then the tables below it."""
    rows, below = [], []
    for key, value in table["properties"].items():
        inner, header = table_below(value, f"{name}.{key}" if name else key)
        if inner:
            below += tables(schema, schema["$defs"][inner], header)
        else:
            default = "required" if key in table["required"] else shown_default(value)
            words = value.get("description", "").replace("|", "\\|")
            rows.append(f"| `{key}` | {words or '-'} | {shown_type(value)} | {default} |")
    lines = []
    if rows:
        words = table.get("description", "").rpartition("``: ")[2]
        lines += [f"### `[{name}]`", words[:1].upper() + words[1:], ""] if name else []
        lines += ["| key | meaning | value | default |", "|---|---|---|---|", *rows, ""]
    return lines + below


def table_below(value: dict[str, Any], name: str) -> tuple[str, str]:
    """The definition of a value that is a table, and how TOML heads it; empty for others."""
    for inner, header in (
        (value, name),
        (value.get("additionalProperties") or {}, f"{name}.NAME"),
        (value.get("items") or {}, f"[{name}]"),
        *((each, name) for each in value.get("anyOf", [])),
    ):
        if isinstance(inner, dict) and "$ref" in inner:
            return inner["$ref"].rpartition("/")[2], header
    return "", ""


def shown_type(value: dict[str, Any]) -> str:
    """The values that a key takes."""
    if "anyOf" in value:
        return " or ".join(shown_type(each) for each in value["anyOf"] if each.get("type") != "null")
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    if value.get("type") == "array":
        return f"list: {shown_type(value['items'])}"
    if isinstance(value.get("additionalProperties"), dict):
        return f"table: {shown_type(value['additionalProperties'])}"
    return str(value.get("title", value.get("type", ""))).replace("|", "\\|")


def shown_default(value: dict[str, Any]) -> str:
    """The default as it would be written."""
    default = value.get("default")
    return "-" if default in (None, "", [], {}) else f"`{json.dumps(default)}`".replace("|", "\\|")


def design_page() -> str:
    """The page as it is, with the stages of a tag as the code has them."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    head, begin, rest = page.partition("```mermaid\nstateDiagram-v2\n")
    rows = [(begin or "[*]", way if isinstance(way, str) else way.__name__, end) for begin, way, end in WAYS]
    drawn = "".join(f"    {begin} --> {end}: {way}\n" for begin, way, end in rows)
    return head + begin + drawn + rest[rest.index("```") :]


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="rewrite the pages")
    pages = {"commands.md": commands_page(), "configuration.md": configuration_page(), "design.md": design_page()}
    if parser.parse_args().write:
        for name, text in pages.items():
            (ROOT / "docs" / name).write_text(text, encoding="utf-8")
        return 0
    old = [name for name, text in pages.items() if (ROOT / "docs" / name).read_text(encoding="utf-8") != text]
    for name in old:
        print(f"docs/{name} is out of date: python tools/reference.py --write", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
