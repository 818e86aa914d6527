"""Deliver a report to the pull request and the notification services. No failure stops the other deliveries."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.errors import ReleaseError
from mlir_release.host.notify import notify
from mlir_release.host.tempdirs import scratch_folder

if TYPE_CHECKING:
    from mlir_release.forge.services import PullRequests
    from mlir_release.integrate.report import WalkReport

#: The last bytes of a log that are attached: services accept 8 MiB and more.
ATTACHED = 4 << 20


def deliver(report: WalkReport, *, markdown: str, variable: str, pulls: PullRequests | None) -> list[ReleaseError]:
    """Comment on the pull request, and notify the addresses in the environment ``variable``; returns what failed."""
    failures: list[ReleaseError] = []
    if pulls is not None:
        try:
            pulls.comment(branch=report.branch, key="report", body=markdown)
        except ReleaseError as error:
            failures.append(error)
    with scratch_folder("report") as folder:
        try:
            title = f"{report.branch}: {report.outcome}"
            notify(variable, title=title, body=markdown, attachments=attachments(report, markdown, folder))
        except ReleaseError as error:
            failures.append(error)
    return failures


def attachments(report: WalkReport, markdown: str, folder: Path) -> list[Path]:
    """Write a message's attachments into ``folder``: the whole report, and the end of the log if there is one."""
    written = [folder / "report.md"]
    written[0].write_text(markdown, encoding="utf-8")
    if report.log:
        with Path(report.log).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - ATTACHED))
            written.append(folder / "smoke-test.log")
            written[1].write_bytes(log.read())
    return written
