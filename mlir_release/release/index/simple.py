"""What pip reads: links with hashes, PEP 503 HTML and PEP 691 JSON.

Written as plain strings: an index of thirty thousand links is drawn in a fraction of the time a template would take.
"""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

from mlir_release.ground.documents.times import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mlir_release.release.index.site import WheelLink

#: PEP 629; 1.1 brings sizes and versions (PEP 700), 1.3 provenance (PEP 740).
API_VERSION = "1.3"


def anchor(link: WheelLink, text: str = "", *, core_metadata: bool = True) -> str:
    """A link that pip understands: hash, core metadata (PEP 658 and 714), Python range, yank, provenance.

    Every link to a wheel must be one of these, whatever its ``text``: pip takes each link of a page for a file, and one
    without these attributes would undo them.
    """
    wheel = link.wheel
    attributes = [f'href="{escape(link.url)}#sha256={wheel.sha256}"']
    if wheel.requires_python:
        attributes.append(f'data-requires-python="{escape(wheel.requires_python)}"')
    if core_metadata:
        # Two names for one thing: pip up to 23.0 knows the second only.
        digest = f'"sha256={wheel.metadata_sha256}"'
        attributes.append(f"data-core-metadata={digest} data-dist-info-metadata={digest}")
    if link.yanked is not None:
        attributes.append(f'data-yanked="{escape(link.yanked)}"')
    if link.provenance:
        attributes.append(f'data-provenance="{escape(link.provenance)}"')
    if text:
        attributes.append(f'title="{escape(wheel.filename)}"')
        attributes.append(f'aria-label="{escape(text)}: {escape(wheel.filename)}"')  # what a list of links reads out
    return f"<a {' '.join(attributes)}>{escape(text or wheel.filename)}</a>"


def project_html(name: str, links: Sequence[WheelLink], *, core_metadata: bool = True) -> str:
    """The page of one distribution in a simple index (PEP 503)."""
    rows = "".join(f"{anchor(link, core_metadata=core_metadata)}<br>\n" for link in links)
    return _html(f"Links for {name}", rows)


def root_html(names: Iterable[str]) -> str:
    """The simple index's list of distributions (PEP 503)."""
    rows = "".join(f'<a href="{escape(name)}/">{escape(name)}</a><br>\n' for name in names)
    return _html("Simple index", rows)


def _html(title: str, rows: str) -> str:
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="pypi:repository-version" content="{API_VERSION}">\n'
        f"<title>{escape(title)}</title>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n{rows}</body>\n</html>\n"
    )


def project_json(name: str, links: Sequence[WheelLink]) -> str:
    """The same page as JSON (PEP 691, 700, 714, 740).

    Static hosts can't negotiate content types: serve it as ``application/vnd.pypi.simple.v1+json`` where you can.
    """
    files = [
        {
            "filename": link.wheel.filename,
            "url": link.url,
            "hashes": {"sha256": link.wheel.sha256},
            **({"requires-python": link.wheel.requires_python} if link.wheel.requires_python else {}),
            "size": link.wheel.size,
            "upload-time": format_time(link.uploaded),
            # Not under its old name: pip before 23.2 crashes on that in JSON, which is why PEP 714 renamed it.
            "core-metadata": {"sha256": link.wheel.metadata_sha256},
            "yanked": False if link.yanked is None else link.yanked or True,
            **({"provenance": link.provenance} if link.provenance else {}),
        }
        for link in links
    ]
    versions = list(dict.fromkeys(link.wheel.filename.split("-")[1] for link in links))
    return _json({"meta": {"api-version": API_VERSION}, "name": name, "versions": versions, "files": files})


def root_json(names: Iterable[str]) -> str:
    """The list of distributions as JSON (PEP 691)."""
    return _json({"meta": {"api-version": API_VERSION}, "projects": [{"name": name} for name in names]})


def _json(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n"
