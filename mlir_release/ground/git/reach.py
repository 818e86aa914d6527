"""Limits for git in a repository that others may have written: contacts, programs and secrets.

Git contacts only the remote that a command names. It starts no hook, and no program that the repository's own
configuration names: filters, merge drivers, ssh, helpers for credentials. The user's own configuration may name them
(``git config --global``), for one folder, too (``includeIf``). Git sees secrets only where it contacts a server, or
signs.
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mlir_release.ground.programs.surroundings import foreign_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

#: What a repository's own configuration may not decide; which setting replaces it, if it is another one; and its value,
#: unless the user's own configuration has one. None: git takes the first of several values, so nothing replaces it.
#: Source: git-config(1), whatever is run as a command.
_INSTEAD: tuple[tuple[str, str, str | None], ...] = (
    (r"core\.sshcommand", "", "ssh"),
    (r"core\.askpass", "", ""),
    (r"core\.alternaterefscommand", "", "true"),
    (r"credential\.(.*\.)?helper", "credential.helper", ""),  # empty: none of those before it
    (r"filter\..*\.(clean|smudge|process)", "", ""),
    (r"filter\..*\.required", "", "false"),
    (r"merge\..*\.driver", "", "git merge-file --marker-size=%L %A %O %B"),  # as without a driver
    (r"gpg\.(.*\.)?program", "", "false"),
    (r"gc\.recentobjectshook", "maintenance.auto", "false"),
    (r"submodule\..*\.update", "", "checkout"),
    (r"submodule\.recurse", "", "false"),
    (r"push\.recursesubmodules", "", "no"),
    (r"protocol\..*\.allow", "", "never"),
    (r"http\.(.*\.)?sslverify", "", "true"),
    (r"remote\..*\.(uploadpack|receivepack|vcs)|core\.gitproxy|http\.(.*\.)?sslca(info|path)", "", None),
)

#: For git: the names of these settings.
PROGRAMS = f"^({'|'.join(pattern for pattern, *_ in _INSTEAD)})$"

#: A file with such a setting has one of these words, or includes another file.
NAMING = re.compile(
    rb"\[include|(?:^|\])\s*(?:sshcommand|askpass|alternaterefscommand|helper|clean|smudge|process|required|driver"
    rb"|program|recentobjectshook|update|recurse|recursesubmodules|allow|sslverify|uploadpack|receivepack|vcs"
    rb"|gitproxy|sslcainfo|sslcapath)(?![\w-])",
    re.IGNORECASE | re.MULTILINE,
)

#: Where git finds settings that are the user's own; elsewhere they are the repository's.
_OWN = ("system", "global", "command")


def instead(rows: Sequence[tuple[str, str, str]]) -> tuple[list[tuple[str, str]], list[str]]:
    """What replaces a repository's own settings of :data:`PROGRAMS`, by name; and the names of those that nothing does.

    :param rows: scope, name and value of all of them, also of the user's own
    """
    own = [(name, value) for scope, name, value in rows if scope in _OWN]
    told: list[tuple[str, str]] = []
    left: list[str] = []
    for name in dict.fromkeys(name for scope, name, _ in rows if scope not in _OWN):
        pattern, other, value = next(row for row in _INSTEAD if re.fullmatch(row[0], name))
        if value is None:
            left.append(name)
        elif other:  # one for all of its kind
            told += [(other, value), *(row for row in own if re.fullmatch(pattern, row[0]))]
        else:
            told += [row for row in own if row[0] == name][-1:] or [(name, value)]
    return told, left


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
    contacts: bool = True

    @property
    def seconds(self) -> float:
        """For which a command may take: a large clone takes hours, what contacts nobody seconds."""
        return 6 * 3600 if self.contacts else 600

    def options(self) -> list[str]:
        """The options of git that allow this, and nothing else."""
        return [word for setting in (*_NO_PROGRAMS, *self.settings) for word in ("-c", setting)]

    def environment(self, more: Mapping[str, str], told: Sequence[tuple[str, str]] = ()) -> dict[str, str]:
        """The environment that git gets, with ``more`` variables in it, and settings that win over configurations."""
        inherited = os.environ if self.secrets else _without_secrets()
        given = {
            **{name: value for name, value in inherited.items() if name not in _REPOSITORY_VARIABLES},
            "LC_ALL": "C.UTF-8",
            "GIT_TERMINAL_PROMPT": "0",
            **self.variables,
            **more,
        }
        return _with_settings(given, told)


#: No protocol at all, and (git ≥ 2.39.4) no attempt to fetch missing objects of a partial clone.
NOWHERE = Reach(
    settings=(), variables={"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}, secrets=False, contacts=False
)

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
    return Reach(settings=tuple(settings), secrets=kinds != {"file"}, variables=_PATIENCE)


#: A server that sends fewer bytes a second than the first, for so many seconds, has failed.
_PATIENCE = {"GIT_HTTP_LOW_SPEED_LIMIT": "1000", "GIT_HTTP_LOW_SPEED_TIME": "60"}


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


def folder_at(address: str) -> Path | None:
    """The folder that git reads at an address; None for a server's."""
    if _kind(address) != "file":
        return None
    return Path(url2pathname(urlsplit(address).path) if address.startswith("file://") else address)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _without_secrets() -> dict[str, str]:
    """The environment of a git that contacts no server."""
    given = foreign_environment(named=[name for name in os.environ if _READ.fullmatch(name)])
    names = [f"GIT_CONFIG_KEY_{number}" for number in range(_settings_in(os.environ))]
    rows = [(os.environ.get(name, ""), os.environ.get(name.replace("KEY", "VALUE"), "")) for name in names]
    return _with_settings(given, [row for row in rows if row[0].lower().startswith(_HARMLESS)])


def _settings_in(environment: Mapping[str, str]) -> int:
    count = environment.get("GIT_CONFIG_COUNT", "")
    return int(count) if re.fullmatch("[0-9]{1,4}", count) else 0  # git refuses any other


def _with_settings(given: dict[str, str], settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """An environment with more settings of git in it."""
    first = _settings_in(given)
    for number, (key, value) in enumerate(settings, first):
        given |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return given | ({"GIT_CONFIG_COUNT": str(first + len(settings))} if settings else {})
