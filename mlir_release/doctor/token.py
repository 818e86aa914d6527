"""What the token may do. What GitHub does not show is unknown, never ok."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.doctor.results import Finding, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.forge.github.observations import Token

#: Permissions that commands need, and what each is for.
_NEEDED = {
    "contents": "commits pins and makes tags and releases",
    "actions": "dispatches the build",
    "issues": "maintains the issues of failing targets",
}
_PULLS = {"pull-requests": "opens integrate's pull requests"}

_READER = Finding(
    "token",
    "problem",
    "the token's user may only read the repository",
    "give the user the role Write, or use the token of a user who has it",
)


def examine_token(token: Token, *, private: bool, integrates: bool) -> Iterator[Finding]:
    """Every check of the token.

    :param integrates: whether integrate runs in the repository, too
    """
    needed = _NEEDED | (_PULLS if integrates else {})
    if token.kind == "none":
        text = "there is no token: only public data is visible, and nothing can be written"
        yield Finding("token", "unknown", text, "set GITHUB_TOKEN (see docs/operating.md)")
    elif token.kind == "classic":
        yield from _classic(token, private, needed)
    elif token.role is False:
        yield _READER
    else:
        for permission, what in needed.items():
            yield _fine_grained(token, permission, what)


def _classic(token: Token, private: bool, needed: dict[str, str]) -> Iterator[Finding]:
    """A classic token may do what its user may, within its scopes. ``workflow`` is for pushing workflow files only."""
    shown = ", ".join(sorted(token.scopes)) or "none"
    remedy = "give it the scope repo; better, use a fine-grained token, or the workflow's own"
    if "repo" not in token.scopes and (private or "public_repo" not in token.scopes):
        place = "a private repository" if private else "the repository"
        yield Finding("token", "problem", f"the token's scopes are {shown}: it may not write to {place}", remedy)
        return
    if token.role is False:
        yield _READER
        return
    if token.role is None:
        text = "GitHub does not report whether the token's user may write to the repository"
        yield Finding("token", "unknown", text, "check the user's role in the repository")
        return
    for permission, what in needed.items():
        # docs.github.com, "Create a workflow dispatch event": classic tokens need repo.
        enough = "repo" in token.scopes or permission != "actions"
        text = f"the scopes {shown} {'are' if enough else 'are not'} enough for {permission}: write, which {what}"
        yield verdict(f"token-{permission}", enough, text, remedy)


def _fine_grained(token: Token, permission: str, what: str) -> Finding:
    check = f"token-{permission}"
    remedy = f"give it {permission.replace('-', ' ')}: write (in a workflow: the job's permissions)"
    if permission in token.refused:
        return Finding(check, "problem", f"the token may not even read {permission}; write access {what}", remedy)
    if permission == "contents" and token.writes is not None:
        text = f"the token {'has' if token.writes else 'lacks'} contents: write, which {what}"
        return verdict(check, token.writes, text, remedy)
    return Finding(
        check,
        "unknown",
        f"GitHub does not show whether the token has {permission}: write, which {what}",
        f"check the token's own settings: {permission.replace('-', ' ')}: write",
    )
