"""Tell people of an integrate: in its pull request, and by the notification services."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.console import counted
from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.foreign import code, link, markdown
from mlir_release.ground.storage.files import read_end
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.ground.strategy import Verdict
from mlir_release.integrate.deliver.notify import notify
from mlir_release.integrate.patches.ledger import carried, reverted_since, superseded
from mlir_release.integrate.state import (
    CULPRITS,
    T_UPSTREAM,
    T_VERDICT,
    TELLING,
    is_recorded,
    is_squashed,
    of_upstream,
    totals,
)
from mlir_release.integrate.upstream import shown

if TYPE_CHECKING:
    from mlir_release.ground.hosting import PullRequests
    from mlir_release.integrate.project import Project
    from mlir_release.integrate.report import WalkReport

#: The last bytes of a log that are attached: services accept 8 MiB and more.
ATTACHED = 4 << 20


#: Heads the list of fixes, in the pull request and in the squashed commit.
CHANGES = "Changes to this repository"

#: Heads the list of patches that were dropped, or are carried again, and of culprits that were skipped.
TOLD = "Dropped and skipped"


def pull_request_text(project: Project, branch: str, at: str = "") -> tuple[str, str]:
    """Title and body, from the ledger and the walk; of several upstreams, each has its paragraphs.

    :param at: a commit of the branch, which is looked at instead of its head
    """
    commits = project.commits(branch, at)
    if len(commits) == 1 and is_squashed(commits[0][2]):  # the text is in the commit already
        title, _, rest = project.outer.message(commits[0][0]).partition("\n\n")
        return title, rest.rpartition("\n\n")[0]
    paragraphs, names, count, breaks = [], [], 0, 0
    for each in project.walked(branch):
        upstream, title = each.upstream, each.upstream.config.title
        pin, head, begun = each.pin(at or f"refs/heads/{branch}"), upstream.head(), each.started_from(at or branch)
        base = upstream.base_of(pin, head)
        passed, broke = totals(commits, each.names)
        old, new = (_reference(each, commit) for commit in (begun, base))
        name = upstream.config.github
        compared = f" https://github.com/{name}/compare/{begun}...{base}" if name else ""
        paragraphs.append(
            f"Advances {markdown(title)} from {old} to {new}: {counted(passed, 'affecting commit')}.{compared}"
        )
        stack = carried(upstream, base, pin)
        if stack:
            paragraphs.append(f"### Carried patches{f' of {markdown(title)}' if each.slug else ''}")
            unneeded = superseded(upstream, stack, base, head)
            items = []
            for patch in stack:
                drop_when = f"drop when {patch.drop_when}" if patch.drop_when else ""
                said = (patch.kind, patch.why, patch.link, drop_when, unneeded.get(patch.sha))
                details = (link(markdown(text), text) for text in said if text)
                items.append(f"- {code(patch.sha[:12])} {markdown(shown(patch.subject))} ({'; '.join(details)})")
            paragraphs.append("\n".join(items))
        reverted = [f"- {one.text(code, markdown)}" for one in reverted_since(upstream, base, stack, head)]
        if reverted:
            paragraphs += [f"### Reverted upstream{f' in {markdown(title)}' if each.slug else ''}", "\n".join(reverted)]
        names.append(f"{title} at {base[:12]}")
        count, breaks = count + passed, breaks + broke
    bodies = project.messages(branch, at)
    told: list[str] = []
    culprits: list[str] = []
    changes: list[str] = []
    fixes: list[tuple[Project, str, list[str]]] = []  # of the culprits since the last squashed commit
    fixing: list[str] | None = None  # those of the last advance, if it was to a culprit
    for commit, subject, trailers in commits:
        if is_squashed(trailers):  # at an earlier landing: its text lists them
            message = shown(bodies[commit])
            for items, heading in ((culprits, CULPRITS), (changes, CHANGES), (told, TOLD)):
                items += message.partition(f"### {heading}\n\n")[2].partition("\n\n")[0].splitlines()
            continue
        if is_recorded(trailers):
            lines = (shown(line).partition(" ") for line in bodies[commit].splitlines() if line.startswith(TELLING))
            told += [f"- {verb} {markdown(rest)}" for verb, _, rest in lines]
        own = [(each, of_upstream(trailers, each.names)) for each in project.walked(branch)]
        if any(T_UPSTREAM in recorded for _, recorded in own):
            fixing = None
            for each, recorded in own:
                if recorded.get(T_VERDICT) == Verdict.BAD and T_UPSTREAM in recorded:
                    fixing = []
                    fixes.append((each, recorded[T_UPSTREAM], fixing))
        elif subject != merge_subject(project, branch):
            if fixing is not None:
                fixing.append(f'"{markdown(shown(subject))}"')
            if not is_recorded(trailers):
                changes.append(f"- {markdown(shown(subject))}")  # its id goes with the squash
    for each, culprit, fixed in fixes:
        (content,) = each.upstream.objects([culprit])
        message = content[1].partition(b"\n\n")[2].decode(errors="replace") if content else ""
        words = [_reference(each, culprit), markdown(message.partition("\n")[0])]
        words += [f"— fixed by {', '.join(fixed)}"] if fixed else []
        culprits.append(f"- {' '.join(filter(None, words))}")
    for heading, items in ((TOLD, told), (CHANGES, changes), (CULPRITS, culprits)):
        if items:
            paragraphs += [f"### {heading}", "\n".join(items)]
    paragraphs.append(
        f"{counted(breaks, 'break')} on the way; smoke test: {code(' '.join(project.config.smoke.argv))}."
    )
    name = " and ".join([*names[:-1], title])  # of several, all but the last have their commits in it
    fields = {"name": name, "short": base[:12], "commit": base, "from": begun[:12], "count": count}
    return project.config.land.title.format_map(fields), "\n\n".join(paragraphs)


def merge_subject(project: Project, branch: str) -> str:
    """The subject of a commit that brings the main branch into an integrate branch."""
    return f"Merge {project.config.downstream.branch} into {branch}"


def _reference(project: Project, commit: str) -> str:
    """An upstream commit; on GitHub a link to it, in the messages of commits, too."""
    name = project.upstream.config.github
    return f"{name}@{commit}" if name else commit


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
            attachments.append(folder / "smoke-test.log")
            attachments[1].write_bytes(read_end(Path(report.log), ATTACHED))
        try:
            notify(variable, title=f"{report.branch}: {report.outcome}", body=text, attachments=attachments)
        except ReleaseError as error:
            failures.append(error)
    return failures
