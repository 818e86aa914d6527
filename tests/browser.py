"""A real browser, the Chromium or Chrome of this machine, driven by Playwright from npm; axe looks at the pages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import npm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The names of the program, as Debian's, Ubuntu's and Google's packages have them.
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

PLAYWRIGHT = (
    "playwright-core",
    "1.65.1",
    "sha512-hqPpz7blSMPxWVdoeE1yiBSzXsKiVOd2k+kjCvmUywD2GPO2Dd9HfcWnq9NN0GHbNZDFgZ9JfBFr+X5/BLo0qw==",
)
AXE = (
    "axe-core",
    "4.14.1",
    "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
)

#: What axe calls a finding that keeps people out.
GRAVE = ("serious", "critical")


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A page as a browser showed it."""

    path: str
    width: int
    scheme: str
    wide: float  #: pixels that something is beyond the window's right or left edge
    cut: list[str]  #: elements that scroll sideways and don't show it
    url: str  #: where the browser was in the end
    problems: list[str]  #: errors of scripts, and requests to other hosts
    violations: list[tuple[str, str, list[str]]]  #: axe's: its rule, how grave it is, and where it was found

    @property
    def grave(self) -> list[str]:
        """Axe's findings that keep people out."""
        return [f"{rule} at {'; '.join(places)}" for rule, impact, places in self.violations if impact in GRAVE]


def find_browser() -> str:
    """The browser's program. Without one a test is skipped, but in continuous integration it fails."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        missing = "NO PAGE WAS SEEN IN A BROWSER: this machine has none; make setup-tests installs chromium on Debian"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    return found


def look(
    site: str,
    pages: Sequence[str],
    *,
    widths: Sequence[int] = (1280,),
    schemes: Sequence[str] = ("light",),
    steps: Mapping[str, Sequence[tuple[str, ...]]] | None = None,
    pictures: Path | None = None,
) -> list[Seen]:
    """Open pages in a browser, each at every width and in every colour scheme.

    :param site: its address, with a slash at the end; ``pages`` are below it
    :param steps: what is done on a page before axe looks at it: ``("focus", SELECTOR)``, ``("waitFor", SELECTOR)``,
        ``("type", TEXT)``, ``("press", KEY)``, ``("arrive", END_OF_AN_ADDRESS)``
    :param pictures: a folder for a picture of each
    """
    executable = find_browser()
    job: dict[str, Any] = {
        "executable": executable,
        "playwright": str(npm.package(*PLAYWRIGHT) / "index.js"),
        "axe": str(npm.package(*AXE) / "axe.min.js"),
        "site": site,
        "pages": list(pages),
        "widths": list(widths),
        "schemes": list(schemes),
        "steps": dict(steps or {}),
        "pictures": str(pictures or ""),
    }
    command = [str(npm.node()), str(Path(__file__).with_suffix(".mjs")), json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return [Seen(**seen) for seen in json.loads(done.stdout)]
