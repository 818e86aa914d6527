"""What pip reads: links with hashes, PEP 503 HTML and PEP 691 JSON.

Written as plain strings: an index of thirty thousand links is drawn in a fraction of the time a template would take.
"""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.wheels.archive import Identity, Member, write_wheel
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.documents.times import format_time
from mlir_release.ground.llvm.projects import known_profile
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.model.manifest import LockedPackage, LockedWheel, Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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


# -- wheels without files, for names of others that clients of a distribution require: clang beside llvm-libclang -----

# PyPI's distributions of these names would overwrite what is installed. pip asks for none of them once something of
# that name is installed, in LLVM's version. Only the requirements and lock files of the pages name these wheels, by
# URL: on an index, they would hide the real ones.

#: Their folder on the pages, which has no list of them.
BESIDE = "beside"


def stand_ins(manifest: Manifest, distribution: str) -> Mapping[str, bytes]:
    """Those beside a distribution of a release, by their file names; toolkits of all versions write the same bytes."""
    wheel = next(wheel for wheel in manifest.wheels if wheel.distribution == distribution)
    profile = known_profile(wheel.project, wheel.profile)
    version = re.match(r"\d+(\.\d+)*", manifest.llvm_version)
    return _made(profile.stands_for, version[0], distribution) if profile is not None and version is not None else {}


@cache
def _made(names: tuple[str, ...], version: str, distribution: str) -> Mapping[str, bytes]:
    found = {}
    with scratch_folder("stand-ins") as folder:
        for name in names:
            one = Identity(distribution=name, version=version, platform="any", generator="mlir-release")
            text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: Its files are {distribution}'s\n"
            metadata = Member(name=f"{one.dist_info}/METADATA", content=text)
            path = write_wheel(one, [metadata], output=Path(folder), epoch=0, compressed=False)
            found[path.name] = path.read_bytes()
    return found


def beside(manifest: Manifest, distribution: str, site: str) -> tuple[LockedPackage, ...]:
    """The same as packages of a lock.

    :param site: URL of the pages, with a slash at the end
    """
    return tuple(
        LockedPackage(
            name=filename.split("-")[0],
            version=filename.split("-")[1],
            wheels=(LockedWheel(url=f"{site}{BESIDE}/{filename}", sha256=sha256_of(content), size=len(content)),),
        )
        for filename, content in stand_ins(manifest, distribution).items()
    )
