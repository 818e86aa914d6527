"""Small wheels with fake content and true form: sound archives, RECORDs, metadata and release information."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
import zipfile
from typing import TYPE_CHECKING

from mlir_release.ground.python.cpython import ANY_PYTHON

if TYPE_CHECKING:
    from pathlib import Path

REVISION = "ca7933e47d3a3451d81e72ac174dcb5aa28b59d1"
TAG = "snapshot-20261120.02"
VERSION = "20261120.2"

#: The CPython that runs the tests, and one that can't (the toolkit itself needs a newer one).
PYTHON = f"cp3{sys.version_info.minor}"
OTHER_PYTHON = "cp310"


def make_wheel(
    folder: Path,
    *,
    tag: str = TAG,
    version: str = VERSION,
    revision: str = REVISION,
    distribution: str = "mlir",
    profile: str = "host",
    python: str = PYTHON,
    serves: tuple[str, ...] = (),
    platform: str = "manylinux_2_28_x86_64",
    target: str | None = None,
    requires: tuple[str, ...] = (),
    requires_python: str = ">=3.10",
    description: str = "MLIR for Python.",
    content: str = "",
    padding: int = 0,
    release_info: dict[str, object] | None = None,
    files: dict[str, bytes] | None = None,
) -> Path:
    """Write a wheel and return its path.

    :param serves: the CPythons of a wheel for the stable ABI; empty: it is for ``python`` alone
    :param padding: adds so many bytes that can't be compressed
    """
    target = target or f"{distribution}-linux-x86_64-{python}{'-abi3' if serves else ''}"
    name = distribution.replace("-", "_")
    dist_info = f"{name}-{version}.dist-info"
    abi = "abi3" if serves else "none" if python == ANY_PYTHON else python
    package = name if python == ANY_PYTHON else "mlir"
    wheel_tag = f"{python.removesuffix('t')}-{abi}-{platform}"
    info = {
        "schema": 1,
        "tag": tag,
        "revision": revision,
        "llvm_version": "22.1.8",
        "distribution": distribution,
        "profile": profile,
        "target": target,
        "toolkit_version": "0.1.0",
        **({"serves": serves} if serves else {}),
        **(release_info or {}),
    }
    metadata = [
        "Metadata-Version: 2.4",
        f"Name: {distribution}",
        f"Version: {version}",
        "Summary: MLIR's Python bindings",
        *([f"Requires-Python: {requires_python}"] if requires_python else []),
        *(f"Requires-Dist: {requirement}" for requirement in requires),
        *(["Description-Content-Type: text/x-rst", "", description] if description else []),
    ]
    members = {
        f"{package}/__init__.py": content.encode(),
        f"{package}/_release.py": b"import json, pathlib\n"
        b"info = json.loads(pathlib.Path(__file__).with_name('_release.json').read_text())\n"
        b"tag = info['tag']\nrevision = info['revision']\n",
        f"{package}/_release.json": json.dumps(info, indent=1).encode(),
        f"{dist_info}/METADATA": ("\n".join(metadata) + "\n").encode(),
        f"{dist_info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {wheel_tag}\n".encode(),
        **(files or {}),
    }
    if padding:
        members[f"{package}/padding.bin"] = hashlib.shake_256(f"{target}{version}".encode()).digest(padding)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{wheel_tag}.whl"
    path.write_bytes(pack(members, f"{dist_info}/RECORD"))
    return path


def pack(members: dict[str, bytes], record: str) -> bytes:
    """A reproducible zip archive of ``members`` and their RECORD."""
    rows = []
    for name, data in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}")
    everything = {**members, record: ("\n".join([*rows, f"{record},,"]) + "\n").encode()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in everything.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 11, 20, 0, 0, 0)), data)
    return buffer.getvalue()


def make_report(
    folder: Path,
    wheel: Path | None,
    *,
    suite: str = "smoke",
    target: str = f"smoke-mlir-linux-x86_64-{PYTHON}",
    passed: bool = True,
    failures: tuple[str, ...] = (),
    seconds: float = 1.5,
    installed: dict[str, str] | None = None,
    measures: dict[str, int] | None = None,
) -> Path:
    """Write a test report as ``wheels test`` does, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{target}.tests.json"
    path.write_text(
        json.dumps(
            {
                "schema": 1,
                "target": target,
                "suite": suite,
                "wheel": wheel.name if wheel else None,
                "wheel_sha256": hashlib.sha256(wheel.read_bytes()).hexdigest() if wheel else None,
                "passed": passed,
                "counts": {
                    "pass": 96,
                    "fail": len(failures),
                    "expected_fail": 1,
                    "unsupported": 3,
                    "unexpected_pass": 0,
                },
                "seconds": seconds,
                "failures": [{"name": name, "message": "it failed"} for name in failures],
                "installed": installed or {},
                "measures": measures or {},
            }
        )
    )
    return path
