"""A project on a package index: its files with digests and sizes, and, on PyPI, its owners."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

from mlir_release.ground.documents.decode import MalformedError, from_large_json
from mlir_release.ground.errors import MachineError, VerificationError
from mlir_release.ground.programs.needs import need
from mlir_release.ground.storage.download import receive, waited_for

if TYPE_CHECKING:
    from collections.abc import Mapping

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
