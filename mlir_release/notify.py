"""Tell people: Discord, Slack, e-mail and the other services that apprise knows, by URL from the environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mlir_release.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def notify(variable: str, *, title: str, body: str, attachments: Sequence[Path] = ()) -> bool:
    """Send Markdown to every URL in the environment variable ``variable`` (separated by white space).

    Returns False if there is none. The URLs hold secrets: they are never shown.

    :raises MachineError: if apprise is missing, a URL is malformed, or a service did not accept the message
    """
    urls = os.environ.get(variable, "").split()
    if not urls:
        return False
    try:
        import apprise
    except ImportError as error:
        raise MachineError(
            "apprise-missing",
            "notifications need apprise, which is not installed",
            remedy="pip install 'mlir-release[integrate]'",
        ) from error
    sender = apprise.Apprise()
    for number, url in enumerate(urls, 1):
        if not sender.add(url):
            raise MachineError(
                "notify-url-invalid",
                f"notification address number {number} is not one that apprise understands",
                where=f"${variable}",
                remedy="see the list of services in apprise's documentation",
            )
    files = [str(path) for path in attachments if path.is_file()]
    if not sender.notify(body=body, title=title, body_format=apprise.NotifyFormat.MARKDOWN, attach=files or None):
        raise MachineError(
            "notify-failed",
            "a notification service did not accept the message",
            where=f"${variable}",
            remedy="check the addresses and the network; the report itself is printed all the same",
        )
    return True
