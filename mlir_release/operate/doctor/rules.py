"""Rules for branches and tags: whether they protect the toolkit, the pins and the releases, and admit the jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.operate.doctor.results import Answer, Hidden, ok, problem, unknown, verdict
from mlir_release.release.pinning.state import ABANDONED_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from mlir_release.operate.doctor.files import Examined
    from mlir_release.release.forge.observations import BranchRules, Rule

#: A tag of each kind of release, to apply rules to.
SAMPLE_TAGS = ("snapshot-20261120.01", "llvm-22.1.8.01")

#: Tags that are made once, by the pattern that a rule names. Without the last, an abandoned snapshot comes back.
_KEPT_TAGS = {
    "snapshot-*": SAMPLE_TAGS[0],
    "llvm-*": SAMPLE_TAGS[1],
    f"{ABANDONED_PREFIX}*": ABANDONED_PREFIX + SAMPLE_TAGS[0],
}

#: Rules (and fields of classic protection) that keep a job from changing a branch without a person's consent. Checks
#: that must pass are not among them: who may write may report that they have.
CLOSED = frozenset(
    {"update", "pull_request", "merge_queue", "required_pull_request_reviews", "restrictions", "lock_branch"}
)

#: Those that keep a job from committing to a branch at all. A pin commit has two parents, and begins its branch.
BLOCKING = CLOSED | {
    "creation",
    "required_linear_history",
    "required_status_checks",
    "workflows",
    "required_deployments",
    "code_scanning",
}

#: Rules (and fields) that admit some commits. Signatures: GitHub signs what a bot commits through its API
#: (docs.github.com, "About commit signature verification"), which is not checked here.
CHOOSY = frozenset(
    {"commit_message_pattern", "commit_author_email_pattern", "committer_email_pattern", "required_signatures"}
)

#: Rules that keep a branch's past, with what happens without each. Classic protection does so, unless its own field
#: allows that.
_KEEPING = (("non_fast_forward", "allow_force_pushes", "force-pushed"), ("deletion", "allow_deletions", "deleted"))


def protected_branch(known: Examined) -> Iterator[Answer]:
    """Whether the branch that the toolkit comes from can be changed by no job."""
    branch, found = known.seen.branch, known.seen.rules
    remedy = (
        f"Settings > Rules > New branch ruleset: active, target {branch}; require a pull request before merging, with "
        "a review from code owners; restrict deletions, block force pushes; no App on the bypass list. Nothing else "
        "need change: pins have a branch of their own (docs/operating.md, 'Moving an existing repository')"
    )
    rules = [rule for rule in found.rules or () if rule.kind in CLOSED]
    closed = {_named(rule) for rule in rules if rule.bypass == "nobody"} | _classic(found, CLOSED)
    passing = {_named(rule) for rule in rules if rule.bypass not in ("nobody", "asker")}
    if not closed:
        yield from _hidden(branch, found)
    if passing and not closed:
        yield unknown(f"{branch} may be open to an App that passes {', '.join(sorted(passing))}", remedy)
    if found.rules is None or (found.protection is None and not closed) or (passing and not closed):
        return
    open_to = [*([] if closed else ["changed by any job that may write contents"]), *_open_to(found)]
    if open_to:
        yield problem(f"{branch}, which every release's toolkit comes from, can be {' and '.join(open_to)}", remedy)
    else:
        yield ok(f"jobs can't change {branch}: {', '.join(sorted(closed))}")


def pin_branches(known: Examined) -> Iterator[Answer]:
    """Whether jobs may commit pins to their branches, and nobody can take a pin back."""
    pins = known.seen.pins
    patterns = [f"{name.partition('/')[0]}/*" if name.startswith("release/") else name for name in pins]
    keep = (
        f"Settings > Rules > New branch ruleset: active, targets {' and '.join(patterns)}; restrict deletions "
        "and block force pushes, nothing else, no bypass"
    )
    for branch, found in pins.items():
        rules = [rule for rule in found.rules or () if rule.bypass != "asker"]
        blocking = {_named(rule) for rule in rules if rule.kind in BLOCKING and rule.bypass == "nobody"}
        blocking |= _classic(found, BLOCKING)
        unclear = {_named(rule) for rule in rules if rule.kind in CHOOSY} | _classic(found, CHOOSY)
        unclear |= {_named(rule) for rule in rules if rule.kind in BLOCKING and rule.bypass != "nobody"}
        admit = (
            f"exclude {branch} from that rule (Settings > Rules or Branches): a job's own token can't be put on a "
            "bypass list, and what it commits there is checked before anything is built or published"
        )
        if blocking:
            yield problem(f"jobs may not commit pins to {branch}: {', '.join(sorted(blocking))}", admit)
            continue
        if unclear:
            yield unknown(f"{branch} has rules that may block jobs: {', '.join(sorted(unclear))}", admit)
        yield from _hidden(branch, found)
        if not unclear and found.rules is not None and found.protection is not None:
            open_to = " and ".join(_open_to(found))
            shown = f"jobs may commit pins to {branch}"
            yield verdict(not open_to, f"{shown}; it can be {open_to}" if open_to else shown, keep)


def tags(known: Examined) -> Iterator[Answer]:
    """Whether tags of releases are protected, and new ones can be made."""
    for pattern, sample in _KEPT_TAGS.items():
        rules = [rule for rule in known.seen.tag_rules or () if rule.covers(sample)]
        kinds = {rule.kind for rule in rules}
        for rule in rules:
            if rule.kind == "creation" and rule.bypass != "asker":
                sure = rule.bypass == "nobody"
                yield (problem if sure else unknown)(
                    f"a rule {'prevents' if sure else 'may prevent'} jobs from creating {pattern}: {_named(rule)}",
                    "remove `Restrict creations` from that ruleset: a job's own token can't be put on a bypass list",
                    check="tag-creation",
                )
        open_to = " and ".join(
            word for kind, word in (("update", "moved"), ("deletion", "deleted")) if kind not in kinds
        )
        yield verdict(
            not open_to,
            f"{pattern} can be {open_to}" if open_to else f"{pattern} can't be moved or deleted",
            f"Settings > Rules > New tag ruleset: active, target {pattern}, restrict updates and deletions, no bypass",
        )


def _open_to(found: BranchRules) -> list[str]:
    """The dangers to a branch's past."""
    classic = found.protection or frozenset()
    return [word for kind, allowed, word in _KEEPING if kind not in found.kinds and (not classic or allowed in classic)]


def _hidden(branch: str, found: BranchRules) -> Iterator[Answer]:
    if found.rules is None:
        yield Hidden(f"the rules for {branch}", "rules", "metadata: read")
    if found.protection is None:
        yield Hidden(f"how {branch} is protected", "protection", "administration: read")


def _classic(found: BranchRules, kinds: AbstractSet[str]) -> set[str]:
    return {f"{field} (classic protection)" for field in (found.protection or frozenset()) & kinds}


def _named(rule: Rule) -> str:
    return f"{rule.kind} ({rule.ruleset})" if rule.ruleset else rule.kind
