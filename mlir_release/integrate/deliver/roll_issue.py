"""The one standing issue of a roller: its body is the state, and a comment tells of what a person wants to hear.

A comment is written when a walk stops at something, goes on again, or the mode is switched; not for each round. A
marker in the body says what was told already, so a command that was killed can be repeated.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from mlir_release.ground.console import counted
from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.foreign import code, link, markdown, table
from mlir_release.integrate.config import ROLL_VARIABLE

if TYPE_CHECKING:
    from mlir_release.ground.hosting import Issue, Tracker
    from mlir_release.integrate.walk.roll import RollState

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
