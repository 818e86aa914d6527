"""The pull request of an integrate: its text, from the trailers of the branch's commits and of the carried patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.foreign import code, link, markdown
from mlir_release.integrate.ledger import carried
from mlir_release.integrate.state import T_BREAKS, T_COMMITS, T_PIN, T_UPSTREAM, T_VERDICT
from mlir_release.integrate.strategy import Verdict
from mlir_release.integrate.superseded import superseded
from mlir_release.integrate.upstream import shown
from mlir_release.model.trailers import parse_trailers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.forge.services import PullRequests
    from mlir_release.integrate.project import Project


#: Heads the list of culprits, in the pull request and in the squashed commit.
CULPRITS = "Upstream commits that broke this project"


def branch_commits(project: Project, branch: str) -> list[tuple[str, str, Mapping[str, str]]]:
    """Commits of the branch since it left main, oldest first: id, subject, trailers."""
    since = f"{project.main_ref()}..refs/heads/{branch}"
    output = project.outer.run("log", "-z", "--first-parent", "--reverse", "--format=%H%n%B", since).stdout
    found: list[tuple[str, str, Mapping[str, str]]] = []
    for record in output.decode(errors="surrogateescape").split("\0"):
        commit, _, message = record.partition("\n")
        if commit:
            found.append((commit, message.partition("\n")[0], parse_trailers(message)))
    return found


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
    name = project.config.upstream.title
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


def totals(commits: list[tuple[str, str, Mapping[str, str]]]) -> tuple[int, int]:
    """Affecting commits that the branch's commits passed, and breaks among them."""
    passed = sum(int(t.get(T_COMMITS, "0")) for _, _, t in commits)
    breaks = sum(int(t.get(T_BREAKS, "0")) + (t.get(T_VERDICT) == Verdict.BAD) for _, _, t in commits)
    return passed, breaks


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
