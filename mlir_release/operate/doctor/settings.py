"""The repository's settings: branches, releases, reviews, Pages, the environment for PyPI; and the token that asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.operate.doctor.files import SECURITY_FILE, Examined, adopt_command
from mlir_release.operate.doctor.results import Answer, Hidden, ok, problem, unknown, verdict
from mlir_release.release.forge.codeowners import CODEOWNERS_FILE, unowned
from mlir_release.release.forge.files import head_of
from mlir_release.release.forge.observations import matches
from mlir_release.release.pinning.state import ABANDONED_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from mlir_release.operate.doctor.files import Examined
    from mlir_release.release.forge.observations import BranchRules, Rule


#: The environment that the job which uploads to PyPI runs in; and the one that GitHub itself deploys Pages through.
PYPI_ENVIRONMENT, PAGES_ENVIRONMENT = "pypi", "github-pages"

#: The repository variable without which snapshot.yml does nothing on its schedule: the push that brings it starts that.
SCHEDULE_VARIABLE = "MLIR_RELEASE_SCHEDULE"

#: The tag of a release candidate, to apply rules to.
SAMPLE_CANDIDATE = "llvm-23.1rc1.01"

#: Permissions that commands need, and their purposes.
_NEEDED = {
    "contents": "commits pins and makes tags and releases",
    "actions": "dispatches the build",
    "issues": "maintains the issues of failing targets",
}
_PULLS = {"pull-requests": "opens integrate's pull requests"}


def token(known: Examined) -> Iterator[Answer]:
    """The token's rights. A right that GitHub does not show is unknown, never ok.

    A classic token has its user's rights, within its scopes. Its ``workflow`` is for pushing workflow files only.
    """
    seen, private = known.seen.token, known.seen.private
    needed = _NEEDED | (_PULLS if known.contents.integrates else {})
    scopes = ", ".join(sorted(seen.scopes)) or "none"
    wider = "give it the scope repo; better, use a fine-grained token, or the workflow's own"
    reader = problem(
        "the token's user may only read the repository",
        "give the user the role Write, or use the token of a user who has it",
    )
    if seen.kind == "none":
        text = "there is no token: only public data is visible, and nothing can be written"
        yield unknown(text, "set GITHUB_TOKEN (see docs/operating.md)")
    elif seen.kind != "classic" and seen.role is False:
        yield reader
    elif seen.kind != "classic":
        for permission, what in needed.items():
            check, words = f"token-{permission}", permission.replace("-", " ")
            remedy = f"give it {words}: write (in a workflow: the job's permissions)"
            if permission in seen.refused:
                text = f"the token may not even read {permission}; write access {what}"
                yield problem(text, remedy, check=check)
            elif permission == "contents" and seen.writes is not None:
                text = f"the token {'has' if seen.writes else 'lacks'} contents: write, which {what}"
                yield verdict(seen.writes, text, remedy, check=check)
            else:
                text = f"GitHub does not show whether the token has {permission}: write, which {what}"
                yield unknown(text, f"check the token's own settings: {words}: write", check=check)
    elif "repo" not in seen.scopes and (private or "public_repo" not in seen.scopes):
        place = "a private repository" if private else "the repository"
        yield problem(f"the token's scopes are {scopes}: it may not write to {place}", wider)
    elif seen.role is False:
        yield reader
    elif seen.role is None:
        text = "GitHub does not report whether the token's user may write to the repository"
        yield unknown(text, "check the user's role in the repository")
    else:
        for permission, what in needed.items():
            # docs.github.com, "Create a workflow dispatch event": classic tokens need repo.
            enough = "repo" in seen.scopes or permission != "actions"
            text = f"the scopes {scopes} {'are' if enough else 'are not'} enough for {permission}: write, which {what}"
            yield verdict(enough, text, wider, check=f"token-{permission}")


# -- branches, releases, reviews -------------------------------------------------------------------------------------


def branch(known: Examined) -> Iterator[Answer]:
    """Where the branch of a folder is."""
    commit = head_of(known.place, known.seen.branch)
    yield ok(f"{known.seen.branch} is at {commit[:12]}")


def archived(known: Examined) -> Iterator[Answer]:
    """Whether nothing can be written at all."""
    if known.seen.archived:
        yield problem(
            "the repository is archived: nothing can be written", "Settings > General > Unarchive this repository"
        )


def default_branch(known: Examined) -> Iterator[Answer]:
    """Whether the branch is the default branch and the one in targets.toml."""
    seen, contents = known.seen, known.contents
    if known.releases and seen.branch != seen.default_branch:
        yield problem(
            f"the toolkit is on {seen.branch}, but the default branch is {seen.default_branch}",
            "schedules and dispatches run from the default branch, and tags are checked against it: make the two the "
            "same (Settings > General)",
        )
    if contents.matrix is not None and contents.matrix.release.branch != seen.branch:
        yield problem(
            f"targets.toml names {contents.matrix.release.branch} as its branch, but this is {seen.branch}",
            f'set branch = "{seen.default_branch}" in its [release], or examine the other branch with --branch',
        )


def immutable(known: Examined) -> Iterator[Answer]:
    """Whether published files are safe from exchange."""
    on = bool(known.seen.immutable)
    text = f"releases are {'' if on else 'not '}immutable once they are published"
    yield verdict(on, text, "Settings > General > Releases: enable release immutability")


def issues(known: Examined) -> Iterator[Answer]:
    """Whether failures can be reported."""
    enabled = known.seen.issues
    text = f"issues are {'enabled' if enabled else 'disabled: failing targets can not be reported'}"
    yield verdict(enabled, text, "Settings > General > Features: Issues")


def code_owners(known: Examined) -> Iterator[Answer]:
    """Whether every file has an owner, who reviews its changes. Another check reports files that can't be seen."""
    seen = known.seen
    if seen.files is None:
        return
    content = seen.files.get(CODEOWNERS_FILE)
    if content is None:
        text = f"{seen.branch} lacks {CODEOWNERS_FILE}: a change of the toolkit needs nobody's review"
        yield problem(text, adopt_command(seen.repository))
    elif without := unowned(content.decode("utf-8", errors="replace")):
        text = f"{CODEOWNERS_FILE} has no owner for {', '.join(without)}"
        yield problem(text, "give every pattern an owner, and * before all others")
    elif seen.codeowners_errors is None:
        yield None
    else:
        yield verdict(
            not seen.codeowners_errors,
            f"{CODEOWNERS_FILE}: {'; '.join(seen.codeowners_errors) or 'every file has an owner'}",
            "name users or teams that exist and have write access to the repository",
        )


def security_policy(known: Examined) -> Iterator[Answer]:
    """Whether people can read how to report a vulnerability."""
    seen = known.seen
    if seen.files is not None:
        there = SECURITY_FILE in seen.files
        text = f"{seen.branch} {'has' if there else 'lacks'} {SECURITY_FILE}"
        yield verdict(there, text, "copy it from the toolkit's repository")


def private_reports(known: Examined) -> Iterator[Answer]:
    """Whether vulnerabilities can be reported without telling everybody."""
    seen = known.seen
    if seen.private:
        yield ok("the repository is private: only its members see issues")
    elif seen.private_reports is None:
        yield None
    else:
        yield verdict(
            seen.private_reports,
            f"vulnerabilities can {'' if seen.private_reports else 'not '}be reported in private",
            "Settings > Advanced Security: enable private vulnerability reporting",
        )


def schedule(known: Examined) -> Iterator[Answer]:
    """Whether snapshots are made on schedule; a repository is set up before they are."""
    variables = known.seen.variables
    value = variables.seen.get(SCHEDULE_VARIABLE)
    if value is None and not variables.complete:
        yield None
        return
    yield verdict(
        value == "on",
        f"snapshot.yml {'runs' if value == 'on' else 'does nothing'} on its schedule",
        f"Settings > Secrets and variables > Actions > Variables: {SCHEDULE_VARIABLE}, with the value on",
    )


# -- Pages and PyPI --------------------------------------------------------------------------------------------------


def pages(known: Examined) -> Iterator[Answer]:
    """Whether Pages can serve the index, and its environment admits the default branch."""
    seen = known.seen
    if seen.pages is None:
        yield None
    else:
        ways = {"workflow": "Pages are deployed by a workflow", "": "Pages are off"}
        text = ways.get(seen.pages, "Pages are built from a branch")
        yield verdict(seen.pages == "workflow", text, "Settings > Pages > Source: GitHub Actions")
    found = (seen.environments or {}).get(PAGES_ENVIRONMENT)
    if found is not None:  # else the first deployment makes it
        # GitHub makes it for the branch that is the default at that time, and keeps it when that is renamed.
        admitted = found.refs != "selected" or any(matches(pattern, seen.default_branch) for pattern in found.branches)
        yield verdict(
            admitted,
            f"{seen.default_branch} {'may' if admitted else 'may not'} deploy to the environment {PAGES_ENVIRONMENT}",
            f"Settings > Environments > {PAGES_ENVIRONMENT} > Deployment branches and tags: add {seen.default_branch}",
            check="pages-environment",
        )


def environment(known: Examined) -> Iterator[Answer]:
    """Whether the environment that trusted publishing is bound to admits numbered releases, and people approve them.

    Anyone with push rights can make a tag with their own ``release.yml``; PyPI can't tell its identity from ours.
    """
    environments, matrix = known.seen.environments or {}, known.contents.matrix
    remedy = (
        f"Settings > Environments > {PYPI_ENVIRONMENT}: Deployment branches and tags > Selected, "
        "add the tag rule llvm-*, no branch; add required reviewers"
    )
    found = environments.get(PYPI_ENVIRONMENT)
    if found is None:
        yield problem(f"there is no environment {PYPI_ENVIRONMENT}, which trusted publishing is bound to", remedy)
        return
    candidates = matrix is not None and matrix.release.pypi_candidates
    snapshot, *numbered = (
        any(matches(pattern, tag) for pattern in found.tags)
        for tag in (*SAMPLE_TAGS, *((SAMPLE_CANDIDATE,) if candidates else ()))
    )
    strict = found.refs == "selected" and all(numbered) and not snapshot and not found.branches
    selected = [*(f"tags {tag}" for tag in found.tags), *(f"branches {branch}" for branch in found.branches)]
    open_to = {"any": "any branch or tag", "protected": "protected branches"}.get(
        found.refs, ", ".join(selected) or "nothing"
    )
    wanted = ", and release candidates are to go to PyPI" if candidates else ""
    yield verdict(strict, f"the environment {PYPI_ENVIRONMENT} is open to {open_to}{wanted}", remedy)
    who = "a reviewer approves" if found.reviewed else "nobody has to approve"
    yield verdict(found.reviewed, f"{who} what goes to PyPI", remedy, check="environment-reviewers")


# -- rules for branches and tags: whether they protect the toolkit, the pins and the releases, and admit the jobs ------


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
