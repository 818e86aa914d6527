#!/usr/bin/env python3
"""Write ``docs/permissions.md``: the commands that start foreign programs, and what each job of the workflows may do.

``--write`` rewrites it; without it, the exit code says whether it is up to date and whether the rules hold
(:func:`broken_rules`).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

from mlir_release.cli.app import app
from mlir_release.cli.options import ForeignCommand

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "permissions.md"
FOLDER = ROOT / ".github" / "workflows"

#: Programs besides the toolkit's commands, which declare themselves what they start, by the foreign code that they run.
FOREIGN: Mapping[str, str] = {
    '"$RUNNER_TEMP/alone"': "other projects' tests",
    ".ci/run": "this repository's tests, upstream's build",
    "make": "this repository's tests, upstream's build",
    ".venv/bin/pytest": "this repository's tests, upstream's build",
    "python -m pytest": "this repository's tests",
    "python -m pip install": "what builds packages from source",
    "python -m tools.first_run runner": "the runner's compiler set-up",
}

#: The only actions of others that a job uses, each named by its commit.
TRUSTED_ACTIONS = frozenset({
    "actions/cache/restore", "actions/cache/save", "actions/checkout", "actions/configure-pages",
    "actions/deploy-pages", "actions/download-artifact", "actions/setup-python", "actions/upload-artifact",
    "actions/upload-pages-artifact", "pypa/gh-action-pypi-publish",
})  # fmt: skip

#: The one workflow that is not called at the caller's own commit: signatures name it at this ref.
SIGNER = "llvm/mlir-wheels/.github/workflows/attest.yml@main"

#: What each mode lets a job do with GitHub's caches: "cache-mode" in its workflow syntax. Without one, it is write.
CACHE_MODES: Mapping[str, frozenset[str]] = {
    "none": frozenset(),
    "read": frozenset({"restore"}),
    "write-only": frozenset({"save"}),
    "write": frozenset({"restore", "save"}),
}

#: The one job that may save caches, so that nothing else chooses what a build restores.
CACHE_WRITER = ("compiler-caches.yml", "save")

_COMMAND = re.compile(r"(?<![\w./-])mlir-release (?P<words>[^\n|;&]+)")
_OTHER = re.compile(
    r"\.ci/run|\.venv/bin/pytest|python -m (?:pytest|pip install|tools\.first_run runner)|(?<![\w.])make(?= )"
    r'|"\$RUNNER_TEMP/alone"'
)
#: What would fetch or run something else in a job with rights.
_OTHER_PROGRAM = re.compile(
    r"(?<![\w./-])(?:pip|npm|npx|uv|uvx|pipx|curl|wget|make|docker|podman|cargo|go|gh|apt-get"
    r"|python3?(?! (?:tools/toolkit_release\.py|-m tools\.first_run) )|node|perl|(?:ba)?sh|eval|source)(?= )"
)
_SECRET = re.compile(r"\bsecrets\b(?:\.(\w+)|\[\s*['\"](\w+)['\"]\s*\])?")

HEAD = """\
# What the workflows' jobs may do
*Written by `python tools/permissions.py --write`; a test keeps it true.*

*Foreign* code is upstream's tree, a package without a lock, or a configured command. Jobs that run it may only read.
Their only token is the job's own for reading, which the programs that the toolkit starts never see. Jobs that may write
or prove their identity (`id-token`) run the toolkit of a protected commit, dependencies locked by hash, and the actions
of others by their commit. A called workflow never has more rights than the calling job.

GitHub's caches of `main` are a right, too: whoever writes one chooses what later jobs restore. No job that runs foreign
code may save a cache, and no job with rights restores one. `cache` is the job's `cache-mode`.

## Commands that start foreign programs
Each of these commands declares it. Any other command that would start one ends with an error instead.

"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A row of the table."""

    workflow: str
    key: str
    permissions: Mapping[str, str] | str | None  #: None: nothing says what it may do
    cache: str  #: its ``cache-mode``; empty: nothing says it
    caches: frozenset[str]  #: what its steps do with caches
    calls: str  #: the workflow that it calls; empty for a job with steps
    foreign: tuple[str, ...]
    tokens: tuple[str, ...]
    persisted: bool  #: whether a checkout leaves its token there
    inherits: bool  #: whether the workflow that it calls gets every secret
    uses: tuple[str, ...]  #: actions of others
    text: str  #: everything that its steps run in a shell

    @property
    def rights(self) -> tuple[str, ...]:
        """What it may write, or prove."""
        return self._at("write")

    def _at(self, level: str) -> tuple[str, ...]:
        if isinstance(self.permissions, str):  # read-all, write-all
            return ("everything",) if self.permissions == f"{level}-all" else ()
        return tuple(sorted(right for right, given in (self.permissions or {}).items() if given == level))

    def row(self) -> str:
        """Of the table, in Markdown."""
        does = f"calls `{self.calls.rpartition('/')[2]}`" if self.calls else ", ".join(self.foreign) or "none"
        writes = [right for right in self.rights if right != "id-token"]
        identity = "OIDC" if "id-token" in self.rights else "–"
        cells = (f"`{self.key}`", _listed(writes), _listed(self._at("read")), does, _listed(self.tokens), identity)
        return f"| {' | '.join(cells)} | {self.cache or '?'} |"


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names) or "–"


def read_jobs(folder: Path = FOLDER) -> list[Job]:
    """The jobs of all workflows."""
    return [job for path in sorted(folder.glob("*.yml")) for job in _jobs_of(path)]


def _jobs_of(path: Path) -> Iterator[Job]:
    workflow: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    for key, data in workflow["jobs"].items():
        steps = [inner for step in data.get("steps", []) for inner in _inner(step)]
        texts = [text for step in data.get("steps", []) for text in _commands(step)]
        checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
        persisted = any(
            str(step.get("with", {}).get("persist-credentials", True)).lower() != "false" for step in checkouts
        )
        yield Job(
            workflow=path.name,
            key=key,
            permissions=data.get("permissions", workflow.get("permissions")),
            cache=data.get("cache-mode", workflow.get("cache-mode", "")),
            caches=frozenset(done for step in steps for done in _caching(step)),
            calls=data.get("uses", ""),
            foreign=tuple(dict.fromkeys(what for text in texts for what in _foreign(text, path.name))),
            tokens=_tokens([workflow.get("env"), {**data, "permissions": None}], persisted=persisted),
            persisted=persisted,
            inherits=data.get("secrets") == "inherit",
            uses=tuple(step["uses"] for step in steps if not step.get("uses", "./").startswith(("./", "$/"))),
            text="\n".join(texts),
        )


def _tokens(data: list[Any], *, persisted: bool) -> tuple[str, ...]:
    """What a job's steps are given: the job's token, and secrets."""
    text = " ".join(re.findall(r"\$\{\{.*?\}\}", json.dumps(data, default=str)))
    found = ["GITHUB_TOKEN"] if persisted or re.search(r"\bgithub(?:\.token\b|\[| *\))", text) else []
    secrets = {match[1] or match[2] or "every secret" for match in _SECRET.finditer(text)}
    return (*found, *sorted(secrets - {*found}))


def _inner(step: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of an action of this repository; any other step itself."""
    match = re.fullmatch(r"[.$]/(actions/.+)", step.get("uses", ""))
    if match is None:
        return [step]
    action = yaml.safe_load((ROOT / match[1] / "action.yml").read_text(encoding="utf-8"))
    return list(action["runs"]["steps"])


def _caching(step: dict[str, Any]) -> frozenset[str]:
    """What a step does with GitHub's caches: actions/cache itself, or an action that uses it if it is asked to."""
    name = step.get("uses", "").partition("@")[0]
    asked = [value for key, value in step.get("with", {}).items() if re.fullmatch(r"(?:enable-)?cache", key)]
    if name in ("actions/cache/restore", "actions/cache/save"):
        return frozenset({name.rpartition("/")[2]})
    return CACHE_MODES["write" if name == "actions/cache" or any(asked) else "none"]


def _commands(step: dict[str, Any]) -> list[str]:
    """The shell of a step; that of an action of this repository is the action's, with the inputs that decide."""
    given = step.get("with", {})
    if step.get("uses", "").endswith("/actions/integrate"):
        return [f"mlir-release integrate {' '.join(given['command'].split())}"]
    if step.get("uses", "").endswith("/actions/publish-index"):
        return ["mlir-release index" + (" --probe" if "probe" in given else "")]
    return [str(inner["run"]) for inner in _inner(step) if "run" in inner]


def _foreign(text: str, workflow: str) -> Iterator[str]:
    text = re.sub(r"^\s*#.*$", "", text.replace("\\\n", " "), flags=re.MULTILINE)
    for match in _COMMAND.finditer(text):
        words = match["words"].split()
        command = _command(words)
        if command is None or (isinstance(command, click.Group) and words != ["--version"]):
            raise SystemExit(f"{workflow}: the toolkit has no command {' '.join(words[:2])!r}")
        if isinstance(command, ForeignCommand):
            # Options may be gathered in a variable: one that makes it foreign counts wherever the step has it.
            starts = command.started([*words, *(option for option in command.only_with if option in text)])
            yield from [starts] if starts else []
    for match in _OTHER.finditer(text):
        yield FOREIGN[match[0]]


def _command(words: list[str]) -> click.Command | None:
    """The command that words begin with; None if there is none."""
    found: click.Command | None = app
    for word in words:
        if not isinstance(found, click.Group) or word == "--version":
            break
        found = found.get_command(click.Context(found), word)
    return found


def foreign_commands(group: click.Group = app, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ForeignCommand]]:
    """The toolkit's commands that start foreign programs, by what one types."""
    context = click.Context(group)
    for name in sorted(group.list_commands(context)):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from foreign_commands(command, (*names, name))
        elif isinstance(command, ForeignCommand):
            yield " ".join((*names, name)), command


def broken_rules(jobs: list[Job]) -> Iterator[str]:
    """What no job may do: see docs/security.md."""
    for job in jobs:
        for rules in (_broken_by_foreign, _broken_by_rights, _broken_by_caches, _broken_by_calls):
            yield from (f"{job.workflow}: {job.key} {broken}" for broken in rules(job, jobs))


def _broken_by_foreign(job: Job, jobs: list[Job]) -> Iterator[str]:
    about = f"runs foreign code ({', '.join(job.foreign)}) and"
    if not job.foreign:
        return
    if writes := [right for right in job.rights if right != "id-token"]:
        yield f"{about} may write {', '.join(writes)}"
    if "id-token" in job.rights:
        yield f"{about} may prove its identity (id-token)"
    if "save" in _mode(job):
        yield f"{about} may save caches"
    if secrets := sorted({*job.tokens} - {"GITHUB_TOKEN"}):
        yield f"{about} gets {', '.join(secrets)}"
    if job.persisted:
        yield f"{about} its checkout keeps the token (persist-credentials)"


def _broken_by_rights(job: Job, jobs: list[Job]) -> Iterator[str]:
    if job.permissions is None:
        yield "says no permissions: it has those of the repository's settings"
    for use in job.uses:
        name, _, ref = use.partition("@")
        if name not in TRUSTED_ACTIONS or not re.fullmatch(r"[0-9a-f]{40}", ref):
            yield f"uses {use}, which is no trusted action by its commit"
    if job.rights and (found := _OTHER_PROGRAM.search(job.text)):
        yield f"has rights and runs {found[0]}"


def _broken_by_caches(job: Job, jobs: list[Job]) -> Iterator[str]:
    if job.cache not in CACHE_MODES:
        yield f"has no cache-mode that GitHub knows: {job.cache!r}"
        return
    if job.calls:
        return
    for done in sorted(job.caches - _mode(job)):
        yield f"has a step to {done} a cache, which its cache-mode {job.cache} forbids"
    for done in sorted(_mode(job) - job.caches):
        yield f"may {done} caches (cache-mode {job.cache}), and no step of it does"
    if job.rights and "restore" in _mode(job):
        yield f"may write {', '.join(job.rights)} and restores a cache"
    if not job.foreign and "save" in _mode(job) and (job.workflow, job.key) != CACHE_WRITER:
        yield f"may save caches, which only the job {CACHE_WRITER[1]} of {CACHE_WRITER[0]} may"


def _broken_by_calls(job: Job, jobs: list[Job]) -> Iterator[str]:
    if not job.calls:
        return
    if job.inherits:
        yield f"hands every secret to {job.calls} (secrets: inherit)"
    if not job.calls.startswith("./.github/workflows/") and job.calls != SIGNER:
        yield f"calls {job.calls}, which is not of its own commit"
    called = [each for each in jobs if job.calls.endswith((f"/{each.workflow}", f"/{each.workflow}@main"))]
    asked = frozenset(done for each in called for done in _mode(each))
    for done in sorted(asked - _mode(job)):
        yield f"calls {job.calls}, which asks to {done} caches: GitHub does not start it with cache-mode {job.cache}"
    for done in sorted(_mode(job) - asked):
        yield f"lets {job.calls} {done} caches, which no job of it does"


def _mode(job: Job) -> frozenset[str]:
    return CACHE_MODES.get(job.cache, CACHE_MODES["write"])


def page(jobs: list[Job]) -> str:
    """The page's text."""
    lines = [HEAD + "| command | starts | when |", "|---|---|---|"]
    for name, command in foreign_commands():
        when = [f"with `{option}`" for option in command.only_with] + [
            f"without `{option}`" for option in command.unless
        ]
        lines.append(f"| `{name}` | {command.starts} | {' and '.join(when) or 'always'} |")
    lines.append("")
    columns = ("job", "may write", "reads", "foreign code", "tokens", "identity", "cache")
    for workflow in dict.fromkeys(job.workflow for job in jobs):
        lines += [f"## `{workflow}`", f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
        lines += [*(job.row() for job in jobs if job.workflow == workflow), ""]
    return "\n".join(lines)


def main() -> int:
    """Write the page, or compare it; report broken rules."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="rewrite the page")
    jobs = read_jobs()
    broken = list(broken_rules(jobs))
    if parser.parse_args().write:
        PAGE.write_text(page(jobs), encoding="utf-8")
    elif not PAGE.is_file() or page(jobs) != PAGE.read_text(encoding="utf-8"):
        broken.append("docs/permissions.md is out of date: python tools/permissions.py --write")
    print(*broken, sep="\n", end="\n" if broken else "", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
