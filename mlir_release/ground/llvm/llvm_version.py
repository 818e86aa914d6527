"""Versions of LLVM: their one spelling, and llvm-project's own tags of them."""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version

from mlir_release.ground.errors import UsageError


def canonical_version(text: str) -> str:
    """The one spelling of an LLVM version in a tag: ``X.Y.Z``, or ``X.Y[.Z]rcN`` without a trailing ``.0``.

    ``12.0.0-rc1``, ``12.0.0rc1`` and ``12.0rc1`` are one PEP 440 version, so they get one spelling (``12.0rc1``). So
    does llvm-project's own tag, ``llvmorg-12.0.0-rc1``.
    :raises UsageError: for anything that is neither a final X.Y.Z nor a release candidate.
    """
    try:
        version = Version(text.removeprefix("llvmorg-"))
    except InvalidVersion:
        raise _not_a_version(text, "it is not a PEP 440 version") from None
    if version.epoch or version.post is not None or version.dev is not None or version.local is not None:
        raise _not_a_version(text, "epochs, .post, .dev and +local parts are not part of an LLVM version")
    if version.pre is not None:
        kind, number = version.pre
        if kind != "rc":
            raise _not_a_version(text, f"LLVM has no {kind!r} pre-releases, only rcN")
        release = list(version.release)
        while len(release) > 2 and release[-1] == 0:
            release.pop()
        if len(release) > 3:
            raise _not_a_version(text, "it has more than three components")
        release += [0] * (2 - len(release))
        return f"{'.'.join(map(str, release))}rc{number}"
    if len(version.release) != 3:
        raise _not_a_version(text, "a final LLVM version has exactly three components")
    return ".".join(map(str, version.release))


def base_version(version: str) -> tuple[int, int, int]:
    """Major, minor and patch of an LLVM version: ``(23, 1, 0)`` of ``23.1rc2``, ``23.1.0rc2`` and ``23.1.0git``."""
    major, minor, *patch = (int(part) for part in re.findall(r"\d+", re.split(r"[A-Za-z]", version, maxsplit=1)[0]))
    return major, minor, patch[0] if patch else 0


def upstream_tag(version: str) -> str:
    """llvm-project's own tag of a version: ``llvmorg-22.1.8``, ``llvmorg-12.0.0-rc1``.

    Source: the tag names in llvm-project, where a candidate's version always has three components.
    """
    release, rc, number = canonical_version(version).partition("rc")
    padded = ".".join([*release.split("."), "0", "0"][:3])
    return f"llvmorg-{padded}-rc{number}" if rc else f"llvmorg-{padded}"


def _not_a_version(text: str, why: str) -> UsageError:
    return UsageError(
        "option-invalid",
        f"{text!r} is not a version that a numbered release can have",
        why=why,
        remedy="give X.Y.Z for a final release (22.1.8) or X.YrcN for a candidate (23.1rc2)",
    )
