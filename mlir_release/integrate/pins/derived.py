"""Values that follow from the upstream's commit: its archive's digest, its date, the tag that names it."""

from __future__ import annotations

import re
import zlib
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.documents.digests import open_regular, sha256_of
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.git.trees import is_ancestor
from mlir_release.ground.storage.cache import cache_directory, locked
from mlir_release.ground.storage.download import download
from mlir_release.ground.storage.files import read_if_there, write_atomically
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.integrate.config import CONFIG_FILE

if TYPE_CHECKING:
    from mlir_release.integrate.tables import AlsoTable
    from mlir_release.integrate.upstream import UpstreamRepository

#: Bytes of an archive of sources. That of llvm-project has about 250 million.
LIMIT = 1 << 30


def follows(upstream: UpstreamRepository, place: AlsoTable, old: str, commit: str) -> str:
    """What ``place`` says once ``commit`` is pinned.

    :param old: what it says now
    :raises UsageError: ``config-invalid``
    :raises MachineError: ``network-failed``
    :raises VerificationError: ``file-damaged``
    """
    if place.value == "sha256":
        url = upstream.config.archive(place, commit, carried=not is_ancestor(upstream, commit, upstream.ref))
        if not url:
            raise UsageError(
                "config-invalid",
                f"the archive of {upstream.config.title} with carried patches has no address",
                where=CONFIG_FILE,
                why="the export remote is not on GitHub",
                remedy="give [[upstream.also]] a url at which commits of the export branch can be had; nothing was "
                "changed",
            )
        return archive_digest(url, commit)
    if place.value == "date":
        seconds = int(upstream.text("show", "--no-patch", "--format=%ct", commit))
        return datetime.fromtimestamp(seconds, UTC).strftime(place.format)
    if place.value == "commit":
        return upstream.spelled(commit, old)
    return upstream.tag_of(commit, nearest=place.value == "nearest-tag") or commit


def archive_digest(url: str, commit: str) -> str:
    """The SHA-256 of the archive of a commit, as :func:`follows`. It is fetched once, and its digest kept in the cache.

    An archive that git made names its commit, which is compared.
    """
    kept = cache_directory() / "integrate" / "archives" / f"{commit}-{sha256_of(url)[:16]}"
    with locked(kept.with_suffix(".lock"), waiting=f"waiting for another process that fetches {url}"):
        digest = (read_if_there(kept) or b"").decode("ascii", "replace").strip()
        if len(digest) == 64 and not digest.strip("0123456789abcdef"):
            return digest
        console.say(f"    fetching {url} for its sha256")
        with scratch_folder("archive") as folder:
            archive = folder / "archive"
            download(url, archive, limit=LIMIT, secure=True)
            with open_regular(archive) as file:
                begin = file.read(1 << 16)
            with suppress(zlib.error):
                begin = zlib.decompressobj(wbits=31).decompress(begin, 2048)
            # The header that ``git archive`` writes first names the commit. Other archives have none.
            match = re.match(rb"[0-9]+ comment=([0-9a-f]{40})\n", begin[512:]) if begin[156:157] == b"g" else None
            if match and match[1].decode() != commit:
                raise VerificationError(
                    "file-damaged",
                    "an archive is not that of the commit that was asked for",
                    where=url,
                    why=f"it says that it has {match[1].decode()}, expected {commit}",
                    remedy="correct url of [[upstream.also]] in integrate.toml; nothing was changed",
                )
            digest = sha256_of(archive)
        write_atomically(kept, f"{digest}\n")
    return digest
