"""GitHub Actions: whether it may run the workflows and their actions, and the default rights of jobs.

GitHub applies a repository's policies to every action that runs, also to a step inside a composite action of others,
which no linter of the repository's own files reads: "The action actions/upload-artifact@v4 is not allowed in … because
all actions must be pinned to a full-length commit SHA".
"""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mlir_release.ground.documents.decode import MalformedError, from_json, is_plain_name
from mlir_release.ground.errors import UsageError
from mlir_release.ground.programs.needs import install_extra
from mlir_release.ground.programs.process import capture, installed_program
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.operate.doctor.files import LINT_FILE, WORKFLOW_FOLDER, Action, Examined, UsedAction, Workflow, parse
from mlir_release.operate.doctor.integrate import uses_of
from mlir_release.operate.doctor.results import Answer, Hidden, Level, ok, problem, unknown, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mlir_release.release.forge.observations import AllowedActions

    #: A file of a repository at a ref, as ``read("actions/checkout", "action.yml", "v7")``; None: it can't be seen.
    Read = Callable[[str, str, str], bytes | None]
    from collections.abc import Callable

_ELSEWHERE = re.compile(r"(?P<repository>[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+)(?:/(?P<path>[^@]*))?@(?P<ref>.+)")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

#: The oldest Node that GitHub's runners keep. They ran actions for Node 20 on 24 from June 2026, and dropped 20 that
#: autumn (github.blog, changelog of 2025-09-19, "Deprecation of Node 20 on GitHub Actions runners").
OLDEST_NODE = 24


def all_uses(workflows: Mapping[str, Workflow], *, repository: str, branch: str, read: Read) -> tuple[UsedAction, ...]:
    """The actions and workflows that the workflows use, each once, and those that they use in turn."""
    home = UsedAction(name="", repository=repository, path="", ref=branch)
    found: dict[tuple[str, str, str], UsedAction] = {}
    queue = [use for workflow in workflows.values() for use in _of_workflow(workflow, home, home)]
    while queue:
        use = queue.pop(0)
        place = (use.repository, use.path, use.ref)
        if place not in found:
            runtime, nested = _opened(use, home, read)
            found[place] = replace(use, runtime=runtime)
            queue += nested
    return tuple(found.values())


def _opened(use: UsedAction, home: UsedAction, read: Read) -> tuple[str | None, list[UsedAction]]:
    """An action's runtime (a workflow: empty) and the actions it uses; None and empty if it can't be read."""
    called = use.path.startswith(WORKFLOW_FOLDER)
    for path in (use.path,) if called else (f"{use.path}/action.{end}".lstrip("/") for end in ("yml", "yaml")):
        content = read(use.repository, path, use.ref)
        if content is None:
            continue
        try:
            if called:
                return "", list(_of_workflow(parse(content, Workflow, where=path), use, home))
            runs = parse(content, Action, where=f"{use.repository}: {path}").runs
        except UsageError:
            return None, []
        return runs.using, [inner for step in runs.steps or () if (inner := _resolve(step.uses, use, home))]
    return None, []


def _of_workflow(workflow: Workflow, outer: UsedAction, home: UsedAction) -> Iterator[UsedAction]:
    for job in workflow.jobs.values():
        # A workflow beside the one that calls it; a step's ./PATH is in the workspace, where the caller's checkout is.
        for uses in (job.uses.replace("./", "$/", 1), *(step.uses for step in job.steps or ())):
            if use := _resolve(uses, outer, home):
                yield use


def _resolve(uses: str, outer: UsedAction, home: UsedAction) -> UsedAction | None:
    """Where something is; None for an image of a registry, and for nothing."""
    inside = outer.name if outer.foreign else outer.inside
    if uses.startswith(("./", "$/")):
        place = outer if uses.startswith("$/") else home
        return replace(place, name=uses, path=uses[2:].rstrip("/"), inside=inside)
    match = _ELSEWHERE.fullmatch(uses)
    if match is None:
        return None
    path = (match["path"] or "").strip("/")
    return UsedAction(name=uses, repository=match["repository"], path=path, ref=match["ref"], inside=inside)


# -- checks ----------------------------------------------------------------------------------------------------------


def enabled(known: Examined) -> Iterator[Answer]:
    """Whether Actions is enabled."""
    on = bool(known.seen.actions_enabled)
    yield verdict(on, f"Actions is {'enabled' if on else 'disabled'}", "Settings > Actions > General: allow actions")


def allowed(known: Examined) -> Iterator[Answer]:
    """Whether every action that a workflow uses may run. Those of the same owner always may."""
    policy = known.seen.allowed_actions
    if not known.seen.actions_enabled:
        return
    if policy is None:
        yield None
        return
    owner = known.seen.repository.partition("/")[0]
    foreign = {use.name for use in known.used if use.foreign and not use.name.startswith(f"{owner}/")}
    levels = {uses: _level(policy, uses) for uses in sorted(foreign)}
    names = ", ".join(dict.fromkeys(uses.partition("@")[0] for uses, level in levels.items() if level != "ok"))
    remedy = "Settings > Actions > General > Actions permissions: allow all, or GitHub's own and others by name"
    if not names:
        yield ok(f"the {len(foreign)} actions of others that workflows use may run, nested ones too")
    elif "problem" in levels.values():
        yield problem(f"not allowed to run: {names}", remedy)
    else:
        yield unknown(f"possibly not allowed to run: {names}", remedy)


def _level(allowed: AllowedActions, uses: str) -> Level:
    if allowed.policy == "all":
        return "ok"
    if allowed.policy == "local_only":
        return "problem"
    name = uses.lower()  # GitHub ignores case here
    patterns = [pattern.lower() for pattern in allowed.patterns]
    if any(fnmatchcase(name, pattern[1:]) for pattern in patterns if pattern.startswith("!")):
        return "problem"
    if any(fnmatchcase(name, pattern) for pattern in patterns):
        return "ok"
    if allowed.github_owned and uses.partition("/")[0] in ("actions", "github"):
        return "ok"
    return "unknown" if allowed.verified else "problem"  # GitHub publishes no list of verified creators


def active(known: Examined) -> Iterator[Answer]:
    """Whether the workflows that are needed are active."""
    states, contents = known.seen.workflows or {}, known.contents
    ours = {*contents.required, *(use.path for use in uses_of(contents))}
    inactive = [path for path, state in sorted(states.items()) if state != "active" and path in ours]
    yield verdict(
        not inactive,
        f"disabled: {', '.join(inactive)}" if inactive else "all workflows that are needed are active",
        "Actions > the workflow > Enable workflow (GitHub disables schedules after 60 days without activity)",
    )


def defaults(known: Examined) -> Iterator[Answer]:
    """Whether a job that asks for no permissions may write."""
    given = known.seen.defaults
    if given is None or not given.write:
        yield ok("a job without permissions of its own may only read")
        return
    silent = sorted(
        path.removeprefix(WORKFLOW_FOLDER)
        for path, workflow in known.contents.workflows.items()
        if workflow.permissions is None and any(job.permissions is None for job in workflow.jobs.values())
    )
    have = f", and {', '.join(silent)} {'has' if len(silent) == 1 else 'have'} such jobs"
    none = "; every job has its own, so read would do"
    yield verdict(
        not silent,
        f"a job without permissions of its own may write{have if silent else none}",
        "Settings > Actions > General > Workflow permissions: Read repository contents; let each job set its own",
    )


def pinned(known: Examined) -> Iterator[Answer]:
    """Whether the repository demands that actions are named by their commits, and one is not."""
    required = known.seen.commits_required
    used = [use for use in known.used if use.is_action]
    loose = ", ".join(use.label for use in used if not _COMMIT.fullmatch(use.ref))
    if loose and required is None:
        yield Hidden(f"whether {loose} may be named by a tag or branch", "permissions", "administration: read")
    elif loose:
        demand = "and the repository requires that" if required else "which the repository does not require"
        yield verdict(
            not required,
            f"not named by a full commit, {demand}: {loose}",
            "name the commit (uses: OWNER/NAME@COMMIT # TAG); if it is inside another action, update that one",
        )
    elif used:
        yield ok(f"all {len(used)} actions are named by their commits, nested ones too")


def runtimes(known: Examined) -> Iterator[Answer]:
    """Whether an action needs a Node that runners drop. For one that is named by its commit, no linter knows."""
    used = [use for use in known.used if use.is_action]
    nodes = {use: re.fullmatch(r"node(\d+)", use.runtime or "") for use in used}
    old = ", ".join(f"{use.label}: {use.runtime}" for use, node in nodes.items() if node and int(node[1]) < OLDEST_NODE)
    if used:
        yield verdict(
            not old,
            f"GitHub's runners drop what these run on: {old}" if old else "no action runs on an old Node",
            "update them (Dependabot and Renovate do, see the toolkit's .github/dependabot.yml and renovate.json)",
        )


def unread(known: Examined) -> Iterator[Answer]:
    """Whether the files of all actions and workflows of others can be read."""
    labels = ", ".join(use.label for use in known.used if use.foreign and use.runtime is None)
    if labels:
        remedy = "use a token that may read them; nested actions and the Node that they need were not looked at"
        yield unknown(f"can't be read: {labels}", remedy)


#: Findings below these are for the workflows' authors; ``make lint`` shows them. No network is used.
_OPTIONS = ("--offline", "--quiet", "--no-progress", "--no-exit-codes", "--strict-collection", "--format=json-v1",
            "--min-severity=medium", "--min-confidence=medium")  # fmt: skip

#: Seconds. It needs less than one.
_TIMEOUT = 60

#: Places of one mistake that are shown.
_SHOWN = 5


class _Audit(msgspec.Struct, frozen=True):
    """A finding of zizmor's."""

    ident: str
    desc: str
    url: str
    locations: list[dict[str, Any]]


def lint(known: Examined, find: Callable[[str], str | None] = installed_program) -> Iterator[Answer]:
    """Mistakes that any workflow can have (injections, loose actions, rights that nothing needs): zizmor finds them.

    By the repository's own settings for it; ``find`` says where it is.
    """
    files = known.seen.files or {}
    program = find("zizmor")
    names = [*known.contents.workflows, *([LINT_FILE] if LINT_FILE in files else [])]
    if not known.contents.workflows:
        return
    if program is None:
        remedy = f"{install_extra('lint')}; or run zizmor and actionlint there"
        yield unknown("zizmor, which finds mistakes in workflows, is not installed", remedy)
        return
    with scratch_folder("lint") as folder:
        for path in names:
            name = path.rpartition("/")[2]
            if is_plain_name(name):
                target = folder / (LINT_FILE if path == LINT_FILE else f".github/workflows/{name}")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(files[path])
        ran = capture([program, *_OPTIONS, "."], cwd=folder, timeout=_TIMEOUT, encoding="utf-8", ours=True)
    if not ran.ok:
        why = " ".join(ran.complaint.partition("Stack backtrace:")[0].split())
        show = unknown if ran.returncode is None else problem
        yield show(f"zizmor can't read the workflows: {why}", "run zizmor and actionlint in a checkout")
        return
    places: dict[tuple[str, str], list[str]] = {}
    try:
        for audit in from_json(ran.stdout, list[_Audit]):
            primary = next(row for row in audit.locations if row["symbolic"]["kind"] == "Primary")
            name = Path(primary["symbolic"]["key"]["Local"]["verbatim_path"]).name
            place = f"{name}:{primary['concrete']['location']['start_point']['row'] + 1}"
            places.setdefault((f"{audit.ident}: {audit.desc}", audit.url), []).append(place)
    except (MalformedError, LookupError, TypeError, StopIteration) as error:
        yield unknown(f"zizmor's answer can't be read: {error}", "run zizmor in a checkout")
        return
    for (text, url), found in places.items():
        shown = [*dict.fromkeys(found)][:_SHOWN]
        more = f" and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
        yield problem(f"{text}, at {', '.join(shown)}{more}", f"see {url}; actionlint finds other mistakes")
    if not places:
        number = len(known.contents.workflows)
        yield ok(f"zizmor finds nothing in {number} workflows")
