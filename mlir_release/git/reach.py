"""Limits for git in a repository that others may have written: contacts, programs and secrets.

Git contacts only the remote that a command names. It starts no hook, no file-system monitor and no signature program
but the user's own (:mod:`mlir_release.git.signing`). It sees secrets only where it contacts a server, or signs. A
repository's own configuration can name more programs (filters, merge drivers): :mod:`mlir_release.git.foreign` reads
without it.
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mlir_release.host.surroundings import foreign_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Hooks that commands of ours would start.
_EVENTS = ("post-checkout", "post-index-change", "post-merge", "pre-auto-gc", "pre-push", "reference-transaction")

#: Settings that win over a repository's own, in each command.
_NO_PROGRAMS = (
    "core.fsmonitor=",  # empty: git < 2.36 would start a program of the name "false"
    f"core.hooksPath={os.devnull}",
    *(f"hook.{event}.enabled=false" for event in _EVENTS),  # git ≥ 2.54 has hooks in its configuration, too
    "log.showSignature=false",
    "fetch.recurseSubmodules=false",  # other remotes than the one that is named
)

#: Variables that would redirect git into another repository, for example when run from a hook.
_REPOSITORY_VARIABLES = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX"}
)

#: Variables without secrets that git reads, in addition to those of every program.
_READ = re.compile(
    r"EMAIL|GIT_(?:CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM)|(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)|TRACE\w*|EXEC_PATH"
    r"|TEMPLATE_DIR|ATTR_NOSYSTEM|CEILING_DIRECTORIES|DISCOVERY_ACROSS_FILESYSTEM|OPTIONAL_LOCKS)"
)

#: Tables of settings in variables that hold no secrets either; containers of jobs give ``safe.directory`` so.
_HARMLESS = ("safe.", "user.", "core.", "init.")

#: Protocols that are safe on this machine alone.
_LOCAL = ("file", "git", "http")

#: Addresses by HTTPS and SSH, whose host is no option of a program: ``https://…``, ``ssh://…``, ``git@host:path``.
_FOREIGN = re.compile(r"(?:https|ssh)://[^-/\s][^/\s]*/\S+|(?:[\w.][\w.-]*@)?[\w.][\w.-]*:[^:/\s-][^\s]*")


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The settings and variables that limit git's contacts, and whether it sees the user's secrets."""

    settings: tuple[str, ...]
    variables: Mapping[str, str]
    secrets: bool

    def options(self) -> list[str]:
        """The options of git that allow this, and nothing else."""
        return [word for setting in (*_NO_PROGRAMS, *self.settings) for word in ("-c", setting)]

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """The environment that git gets, with ``more`` variables in it."""
        inherited = os.environ if self.secrets else _without_secrets()
        return {
            **{name: value for name, value in inherited.items() if name not in _REPOSITORY_VARIABLES},
            "LC_ALL": "C.UTF-8",
            "GIT_TERMINAL_PROMPT": "0",
            **self.variables,
            **more,
        }


#: No protocol at all, and (git ≥ 2.39.4) no attempt to fetch missing objects of a partial clone.
NOWHERE = Reach(settings=(), variables={"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}, secrets=False)

#: The same for a program of the user's own, which needs the agent that has the key (``SSH_AUTH_SOCK``, ``GNUPGHOME``).
SIGNING = replace(NOWHERE, secrets=True)


def reach_of(*addresses: str) -> Reach:
    """How git may contact ``addresses``: by HTTPS, SSH or, where an address says so, on this machine.

    Without an address, git may contact those of submodules.
    """
    settings = ["protocol.allow=never", "protocol.https.allow=always", "protocol.ssh.allow=always"]
    settings += ["protocol.ext.allow=never"]
    kinds = {_kind(address) for address in addresses}
    if addresses:  # else git asks for submodules: by others only if the user's configuration names them
        settings += [f"protocol.{name}.allow={'user' if name in kinds else 'never'}" for name in _LOCAL]
    # The other side of a folder is a program on this machine, in a repository of others.
    return Reach(settings=tuple(settings), secrets=kinds != {"file"}, variables={})


def may_lead_to(repository: str, address: str) -> bool:
    """Whether git may contact an address that a repository of others names: by HTTPS or SSH.

    On this machine, only if the repository is here, too.
    """
    if _kind(address):
        return bool(_kind(repository)) and not address.startswith("-")
    return _FOREIGN.fullmatch(address) is not None and not _is_loopback(urlsplit(address).hostname or "")


def _kind(address: str) -> str:
    """The local protocol by which an address on this machine is reached, else empty.

    Source: git, ``url_is_local_not_ssh``.
    """
    scheme, found, _ = address.partition("://")
    if found:
        local = scheme == "file" or (scheme in _LOCAL and _is_loopback(urlsplit(address).hostname or ""))
        return scheme if local else ""
    before, colon, _ = address.partition(":")
    drive = sys.platform == "win32" and len(before) == 1
    return "" if colon and "/" not in before and not drive else "file"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _without_secrets() -> dict[str, str]:
    """The environment of a git that contacts no server."""
    given = foreign_environment(named=[name for name in os.environ if _READ.fullmatch(name)])
    count = os.environ.get("GIT_CONFIG_COUNT", "")
    number = int(count) if re.fullmatch("[0-9]{1,4}", count) else 0  # git refuses any other
    rows = [tuple(os.environ.get(f"GIT_CONFIG_{part}_{n}", "") for part in ("KEY", "VALUE")) for n in range(number)]
    kept = [row for row in rows if row[0].lower().startswith(_HARMLESS)]
    for n, (key, value) in enumerate(kept):
        given |= {f"GIT_CONFIG_KEY_{n}": key, f"GIT_CONFIG_VALUE_{n}": value}
    return given | ({"GIT_CONFIG_COUNT": str(len(kept))} if kept else {})
