"""A transparency log like Rekor: entries, proofs that they are in it, and promises signed with its key.

Source: RFC 6962, 2.1 (the tree); github.com/sigstore/rekor, openapi.yaml; C2SP's signed notes (the checkpoint).
"""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any

import rfc8785

from tests.sigstore.authority import ECDSA, id_of, new_key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

_ORIGIN = "made.example - 1"


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def _half(size: int) -> int:
    """The largest power of two below ``size``."""
    return 1 << ((size - 1).bit_length() - 1)


def root_of(leaves: list[bytes]) -> bytes:
    """The hash of a tree of these leaves."""
    if len(leaves) == 1:
        return leaves[0]
    half = _half(len(leaves))
    return _node(root_of(leaves[:half]), root_of(leaves[half:]))


def path_to(index: int, leaves: list[bytes]) -> list[bytes]:
    """The proof that a leaf is in the tree, from the leaf up."""
    if len(leaves) == 1:
        return []
    half = _half(len(leaves))
    if index < half:
        return [*path_to(index, leaves[:half]), root_of(leaves[half:])]
    return [*path_to(index - half, leaves[half:]), root_of(leaves[:half])]


class Log:
    """An append-only list of what was signed."""

    def __init__(self) -> None:
        self.key = new_key()
        self._leaves: list[bytes] = []
        self._lock = Lock()

    def add(self, request: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """Record a DSSE envelope; returns the entry as Rekor answers."""
        body = rfc8785.dumps(_recorded(request["spec"]["proposedContent"]))
        with self._lock:
            self._leaves.append(sha256(b"\x00" + body).digest())
            index, leaves = len(self._leaves) - 1, list(self._leaves)
        entry: dict[str, Any] = {
            "body": base64.b64encode(body).decode(),
            "integratedTime": int(now.timestamp()),
            "logID": id_of(self.key).hex(),
            "logIndex": index,
        }
        promise = self.key.sign(rfc8785.dumps(entry), ECDSA)
        root = root_of(leaves)
        proof = {
            "checkpoint": self._checkpoint(len(leaves), root),
            "hashes": [node.hex() for node in path_to(index, leaves)],
            "logIndex": index,
            "rootHash": root.hex(),
            "treeSize": len(leaves),
        }
        verification = {"inclusionProof": proof, "signedEntryTimestamp": base64.b64encode(promise).decode()}
        return {leaves[index].hex(): {**entry, "verification": verification}}

    def _checkpoint(self, size: int, root: bytes) -> str:
        note = f"{_ORIGIN}\n{size}\n{base64.b64encode(root).decode()}\n"
        signature = id_of(self.key)[:4] + self.key.sign(note.encode(), ECDSA)
        return f"{note}\n\u2014 made.example {base64.b64encode(signature).decode()}\n"


def _recorded(proposed: Mapping[str, Any]) -> dict[str, Any]:
    """What Rekor keeps of an envelope (pkg/types/dsse/v0.0.1/dsse_v0_0_1_schema.json)."""
    envelope = json.loads(proposed["envelope"])
    payload = base64.b64decode(envelope["payload"])
    (verifier,) = proposed["verifiers"]
    return {
        "apiVersion": "0.0.1",
        "kind": "dsse",
        "spec": {
            "envelopeHash": {"algorithm": "sha256", "value": sha256(proposed["envelope"].encode()).hexdigest()},
            "payloadHash": {"algorithm": "sha256", "value": sha256(payload).hexdigest()},
            "signatures": [{"signature": row["sig"], "verifier": verifier} for row in envelope["signatures"]],
        },
    }
