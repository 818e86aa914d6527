"""A token's view of a repository on GitHub and its settings. None stands for hidden values."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Who passes a rule: the App or job that asks; perhaps another one (an App is on the bypass list); nobody who commits
#: pins. A job's own token can't be put on a bypass list.
Bypass = Literal["asker", "another", "nobody"]


@dataclass(frozen=True, kw_only=True)
class Token:
    """The one that asks."""

    kind: Literal["none", "classic", "fine-grained", "app"]  #: app: of an App's installation, so a job's, too
    scopes: frozenset[str] = frozenset()  #: of a classic token
    role: bool | None = None  #: whether its user may push; None: it has no user, or GitHub does not say
    writes: bool | None = None  #: whether it has contents: write; None: that can't be told
    refused: frozenset[str] = frozenset()  #: permissions (``actions``, ``issues``, …) that it can't even read with


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule of an active ruleset of the repository or its organisation."""

    kind: str  #: ``creation``, ``update``, ``deletion``, ``pull_request``, …
    ruleset: str = ""  #: its name
    include: tuple[str, ...] = ()  #: of a rule for tags: ``refs/tags/…`` patterns, or ``~ALL``
    exclude: tuple[str, ...] = ()
    bypass: Bypass | None = "nobody"

    def covers(self, tag: str) -> bool:
        """Whether a rule for tags is about a tag."""
        ref = f"refs/tags/{tag}"
        return any(matches(p, ref) for p in self.include) and not any(matches(p, ref) for p in self.exclude)


@dataclass(frozen=True, kw_only=True)
class BranchRules:
    """The demands on changes of a branch, which need not exist; None: they are hidden."""

    rules: tuple[Rule, ...] | None
    protection: frozenset[str] | None  #: the demands of classic protection on a job, and its permissions

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of the rules that can be seen."""
        return frozenset(rule.kind for rule in self.rules or ())


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Who may deploy to an environment."""

    refs: Literal["any", "protected", "selected"] = "any"  #: protected: branches that have a protection rule
    branches: tuple[str, ...] = ()  #: patterns, if selected
    tags: tuple[str, ...] = ()
    reviewed: bool = False  #: whether one of the people or teams that are named must approve


@dataclass(frozen=True, kw_only=True)
class AllowedActions:
    """Which actions of others may run."""

    policy: Literal["all", "local_only", "selected"]  #: local_only: those of the same owner
    github_owned: bool = False
    verified: bool = False  #: those of creators that GitHub's marketplace has verified
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Names:
    """Names of secrets or variables that jobs of the repository get, its organisation's among them."""

    seen: Mapping[str, str]  #: name -> value; secrets have none that is told
    complete: bool = True  #: False: a list of them is hidden


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why something is hidden."""

    said: str  #: by GitHub
    permissions: str = ""  #: that it asks for (X-Accepted-GitHub-Permissions): ``pages=read``; of some tokens only

    @property
    def by_plan(self) -> bool:
        """Whether nobody sees it, because the owner's plan has no such thing ("Upgrade to …")."""
        return "upgrade to" in self.said.lower()


@dataclass(frozen=True, kw_only=True)
class WorkflowDefaults:
    """The default rights of a job's token."""

    write: bool
    pull_requests: bool  #: whether jobs' own tokens may create (and approve) pull requests at all


@dataclass(frozen=True, kw_only=True)
class Observations:
    """Everything that was looked at. Without it, a value is one that can't be seen."""

    repository: str = ""  #: empty: a folder, of which files are all there is to see
    private: bool = False
    archived: bool = False
    branch: str  #: that the toolkit comes from, and that jobs must not change
    default_branch: str
    token: Token = Token(kind="none")
    files: Mapping[str, bytes] | None = None  #: of the branch: those that were asked for, and all workflows
    actions_enabled: bool | None = None
    commits_required: bool | None = None  #: whether actions must be named by their full commit, nested ones too
    allowed_actions: AllowedActions | None = None
    defaults: WorkflowDefaults | None = None
    workflows: Mapping[str, str] | None = None  #: path -> ``active``, ``disabled_inactivity``, …
    immutable: bool | None = None  #: whether releases are immutable
    tag_rules: tuple[Rule, ...] | None = None
    rules: BranchRules = BranchRules(rules=None, protection=None)  #: of the branch
    pins: Mapping[str, BranchRules] = field(
        default_factory=dict
    )  #: of the branch that snapshots are pinned on, and of one for a numbered release
    issues: bool = False  #: whether the repository has issues
    pages: str | None = None  #: how Pages are built: ``workflow``, ``legacy``; empty: there are none
    environments: Mapping[str, Environment] | None = None
    secrets: Names = Names(seen={}, complete=False)
    environment_secrets: Mapping[str, frozenset[str] | None] = field(default_factory=dict)  #: by environment
    variables: Names = Names(seen={}, complete=False)
    codeowners_errors: tuple[str, ...] | None = None  #: in the branch's CODEOWNERS, where there is one
    private_reports: bool | None = None  #: whether vulnerabilities can be reported in private
    refusals: Mapping[str, Refusal] = field(default_factory=dict)  #: by address below the repository's


def matches(pattern: str, ref: str) -> bool:
    """Whether a pattern of GitHub's matches a ref, or the name of one.

    Ruby's ``File.fnmatch`` with ``FNM_PATHNAME``: ``*`` and ``?`` stay within a part, ``**/`` stands for any number of
    parts, and ``**`` elsewhere is ``*`` (docs.github.com, "Creating rulesets for a repository").
    """
    return pattern == "~ALL" or _match(pattern.split("/"), ref.split("/"))


def _match(patterns: list[str], parts: list[str]) -> bool:
    if not patterns:
        return not parts
    if patterns[0] == "**" and len(patterns) > 1:
        return any(_match(patterns[1:], parts[skipped:]) for skipped in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], patterns[0]) and _match(patterns[1:], parts[1:])
