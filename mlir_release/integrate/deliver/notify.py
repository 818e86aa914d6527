"""Tell people: Discord, Slack, e-mail and the other services that apprise knows, by URL from the environment."""

from __future__ import annotations

import logging
import os
import re
from typing import TYPE_CHECKING

from mlir_release.ground.errors import MachineError
from mlir_release.ground.storage.download import HTTP_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def notify(variable: str, *, title: str, body: str, attachments: Sequence[Path] = ()) -> int:
    """Send Markdown to every URL in the environment variable ``variable`` (separated by white space).

    Returns how many there are. A body that is longer than a service takes is shortened, unless the URL sets apprise's
    ``overflow``, so the attachments should hold all of it. The URLs hold secrets: they are never shown.

    :raises MachineError: if a URL is malformed, or a service did not accept the message; the others have got it then
    """
    urls = os.environ.get(variable, "").split()
    if not urls:
        return 0
    import apprise

    files = [str(path) for path in attachments if path.is_file()]
    malformed, refused = [], []
    # Apprise logs the addresses that it can't read, secrets and all, and Python prints unhandled records.
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        for number, url in enumerate(urls, 1):
            service = apprise.Apprise.instantiate(url)
            if service is None:
                malformed.append(str(number))
                continue
            # Unless the URL sets a limit: apprise's own four seconds are short for a log on its way.
            if not re.search("[?&][cr]to=", url):
                service.socket_connect_timeout = service.socket_read_timeout = HTTP_TIMEOUT
            short = body if "overflow=" in url else shortened(body, service.body_maxlen - len(title))
            form = apprise.NotifyFormat.MARKDOWN
            if not apprise.Apprise(service).notify(body=short, title=title, body_format=form, attach=files or None):
                refused.append(f"{number} ({service.service_name})")
    finally:
        logging.disable(before)
    if malformed:
        what = "not a notification address that apprise understands: number"
        remedy = "see the list of services in apprise's documentation"
    else:
        what = "the message was not accepted by notification address number"
        remedy = "check the addresses and the network; the report itself is printed all the same"
    if some := ", ".join(malformed or refused):
        raise MachineError("network-failed", f"{what} {some} of {len(urls)}", where=f"${variable}", remedy=remedy)
    return len(urls)


def shortened(markdown: str, limit: int) -> str:
    """``markdown`` in at most ``limit`` characters: whole lines, no code block left open. (Apprise's own way of cutting
    drops all attachments but one.)"""
    if len(markdown) <= limit:
        return markdown
    fences = re.findall("^`{3,}", markdown, re.MULTILINE)
    cut = markdown[: max(0, limit - max(map(len, fences), default=0) - len("\n\n…"))].rpartition("\n")[0]
    opened = ""
    for fence in re.findall("^`{3,}", cut, re.MULTILINE):
        opened = fence if not opened else "" if fence == opened else opened
    return f"{cut}\n{opened}\n…" if opened else f"{cut}\n…"
