"""One SHA-256 for bytes, texts, files and pieces."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from mlir_release.ground.documents.digests import record_digest, sha256_of

if TYPE_CHECKING:
    from pathlib import Path


def test_the_digest(tmp_path: Path) -> None:
    content = "ä".encode() * 3_000_000
    (tmp_path / "file").write_bytes(content)
    expected = hashlib.sha256(content)
    pieces = [content[:1], b"", content[1:]]
    for form in (content, content.decode(), tmp_path / "file", pieces, iter(pieces)):
        assert sha256_of(form) == expected.hexdigest()
    assert base64.urlsafe_b64decode(record_digest(content) + "=") == expected.digest()
