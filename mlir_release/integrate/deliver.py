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
from mlir_release.integrate.state import CULPRITS, T_BREAKS, T_PIN, T_UPSTREAM, T_VERDICT, branch_commits, totals
from mlir_release.integrate.strategy import Verdict
from mlir_release.integrate.upstream import shown

if TYPE_CHECKING:
    from mlir_release.forge.services import PullRequests
    from mlir_release.integrate.project import Project
    from mlir_release.integrate.report import WalkReport

#: The last bytes of a log that are attached: services accept 8 MiB and more.
ATTACHED = 4 << 20


def pull_request_text(project: Project, branch: str) -> tuple[str, str]:
    """Title and body, from the ledger and the walk."""
    pin = project.pin(f"refs/heads/{branch}")
    head = project.upstream.head()
    base = project.upstream.base_of(pin, head)
    commits = branch_commits(project, branch)
    if len(commits) == 1 and T_BREAKS in commits[0][2]:  # squashed already: the text is in the commit
        title, _, rest = project.outer.message(commits[0][0]).partition("\n\n")
        return title, rest.rpartition("\n\n")[0]
    passed, breaks = totals(commits)
    name = project.upstream.config.title
    patches = []
    stack = carried(project.upstream, base, pin)
    unneeded = superseded(project.upstream, stack, base, head)
    for patch in stack:
        drop_when = f"drop when {patch.drop_when}" if patch.drop_when else ""
        told = (patch.kind, patch.why, patch.link, drop_when, unneeded.get(patch.sha))
        details = (link(markdown(text), text) for text in told if text)
        patches.append(f"- {code(patch.sha[:12])} {markdown(shown(patch.subject))} ({'; '.join(details)})")
    sections = {
        "Carried patches": patches,
        "Changes to this repository": [
            f"- {code(commit[:12])} {markdown(shown(subject))}"
            for commit, subject, trailers in commits
            if T_UPSTREAM not in trailers and T_PIN not in trailers
        ],
        CULPRITS: [f"- {trailers[T_UPSTREAM]}" for _, _, trailers in commits if trailers.get(T_VERDICT) == Verdict.BAD],
    }
    paragraphs = [
        f"Advances {markdown(name)} from {project.started_from(branch)} to {base}: {passed} affecting commits."
    ]
    for title, items in sections.items():
        if items:
            paragraphs += [f"### {title}", "\n".join(items)]
    paragraphs.append(f"{breaks} breaks on the way; smoke test: {code(' '.join(project.config.smoke.argv))}.")
    return f"Integrate {name} at {base[:12]}", "\n\n".join(paragraphs)


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
