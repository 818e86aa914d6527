"""The environment of foreign code: upstream's, a build tool's, a wheel's. No secrets, and no way to act on the job.

This limits what such code finds by looking; what it may do with what it finds otherwise (another process of the same
user can be read) is limited by the permissions of the job that runs it (docs/permissions.md).
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

#: Files through which a step changes the job's later steps. Source: GitHub Docs, "Workflow commands".
_COMMAND_FILES = frozenset({"GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"})

#: ``ACTIONS_*`` are the runner's services (OIDC tokens, caches, artifacts), and the tokens for them.
_PREFIXES = ("ACTIONS_", "TWINE_")

#: Words by which names of variables tell that the value is a secret, or leads to one.
_SECRETS = re.compile(
    r"(?:^|_)(?:(?:\w*TOKEN|\w*SECRETS?|\w*PASSWORD|PASSWD|CREDENTIALS?|AUTH|ASKPASS|PAT|NETRC)(?:_|$)|\w*KEY(?:_ID)?$)"
)

#: Configuration that git reads from the environment: a header of it may carry a token.
_GIT_CONFIGURATION = re.compile(r"GIT_CONFIG_(?:COUNT|PARAMETERS|(?:KEY|VALUE)_\d+)")
_GIT_SECRETS = re.compile(r"extraheader|credential", re.IGNORECASE)

#: Addresses that notifications go to carry tokens.
_OURS = frozenset({"MLIR_RELEASE_NOTIFY"})


def without_secrets(environ: Mapping[str, str] | None = None, *, keep: Collection[str] = ()) -> dict[str, str]:
    """The variables that foreign code may see.

    Secrets are told by their names. Certificates, proxies, compilers and pip's own settings stay: without
    them nothing builds. (An address with credentials in ``PIP_INDEX_URL`` stays, too: give it rights to read only.)

    :param environ: default: this process's
    :param keep: names that stay, whatever they hold
    """
    given = os.environ if environ is None else environ
    hidden = {name for name in given if name not in keep and is_secret(name)}
    configuration = {name for name in given if _GIT_CONFIGURATION.fullmatch(name.upper())}
    if any(_GIT_SECRETS.search(given[name]) for name in configuration):
        hidden |= configuration - set(keep)
    return {name: value for name, value in given.items() if name not in hidden}


def is_secret(name: str) -> bool:
    """Whether foreign code must not see a variable of that name."""
    upper = name.upper()
    return (
        upper in _COMMAND_FILES | _OURS
        or upper.startswith(_PREFIXES)
        or (_SECRETS.search(upper) is not None and not _GIT_CONFIGURATION.fullmatch(upper))
    )
