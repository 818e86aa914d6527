"""The text of a release's page, in Markdown: pip reads its links, people the rest."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mlir_release.console import format_bytes
from mlir_release.publish.names import platform_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.publish.manifest import Manifest, WheelEntry

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@:-])")
_SYSTEM_NAMES = {"linux": "Linux", "musl": "Linux (musl)", "macos": "macOS", "windows": "Windows"}


def title(manifest: Manifest) -> str:
    """The release's title."""
    return f"MLIR {manifest.version}" if manifest.kind == "numbered" else f"MLIR snapshot {manifest.version}"


def floor(kind: str) -> str:
    """The version specifier that keeps pip from PyPI's ``mlir`` 0.0.1, which belongs to someone else."""
    return ">=20200101" if kind == "snapshot" else ">=1"


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def github_page(upstream: str) -> str:
    """The web page of an upstream on GitHub, without a slash at the end; empty for any other upstream."""
    match = re.fullmatch(r"(?:https://|git@)github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?", upstream)
    return f"https://github.com/{match[1]}" if match else ""


def python_name(tag: str) -> str:
    """``3.12`` for ``cp312``, ``3.14t`` for ``cp314t``; other tags as they are."""
    match = re.fullmatch(r"cp(\d)(\d+t?)", tag)
    return f"{match[1]}.{match[2]}" if match else tag


def platform_name(wheel: WheelEntry) -> str:
    """What a wheel runs on, for people: ``Linux x86_64, glibc ≥ 2.28``."""
    system, arch = platform_of(wheel.platforms[0]) if wheel.platforms else ("", "")
    name = f"{_SYSTEM_NAMES.get(system, system)} {arch}"
    versions = []
    for tag in wheel.platforms:
        if match := re.match(r"manylinux_(\d+)_(\d+)_", tag):
            versions.append(("glibc", int(match[1]), int(match[2])))
        elif match := re.match(r"macosx_(\d+)_(\d+)_", tag):
            versions.append(("macOS", int(match[1]), int(match[2])))
    if versions:
        what, major, minor = min(versions)
        name += f", {what} ≥ {major}.{minor}"
    return name


def size_change(wheel: WheelEntry, previous: Manifest | None) -> str:
    """How much larger or smaller than the previous release's wheel of the same target; empty if there was none."""
    for other in previous.wheels if previous else ():
        if other.target == wheel.target and other.size:
            return f"{(wheel.size - other.size) / other.size:+.1%}"
    return ""


def notes(manifest: Manifest, *, page_url: str, urls: Mapping[str, str], previous: Manifest | None) -> str:
    """The release's body.

    :param page_url: where the body will be shown, for ``pip install -f``
    :param urls: of the release's assets, by name
    :param previous: the release that sizes are compared with
    """
    upstream = github_page(manifest.upstream)
    short = manifest.revision[:12]
    revision = f"[`{short}`]({upstream}/commit/{manifest.revision})" if upstream else f"`{manifest.revision}`"
    name = next((w.distribution for w in manifest.wheels if w.distribution == "mlir"), manifest.wheels[0].distribution)
    lines = [
        f"Wheels of MLIR's Python bindings, built from llvm-project {revision}"
        + (f" (LLVM {escape(manifest.llvm_version)})." if manifest.llvm_version else "."),
        "",
        "```",
        f"pip install -f {page_url} '{name}=={manifest.version}'",
        "```",
        "",
        "| wheel | runs on | CPython | size | change |",
        "| --- | --- | --- | ---: | ---: |",
    ]
    for wheel in manifest.wheels:
        link = f"[{wheel.filename}]({urls[wheel.filename]}#sha256={wheel.sha256})"
        change = size_change(wheel, previous)
        lines.append(
            f"| {link} | {escape(platform_name(wheel))} | {escape(python_name(wheel.python))} "
            f"| {format_bytes(wheel.size)} | {change} |"
        )
    lines += ["", *_changes(manifest, upstream)]
    if manifest.tests:
        passed = sum(test.counts.get("pass", 0) for test in manifest.tests)
        lines += ["", f"Tested: {len(manifest.tests)} suites on these very files, {passed} tests passed."]
    for heading, rows in (
        ("Waived", [f"- `{w.target}`: {escape(w.reason)} ({escape(w.by)}, {w.at[:10]})" for w in manifest.waivers]),
        ("Left out (experimental)", [f"- `{row.target}`: {escape(row.reason)}" for row in manifest.left_out]),
    ):
        if rows:
            lines += ["", f"### {heading}", "", *rows]
    return "\n".join(lines) + "\n"


def _changes(manifest: Manifest, upstream: str) -> list[str]:
    if not manifest.previous_tag:
        return ["The first release of its kind."]
    if manifest.previous_revision == manifest.revision:
        return [f"The same revision as `{manifest.previous_tag}`, built again."]
    span = f"{manifest.previous_revision[:12]}...{manifest.revision[:12]}"
    if upstream:
        link = f"{upstream}/compare/{manifest.previous_revision}...{manifest.revision}"
        return [f"Since `{manifest.previous_tag}`: [llvm-project {span}]({link})."]
    return [f"Since `{manifest.previous_tag}`: llvm-project `{span}`."]
