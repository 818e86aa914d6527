"""A project on a package index: its files with digests and sizes, and, on PyPI, its owners."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from mlir_release.ground.console import format_bytes
from mlir_release.ground.documents.decode import MalformedError, from_large_json
from mlir_release.ground.errors import MachineError, UsageError, VerificationError
from mlir_release.ground.programs.needs import need
from mlir_release.ground.storage.download import receive, waited_for
from mlir_release.release.model.release_tags import parse_numbered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.release.model.manifest import Manifest, WheelEntry


PYPI_UPLOAD = "https://upload.pypi.org/legacy/"

#: Upload addresses whose simple index is on another host.
_SIMPLE = {PYPI_UPLOAD: "https://pypi.org/simple/", "https://test.pypi.org/legacy/": "https://test.pypi.org/simple/"}

#: Seconds for an answer of the index.
_TIMEOUT = 60

#: docs.pypi.org/api/integrity
_PROVENANCE = "application/vnd.pypi.integrity.v1+json"

#: Bytes that PyPI's JSON API may answer about a project: it lists the files of all versions.
_ANSWER_LIMIT = 64 << 20


class _Answer(Struct):
    ownership: dict[str, Any] | None = None


class _Publisher(Struct):
    kind: str
    repository: str = ""
    workflow: str = ""


class _Attested(Struct):
    publisher: _Publisher


class _Provenance(Struct):
    attestation_bundles: list[_Attested]


@dataclass(frozen=True, kw_only=True)
class IndexFile:
    """A file on the index."""

    filename: str
    sha256: str  #: empty if the index does not tell it
    size: int | None  #: bytes; None if the index does not tell it (PEP 700 indexes do)
    version: str  #: as its name says; empty if that can't be read
    provenance: str = ""  #: address of its attestations (PEP 740); empty if there are none


@dataclass(frozen=True, kw_only=True)
class IndexProject:
    """A project on an index. One that nobody has ever uploaded to has no files and no owners."""

    name: str
    url: str  #: of its simple page
    files: Mapping[str, IndexFile]  #: by file name
    owners: frozenset[str] | None  #: users and the organization; None if the index does not tell

    @property
    def size(self) -> int | None:
        """Bytes of all files; None if the index does not tell the size of each."""
        sizes = [file.size for file in self.files.values()]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def versions(self) -> frozenset[str]:
        """Versions that have files."""
        return frozenset(file.version for file in self.files.values())


def simple_url(repository_url: str) -> str:
    """The simple index that belongs to an upload address: PyPI's are known, elsewhere ``…/simple/``."""
    normal = repository_url.rstrip("/") + "/"
    return _SIMPLE.get(normal, normal + "simple/")


def read_project(index_url: str, name: str) -> IndexProject:
    """Ask an index about a project (PEP 503, 691, 700; the owners by PyPI's JSON API, where that answers).

    :raises MachineError: ``network-failed``, ``tool-missing``
    :raises VerificationError: ``pypi-unsuitable``
    """
    need("pypi_simple")
    import requests
    from pypi_simple import NoSuchProjectError, PyPISimple, UnsupportedContentTypeError, UnsupportedRepoVersionError

    with PyPISimple(index_url) as client:
        try:
            page = waited_for(lambda: client.get_project_page(name, timeout=_TIMEOUT), seconds=_TIMEOUT)
        except NoSuchProjectError:
            return IndexProject(name=name, url=client.get_project_url(name), files={}, owners=None)
        except requests.RequestException as error:
            raise _unreachable(index_url, error) from None
        except (UnsupportedContentTypeError, UnsupportedRepoVersionError) as error:
            raise VerificationError(
                "pypi-unsuitable",
                "the index's answer is not a simple index's",
                where=index_url,
                why=str(error),
                remedy="name the simple index that belongs to the upload address with --index-url",
            ) from None
        files = {
            package.filename: IndexFile(
                filename=package.filename,
                sha256=package.digests.get("sha256", ""),
                size=package.size,
                version=package.version or "",
                provenance=package.provenance_url or "",
            )
            for package in page.packages
        }
        return IndexProject(name=name, url=client.get_project_url(name), files=files, owners=_owners(index_url, name))


def _owners(index_url: str, name: str) -> frozenset[str] | None:
    """``ownership`` of PyPI's JSON API (docs.pypi.org/api/json): the roles' users, and the organization."""
    from requests import ConnectionError, RequestException

    if not index_url.rstrip("/").endswith("/simple"):
        return None
    address = f"{index_url.rstrip('/').removesuffix('/simple')}/pypi/{name}/json"
    content = io.BytesIO()
    try:
        receive(address, content, limit=_ANSWER_LIMIT)
        ownership = from_large_json(content.getvalue(), _Answer).ownership
    except ConnectionError as error:
        raise _unreachable(index_url, error) from None
    except (RequestException, VerificationError, MalformedError):
        return None
    if ownership is None:
        return None
    roles = [role for role in ownership.get("roles") or [] if isinstance(role, dict)]
    found = {str(role.get("user")) for role in roles if role.get("role") == "Owner"}
    if ownership.get("organization"):
        found.add(str(ownership["organization"]))
    return frozenset(found)


def read_publishers(file: IndexFile) -> frozenset[str]:
    """Who published a file, as the index checked when it took it: each workflow as ``github.com/OWNER/NAME/FILE.yml``.

    Empty if the index tells nothing that can be read. :raises MachineError: ``network-failed``
    """
    from requests import ConnectionError, RequestException

    if not file.provenance:
        return frozenset()
    content = io.BytesIO()
    try:
        receive(file.provenance, content, headers={"Accept": _PROVENANCE}, limit=_ANSWER_LIMIT)
        return publishers(content.getvalue())
    except ConnectionError as error:
        raise _unreachable(file.provenance, error) from None
    except (RequestException, VerificationError, MalformedError):
        return frozenset()


def publishers(provenance: bytes) -> frozenset[str]:
    """Those of a file of attestations (PEP 740). :raises MalformedError: if it is none"""
    found = [bundle.publisher for bundle in from_large_json(provenance, _Provenance).attestation_bundles]
    return frozenset(f"github.com/{each.repository}/{each.workflow}" for each in found if each.kind == "GitHub")


def _unreachable(url: str, error: Exception) -> MachineError:
    return MachineError(
        "network-failed",
        "the package index can't be read",
        where=urlsplit(url)._replace(netloc=urlsplit(url).netloc.rpartition("@")[2]).geturl(),
        why=type(error).__name__,
        remedy="check the address and the network, then run this again: what is uploaded stays uploaded",
    )


# -- which wheels of a release go to an index, by the release's manifest and the index alone ---------------------------

#: PyPI's limits on a file and on a project, in bytes (docs.pypi.org/project-management/storage-limits).
FILE_LIMIT = 100 * 1024**2
PROJECT_LIMIT = 10 * 1024**3


@dataclass(frozen=True, kw_only=True)
class ProjectPlan:
    """The files of one distribution to upload, or that were uploaded. All of them were checked against the index."""

    name: str
    version: str
    upload: tuple[WheelEntry, ...]
    there: tuple[WheelEntry, ...]  #: on the index already, with the same digest
    used: int | None  #: bytes of the project on the index before; None if the index does not tell
    url: str  #: the project's simple page

    @property
    def size(self) -> int:
        """Bytes to upload."""
        return sum(wheel.size for wheel in self.upload)

    def lines(self, tag: str, verb: str) -> list[str]:
        """For people: each file, and the budget."""
        lines = [f"{tag} as {self.name} {self.version} on {self.url}"]
        lines += [f"  there already: {wheel.filename}" for wheel in self.there]
        lines += [f"  {verb}: {wheel.filename}, {format_bytes(wheel.size)}" for wheel in self.upload]
        if self.used is not None:
            lines.append(f"  budget: {format_bytes(self.used + self.size)} of {format_bytes(PROJECT_LIMIT)}")
        return lines

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "name": self.name,
            "url": self.url,
            "uploaded": [wheel.filename for wheel in self.upload],
            "there": [wheel.filename for wheel in self.there],
            "bytes": self.size,
            "project_bytes": self.used,
        }


@dataclass(frozen=True, kw_only=True)
class PypiUpload:
    """The files of a release to upload, or that were uploaded."""

    tag: str
    version: str
    plans: tuple[ProjectPlan, ...]  #: one for each distribution that the release has
    dry_run: bool = False

    @property
    def upload(self) -> tuple[WheelEntry, ...]:
        """The files to upload, of all projects."""
        return tuple(wheel for plan in self.plans for wheel in plan.upload)

    @property
    def there(self) -> tuple[WheelEntry, ...]:
        """The files that the index has."""
        return tuple(wheel for plan in self.plans for wheel in plan.there)

    @property
    def urls(self) -> tuple[str, ...]:
        """The projects' simple pages."""
        return tuple(plan.url for plan in self.plans)

    @property
    def size(self) -> int:
        """Bytes to upload."""
        return sum(plan.size for plan in self.plans)

    def text(self) -> str:
        """A line for each file, and the budget of each project."""
        verb = "would upload" if self.dry_run else "uploaded"
        return "\n".join(line for plan in self.plans for line in plan.lines(self.tag, verb))

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "tag": self.tag,
            "version": self.version,
            "uploaded": [wheel.filename for wheel in self.upload],
            "there": [wheel.filename for wheel in self.there],
            "bytes": self.size,
            "projects": self.plans,
            "project_limit": PROJECT_LIMIT,
            "dry_run": self.dry_run,
        }


def make_plan(manifest: Manifest, project: IndexProject) -> ProjectPlan:
    """Decide which wheels of a project's name to upload. Pure.

    :raises UsageError: ``release-unsuitable``
    :raises VerificationError: ``pypi-unsuitable``
    """
    wheels = [wheel for wheel in manifest.wheels if canonicalize_name(wheel.distribution) == project.name]
    if not wheels:
        raise UsageError(
            "release-unsuitable",
            f"{manifest.tag} has no wheel of {project.name}",
            why="its wheels: " + (", ".join(wheel.filename for wheel in manifest.wheels) or "none"),
            remedy="nothing is to be done for this release",
        )
    version = Version(manifest.version)  # that of each of its files, else it were no manifest
    base = parse_numbered(manifest.tag).version
    same = (version.release, version.pre) == (Version(base).release, Version(base).pre)
    if version.local or version.is_devrelease or not same:
        raise VerificationError(
            "pypi-unsuitable",
            f"the version of {manifest.tag} is not one for PyPI",
            where=manifest.tag,
            why=f"it is {version}; a release of {base} is {base} or {base}.post<n>, without a local part",
            remedy="number another release: mlir-release release start; nothing was uploaded",
        )
    upload, there = [], []
    for wheel in wheels:
        if wheel.size > FILE_LIMIT:
            raise VerificationError(
                "pypi-unsuitable",
                f"{wheel.filename} is larger than the index takes",
                where=wheel.target,
                why=f"{format_bytes(wheel.size)} of at most {format_bytes(FILE_LIMIT)}",
                remedy="ask PyPI for more (https://docs.pypi.org/project-management/storage-limits), or link less into "
                "the wheel; nothing was uploaded",
            )
        known = project.files.get(wheel.filename)
        if known is None:
            upload.append(wheel)
        elif known.sha256 == wheel.sha256:
            there.append(wheel)
        else:
            raise VerificationError(
                "pypi-unsuitable",
                f"the index has other bytes under the name {wheel.filename}",
                where=project.url,
                why=f"there {known.sha256 or 'without a sha256'}, in the release {wheel.sha256}",
                remedy="find out who uploaded it; number another release (it becomes a .post); nothing was uploaded",
            )
    of_version = {file.filename for file in project.files.values() if _is_of(file.version, manifest.version)}
    if foreign := sorted(of_version - {wheel.filename for wheel in wheels}):
        raise VerificationError(
            "pypi-unsuitable",
            f"the index has {foreign[0]}, which {manifest.tag} has not",
            where=project.url,
            why=f"pip takes it where it fits better than what the release has; such files: {', '.join(foreign)}",
            remedy="find out who uploaded it, and delete it there; nothing was uploaded",
        )
    plan = ProjectPlan(
        name=project.name,
        version=manifest.version,
        upload=tuple(upload),
        there=tuple(there),
        used=project.size,
        url=project.url,
    )
    if plan.upload and plan.used is not None and plan.used + plan.size > PROJECT_LIMIT:
        raise VerificationError(
            "pypi-unsuitable",
            f"{manifest.tag} does not fit into the project's storage",
            where=project.url,
            why=f"{format_bytes(plan.used)} are used and {format_bytes(plan.size)} would be added, "
            f"of {format_bytes(PROJECT_LIMIT)}",
            remedy="ask PyPI for more (https://docs.pypi.org/project-management/storage-limits), or delete old "
            "releases there; nothing was uploaded",
        )
    return plan


def _is_of(version: str, wanted: str) -> bool:
    """Whether pip takes a file of a version for one of another. It ignores those whose version it can't read."""
    try:
        return Version(Version(version).public) == Version(Version(wanted).public)
    except InvalidVersion:
        return False
