"""Rules for tags and for the pin's branch: whether they protect releases and admit the jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.doctor.results import Finding, hidden, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.forge.github.observations import Observations, Rule

#: A tag of each kind, to apply rules to.
SAMPLE_TAGS = ("snapshot-20261120.01", "llvm-22.1.8.01")

#: Rules (and fields of classic protection) that keep a job from committing directly to a branch.
BLOCKING = frozenset(
    {
        "update",
        "pull_request",
        "required_status_checks",
        "merge_queue",
        "workflows",
        "required_deployments",
        "code_scanning",
        "required_pull_request_reviews",
        "restrictions",
        "lock_branch",
    }
)

#: Rules (and fields) that admit some commits. Signatures: GitHub signs what a bot commits through its API
#: (docs.github.com, "About commit signature verification"), which is not checked here.
CHOOSY = frozenset(
    {"commit_message_pattern", "commit_author_email_pattern", "committer_email_pattern", "required_signatures"}
)


def examine_branch(seen: Observations) -> Iterator[Finding]:
    """Whether the snapshot job may commit the pin to its branch."""
    rules = [rule for rule in seen.branch_rules or () if rule.bypass != "asker"]
    blocking = {_named(rule) for rule in rules if rule.kind in BLOCKING and rule.bypass == "nobody"}
    unclear = {_named(rule) for rule in rules if rule.kind in CHOOSY}
    unclear |= {_named(rule) for rule in rules if rule.kind in BLOCKING and rule.bypass != "nobody"}
    for kinds, found in ((BLOCKING, blocking), (CHOOSY, unclear)):
        found |= {f"{field} (classic protection)" for field in (seen.protection or frozenset()) & kinds}
    remedy = (
        "remove the rule from the branch (Settings > Rules or Branches), or keep the pin in a repository without it: "
        "a job's own token can't be put on a bypass list"
    )
    if blocking:
        text = f"jobs may not commit to {seen.branch}: {', '.join(sorted(blocking))}"
        yield Finding("pin-branch", "problem", text, remedy)
        return
    if unclear:
        text = f"{seen.branch} has rules that may block jobs: {', '.join(sorted(unclear))}"
        yield Finding("pin-branch", "unknown", text, remedy)
    if seen.branch_rules is None:
        yield hidden(seen, "pin-branch", f"the rules for {seen.branch}", asked="rules", usual="metadata: read")
    if seen.protection is None:
        text = f"how {seen.branch} is protected"
        yield hidden(seen, "pin-branch", text, asked="protection", usual="administration: read")
    if not unclear and seen.branch_rules is not None and seen.protection is not None:
        yield Finding("pin-branch", "ok", f"jobs may commit the pin to {seen.branch}")


def _named(rule: Rule) -> str:
    return f"{rule.kind} ({rule.ruleset})" if rule.ruleset else rule.kind


def examine_tags(seen: Observations) -> Iterator[Finding]:
    """Whether tags of releases are protected, and new ones can be made."""
    if seen.tag_rules is None:
        yield hidden(seen, "tag-rules", "the rulesets", asked="rulesets", usual="metadata: read")
        return
    for sample in SAMPLE_TAGS:
        pattern = sample.partition("-")[0] + "-*"
        rules = [rule for rule in seen.tag_rules if rule.covers(sample)]
        kinds = {rule.kind for rule in rules}
        open_to = [word for kind, word in (("update", "moved"), ("deletion", "deleted")) if kind not in kinds]
        closed = [rule for rule in rules if rule.kind == "creation" and rule.bypass != "asker"]
        for rule in closed:
            sure = rule.bypass == "nobody"
            yield Finding(
                "tag-creation",
                "problem" if sure else "unknown",
                f"a rule {'prevents' if sure else 'may prevent'} jobs from creating {pattern}: {_named(rule)}",
                "remove `Restrict creations` from that ruleset: a job's own token can't be put on a bypass list",
            )
        yield verdict(
            "tag-rules",
            not open_to,
            f"{pattern} can be {' and '.join(open_to)}" if open_to else f"{pattern} can't be moved or deleted",
            f"Settings > Rules > New tag ruleset: active, target {pattern}, restrict updates and deletions, no bypass",
        )
