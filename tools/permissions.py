#!/usr/bin/env python3
"""Write ``docs/permissions.md``: what each job of the workflows may do, its tokens, and the foreign code that it runs.

``--write`` rewrites it; without it, the exit code says whether it is up to date and whether the rules hold
(:func:`broken_rules`).
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "permissions.md"
FOLDER = ROOT / ".github" / "workflows"

#: The commands that the workflows run, by the foreign code that runs in them. A command that is in neither list is an
#: error, so that whoever adds one decides.
FOREIGN: Mapping[str, str] = {
    "sdk provide": "upstream's build, compilers",
    "wheels build": "upstream's build, build backends",
    "wheels test": "upstream's tests, the wheel, its dependencies",
    "index --probe": "published wheels, their dependencies",
    "conda check": "published wheels, conda-forge's packages",
    "release canaries": "other projects' tests, published wheels, their dependencies",
    "integrate probe": "the downstream's refresh command and smoke test",
    ".ci/run": "this repository's tests, upstream's build",
    "make": "this repository's tests, upstream's build",
    ".venv/bin/pytest": "this repository's tests, upstream's build",
    "python -m pytest": "this repository's tests",
    "python -m pip install": "what builds packages from source",
}
OURS = frozenset({
    "attest", "conda package", "conda publish", "first-run", "forge init", "index", "integrate gather",
    "integrate plan", "integrate roll", "integrate run", "integrate start", "matrix", "publish", "pypi",
    "release check-run", "release dispatch", "release fetch", "release latest", "release start", "release sweep",
    "release track", "sdk pack", "sdk unpack", "snapshot", "tools/toolkit_release.py",
})  # fmt: skip

#: The only actions of others that a job with rights uses, each named by its commit.
TRUSTED_ACTIONS = frozenset({
    "actions/checkout", "actions/configure-pages", "actions/deploy-pages", "actions/download-artifact",
    "actions/setup-python", "actions/upload-artifact", "actions/upload-pages-artifact", "pypa/gh-action-pypi-publish",
})  # fmt: skip

_COMMAND = re.compile(
    r"mlir-release (?P<ours>(?:(?:conda|forge|integrate|release|sdk|wheels) )?[a-z][a-z-]*)"
    r"|(?P<other>\.ci/run|\.venv/bin/pytest|python -m (?:pytest|pip install)"
    r"|tools/toolkit_release\.py|(?<![\w.])make(?= ))"
)
#: What would fetch or run something else in a job with rights.
_OTHER_PROGRAM = re.compile(
    r"(?<![\w./-])(?:pip|npm|npx|uv|uvx|pipx|curl|wget|make|docker|podman|cargo|go|gh|apt-get"
    r"|python3?(?! tools/toolkit_release\.py )|node|perl|(?:ba)?sh|eval|source)(?= )"
)

HEAD = """\
# What the workflows' jobs may do
*Written by `python tools/permissions.py --write`; a test keeps it true.*

*Foreign* code is upstream's tree, a package without a lock, or a configured command. Jobs that run it may only read.
Their only token is the job's own for reading, which the programs that the toolkit starts never see. Jobs that may write
or prove their identity (`id-token`) run the toolkit of a protected commit, dependencies locked by hash, and the actions
of others by their commit. A called workflow never has more rights than the calling job.
"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A row of the table."""

    workflow: str
    key: str
    name: str
    permissions: Mapping[str, str]
    calls: str  #: the workflow that it calls; empty for a job with steps
    foreign: tuple[str, ...]
    tokens: tuple[str, ...]
    uses: tuple[str, ...]  #: actions of others
    text: str  #: everything that its steps run in a shell

    @property
    def rights(self) -> tuple[str, ...]:
        """What it may write, or prove."""
        return tuple(sorted(right for right, level in self.permissions.items() if level == "write"))

    def row(self) -> str:
        """Of the table, in Markdown."""
        reads = sorted(right for right, level in self.permissions.items() if level == "read")
        does = f"calls `{self.calls}`" if self.calls else ", ".join(self.foreign) or "none"
        cells = (f"`{self.key}`", _listed(self.rights), _listed(reads), does, _listed(self.tokens))
        return f"| {' | '.join(cells)} |"


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names) or "–"


def read_jobs(folder: Path = FOLDER) -> list[Job]:
    """The jobs of all workflows."""
    return [job for path in sorted(folder.glob("*.yml")) for job in _jobs_of(path)]


def _jobs_of(path: Path) -> Iterator[Job]:
    workflow: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    for key, data in workflow["jobs"].items():
        steps = data.get("steps", [])
        texts = [text for step in steps for text in _commands(step)]
        everything = yaml.safe_dump({**data, "permissions": None})
        yield Job(
            workflow=path.name,
            key=key,
            name=data.get("name", key),
            permissions=data.get("permissions", workflow.get("permissions", {})),
            calls=data.get("uses", "").rpartition(".github/workflows/")[2],
            foreign=tuple(dict.fromkeys(what for text in texts for what in _foreign(text, path.name))),
            tokens=_tokens(everything, data.get("permissions", {}), steps),
            uses=tuple(inner["uses"] for step in steps for inner in _inner(step) if "@" in inner.get("uses", "")),
            text="\n".join(texts),
        )


def _tokens(text: str, permissions: Mapping[str, str], steps: list[dict[str, Any]]) -> tuple[str, ...]:
    """What a job's steps are given: the job's token, secrets, and OIDC tokens."""
    persisted = any(step.get("with", {}).get("persist-credentials") is True for step in steps)
    found = ["GITHUB_TOKEN"] if "github.token" in text or persisted else []
    found += sorted(set(re.findall(r"secrets\.(\w+)", text)))
    return (*found, *(["OIDC"] if permissions.get("id-token") == "write" else []))


def _inner(step: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of an action of this repository; any other step itself."""
    match = re.fullmatch(r"[.$]/(actions/.+)", step.get("uses", ""))
    if match is None:
        return [step]
    action = yaml.safe_load((ROOT / match[1] / "action.yml").read_text(encoding="utf-8"))
    return list(action["runs"]["steps"])


def _commands(step: dict[str, Any]) -> list[str]:
    """The shell of a step; that of an action of this repository is the action's, with the inputs that decide."""
    given = step.get("with", {})
    if step.get("uses", "").endswith("/actions/integrate"):
        return [f"mlir-release integrate {given['command'].split()[0]}"]
    if step.get("uses", "").endswith("/actions/publish-index"):
        return ["mlir-release index" + (" --probe" if "probe" in given else "")]
    return [str(inner["run"]) for inner in _inner(step) if "run" in inner]


def _foreign(text: str, workflow: str) -> Iterator[str]:
    if text == "mlir-release index --probe":
        yield FOREIGN["index --probe"]
        return
    if re.search(r"mlir-release release canaries .*--(?:github|run) ?", text):  # it lists, or records
        return
    for match in _COMMAND.finditer(re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)):
        command = match["other"] or match["ours"]
        if command in FOREIGN:
            yield FOREIGN[command]
        elif command not in OURS:
            raise SystemExit(f"{workflow}: is {command!r} foreign code? tools/permissions.py does not say")


def broken_rules(jobs: list[Job]) -> Iterator[str]:
    """What no job may do."""
    for job in jobs:
        about = f"{job.workflow}: {job.key}"
        if job.foreign and job.rights:
            yield f"{about} runs foreign code ({', '.join(job.foreign)}) and may write {', '.join(job.rights)}"
        if job.foreign and (secrets := sorted({*job.tokens} - {"GITHUB_TOKEN", "OIDC"})):
            yield f"{about} runs foreign code and gets {', '.join(secrets)}"
        if job.rights:
            for use in job.uses:
                name, _, ref = use.partition("@")
                if name not in TRUSTED_ACTIONS or not re.fullmatch(r"[0-9a-f]{40}", ref):
                    yield f"{about} has rights and uses {use}"
            if found := _OTHER_PROGRAM.search(job.text):
                yield f"{about} has rights and runs {found[0]}"


def page(jobs: list[Job]) -> str:
    """The page's text."""
    lines = [HEAD]
    for workflow in dict.fromkeys(job.workflow for job in jobs):
        lines += [f"## `{workflow}`", "| job | may write | reads | foreign code | tokens |", "|---|---|---|---|---|"]
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
