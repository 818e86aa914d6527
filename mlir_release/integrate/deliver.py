"""Tell people of an integrate: in its pull request, and by the notification services."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.errors import ReleaseError
from mlir_release.foreign import code, link, markdown
from mlir_release.host.notify import notify
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.integrate.ledger import carried, superseded
from mlir_release.integrate.state import (
    CULPRITS,
    T_BREAKS,
    T_UPSTREAM,
    T_VERDICT,
    branch_commits,
    is_recorded,
    of_upstream,
    totals,
)
from mlir_release.integrate.strategy import Verdict
from mlir_release.integrate.upstream import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlir_release.forge.services import PullRequests
    from mlir_release.integrate.project import Project
    from mlir_release.integrate.report import WalkReport

#: The last bytes of a log that are attached: services accept 8 MiB and more.
ATTACHED = 4 << 20


def pull_request_text(project: Project, branch: str) -> tuple[str, str]:
    """Title and body, from the ledger and the walk; of several upstreams, each has its paragraphs."""
    commits = branch_commits(project, branch)
    if len(commits) == 1 and any(key.startswith(T_BREAKS) for key in commits[0][2]):  # squashed: the text is in there
        title, _, rest = project.outer.message(commits[0][0]).partition("\n\n")
        return title, rest.rpartition("\n\n")[0]
    paragraphs, titles, breaks = [], [], 0
    for each in project.walked(branch):
        titles.append(f"{each.upstream.config.title} at {_base(each, branch)[:12]}")
        paragraphs += _about(each, branch, commits)
        breaks += totals(commits, each.names)[1]
    changes = [
        f"- {code(commit[:12])} {markdown(shown(subject))}"
        for commit, subject, trailers in commits
        if not is_recorded(trailers)
    ]
    culprits = [
        f"- {own[T_UPSTREAM]}"
        for _, _, trailers in commits
        for each in project.walked(branch)
        if (own := of_upstream(trailers, each.names)).get(T_VERDICT) == Verdict.BAD
    ]
    for title, items in (("Changes to this repository", changes), (CULPRITS, culprits)):
        if items:
            paragraphs += [f"### {title}", "\n".join(items)]
    paragraphs.append(f"{breaks} breaks on the way; smoke test: {code(' '.join(project.config.smoke.argv))}.")
    return f"Integrate {' and '.join(titles)}", "\n\n".join(paragraphs)


def _base(project: Project, branch: str) -> str:
    return project.upstream.base_of(project.pin(f"refs/heads/{branch}"), project.upstream.head())


def _about(project: Project, branch: str, commits: Sequence[tuple[str, str, Mapping[str, str]]]) -> list[str]:
    """The paragraphs about one upstream: how far it came, and what it carries."""
    upstream, head = project.upstream, project.upstream.head()
    base = _base(project, branch)
    passed, _ = totals(commits, project.names)
    title = markdown(upstream.config.title)
    told = [f"Advances {title} from {project.started_from(branch)} to {base}: {passed} affecting commits."]
    stack = carried(upstream, base, project.pin(f"refs/heads/{branch}"))
    unneeded = superseded(upstream, stack, base, head)
    patches = []
    for patch in stack:
        drop_when = f"drop when {patch.drop_when}" if patch.drop_when else ""
        known = (patch.kind, patch.why, patch.link, drop_when, unneeded.get(patch.sha))
        details = (link(markdown(text), text) for text in known if text)
        patches.append(f"- {code(patch.sha[:12])} {markdown(shown(patch.subject))} ({'; '.join(details)})")
    if patches:
        told += [f"### Carried patches{f' of {title}' if project.slug else ''}", "\n".join(patches)]
    return told


def update_pull_request(project: Project, branch: str, pulls: PullRequests, *, walked: str = "") -> None:
    """Open the draft or bring its text up to date, and start the downstream's own checks on the branch's head.

    :param walked: the picture of the walk, in Markdown
    """
    config = project.config
    title, body = pull_request_text(project, branch)
    pulls.ensure_draft(branch=branch, base=config.downstream.branch, title=title, body=f"{body}\n\n{walked}".rstrip())
    if config.ci.workflow:
        head = project.outer.text("rev-parse", "--verify", f"refs/heads/{branch}")
        pulls.ensure_ci(workflow=config.ci.workflow, branch=branch, head=head)


def deliver(report: WalkReport, *, text: str, variable: str, pulls: PullRequests | None) -> list[ReleaseError]:
    """Comment on the pull request, and notify the addresses in the environment variable ``variable``.

    The whole report and the end of its log are attached to a message. Returns what failed: no failure stops the other
    deliveries.

    :param text: the report, in Markdown
    """
    failures: list[ReleaseError] = []
    if pulls is not None:
        try:
            pulls.comment(branch=report.branch, key="report", body=text)
        except ReleaseError as error:
            failures.append(error)
    with scratch_folder("report") as folder:
        attachments = [folder / "report.md"]
        attachments[0].write_text(text, encoding="utf-8")
        if report.log:
            with Path(report.log).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - ATTACHED))
                attachments.append(folder / "smoke-test.log")
                attachments[1].write_bytes(log.read())
        try:
            notify(variable, title=f"{report.branch}: {report.outcome}", body=text, attachments=attachments)
        except ReleaseError as error:
            failures.append(error)
    return failures
