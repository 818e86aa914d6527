"""The roller: what scheduled runs may do, the branch that they go on with, and the state that people want to know.

A person switches it by a repository variable, in seconds and without a commit. ``[roll]`` in ``integrate.toml`` is the
lasting setting; it is read on the main branch, because an integrate branch may be older than the last change of it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from mlir_release.ground.console import counted
from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.errors import UsageError
from mlir_release.ground.foreign import code, link, markdown, table
from mlir_release.ground.git.remotes import fetch
from mlir_release.ground.git.trees import is_ancestor
from mlir_release.ground.storage.files import read_document
from mlir_release.integrate.config import CONFIG_FILE, ROLL_VARIABLE, read_config, switched_to
from mlir_release.integrate.deliver import branch as branches
from mlir_release.integrate.pins.submodules import update
from mlir_release.integrate.state import T_BREAKS
from mlir_release.integrate.walk.together import JointWalk
from mlir_release.integrate.walk.walk import Allowed, Walk

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.hosting import Issue, Pull, PullRequests, Tracker
    from mlir_release.integrate.project import Integration

#: The date in the name of a dry run's branch, which only the machine that walks it has. So all days share verdicts.
NO_DATE = "00000000"

#: How many integrate branches are looked at, newest first: older ones that nobody deleted are no integrates any more.
_RECENT = 20


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What the roller may do now."""

    mode: str  #: one of :data:`~mlir_release.integrate.config.MODES`
    why: str = ""
    source: str = ""  #: of the mode

    @property
    def dry(self) -> bool:
        """Whether no branch may move."""
        return self.mode == "dry-run"

    def text(self) -> str:
        """For people."""
        reason = f": {self.why}" if self.why else ""
        return f"the roller is {self.mode} by {self.source}{reason}"


def read_orders(project: Integration) -> Orders:
    """What the variable, or else ``[roll]`` on the main branch, orders. :raises UsageError: ``config-invalid``"""
    main = project.main_ref()
    content = project.outer.read(main, CONFIG_FILE)
    table = read_config(content, where=f"{main}:{CONFIG_FILE}").roll if content is not None else project.config.roll
    mode, why, source = table.mode, table.why, f"[roll] in {CONFIG_FILE}"
    if given := os.environ.get(ROLL_VARIABLE, "").strip():
        (mode, why), source = switched_to(given), f"the variable {ROLL_VARIABLE}"
    return Orders(mode=mode, why=why, source=source)


# -- the branch --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OpenBranch:
    """An integrate that has not landed. ``commit``: as the remote has it; ``pull``: if it is known."""

    name: str
    commit: str
    pull: Pull | None
    waits: bool  #: for its merge; nobody may move it meanwhile


def open_branch(project: Integration, pulls: PullRequests | None) -> OpenBranch | None:
    """The newest integrate branch at the remote that is neither in main nor given up; None without one.

    A closed pull request is given up, and one that is ready for review waits to be merged. Without pull requests to
    ask, main's own history tells what has landed, whether by a merge or by a squash.
    """
    outer, remote = project.outer, project.config.downstream.remote
    project.fetch_branch(project.config.downstream.branch)
    stem = project.config.branch_pattern().partition("{date}")[0]
    listed = outer.text("ls-remote", "--heads", "--", remote, f"refs/heads/{stem}*", remote=remote)
    there = {}
    for line in listed.splitlines():
        commit, _, ref = line.partition("\t")
        date = project.config.date_of(ref.removeprefix("refs/heads/"))
        if date is not None and date[0] != NO_DATE:
            there[date] = (ref.removeprefix("refs/heads/"), commit)
    if there:
        fetch(outer, remote, f"+refs/heads/{stem}*:refs/remotes/{remote}/{stem}*")
    for _, (name, commit) in sorted(there.items(), reverse=True)[:_RECENT]:
        if _is_in_main(project, commit):
            continue
        pull = pulls.newest(branch=name) if pulls is not None else None
        if pull is None or pull.state in ("draft", "ready"):
            squashed = T_BREAKS in parse_trailers(outer.message(commit))  # by land; no advance has it
            waits = pull.state == "ready" if pull is not None else squashed
            return OpenBranch(name=name, commit=commit, pull=pull, waits=waits)
    return None


def _is_in_main(project: Integration, commit: str) -> bool:
    """Whether main has the branch's commit, or has come at least as far as it since it began, along each upstream."""
    main = project.main_ref()
    if is_ancestor(project.outer, commit, main):
        return True
    landed = False
    for each in project.everyone:
        head = each.upstream.head()
        ours, theirs = (each.upstream.base_of(each.pin(at), head) for at in (commit, main))
        if not is_ancestor(each.upstream, ours, theirs):
            return False
        # Where both are the same, it has landed, or both are where the branch began.
        landed = landed or ours != theirs or ours != each.started_from(commit)
    return landed


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """What a scheduled run begins with. ``branch``: checked out now; empty if there is nothing to do."""

    branch: str = ""
    new: bool = False
    said: str = ""


def begin(
    project: Integration, *also: Integration, publish: bool = False, pulls: PullRequests | None = None
) -> Beginning:
    """Check out the open integrate's branch, or start one, as far as the roller's orders go. Safe to repeat.

    :param also: as of :func:`~mlir_release.integrate.deliver.branch.start`

    In a dry run without an open integrate, the branch is one of this machine alone, at main's commit.
    """
    orders = read_orders(project)
    if orders.mode == "stopped":
        return Beginning(said=f"nothing begins: {orders.text()}")
    project.refuse_dirty()
    project.upstream.fetch()
    found = open_branch(project, pulls)
    if found is not None and found.waits:
        return Beginning(said=f"nothing to do: {found.name} waits to be merged")
    if found is not None:
        _check_out(project, found.name, found.commit)
        return Beginning(branch=found.name, said=f"on {found.name}, which is open")
    for each in (project, *also):
        if said := branches.taken_back(each, each.main_ref())[1]:
            return Beginning(said=f"nothing begins: {said}. mlir-release integrate start --push begins all the same")
    if not orders.dry:
        name = branches.start(project, *also, publish=publish, pulls=pulls)
        return Beginning(branch=name, new=True, said=f"on {name}")
    name = rehearsal(project)
    _check_out(project, name, project.outer.text("rev-parse", "--verify", project.main_ref()))
    return Beginning(branch=name, new=True, said=f"on {name}, which stays on this machine: {orders.text()}")


def rehearsal(project: Integration) -> str:
    """The name of a dry run's own branch."""
    return project.config.branch_pattern().replace("{date}", NO_DATE)


def _check_out(project: Integration, name: str, commit: str) -> None:
    """:raises ConflictError: if the branch is here with other commits"""
    outer = project.outer
    if outer.resolve(f"refs/heads/{name}") is None:
        outer.run("switch", "--quiet", "--no-track", "--create", name, commit)
    else:
        outer.run("switch", "--quiet", name)
        project.move_branch(name, commit)
    update(project)
    project.follow()


# -- the state ---------------------------------------------------------------------------------------------------------

#: A commit, or empty.
_Commit = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{40})?$")]


class RollState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What people want to know of a roller. Made by :func:`look`; a file of it goes from one job to another."""

    upstream: str  #: its name
    state: Literal["idle", "walking", "at head", "waiting for its merge", "needs a person"]
    mode: Literal["running", "stopped", "dry-run"]
    why: str
    source: str
    branch: str  #: of the open integrate, or empty
    pull: str  #: the address of its pull request, or empty
    outcome: Literal["", "head", "culprit", "range", "broken-base", "stuck", "conflict", "untested", "taken back"]
    """Of the walk; "taken back": main had the commit ``bad``, and nobody has begun since."""
    pin: _Commit  #: pristine upstream commit, of the branch or else of main
    pinned: str  #: when that was committed upstream: ``2026-11-26``
    age: int  #: days since then
    passed: int  #: affecting commits that the branch is ahead of main
    ahead: int  #: affecting commits that upstream is ahead of the branch
    good: _Commit = ""
    bad: _Commit = ""  #: the culprit, or the first commit known bad
    subject: str = ""  #: of that commit
    commit_url: str = ""  #: a commit's id behind it makes a link; empty: no links

    def text(self) -> str:
        """For a terminal."""
        reason = f": {self.why}" if self.why else ""
        lines = [f"{self.upstream} roller: {self.state}; {self.mode} by {self.source}{reason}"]
        where = f"{self.branch} is" if self.branch else "main is"
        lines.append(
            f"{where} at {self.pin[:12]} of {self.pinned}, {self.age} days old: {self.passed} commits ahead of main, "
            f"{self.ahead} behind upstream"
        )
        if self.bad:
            lines.append(f"{self.outcome}: {self.bad[:12]} {self.subject}")
        return "\n".join([*lines, *([self.pull] if self.pull else [])])


def look(project: Integration, pulls: PullRequests | None) -> RollState:
    """The roller's state, from git and the pull requests. Moves no branch and tests nothing.

    Of several upstreams, commits and days are those of the one whose walk matters most.
    """
    orders = read_orders(project)
    for each in project.everyone:
        each.upstream.fetch()
    found = open_branch(project, pulls)
    outcome = good = bad = branch = ""
    at = project.main_ref()
    if found is not None:
        branch, at = found.name, found.commit
    if branch or orders.dry:
        joint = JointWalk([Walk(each, branch=branch or rehearsal(project), ref=at) for each in project.everyone])
        end = joint.run(joint.strategy()[0], allowed=Allowed(moves=False, probes=False))
        outcome, good, bad = end.outcome, end.good, end.bad
        project = joint.walk_of(end.upstream).project
    if not branch and (back := branches.taken_back(project, project.main_ref())[0]):
        outcome, bad = "taken back", back
    upstream, title = project.upstream, " and ".join(each.upstream.config.title for each in project.everyone)
    head = upstream.head()
    pin = upstream.base_of(project.pin(at), head)
    committed = datetime.fromisoformat(upstream.text("log", "-1", "--format=%cI", pin))
    state = {"": "idle", "head": "at head", "untested": "walking"}.get(outcome, "needs a person")
    data = {
        "upstream": title,
        "state": "waiting for its merge" if found is not None and found.waits else state,
        **vars(orders),
        "branch": branch,
        "pull": found.pull.url if found is not None and found.pull is not None else "",
        "outcome": outcome,
        "pin": pin,
        "pinned": f"{committed:%Y-%m-%d}",
        "age": max(0, (project.clock() - committed).days),
        "passed": len(upstream.affecting(project.started_from(at), pin)) if branch else 0,
        "ahead": len(upstream.affecting(pin, head)),
        "good": good,
        "bad": bad,
        "subject": upstream.commit(bad).title if bad else "",
        "commit_url": upstream.config.commit_url,
    }
    return msgspec.convert(data, RollState)


def read_state(path: Path) -> RollState:
    """The state in a file that another job wrote. :raises UsageError: if it is none"""
    try:
        return from_json(read_document(path), RollState)
    except (OSError, ValueError) as error:
        raise UsageError(
            "input-invalid",
            "this is not the recorded state of a roller",
            where=str(path),
            why=str(error),
            remedy="write it with: mlir-release integrate roll --record-to FILE, of the same version",
        ) from error


# -- the one standing issue: its body is the state, and a comment tells of what a person wants to hear -----------------

# A comment is written when a walk stops at something, goes on again, or the mode is switched; not for each round. A
# marker in the body says what was told already, so a command that was killed can be repeated.


_MARKER = re.compile(r"<!-- mlir-release-roll: (?P<json>\{[^\n]*\}) -->\n")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the marker."""

    comments: int  #: so far
    mode: str
    trouble: str  #: the outcome of the walk that needs a person, or empty
    bad: str  #: the last commit that was told to be bad, or empty


def track(tracker: Tracker, state: RollState) -> Issue:
    """Make the standing issue tell ``state``: open it if there is none, comment on it, bring it up to date.

    Safe to repeat. One that a person closed is opened again when there is something to tell. Of two that two runs have
    opened at once, the older one stays.
    """
    name = re.sub(r"[^a-z0-9.]+", "-", state.upstream.lower()).strip("-.") or "upstream"
    # No figures, or each round would change it.
    headline = state.state if state.mode == "running" else f"{state.mode}, {state.state}"
    key, title = f"roll/{name}", f"{markdown(state.upstream)} roller: {headline}"
    trouble = state.outcome if state.state == "needs a person" else ""
    issue = tracker.find(key)
    before = None
    match = _MARKER.match(issue.body) if issue is not None else None
    with suppress(MalformedError):  # a person may edit the body
        told = from_json(match["json"], _Told) if match is not None else None
        if told is not None and told.comments >= 0 and (not told.bad or _COMMIT.fullmatch(told.bad)):
            before = told
    now = _Told(
        comments=before.comments if before is not None else 0,
        mode=state.mode,
        trouble=trouble,
        bad=state.bad or (before.bad if before is not None else ""),
    )
    if issue is None:
        made = tracker.open(key, title, _body(state, now))
        issue = tracker.find(key) or made
        if issue.number != made.number:
            tracker.close(made, f"The same as #{issue.number}.")
        return issue
    lines = []  # of the comment, in Markdown: what happened that is worth one
    if before is not None and state.mode != before.mode:
        reason = f": {markdown(state.why)}" if state.why else ""
        lines.append(f"The roller is now **{state.mode}**, by {markdown(state.source)}{reason}.")
    if before is not None and now.trouble and (now.trouble, now.bad) != (before.trouble, before.bad):
        lines.append(f"**A person is needed** on {code(state.branch)}: {_trouble(state)}.")
    elif before is not None and before.trouble and not now.trouble:
        where = f"is at upstream's head, {code(state.pin[:12])}" if state.state == "at head" else f"is {state.state}"
        lines.append(f"The walk goes on: {_bad(state, before.bad) or markdown(before.trouble)} is passed. It {where}.")
    if news := "\n\n".join(lines):
        now = msgspec.structs.replace(now, comments=now.comments + 1)
        tracker.comment(issue, f"{key}/{now.comments}-{sha256_of(news)[:8]}", news)
    body = _body(state, now)
    if news or (issue.title, issue.body.rstrip()) != (title, body.rstrip()):
        return tracker.update(issue, title, body, reopen=bool(news))
    return issue


def _trouble(state: RollState) -> str:
    return f"{markdown(state.outcome)} at {_bad(state, state.bad)}" if state.bad else markdown(state.outcome)


def _bad(state: RollState, commit: str) -> str:
    if not commit:
        return ""
    subject = f" {markdown(state.subject)}" if commit == state.bad and state.subject else ""
    return link(code(commit[:12]), f"{state.commit_url}{commit}" if state.commit_url else "") + subject


def _body(state: RollState, told: _Told) -> str:
    reason = f": {markdown(state.why)}" if state.why else ""
    pin = link(code(state.pin[:12]), f"{state.commit_url}{state.pin}" if state.commit_url else "")
    rows = [
        ("mode", f"{state.mode} ({markdown(state.source)}){reason}"),
        ("state", f"{state.state}{f': {_trouble(state)}' if state.state == 'needs a person' else ''}"),
        ("branch", link(code(state.branch), state.pull) if state.branch else "no integrate is open"),
        ("pin", f"{pin} of {markdown(state.pinned)}, {state.age} days old"),
        ("ahead of main", counted(state.passed, "affecting commit")),
        ("behind upstream", counted(state.ahead, "affecting commit")),
        ("last culprit", _bad(state, told.bad) or "none is known"),
    ]
    modes = f"{code('stopped: the reason')}, {code('dry-run')} or {code('running')}"
    return "\n".join([
        f"<!-- mlir-release-roll: {msgspec.json.encode(told).decode()} -->",
        table(("", ""), rows),
        "",
        f"To switch it: *Settings > Secrets and variables > Actions > Variables*, {code(ROLL_VARIABLE)} = {modes}.",
        "",
        "This issue is maintained by `mlir-release integrate roll --track`. It comments when the walk stops, when the "
        "walk goes on, and when the mode is switched.",
    ])  # fmt: skip
