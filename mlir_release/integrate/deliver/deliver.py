"""Tell people of an integrate: in its pull request, and by the notification services."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.console import counted
from mlir_release.ground.errors import MachineError, ReleaseError
from mlir_release.ground.foreign import code, link, markdown
from mlir_release.ground.storage.download import HTTP_TIMEOUT
from mlir_release.ground.storage.files import read_end
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.ground.strategy import Verdict
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
    from collections.abc import Sequence

    from mlir_release.ground.hosting import PullRequests
    from mlir_release.integrate.project import Integration
    from mlir_release.integrate.report import WalkReport

#: The last bytes of a log that are attached: services accept 8 MiB and more.
ATTACHED = 4 << 20


#: Heads the list of fixes, in the pull request and in the squashed commit.
CHANGES = "Changes to this repository"

#: Heads the list of patches that were dropped, or are carried again, and of culprits that were skipped.
TOLD = "Dropped and skipped"


def pull_request_text(project: Integration, branch: str, at: str = "") -> tuple[str, str]:
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
    fixes: list[tuple[Integration, str, list[str]]] = []  # of the culprits since the last squashed commit
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


def merge_subject(project: Integration, branch: str) -> str:
    """The subject of a commit that brings the main branch into an integrate branch."""
    return f"Merge {project.config.downstream.branch} into {branch}"


def _reference(project: Integration, commit: str) -> str:
    """An upstream commit; on GitHub a link to it, in the messages of commits, too."""
    name = project.upstream.config.github
    return f"{name}@{commit}" if name else commit


def update_pull_request(project: Integration, branch: str, pulls: PullRequests, *, walked: str = "") -> None:
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
            pulls.comment(branch=report.end.branch, key="report", body=text)
        except ReleaseError as error:
            failures.append(error)
    with scratch_folder("report") as folder:
        attachments = [folder / "report.md"]
        attachments[0].write_text(text, encoding="utf-8")
        if report.log:
            attachments.append(folder / "smoke-test.log")
            attachments[1].write_bytes(read_end(Path(report.log), ATTACHED))
        try:
            notify(variable, title=f"{report.end.branch}: {report.end.outcome}", body=text, attachments=attachments)
        except ReleaseError as error:
            failures.append(error)
    return failures


def notify(variable: str, *, title: str, body: str, attachments: Sequence[Path] = ()) -> int:
    """Send Markdown to every URL in the environment variable ``variable`` (separated by white space).

    Returns how many there are. A body that is longer than a service takes is shortened, unless the URL sets apprise's
    ``overflow``, so the attachments should hold all of it. The URLs hold secrets: they are never shown.

    :raises MachineError: if a URL is malformed, or a service did not accept the message; the others have got it then
    """
    urls = os.environ.get(variable, "").split()
    if not urls:
        return 0
    import apprise

    files = [str(path) for path in attachments if path.is_file()]
    malformed, refused = [], []
    # Apprise logs the addresses that it can't read, secrets and all, and Python prints unhandled records.
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        for number, url in enumerate(urls, 1):
            service = apprise.Apprise.instantiate(url)
            if service is None:
                malformed.append(str(number))
                continue
            # Unless the URL sets a limit: apprise's own four seconds are short for a log on its way.
            if not re.search("[?&][cr]to=", url):
                service.socket_connect_timeout = service.socket_read_timeout = HTTP_TIMEOUT
            short = body if "overflow=" in url else shortened(body, service.body_maxlen - len(title))
            form = apprise.NotifyFormat.MARKDOWN
            if not apprise.Apprise(service).notify(body=short, title=title, body_format=form, attach=files or None):
                refused.append(f"{number} ({service.service_name})")
    finally:
        logging.disable(before)
    if malformed:
        what = "not a notification address that apprise understands: number"
        remedy = "see the list of services in apprise's documentation"
    else:
        what = "the message was not accepted by notification address number"
        remedy = "check the addresses and the network; the report itself is printed all the same"
    if some := ", ".join(malformed or refused):
        raise MachineError("network-failed", f"{what} {some} of {len(urls)}", where=f"${variable}", remedy=remedy)
    return len(urls)


def shortened(markdown: str, limit: int) -> str:
    """``markdown`` in at most ``limit`` characters: whole lines, no code block left open. (Apprise's own way of cutting
    drops all attachments but one.)"""
    if len(markdown) <= limit:
        return markdown
    fences = re.findall("^`{3,}", markdown, re.MULTILINE)
    cut = markdown[: max(0, limit - max(map(len, fences), default=0) - len("\n\n…"))].rpartition("\n")[0]
    opened = ""
    for fence in re.findall("^`{3,}", cut, re.MULTILINE):
        opened = fence if not opened else "" if fence == opened else opened
    return f"{cut}\n{opened}\n…" if opened else f"{cut}\n…"
