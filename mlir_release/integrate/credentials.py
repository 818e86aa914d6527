"""Access to the export remotes, which are often repositories that the job's own token can't write to."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

from mlir_release.ground.git.remotes import try_fetch

if TYPE_CHECKING:
    from mlir_release.ground.git.repository import Git
    from mlir_release.integrate.tables import ExportTarget

#: Holds the token. Smoke tests don't see it.
EXPORT_TOKEN = "MLIR_RELEASE_EXPORT_TOKEN"


def for_export(git: Git, remote: str) -> dict[str, str]:
    """The environment in which git shows the export token to ``remote``, and to that address only.

    Empty without a token, and for an address that is not HTTP(S). Nothing is written, and no process argument holds the
    token: git takes the configuration from the environment (git ≥ 2.31).
    """
    token = os.environ.get(EXPORT_TOKEN, "").strip()
    if not token:
        return {}
    address = git.address(remote)
    if not address.startswith(("https://", "http://")):
        return {}
    key = f"http.{address}.extraHeader"
    header = f"Authorization: Basic {base64.b64encode(f'x-access-token:{token}'.encode()).decode()}"
    count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    environment = {"GIT_CONFIG_COUNT": str(count + 2)}
    # The empty value removes the header that actions/checkout has configured for the whole host: a request with two
    # such headers is refused.
    for number, value in enumerate(("", header), count):
        environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return environment


def export_ref(target: ExportTarget) -> str:
    """The local ref that :func:`fetch_export` writes by default."""
    return f"refs/mlir-release/export/{target.branch}"


def fetch_export(git: Git, target: ExportTarget, *, into: str = "") -> tuple[bool, str]:
    """Fetch an export branch into a local ref. Returns whether it worked, and git's output."""
    refspec = f"+refs/heads/{target.branch}:{into or export_ref(target)}"
    return try_fetch(git, target.remote, refspec, env=for_export(git, target.remote))
